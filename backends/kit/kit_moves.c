/* kit_moves.c - transpose, slice and broadcast as one thing: elements move, none is computed. */
#include <string.h>

#include "kit/kit_scalar.h"

void kit_strides(const kit_tensor *t, int64_t *step) {
  for (int i = t->rank - 1; i >= 0; i--)
    step[i] = i == t->rank - 1 ? 1 : i == t->rank - 2 ? t->row_stride : step[i + 1] * t->dim[i + 1];
}

/* A start or end: absent is the default, negative counts from the end, then it is clamped. */
static int64_t slice_at(const kit_launch *l, uint32_t key, int64_t absent, int64_t n) {
  int64_t v = absent;
  kit_attr_d(l, key, &v, 1);
  if (v < 0) v += n;
  return v < 0 ? 0 : v > n ? n : v;
}

static int32_t of_transpose(const kit_launch *l, const int64_t *from, kit_moves *m,
                            accel_plugin_error *error) {
  const kit_tensor *x = &l->in[0];
  for (uint32_t i = 0; i < x->rank; i++) {
    const int64_t p = kit_listed(l->node, ACCEL_PLUGIN_ATTR_PERM, i, -1);
    if (p < 0 || p >= x->rank)
      return kit_launch_fail(l, error, ACCEL_PLUGIN_E_ARGUMENT, "perm has %lld at %u", (long long)p,
                             i);
    m->step[i] = from[p];
  }
  return ACCEL_PLUGIN_OK;
}

static int32_t of_slice(const kit_launch *l, const int64_t *from, kit_moves *m,
                        accel_plugin_error *error) {
  const kit_tensor *x = &l->in[0];
  const int64_t axis = kit_axis(l->node, 0, x->rank), n = x->dim[axis],
                by = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_STEP, 1),
                start = slice_at(l, ACCEL_PLUGIN_ATTR_START, 0, n),
                end = slice_at(l, ACCEL_PLUGIN_ATTR_END, n, n);
  if (by < 1 || (end > start ? (end - start + by - 1) / by : 0) != m->dim[axis])
    return kit_launch_fail(l, error, ACCEL_PLUGIN_E_ARGUMENT,
                           "%lld..%lld by %lld of %lld does not give %lld", (long long)start,
                           (long long)end, (long long)by, (long long)n, (long long)m->dim[axis]);
  for (int i = 0; i < x->rank; i++) m->step[i] = from[i];
  m->first = start * from[axis];
  m->step[axis] *= by;
  return ACCEL_PLUGIN_OK;
}

static int32_t of_broadcast(const kit_launch *l, const int64_t *from, kit_moves *m,
                            accel_plugin_error *error) {
  const kit_tensor *x = &l->in[0];
  for (int i = 0; i < x->rank; i++) {
    const int at = m->rank - x->rank + i;
    if (at < 0 || (x->dim[i] != 1 && x->dim[i] != m->dim[at]))
      return kit_launch_fail(l, error, ACCEL_PLUGIN_E_ARGUMENT,
                             "dim %d of x is %lld and does not broadcast", i, (long long)x->dim[i]);
    m->step[at] = x->dim[i] == 1 ? 0 : from[i];
  }
  return ACCEL_PLUGIN_OK;
}

int32_t kit_moves_of(const kit_launch *l, kit_moves *m, accel_plugin_error *error) {
  int64_t from[ACCEL_PLUGIN_MAX_RANK];
  *m = (kit_moves){.rank = l->out[0].rank};
  for (int i = 0; i < m->rank; i++) m->dim[i] = l->out[0].dim[i];
  kit_strides(&l->in[0], from);
  switch (l->node->op) {
    case ACCEL_PLUGIN_OP_TRANSPOSE:
      return of_transpose(l, from, m, error);
    case ACCEL_PLUGIN_OP_SLICE:
      return of_slice(l, from, m, error);
    default:
      return of_broadcast(l, from, m, error);
  }
}

int32_t kit_pads_of(const kit_launch *l, int64_t *before, accel_plugin_error *error) {
  const kit_tensor *x = &l->in[0];
  const int64_t kind = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_KIND, ACCEL_PLUGIN_PAD_CONSTANT);
  for (uint32_t i = 0; i < x->rank; i++) {
    const int64_t after = kit_listed(l->node, ACCEL_PLUGIN_ATTR_PADS, i + x->rank, 0);
    before[i] = kit_listed(l->node, ACCEL_PLUGIN_ATTR_PADS, i, 0);
    const bool fits = kind == ACCEL_PLUGIN_PAD_CONSTANT || (before[i] == 0 && after == 0) ||
                      (kind == ACCEL_PLUGIN_PAD_EDGE ? x->dim[i] > 0
                                                     : before[i] < x->dim[i] && after < x->dim[i]);
    if (before[i] < 0 || after < 0 || !fits)
      return kit_launch_fail(l, error, ACCEL_PLUGIN_E_ARGUMENT,
                             "pads %lld and %lld do not fit dim %u of %lld", (long long)before[i],
                             (long long)after, i, (long long)x->dim[i]);
  }
  return ACCEL_PLUGIN_OK;
}

uint32_t kit_pad_value(const kit_launch *l) {
  const double value = kit_attr_f(l->node, ACCEL_PLUGIN_ATTR_VALUE, 0.0);
  const float real = (float)value;
  uint32_t bits = (uint32_t)(int32_t)value;
  if (l->out[0].dtype == ACCEL_PLUGIN_F32) memcpy(&bits, &real, sizeof bits);
  return bits;
}
