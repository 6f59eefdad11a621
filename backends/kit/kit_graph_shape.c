/* kit_graph_shape.c - reshape, transpose, slice, broadcast, concat, pad, rope. */
#include <math.h>
#include <stdlib.h>

#include "kit/kit_lower.h"

void lower_RESHAPE(lower *l) {
  const accel_plugin_tensor *out = &l->p->tensor[l->n->out[0]];
  lower_out(l, 0, lower_reshape_dims(l, lower_in(l, 0), out->dim, out->rank));
}

void lower_TRANSPOSE(lower *l) {
  const int64_t *perm;
  const uint32_t n = kit_attr_iv(l->n, ACCEL_PLUGIN_ATTR_PERM, &perm);
  lower_out(l, 0, lower_transpose(l, lower_in(l, 0), perm, n));
}

/* A slice's start or end, int64 [1]. */
static int32_t slice_at(lower *l, uint32_t key, int64_t absent) {
  const int64_t *v;
  if (!kit_attr_iv(l->n, key, &v)) return lower_i64s(l, &absent, 1);
  return lower_size(l, (int32_t)v[0]);
}

void lower_SLICE(lower *l) {
  const int64_t axis = kit_axis(l->n, 0, lower_tensor(l, 0)->rank),
                step = kit_attr_i(l->n, ACCEL_PLUGIN_ATTR_STEP, 1);
  lower_out(l, 0,
            lower_node(l, &(kit_graph_node){.op = KIT_GRAPH_SLICE},
                       (const int32_t[]){lower_in(l, 0), slice_at(l, ACCEL_PLUGIN_ATTR_START, 0),
                                         slice_at(l, ACCEL_PLUGIN_ATTR_END, INT64_MAX),
                                         lower_i64s(l, &step, 1), lower_i64s(l, &axis, 1)},
                       5));
}

void lower_BROADCAST(lower *l) {
  const accel_plugin_tensor *out = &l->p->tensor[l->n->out[0]];
  int32_t size[ACCEL_PLUGIN_MAX_RANK];
  for (uint32_t i = 0; i < out->rank; i++) size[i] = lower_size(l, out->dim[i]);
  lower_out(l, 0,
            lower_op2(l, KIT_GRAPH_BROADCAST, lower_in(l, 0), lower_concat(l, size, out->rank, 0)));
}

void lower_CONCAT(lower *l) {
  const int64_t axis = kit_axis(l->n, 0, l->p->tensor[l->n->out[0]].rank);
  int32_t *in = malloc((l->n->n_in + 1u) * sizeof *in);
  uint32_t n = 0;
  if (!in) {
    l->rc = kit_no_memory(l->error, l->n->n_in * sizeof *in);
    return;
  }
  for (uint32_t i = 0; i < l->n->n_in; i++)
    if (l->n->in[i] >= 0) in[n++] = lower_in(l, i);
  lower_out(l, 0, lower_concat(l, in, n, axis));
  free(in);
}

void lower_PAD(lower *l) {
  const accel_plugin_tensor *x = lower_tensor(l, 0);
  const int64_t kind = kit_attr_i(l->n, ACCEL_PLUGIN_ATTR_KIND, ACCEL_PLUGIN_PAD_CONSTANT);
  const double value = kit_attr_f(l->n, ACCEL_PLUGIN_ATTR_VALUE, 0.0);
  int64_t begin[ACCEL_PLUGIN_MAX_RANK], end[ACCEL_PLUGIN_MAX_RANK];
  for (uint32_t i = 0; i < x->rank; i++) {
    begin[i] = kit_listed(l->n, ACCEL_PLUGIN_ATTR_PADS, i, 0);
    end[i] = kit_listed(l->n, ACCEL_PLUGIN_ATTR_PADS, i + x->rank, 0);
  }
  const int32_t fill =
      x->dtype == ACCEL_PLUGIN_I32 ? lower_i32(l, (int32_t)value) : lower_f32(l, value);
  lower_out(l, 0,
            lower_node(l, &(kit_graph_node){.op = KIT_GRAPH_PAD, .i = {kind}, .n_i = 1},
                       (const int32_t[]){lower_in(l, 0), lower_i64s(l, begin, x->rank),
                                         lower_i64s(l, end, x->rank), fill},
                       4));
}

/* ---- rope ---- */

