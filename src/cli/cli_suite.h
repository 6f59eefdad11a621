/* cli_suite.h - accel bench --suite: cells of models, devices, precisions and scenarios, each run
 * in a process of its own, so that its memory is its own and a crash is its own. */
#ifndef ACCEL_CLI_SUITE_H
#define ACCEL_CLI_SUITE_H

#include "bench/bench_rounds.h"
#include "cli/cli_print.h"

typedef enum suite_state {
  SUITE_PENDING,
  SUITE_KNOWN,  /* this build had measured it before */
  SUITE_RUN,    /* now */
  SUITE_CANNOT, /* the device, precision, memory or model says no */
  SUITE_FAILED
} suite_state;

/* One benchmark run: what it asks for. */
typedef struct suite_cell {
  char *model, *device, *precision, *task; /* task as of --task */
  const char *scenario;                    /* one of a list of constants */
  bool random_weights;
  uint32_t batch, length, new_tokens, iters, rounds, warmup; /* length 0: the model's own */
  double load, p99_ms;                                       /* of a server */
  char key[20];                                              /* of all that: the column cell */
  suite_state state;
  bench_known known;
} suite_cell;
typedef struct suite_plan {
  uint32_t n, capacity;
  suite_cell *cell; /* [n] in the order they are run */
} suite_plan;

/* Reads the suite (a FILE, or key-models with the models below `directory`, NULL: in the caches),
 * for the devices and precisions of the options.  0 or an exit code; free the plan in any case. */
int suite_plan_make(cli_run *run, const char *name, const char *directory, suite_plan *out);
void suite_plan_free(suite_plan *plan);
/* "MODEL, cpu, int8: batch-sweep, batch 8" in `into`, which it returns. */
const char *suite_cell_name(const suite_cell *cell, char *into, size_t size);
/* What of a cell's samples tells how well it is known. */
const char *suite_cell_figure(const suite_cell *cell);

/* accel bench --suite.  0 or an exit code. */
int cli_suite(cli_run *run);

#endif
