/* distance_buckets.h - relative position biases whose table has a row for each bucket of distances,
 * in both directions: half of the buckets for what is ahead, of each half as many for single steps
 * as for ever longer ones (T5's rule, as LayoutLMv3 and WavLM compute it). */
#ifndef ACCEL_MODELING_DISTANCE_BUCKETS_H
#define ACCEL_MODELING_DISTANCE_BUCKETS_H

#include "modeling/vision.h"

typedef struct accel__distance_buckets {
  int64_t buckets, max_distance; /* buckets at least 4; max_distance above a quarter of them */
  /* the long steps are counted from the single ones on before they are cut to whole numbers
   * (WavLM), not after (LayoutLMv3): a rounding apart */
  bool cut_last;
} accel__distance_buckets;

/* buckets from `buckets_key`, max_distance from `distance_key`, over the defaults in *d. */
accel_status accel__distance_buckets_read(const accel__build *b, const char *buckets_key,
                                          const char *distance_key, accel__distance_buckets *d);
/* int32 [2 most + 1]: buckets of the distances -most .. most; beyond them nothing changes. */
accel__tensor accel__distance_buckets_make(accel__build *b, const accel__distance_buckets *d,
                                           int64_t *most);
/* F32 positions `at` as row [.., 1, n] and column [.., n, 1]: int32 [.., n, n], how far key j is
 * ahead of query i, as a row of what has 2 most + 1 of them. */
accel__tensor accel__distance_rows(accel__build *b, accel__tensor row, accel__tensor column,
                                   int64_t most);

#endif