/* Frequencies, [pairs] or [T, pairs]. */
static int32_t frequencies(lower *l, int64_t pairs) {
  const int32_t given = lower_in(l, 2);
  if (given >= 0) return given;
  const double theta = kit_attr_f(l->n, ACCEL_PLUGIN_ATTR_THETA, 10000.0);
  float *f = malloc(((size_t)pairs + 1) * sizeof *f);
  if (!f) return l->rc = kit_no_memory(l->error, (uint64_t)pairs * 4), 0;
  for (int64_t i = 0; i < pairs; i++) f[i] = (float)pow(theta, -(double)i / (double)pairs);
  const int32_t node =
      lower_constant(l, ACCEL_PLUGIN_F32, 1, &pairs, f, (uint64_t)pairs * 4, false);
  free(f);
  return node;
}

/* Positions [T, 1], or [T, pairs] where frequencies take them from different rows. */
static int32_t positions(lower *l, int64_t pairs) {
  const accel_plugin_tensor *t = lower_tensor(l, 1);
  const int32_t pos = lower_convert(l, lower_in(l, 1), ACCEL_PLUGIN_F32);
  if (t->rank < 2) return RESHAPE(l, pos, -1, 1);
  const int64_t *section, rows = lower_dim(l, t, 0);
  const uint32_t n = kit_attr_iv(l->n, ACCEL_PLUGIN_ATTR_SECTIONS, &section);
  int32_t *row = malloc(((size_t)pairs + 1) * sizeof *row);
  if (!row) return l->rc = kit_no_memory(l->error, (uint64_t)pairs * 4), 0;
  int64_t at = 0, end = n ? section[0] : 0;
  for (int64_t i = 0; i < pairs; i++) {
    while (at + 1 < (int64_t)n && i >= end) end += section[++at];
    row[i] = (int32_t)(rows > 0 ? at % rows : at);
  }
  const int32_t which =
      lower_constant(l, ACCEL_PLUGIN_I32, 1, &pairs, row, (uint64_t)pairs * 4, false);
  free(row);
  return TRANSPOSE(l, lower_axis2(l, KIT_GRAPH_GATHER, pos, which, 0), 1, 0);
}

void lower_ROPE(lower *l) {
  const accel_plugin_tensor *t = lower_tensor(l, 0);
  const int64_t cols = lower_dim(l, t, t->rank - 1u),
                head = kit_attr_i(l->n, ACCEL_PLUGIN_ATTR_HEAD_DIM, cols),
                rot = kit_attr_i(l->n, ACCEL_PLUGIN_ATTR_ROT_DIMS, head), pairs = rot / 2;
  const bool half = kit_attr_i(l->n, ACCEL_PLUGIN_ATTR_ROPE_STYLE, ACCEL_PLUGIN_ROPE_HALF) ==
                    ACCEL_PLUGIN_ROPE_HALF;
  const double mscale = kit_attr_f(l->n, ACCEL_PLUGIN_ATTR_MSCALE, 1.0);
  const int32_t angle = MUL(l, positions(l, pairs), frequencies(l, pairs));
  int32_t c = lower_op1(l, KIT_GRAPH_COS, angle), s = lower_op1(l, KIT_GRAPH_SIN, angle);
  if (mscale != 1.0) c = MUL(l, c, lower_f32(l, mscale)), s = MUL(l, s, lower_f32(l, mscale));
  int32_t x = RESHAPE(l, lower_in(l, 0), -1, cols / head, head), part[3], n = 0, a, b;
  if (half) {
    a = lower_slice(l, x, 2, 0, pairs);
    b = lower_slice(l, x, 2, pairs, rot);
    c = UNSQUEEZE(l, c, 1), s = UNSQUEEZE(l, s, 1);
  } else {
    const int32_t turned = rot < head ? lower_slice(l, x, 2, 0, rot) : x;
    const int32_t pair = RESHAPE(l, turned, 0, 0, pairs, 2);
    a = lower_slice(l, pair, 3, 0, 1);
    b = lower_slice(l, pair, 3, 1, 2);
    c = UNSQUEEZE(l, c, 1, 3), s = UNSQUEEZE(l, s, 1, 3);
  }
  part[n++] = SUB(l, MUL(l, a, c), MUL(l, b, s));
  part[n++] = ADD(l, MUL(l, b, c), MUL(l, a, s));
  if (!half) {
    part[0] = RESHAPE(l, lower_concat(l, part, 2, 3), 0, 0, rot);
    n = 1;
  }
  if (rot < head) part[n++] = lower_slice(l, x, 2, rot, head);
  lower_out(l, 0, lower_reshape_dims(l, lower_concat(l, part, (uint32_t)n, 2), t->dim, t->rank));
}
