/* bench_predict.c - see bench_predict.h. */
#include "bench/bench_predict.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench_stats.h"

/* The least that a step takes, in ms: what a roofline of nothing is. */
#define LEAST_MS 1e-3
/* Of the ridge that holds slopes to zero, in weights of points. */
#define RIDGE 0.5
/* What a step is like, in natural logarithms of flop and bytes, those of weights and of results;
 * widths of what is nearly like it, the narrower ones weighing more, and the weight of nothing
 * beside them. */
enum { SIZES = 4, WIDTHS = 3 };
static const struct { double width, weight; } nearness[WIDTHS] = {{1, 1}, {0.3, 4}, {0.1, 16}};
#define NOTHING 0.3
/* Weights that are less than this part of all bytes are as good as none. */
#define LEAST_WEIGHTS 0.01
enum { COEFFICIENTS = 4, REWEIGHTINGS = 12 };

/* ---- runs ---- */

static bool same_cost(const bench_cost *a, const bench_cost *b) {
  return !strcmp(a->op, b->op) && a->flop == b->flop && a->bytes == b->bytes &&
         a->weights == b->weights && a->results == b->results;
}

bool bench_cost_add(bench_cost_run *run, const bench_cost *step) {
  uint32_t at = 0;
  while (at < run->n && !same_cost(&run->cost[at], step)) ++at;
  if (at == run->n) {
    bench_cost *grown = realloc(run->cost, (run->n + (size_t)1) * sizeof *grown);
    if (!grown) return false;
    run->cost = grown;
    run->cost[run->n] = *step;
    run->cost[run->n].ms = 0;
    run->cost[run->n++].steps = 0;
  }
  run->cost[at].ms += step->ms;
  run->cost[at].steps++;
  return true;
}

void bench_cost_finish(bench_cost_run *run) {
  for (uint32_t i = 0; i < run->n; ++i) run->cost[i].ms /= run->cost[i].steps;
}

void bench_cost_run_free(bench_cost_run *run) {
  free(run->cost);
  *run = (bench_cost_run){0};
}

void bench_cost_runs_free(bench_cost_runs *runs) {
  for (uint32_t i = 0; i < runs->n; ++i) bench_cost_run_free(&runs->run[i]);
  free(runs->run);
  *runs = (bench_cost_runs){0};
}

static double measured_steps(const bench_cost_run *run) {
  double ms = 0;
  for (uint32_t i = 0; i < run->n; ++i) ms += run->cost[i].ms * run->cost[i].steps;
  return ms;
}

static uint32_t launches_of(const bench_cost_run *run) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < run->n; ++i) n += run->cost[i].steps;
  return n;
}

/* ---- points ---- */

typedef struct point {
  uint32_t op;
  double size[SIZES];        /* logarithms */
  double x[COEFFICIENTS], y; /* y: log(time / roofline) */
  double weight, trust;      /* given; of the last reweighting */
  double residual;
} point;

typedef struct op_law {
  char op[24];
  uint32_t points;
  double c[COEFFICIENTS];
} op_law;

struct bench_law {
  double flop_per_ms, bytes_per_ms; /* peaks */
  uint32_t n, n_op;
  point *point;
  op_law *op;
  double times;     /* a run's time by that of its steps, */
  double launch_ms; /* and what each launch adds to it */
};

static double roofline_ms(const bench_law *law, double flop, double bytes) {
  const double compute = flop / (law->flop_per_ms * BENCH_PRIOR_FLOP),
               move = bytes / (law->bytes_per_ms * BENCH_PRIOR_BYTES);
  return fmax(LEAST_MS, fmax(compute, move));
}

/* A constant, the size, the intensity, and how much of the bytes are weights: they are 0 where
 * steps of a millisecond, ten operations a byte and a third of weights are. */
static void describe(const bench_law *law, const bench_cost *c, point *p) {
  const double weights = log(fmax(c->weights, LEAST_WEIGHTS * c->bytes) + 1);
  p->size[0] = log(c->flop + 1);
  p->size[1] = log(c->bytes + 1);
  p->size[2] = weights;
  p->size[3] = log(c->results + 1);
  p->x[0] = 1;
  p->x[1] = log(roofline_ms(law, c->flop, c->bytes));
  p->x[2] = p->size[0] - p->size[1] - 2.3;
  p->x[3] = weights - p->size[1] + 1.1;
}

static uint32_t find_op(const bench_law *law, const char *op) {
  uint32_t at = 0;
  while (at < law->n_op && strcmp(law->op[at].op, op) != 0) ++at;
  return at;
}

