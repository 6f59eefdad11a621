/* kit_scalar_shape.c - reshape, transpose, slice, broadcast, concat, pad: elements move, none is
 * computed.  All are 4 bytes wide. */
#include <string.h>

#include "kit/kit_scalar.h"

/* Steps a row-major index of `rank` dims; false after the last. */
static bool next(int64_t *at, const int64_t *dim, int rank) {
  for (int i = rank - 1; i >= 0; i--) {
    if (++at[i] < dim[i]) return true;
    at[i] = 0;
  }
  return false;
}

/* out[at] = x[first + sum at[i] * step[i]] */
static void copy_strided(const kit_tensor *x, const kit_tensor *out, int64_t first,
                         const int64_t *step) {
  int64_t at[ACCEL_PLUGIN_MAX_RANK] = {0};
  if (!out->elements) return;
  int64_t k = 0;
  do {
    int64_t from = first;
    for (int i = 0; i < out->rank; i++) from += at[i] * step[i];
    kit_i32(out)[k++] = kit_i32(x)[from];
  } while (next(at, out->dim, out->rank));
}

/* Only when the program asks for another number of elements; otherwise it is an alias and never
 * launched. */
int32_t kit_scalar_RESHAPE(const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *x = &l->in[0], *out = &l->out[0];
  if (x->elements != out->elements)
    return kit_launch_fail(l, error, ACCEL_PLUGIN_E_ARGUMENT, "%lld elements into %lld",
                           (long long)x->elements, (long long)out->elements);
  memcpy(out->data, x->data, (size_t)x->elements * 4);
  return ACCEL_PLUGIN_OK;
}

static int32_t move(const kit_launch *l, accel_plugin_error *error) {
  kit_moves m;
  const int32_t rc = kit_moves_of(l, &m, error);
  if (!rc) copy_strided(&l->in[0], &l->out[0], m.first, m.step);
  return rc;
}

int32_t kit_scalar_TRANSPOSE(const kit_launch *l, accel_plugin_error *error) {
  return move(l, error);
}
int32_t kit_scalar_SLICE(const kit_launch *l, accel_plugin_error *error) { return move(l, error); }
int32_t kit_scalar_BROADCAST(const kit_launch *l, accel_plugin_error *error) {
  return move(l, error);
}

int32_t kit_scalar_CONCAT(const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *out = &l->out[0];
  int64_t axis = kit_axis(l->node, 0, out->rank), done = 0;
  kit_around whole = kit_split(out, axis);
  for (uint32_t k = 0; k < l->node->n_in; k++) {
    if (!kit_has(&l->in[k])) continue;
    kit_around part = kit_split(&l->in[k], axis);
    if (done + part.n > whole.n)
      return kit_launch_fail(l, error, ACCEL_PLUGIN_E_ARGUMENT,
                             "the operands are longer than the result");
    for (int64_t o = 0; o < whole.outer; o++)
      memcpy(kit_i32(out) + (o * whole.n + done) * whole.inner,
             kit_i32(&l->in[k]) + o * part.n * part.inner, (size_t)(part.n * part.inner) * 4);
    done += part.n;
  }
  return done == whole.n ? ACCEL_PLUGIN_OK
                         : kit_launch_fail(l, error, ACCEL_PLUGIN_E_ARGUMENT,
                                           "the operands are shorter than the result");
}

/* Source index along a dim of n for padded index i - before; -1: the constant. */
static int64_t padded_index(int64_t kind, int64_t i, int64_t n) {
  if (i >= 0 && i < n) return i;
  if (kind == ACCEL_PLUGIN_PAD_EDGE) return i < 0 ? 0 : n - 1;
  if (kind == ACCEL_PLUGIN_PAD_REFLECT) return i < 0 ? -i : 2 * (n - 1) - i;
  return -1;
}

int32_t kit_scalar_PAD(const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *x = &l->in[0], *out = &l->out[0];
  int64_t kind = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_KIND, ACCEL_PLUGIN_PAD_CONSTANT),
          step[ACCEL_PLUGIN_MAX_RANK], at[ACCEL_PLUGIN_MAX_RANK] = {0};
  int64_t before[ACCEL_PLUGIN_MAX_RANK];
  const int32_t fill = (int32_t)kit_pad_value(l), rc = kit_pads_of(l, before, error);
  if (rc) return rc;
  if (!out->elements) return ACCEL_PLUGIN_OK;
  kit_strides(x, step);
  int64_t k = 0;
  do {
    int64_t from = 0;
    bool inside = true;
    for (uint32_t i = 0; i < x->rank; i++) {
      int64_t s = padded_index(kind, at[i] - before[i], x->dim[i]);
      inside &= s >= 0;
      from += s * step[i];
    }
    kit_i32(out)[k++] = inside ? kit_i32(x)[from] : fill;
  } while (next(at, out->dim, out->rank));
  return ACCEL_PLUGIN_OK;
}
