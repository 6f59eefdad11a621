/* cli_predict.h - what a model that was never run here would take on a device at a precision, from
 * the profiled runs of others in the database. */
#ifndef ACCEL_CLI_CLI_PREDICT_H
#define ACCEL_CLI_CLI_PREDICT_H

#include "bench/bench_costs.h"
#include "bench/bench_inputs.h"
#include "cli/cli.h"

/* A number and the factor within which it is right. */
typedef struct predicted {
  double value; /* NaN: there is none */
  bench_bar bar;
} predicted;

/* On one device at one precision. */
typedef struct prediction {
  const bench_cost_group *group;
  predicted latency, prefill, token; /* ms; of pictures `token` is a step */
  double texts_ms, decode_ms; /* of pictures: parts of latency, before the steps and behind them */
  predicted memory;           /* bytes */
  double unseen;              /* share of the time that ops take which were never measured */
  bool known;                 /* runs of this model are among those that were learnt from */
  char why[256];              /* not "": there is no prediction */
} prediction;

typedef struct predicting {
  cli_run *run;
  bench_cost_groups groups;
  bench_params params;
  bench_result like; /* kind, lengths and output; nothing of it was measured */
  bool encodes;      /* the model that generates has an encoder */
  bool waves;        /* its sounds are samples, not frames */
} predicting;

/* What the model takes and gives, and how long its inputs are: `encodes`, `waves` and `like`, whose
 * lengths are to be freed.  `params` and run->ctx are set. */
accel_status predict_describe(predicting *what);
/* From the runs of a group, behind predict_describe.  `memory` false: that is left out, which takes
 * plans of all models that were learnt from.  false: no memory. */
bool predict_on(const predicting *what, const bench_cost_group *group, bool memory,
                prediction *out);

#endif