/* The best rates of steps that take long enough to be measured, a twentieth of them left out. */
static double best_rate(const bench_cost_runs *runs, bool of_flop) {
  uint32_t n = 0, at = 0;
  for (uint32_t r = 0; r < runs->n; ++r) n += runs->run[r].n;
  double best = 0, *rate = malloc((n + (size_t)1) * sizeof *rate);
  for (uint32_t r = 0; rate && r < runs->n; ++r)
    for (uint32_t i = 0; i < runs->run[r].n; ++i) {
      const bench_cost *c = &runs->run[r].cost[i];
      if (c->ms > 0.02) rate[at++] = (of_flop ? c->flop : c->bytes) / c->ms;
    }
  if (at) bench_median(rate, at); /* sorts */
  if (at) best = rate[(uint32_t)(0.95 * (at - 1))];
  free(rate);
  return best;
}

static bool take_points(bench_law *law, const bench_cost_runs *runs, uint32_t but) {
  uint32_t n = 0;
  for (uint32_t r = 0; r < runs->n; ++r) n += runs->run[r].n;
  law->point = calloc(n + (size_t)1, sizeof *law->point);
  law->op = calloc(n + (size_t)1, sizeof *law->op);
  if (!law->point || !law->op) return false;
  for (uint32_t r = 0; r < runs->n; ++r) {
    const bench_cost_run *run = &runs->run[r];
    double all = 0;
    for (uint32_t i = 0; i < run->n; ++i)
      all += run->cost[i].steps * roofline_ms(law, run->cost[i].flop, run->cost[i].bytes);
    for (uint32_t i = 0; i < run->n && run->model != but; ++i) {
      const bench_cost *c = &run->cost[i];
      if (!(c->ms > 0)) continue;
      point *p = &law->point[law->n++];
      describe(law, c, p);
      p->op = find_op(law, c->op);
      if (p->op == law->n_op) memcpy(law->op[law->n_op++].op, c->op, sizeof c->op);
      const double roofline = roofline_ms(law, c->flop, c->bytes);
      p->y = log(c->ms / roofline);
      /* what matters to a run is to be right; not by the measured time, which would make outliers
       * weigh more */
      p->weight = sqrt(fmax(0.01, roofline * c->steps / all));
      law->op[p->op].points++;
    }
  }
  return law->n > 0;
}

/* ---- robust least squares ---- */

/* Solves a x = b in place (positive definite). */
static void solve(double a[COEFFICIENTS][COEFFICIENTS], double b[COEFFICIENTS]) {
  for (int i = 0; i < COEFFICIENTS; ++i)
    for (int k = i + 1; k < COEFFICIENTS; ++k) {
      const double f = a[k][i] / a[i][i];
      for (int j = i; j < COEFFICIENTS; ++j) a[k][j] -= f * a[i][j];
      b[k] -= f * b[i];
    }
  for (int i = COEFFICIENTS; i-- > 0;) {
    for (int j = i + 1; j < COEFFICIENTS; ++j) b[i] -= a[i][j] * b[j];
    b[i] /= a[i][i];
  }
}

static double line(const op_law *op, const point *p) {
  double y = 0;
  for (int k = 0; k < COEFFICIENTS; ++k) y += op->c[k] * p->x[k];
  return y;
}

static void least_squares(bench_law *law, uint32_t op) {
  double a[COEFFICIENTS][COEFFICIENTS] = {{1e-9}}, b[COEFFICIENTS] = {0};
  for (int k = 1; k < COEFFICIENTS; ++k) a[k][k] = RIDGE;
  for (uint32_t i = 0; i < law->n; ++i) {
    const point *p = &law->point[i];
    const double w = p->weight * p->trust;
    if (p->op != op) continue;
    for (int j = 0; j < COEFFICIENTS; ++j) {
      for (int k = 0; k < COEFFICIENTS; ++k) a[j][k] += w * p->x[j] * p->x[k];
      b[j] += w * p->x[j] * p->y;
    }
  }
  solve(a, b);
  memcpy(law->op[op].c, b, sizeof b);
}

/* Huber's weights: residuals beyond 1.345 deviations count less, the deviation being told by the
 * median of their sizes. */
static void fit_op(bench_law *law, uint32_t op, double *sizes) {
  for (uint32_t i = 0; i < law->n; ++i) law->point[i].trust = 1;
  for (int round = 0; round < REWEIGHTINGS; ++round) {
    uint32_t n = 0;
    least_squares(law, op);
    for (uint32_t i = 0; i < law->n; ++i) {
      point *p = &law->point[i];
      if (p->op != op) continue;
      p->residual = p->y - line(&law->op[op], p);
      sizes[n++] = fabs(p->residual);
    }
    const double limit = fmax(0.01, 1.345 * 1.4826 * bench_median(sizes, n));
    for (uint32_t i = 0; i < law->n; ++i) {
      point *p = &law->point[i];
      if (p->op != op) continue;
      const double size = fabs(p->residual);
      p->trust = size > limit ? limit / size : 1;
      if (size > limit) p->residual *= limit / size;
    }
  }
}

