/* kit_scalar.h - what the scalar kernels share: slow, plain, and exact enough to be the oracle.
 * Sums are taken in double, in a fixed order that does not depend on the batch.  Shapes were
 * checked when the program was built; indices that come with the data are checked here. */
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
static inline int64_t kit_listed(const accel_plugin_node *node, uint32_t key, uint32_t i,
                                 int64_t absent) {
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

/* Elements between neighbours along each dim; rows may lie apart (row_stride). */
void kit_strides(const kit_tensor *t, int64_t *step);
/* out[at] = x[first + sum at[i] * step[i]] over the dims of the result.  Elements are 4 bytes
 * wide. */
typedef struct kit_moves {
  int rank;
  int64_t first, dim[ACCEL_PLUGIN_MAX_RANK], step[ACCEL_PLUGIN_MAX_RANK];
} kit_moves;
/* Of a transpose, slice or broadcast; E_ARGUMENT when the shapes disagree with the attributes. */
int32_t kit_moves_of(const kit_launch *launch, kit_moves *out, accel_plugin_error *error);
/* Of a pad: elements before each dim, [rank of x], checked against x; the constant's bits. */
int32_t kit_pads_of(const kit_launch *launch, int64_t *before, accel_plugin_error *error);
uint32_t kit_pad_value(const kit_launch *launch);

/* Geometry of the last one or two dims of conv, conv_transpose and pool; one dim is treated as two
 * with a height of 1. w NULL: the window is the KERNEL attribute. */
typedef struct kit_plane {
  int64_t in[2], out[2], kernel[2], stride[2], begin[2], end[2], dilation[2];
} kit_plane;
kit_plane kit_plane_of(const kit_launch *launch, const kit_tensor *w);

/* First element of the matrix of `t` that belongs to matrix `index` of the result `out` of a
 * matmul; leading dims broadcast, aligned at the end. */
const float *kit_matrix_at(const kit_tensor *t, const kit_tensor *out, int64_t index);
/* How many elements of t lie before it. */
int64_t kit_matrix_offset(const kit_tensor *t, const kit_tensor *out, int64_t index);

/* Dims of a gated_delta_rule: heads of q and k, of v, and the columns of each. */
typedef struct kit_delta {
  int64_t heads, v_heads, k_dim, v_dim;
  double eps, scale; /* eps 0: q and k are taken as they are */
} kit_delta;
/* E_ARGUMENT when the shapes do not fit. */
int32_t kit_delta_of(const kit_launch *launch, kit_delta *out, accel_plugin_error *error);
/* Elements of its state, [v_heads, k_dim, v_dim]. */
static inline uint64_t kit_delta_cells(const kit_delta *d) {
  return (uint64_t)(d->v_heads * d->k_dim * d->v_dim);
}

/* Which inputs an output index of resize reads, along one dim. */
typedef struct kit_taps {
  int64_t *index; /* [out][width] */
  double *weight;
  int64_t width; /* the most any output index reads; unused ones have weight 0 */
} kit_taps;
/* For height and width of a resize node (height 1 when there is none); kit_taps_free also after a
 * failure. */
int32_t kit_taps_new(const kit_launch *launch, kit_taps taps[2], accel_plugin_error *error);
void kit_taps_free(kit_taps taps[2]);

#endif
