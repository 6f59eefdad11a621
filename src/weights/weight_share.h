/* weight_share.h - the share of a weight that one rank of several has: its rows of numbers, or its
 * codes, out of the whole weight (private to src/weights). */
#ifndef ACCEL_WEIGHTS_WEIGHT_SHARE_H
#define ACCEL_WEIGHTS_WEIGHT_SHARE_H

#include "weights/quantise.h"
#include "weights/source.h"

static inline bool accel__is_shared(const accel__weight_share *share) {
  return share->rows.period || share->columns.period;
}
/* Elements of an axis of `all` that belong to the share. */
static inline int64_t accel__share_count(const accel__share_axis *axis, int64_t all) {
  return axis->period ? all / axis->period * axis->count : all;
}
/* Where element i of the share lies in the whole. */
static inline int64_t accel__share_at(const accel__share_axis *axis, int64_t i) {
  return axis->period ? i / axis->count * axis->period + axis->first + i % axis->count : i;
}
/* How many elements from i on follow each other there, of at most n. */
static inline int64_t accel__share_run(const accel__share_axis *axis, int64_t i, int64_t n) {
  const int64_t run = axis->period ? axis->count - i % axis->count : n;
  return run < n ? run : n;
}
/* Do its periods divide the axis, and lie its elements within them? */
static inline bool accel__share_fits(const accel__share_axis *axis, int64_t all) {
  return !axis->period ||
         (axis->period > 0 && all % axis->period == 0 && axis->first >= 0 && axis->count > 0 &&
          axis->count <= axis->period && axis->first <= axis->period - axis->count);
}

/* Rows of a share, by those of the whole weight, whose rows have `whole_k` elements. */
typedef struct accel__shared_rows {
  accel__values whole;
  const accel__weight_share *share;
  int64_t whole_k, k;
} accel__shared_rows;
/* Values of accel__quantise; `rows` is lent. */
accel_status accel__shared_rows_read(const void *rows, int64_t first, int64_t count, float *out);
accel__values accel__shared_values(const accel__shared_rows *rows);

/* Can the share be taken out of codes of this format, in rows of `k`: does no group of columns lie
 * across its ends? */
bool accel__share_keeps_groups(const accel__weight_share *share, const accel_plugin_format *format,
                               int64_t k);
/* The share's codes, in *out of its format and size: as `whole` has them, but that each row has its
 * own scales when `out` says so (group_n 1). */
void accel__share_codes(const accel__weight_share *share, const accel__quantised *whole,
                        accel__quantised *out);

#endif
