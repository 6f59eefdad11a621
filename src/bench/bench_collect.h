/* bench_collect.h - the benchmark's clock, and the collector of profile steps, which bench_run.c,
 * bench_speech.c and bench_profile.c share. */
#ifndef ACCEL_BENCH_COLLECT_H
#define ACCEL_BENCH_COLLECT_H

#include "bench/bench.h"

double bench_now_ms(void); /* monotonic */

typedef struct bench_collector {
  bench_profile *profile; /* the caller's, {0} at first */
  uint32_t next;          /* where the next step is looked for first */
  bool failed;            /* no memory */
  bool paused;            /* steps are ignored (warm-up) */
  /* tokens still to come before steps are counted, so that only decoding is; UINT32_MAX: none are
   */
  uint32_t tokens_before;
} bench_collector;

/* an accel_profile_fn; one thread */
void bench_collect(void *collector, const accel_profile_step *step);
/* Divides all sums by `runs` (a decode step is a run of its own) and sorts the steps; wall_us: of
 * all runs together.  Called once, after the last step. */
void bench_collect_finish(bench_collector *collector, uint32_t runs, double wall_us);
void bench_profile_free(bench_profile *profile);

#endif
