/* distance_buckets.c - see distance_buckets.h. */
#include "modeling/distance_buckets.h"

#include <math.h>

accel_status accel__distance_buckets_read(const accel__build *b, const char *buckets_key,
                                          const char *distance_key, accel__distance_buckets *d) {
  const accel__field fields[] = {
      ACCEL_FIELD_INT(buckets_key, &d->buckets, 4, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT(distance_key, &d->max_distance, 1, ACCEL__MAX_WIDTH)};
  ACCEL_TRY(accel__read_fields(b, fields, 2));
  if (d->max_distance > d->buckets / 4) return ACCEL_OK;
  return accel__refuse(b, "field '%s': %lld is not above a quarter of %lld, '%s'", distance_key,
                       (long long)d->max_distance, (long long)d->buckets, buckets_key);
}

/* The bucket of keys `distance` ahead (below 0: behind), in single precision as the reference. */
static int32_t bucket_of(const accel__distance_buckets *w, int64_t distance) {
  const int64_t half = w->buckets / 2, exact = half / 2, d = distance < 0 ? -distance : distance;
  int64_t bucket = d;
  if (d >= exact) {
    float x = logf((float)d / (float)exact);
    x = x / (float)log((double)w->max_distance / (double)exact) * (float)(half - exact);
    bucket = w->cut_last ? (int64_t)((float)exact + x) : exact + (int64_t)x;
    if (bucket > half - 1) bucket = half - 1;
  }
  return (int32_t)(bucket + (distance > 0 ? half : 0));
}

accel__tensor accel__distance_buckets_make(accel__build *b, const accel__distance_buckets *d,
                                           int64_t *most) {
  *most = d->max_distance;
  while (bucket_of(d, -*most) != d->buckets / 2 - 1) ++*most; /* rounding */
  const int64_t n = 2 * *most + 1;
  int32_t *bucket = accel__arena_array(b->arena, (size_t)n, sizeof *bucket);
  if (bucket == NULL)
    return accel__program_fail(b->p, ACCEL_ERROR_OUT_OF_MEMORY, "no memory for buckets");
  for (int64_t i = 0; i < n; i++) bucket[i] = bucket_of(d, i - *most);
  return accel__constant_i32(b->p, "buckets", 1, &n, bucket);
}

accel__tensor accel__distance_rows(accel__build *b, accel__tensor row, accel__tensor column,
                                   int64_t most) {
  accel__tensor ahead = accel__binary(b->p, ACCEL_PLUGIN_BINARY_SUB, row, column);
  ahead = accel__clamp(b, ahead, (double)-most, (double)most);
  return accel__cast(b, accel__affine(b, ahead, 1.0, (double)most + 0.5), ACCEL_PLUGIN_I32);
}
