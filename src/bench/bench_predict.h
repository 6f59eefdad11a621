/* bench_predict.h - what a step of a program takes on a device, learnt from steps that were measured
 * there, and how far from the truth such a prediction is.  Pure arithmetic: no database, no
 * library.
 *
 * The time of an op is that of a roofline times an efficiency that depends on the op, its size, its
 * arithmetic intensity and its share of weights: robust least squares of log(time / roofline), then
 * a correction by the residuals of steps that are nearly alike in flop, bytes, weights and results,
 * which together tell shapes, and so kernels, apart.  Ops that were never measured have the roofline at
 * BENCH_PRIOR_FLOP and BENCH_PRIOR_BYTES of the peaks.  A run takes its steps and something for each
 * launch. */
#ifndef ACCEL_BENCH_PREDICT_H
#define ACCEL_BENCH_PREDICT_H

#include <stdbool.h>
#include <stdint.h>

/* Shares of the peaks that are assumed where nothing is known. */
#define BENCH_PRIOR_FLOP  0.3
#define BENCH_PRIOR_BYTES 0.5
/* Of predictions, so many lie within the interval. */
#define BENCH_COVERAGE 0.9

/* Steps of a run that cost the same. */
typedef struct bench_cost {
  char op[24];
  double flop, bytes;      /* of one of them */
  double weights, results; /* parts of bytes; both 0: not known */
  double ms;               /* of one of them, as measured; 0: not yet run */
  uint32_t steps;          /* how many */
} bench_cost;

/* A run, measured or planned. */
typedef struct bench_cost_run {
  uint32_t model; /* number of the model, the same for all runs of it */
  bool decodes;   /* one step of a generation; false: a whole run */
  double ms;      /* as measured, without profile */
  uint32_t n;
  bench_cost *cost; /* [n] */
} bench_cost_run;
/* Adds a step to a run, to those that cost the same; false: no memory.  Times add up; `steps` is
 * not looked at. */
bool bench_cost_add(bench_cost_run *run, const bench_cost *step);
/* Behind the last addition: ms of one of the steps in place of their sum. */
void bench_cost_finish(bench_cost_run *run);
void bench_cost_run_free(bench_cost_run *run);

/* Runs of one device at one precision. */
typedef struct bench_cost_runs {
  uint32_t n, models;
  bench_cost_run *run;                   /* [n] */
  double peak_gflops, peak_gbytes_per_s; /* of the device; 0: the best that a step reached */
} bench_cost_runs;
void bench_cost_runs_free(bench_cost_runs *runs);

typedef struct bench_law bench_law;
/* Learns from all runs but those of model `but` (UINT32_MAX: from all); NULL: no memory, or no
 * steps. */
bench_law *bench_law_new(const bench_cost_runs *runs, uint32_t but);
void bench_law_free(bench_law *law);
/* Milliseconds of one step; *seen false: the op was never measured. */
double bench_law_step(const bench_law *law, const bench_cost *step, bool *seen);
/* Milliseconds of a run; unseen: the share of them that ops take which were never measured; may be
 * NULL. */
double bench_law_run(const bench_law *law, const bench_cost_run *run, double *unseen);

/* BENCH_COVERAGE of all runs lie within a factor of their predictions. */
typedef struct bench_bar {
  uint32_t n;    /* runs that it was learnt from */
  double factor; /* NaN: n is 0 */
  bool too_few;  /* so few that factor is the largest that was seen */
} bench_bar;
/* Of ratio[n], values by predictions. */
bench_bar bench_bar_of(const double *ratio, uint32_t n);

/* What was predicted for each run by a law that was learnt from the runs of all other models. */
typedef struct bench_left_out {
  uint32_t n;
  double *ms;         /* [n] predicted; NaN: there is no other model */
  double **step_ms;   /* [n][run.n] predicted of each step; NULL: there is no other model */
  double median, p90; /* of |predicted / measured - 1| */
  bench_bar bar[2];   /* of whole runs; of steps of generations */
  /* Share of the runs that lie within the interval that the errors of all other models' runs give;
   * NaN: there are none */
  double covered;
} bench_left_out;
/* false: no memory. */
bool bench_leave_one_out(const bench_cost_runs *runs, bench_left_out *out);
void bench_left_out_free(bench_left_out *result);

#endif
