/* bench_costs.h - the profiled runs of this machine in the database, as bench_predict.h takes them. */
#ifndef ACCEL_BENCH_COSTS_H
#define ACCEL_BENCH_COSTS_H

#include "bench/bench_predict.h"
#include "bench/bench_rows.h"

/* One device at one precision with one number of threads. */
typedef struct bench_cost_group {
  const char *device, *precision; /* of `rows` */
  uint32_t threads;
  bench_cost_runs runs;
  const bench_row **row; /* [runs.n] of each case the fastest run */
} bench_cost_group;
typedef struct bench_cost_groups {
  bench_rows rows; /* the profiled runs */
  uint32_t n;
  bench_cost_group *group;
} bench_cost_groups;

/* A run of each case: times are the least that the newest build that measured it has, of each step
 * and of whole runs, in one run or another: what the machine takes when nothing else runs.  Runs that were not profiled, and those of other machines, are left out.
 * false: `message` says why; free the result in any case. */
bool bench_costs_read(const bench_db *db, bench_cost_groups *out, char *message, uint32_t size);
void bench_costs_free(bench_cost_groups *groups);

#endif