/* A run takes its steps' time, a little longer (each step is at its least), and for each launch what
 * it costs beside its step: least squares with Huber's weights over ms / steps, as a line of
 * launches / steps. */
static void fit_whole(bench_law *law, const bench_cost_runs *runs, uint32_t but, double *sizes) {
  double limit = (double)INFINITY;
  law->times = 1;
  for (int round = 0; round < REWEIGHTINGS; ++round) {
    double w = 0, wx = 0, wy = 0, wxx = 0, wxy = 0;
    uint32_t n = 0;
    for (uint32_t r = 0; r < runs->n; ++r) {
      const bench_cost_run *run = &runs->run[r];
      const double steps = measured_steps(run);
      if (run->model == but || !(steps > 0) || !(run->ms > 0)) continue;
      const double x = launches_of(run) / steps, y = run->ms / steps,
                   off = fabs(y - law->times - law->launch_ms * x),
                   trust = off > limit ? limit / off : 1;
      sizes[n++] = off;
      w += trust, wx += trust * x, wy += trust * y, wxx += trust * x * x, wxy += trust * x * y;
    }
    if (!n) return;
    if (round) limit = fmax(0.005, 1.345 * 1.4826 * bench_median(sizes, n));
    /* runs that are all alike do not tell the two apart */
    const double spread = w * wxx - wx * wx;
    law->launch_ms = spread > 1e-6 * w * wxx ? fmax(0, (w * wxy - wx * wy) / spread) : 0;
    law->times = (wy - law->launch_ms * wx) / w;
    if (law->times >= 1) continue;
    law->times = 1; /* no run takes less than its steps */
    law->launch_ms = wxx > 0 ? fmax(0, (wxy - wx) / wxx) : 0;
  }
}

bench_law *bench_law_new(const bench_cost_runs *runs, uint32_t but) {
  bench_law *law = calloc(1, sizeof *law);
  double *scratch = NULL;
  if (!law) return NULL;
  law->flop_per_ms = runs->peak_gflops > 0 ? 1e6 * runs->peak_gflops : best_rate(runs, true);
  law->bytes_per_ms =
      runs->peak_gbytes_per_s > 0 ? 1e6 * runs->peak_gbytes_per_s : best_rate(runs, false);
  law->flop_per_ms = fmax(1, law->flop_per_ms);
  law->bytes_per_ms = fmax(1, law->bytes_per_ms);
  if (!take_points(law, runs, but) ||
      !(scratch = malloc((law->n + runs->n + (size_t)1) * sizeof *scratch))) {
    bench_law_free(law);
    return NULL;
  }
  for (uint32_t op = 0; op < law->n_op; ++op) fit_op(law, op, scratch);
  fit_whole(law, runs, but, scratch);
  free(scratch);
  return law;
}

void bench_law_free(bench_law *law) {
  if (!law) return;
  free(law->point);
  free(law->op);
  free(law);
}

/* ---- predictions ---- */

/* How much the one tells of the other. */
static double near(const point *p, const point *q) {
  double distance = 0, sum = 0;
  for (int k = 0; k < SIZES; ++k) {
    const double d = q->size[k] - p->size[k];
    distance += d * d;
  }
  for (int k = 0; k < WIDTHS; ++k)
    sum += nearness[k].weight * exp(-0.5 * distance / (nearness[k].width * nearness[k].width));
  return sum;
}

double bench_law_step(const bench_law *law, const bench_cost *step, bool *seen) {
  const double roofline = roofline_ms(law, step->flop, step->bytes);
  const uint32_t op = find_op(law, step->op);
  double sum = 0, weights = NOTHING;
  point p;
  *seen = op < law->n_op;
  if (!*seen) return roofline;
  describe(law, step, &p);
  for (uint32_t i = 0; i < law->n; ++i) {
    const point *q = &law->point[i];
    if (q->op != op) continue;
    const double w = near(&p, q);
    weights += w;
    sum += w * q->residual;
  }
  return roofline * exp(line(&law->op[op], &p) + sum / weights);
}

double bench_law_run(const bench_law *law, const bench_cost_run *run, double *unseen) {
  double all = 0, prior = 0;
  for (uint32_t i = 0; i < run->n; ++i) {
    bool seen;
    const double ms = run->cost[i].steps * bench_law_step(law, &run->cost[i], &seen);
    all += ms;
    if (!seen) prior += ms;
  }
  if (unseen) *unseen = all > 0 ? prior / all : 0;
  return law->times * all + law->launch_ms * launches_of(run);
}

