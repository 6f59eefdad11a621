/* bench_collect.h - the clock, and the collector of a profile, between bench_run.c, bench_speech.c and bench_profile.c. */
#ifndef ACCEL_BENCH_COLLECT_H
#define ACCEL_BENCH_COLLECT_H

#include "bench/bench.h"

double bench_now_ms(void); /* monotonic */

typedef struct bench_collector {
  bench_profile *profile;
  uint32_t next; /* where the next step is looked for first */
  bool failed;   /* no memory */
  bool deaf;     /* steps do not count yet */
  /* of a generation: tokens to come before the steps count, which are then those of decoding */
  uint32_t tokens_before;
} bench_collector;

/* an accel_profile_fn; one thread */
void bench_collect(void *collector, const accel_profile_step *step);
/* sums become means of one run */
void bench_collected(bench_collector *collector, uint32_t runs, double wall_us);
void bench_profile_free(bench_profile *profile);

#endif
