/* scalar.h - what the scalar kernels share: slow, plain, and exact enough to be the oracle.  Sums are taken in double, in a
 * fixed order that does not depend on the batch.  Shapes were checked when the program was built; indices that come with the
 * data are checked here. */
#ifndef ACCEL_KIT_SCALAR_H
#define ACCEL_KIT_SCALAR_H

#include <math.h>

#include "kit/kit.h"

/* One prototype per op, from the one list. */
#define ACCEL_OP(NAME, number, operands, outputs, attributes, text) \
  int32_t kit_scalar_##NAME(const kit_launch *l, accel_plugin_error *error);
#include "accel/ops.def"

static inline double kit_dot(const float *a, const float *b, int64_t n) {
  double sum[8] = {0};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (int k = 0; k < 8; k++) sum[k] += (double)a[i + k] * (double)b[i + k];
  for (; i < n; i++) sum[i % 8] += (double)a[i] * (double)b[i];
  return ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));
}

/* Value i of an integer list attribute, or the default when the list is absent or shorter. */
static inline int64_t kit_listed(const accel_plugin_node *node, uint32_t key, uint32_t i, int64_t absent) {
  const int64_t *v;
  return i < kit_attr_iv(node, key, &v) ? v[i] : absent;
}

/* Axis attribute as 0 .. rank-1. */
static inline int64_t kit_axis(const accel_plugin_node *node, int64_t absent, int64_t rank) {
  int64_t axis = kit_attr_i(node, ACCEL_PLUGIN_ATTR_AXIS, absent);
  return axis < 0 ? axis + rank : axis;
}

/* A tensor seen as [outer][n][inner] around one axis. */
typedef struct kit_around {
  int64_t outer, n, inner;
} kit_around;
static inline kit_around kit_split(const kit_tensor *t, int64_t axis) {
  kit_around a = {1, t->dim[axis], 1};
  for (int64_t i = 0; i < axis; i++) a.outer *= t->dim[i];
  for (int64_t i = axis + 1; i < t->rank; i++) a.inner *= t->dim[i];
  return a;
}

/* Which inputs an output index of resize reads, along one dim. */
typedef struct kit_taps {
  int64_t *index; /* [out][width] */
  double *weight;
  int64_t width; /* the most any output index reads; unused ones have weight 0 */
} kit_taps;
/* For height and width of a resize node (height 1 when there is none); kit_taps_free also after a failure. */
int32_t kit_taps_new(const kit_launch *launch, kit_taps taps[2], accel_plugin_error *error);
void kit_taps_free(kit_taps taps[2]);

#endif