/* ---- how far from the truth ---- */

bench_bar bench_bar_of(const double *ratio, uint32_t n) {
  bench_bar bar = {.n = n, .factor = (double)NAN};
  double *sizes = malloc((n + (size_t)1) * sizeof *sizes);
  /* the next one lies among the smallest `at` of n + 1 with that chance */
  const uint32_t at = (uint32_t)ceil(BENCH_COVERAGE * (n + 1.0));
  bar.too_few = at > n;
  for (uint32_t i = 0; sizes && i < n; ++i) sizes[i] = fabs(log(ratio[i]));
  if (sizes && n) {
    bench_median(sizes, n); /* sorts */
    bar.factor = exp(sizes[bar.too_few ? n - 1 : at - 1]);
  }
  free(sizes);
  return bar;
}

/* Of sorted values. */
static double quantile(const double *values, uint32_t n, double share) {
  return n ? values[(uint32_t)(share * (n - 1) + 0.5)] : (double)NAN;
}

/* Measured by predicted of the runs that decode, or do not, but of model `but`; answers how
 * many. */
static uint32_t ratios_of(const bench_cost_runs *runs, const bench_left_out *out, bool decodes,
                          uint32_t but, double *ratio) {
  uint32_t n = 0;
  for (uint32_t r = 0; r < runs->n; ++r) {
    const bench_cost_run *run = &runs->run[r];
    if (run->decodes == decodes && run->model != but && out->ms[r] > 0)
      ratio[n++] = run->ms / out->ms[r];
  }
  return n;
}

/* How often intervals hold what they were not made of. */
static double covered(const bench_cost_runs *runs, const bench_left_out *out, double *scratch) {
  uint32_t n = 0, within = 0;
  for (uint32_t r = 0; r < runs->n; ++r) {
    const bench_cost_run *run = &runs->run[r];
    const uint32_t others = ratios_of(runs, out, run->decodes, run->model, scratch);
    const bench_bar bar = bench_bar_of(scratch, others);
    if (!(out->ms[r] > 0) || !bar.n) continue;
    ++n;
    within += fabs(log(run->ms / out->ms[r])) <= log(bar.factor);
  }
  return n ? (double)within / n : (double)NAN;
}

static void sum_up(const bench_cost_runs *runs, double *scratch, bench_left_out *out) {
  uint32_t n = 0;
  for (int decodes = 0; decodes < 2; ++decodes)
    out->bar[decodes] = bench_bar_of(scratch, ratios_of(runs, out, decodes, UINT32_MAX, scratch));
  out->covered = covered(runs, out, scratch);
  for (uint32_t r = 0; r < runs->n; ++r)
    if (out->ms[r] > 0) scratch[n++] = fabs(out->ms[r] / runs->run[r].ms - 1);
  out->median = bench_median(scratch, n); /* sorts */
  out->p90 = quantile(scratch, n, 0.9);
}

/* A run's steps and all of it; false: no memory. */
static bool predict_left_out(const bench_law *law, const bench_cost_run *run, double **step_ms,
                             double *ms) {
  bool seen;
  *step_ms = malloc((run->n + (size_t)1) * sizeof **step_ms);
  for (uint32_t i = 0; *step_ms && i < run->n; ++i)
    (*step_ms)[i] = bench_law_step(law, &run->cost[i], &seen);
  *ms = bench_law_run(law, run, NULL);
  return *step_ms != NULL;
}

bool bench_leave_one_out(const bench_cost_runs *runs, bench_left_out *out) {
  double *scratch = malloc((runs->n + (size_t)1) * sizeof *scratch);
  *out = (bench_left_out){.n = runs->n};
  out->ms = malloc((runs->n + (size_t)1) * sizeof *out->ms);
  out->step_ms = calloc(runs->n + (size_t)1, sizeof *out->step_ms);
  bool whole = scratch && out->ms && out->step_ms;
  for (uint32_t r = 0; whole && r < runs->n; ++r) out->ms[r] = (double)NAN;
  for (uint32_t m = 0; whole && m < runs->models; ++m) {
    bench_law *law = bench_law_new(runs, m);
    for (uint32_t r = 0; whole && law && r < runs->n; ++r)
      if (runs->run[r].model == m)
        whole = predict_left_out(law, &runs->run[r], &out->step_ms[r], &out->ms[r]);
    bench_law_free(law);
  }
  if (whole) sum_up(runs, scratch, out);
  free(scratch);
  return whole;
}

void bench_left_out_free(bench_left_out *result) {
  for (uint32_t r = 0; result->step_ms && r < result->n; ++r) free(result->step_ms[r]);
  free(result->step_ms);
  free(result->ms);
  *result = (bench_left_out){0};
}
