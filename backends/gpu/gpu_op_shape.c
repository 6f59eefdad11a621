/* gpu_op_shape.c - reshape, transpose, slice, broadcast, concat, pad: elements are moved, none
 * is computed. */
#include "gpu/gpu_layer.h"
#include "kit/kit_scalar.h"

enum { SHALLOW = 3, DEEP = 6 }; /* dims that move_3 and move_6 walk */

/* y[sum at[i] * to[i]] = x[sum at[i] * from[i]] */
typedef struct moves {
  int rank;
  int64_t dim[DEEP], from[DEEP], to[DEEP];
} moves;

/* Drops dims of 1 and merges neighbours that are contiguous in both x and y. */
static void join(moves *m) {
  int n = 0;
  for (int i = 0; i < m->rank; i++) {
    if (m->dim[i] == 1) continue;
    if (n && m->from[n - 1] == m->from[i] * m->dim[i] && m->to[n - 1] == m->to[i] * m->dim[i]) {
      m->dim[n - 1] *= m->dim[i];
      m->from[n - 1] = m->from[i];
      m->to[n - 1] = m->to[i];
    } else {
      m->dim[n] = m->dim[i];
      m->from[n] = m->from[i];
      m->to[n++] = m->to[i];
    }
  }
  m->rank = n;
}

static int32_t move(gpu_run *run, const kit_launch *l, gpu_binding x, gpu_binding y, moves m,
                    accel_plugin_error *error) {
  int64_t n = 1;
  join(&m);
  for (int i = 0; i < m.rank; i++) n *= m.dim[i];
  if (m.rank == 0 || (m.rank == 1 && m.from[0] == 1 && m.to[0] == 1))
    return gpu_copy(run, gpu_part(y, 0, (uint64_t)n * 4), gpu_part(x, 0, (uint64_t)n * 4), error);
  const int room = m.rank <= SHALLOW ? SHALLOW : DEEP;
  gpu_call c = gpu_call_new(run, l, room == SHALLOW ? GPU_K_move_3 : GPU_K_move_6);
  gpu_bind(&c, x);
  gpu_bind(&c, y);
  gpu_int(&c, n);
  for (int i = room - 1; i >= 0; i--) { /* the last dim first; those in front are 1 */
    const int at = i - (room - m.rank);
    if (i) gpu_int(&c, at < 0 ? 1 : m.dim[at]);
    gpu_int(&c, at < 0 ? 0 : m.from[at]);
    gpu_int(&c, at < 0 ? 0 : m.to[at]);
  }
  return gpu_dispatch_items(&c, n, error);
}

GPU_OP(move) {
  kit_moves m;
  const int32_t rc = kit_moves_of(l, &m, error);
  if (rc) return rc;
  moves all = {.rank = m.rank};
  kit_strides(&l->out[0], all.to);
  for (int i = 0; i < m.rank; i++) {
    all.dim[i] = m.dim[i];
    all.from[i] = m.step[i];
  }
  const gpu_binding x = gpu_at(run, &l->in[0]);
  return move(run, l, gpu_part(x, (uint64_t)m.first * 4, x.bytes - (uint64_t)m.first * 4),
              gpu_at(run, &l->out[0]), all, error);
}

/* The kit makes most reshapes aliases of their operand, which are not launched. */
GPU_OP(reshape) {
  const kit_tensor *x = &l->in[0], *out = &l->out[0];
  if (x->elements != out->elements)
    return kit_launch_fail(l, error, ACCEL_PLUGIN_E_ARGUMENT, "%lld elements into %lld",
                           (long long)x->elements, (long long)out->elements);
  return gpu_copy(run, gpu_at(run, out), gpu_at(run, x), error);
}

GPU_OP(concat) {
  const kit_tensor *out = &l->out[0];
  const int64_t axis = kit_axis(l->node, 0, out->rank);
  const kit_around whole = kit_split(out, axis);
  const gpu_binding y = gpu_at(run, out);
  int64_t done = 0;
  for (uint32_t k = 0; k < l->node->n_in; k++) done += kit_has(&l->in[k]) ? l->in[k].dim[axis] : 0;
  if (done != whole.n)
    return kit_launch_fail(l, error, ACCEL_PLUGIN_E_ARGUMENT,
                           "the operands have %lld along the axis, the result has %lld",
                           (long long)done, (long long)whole.n);
  int32_t rc = ACCEL_PLUGIN_OK;
  done = 0;
  for (uint32_t k = 0; !rc && k < l->node->n_in; k++) {
    const kit_tensor *x = &l->in[k];
    if (!kit_has(x) || !x->elements) continue;
    const int64_t cols = kit_cols(x), piece = x->dim[axis] * whole.inner, rows = piece / cols;
    const moves m = {.rank = 3, /* [outer, rows of this operand, cols] */
                     .dim = {whole.outer, rows, cols},
                     .from = {rows * x->row_stride, x->row_stride, 1},
                     .to = {whole.n * whole.inner, cols, 1}};
    const uint64_t first = (uint64_t)(done * whole.inner) * 4;
    rc = move(run, l, gpu_at(run, x), gpu_part(y, first, y.bytes - first), m, error);
    done += x->dim[axis];
  }
  return rc;
}

GPU_OP(pad) {
  const kit_tensor *x = &l->in[0], *out = &l->out[0];
  int64_t before[ACCEL_PLUGIN_MAX_RANK];
  const int32_t rc = kit_pads_of(l, before, error);
  if (rc) return rc;
  gpu_call c = gpu_call_new(run, l, GPU_K_pad_words);
  gpu_tensor(&c, x);
  gpu_tensor(&c, out);
  gpu_int(&c, out->elements);
  gpu_int(&c, kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_KIND, ACCEL_PLUGIN_PAD_CONSTANT));
  gpu_int(&c, (int32_t)kit_pad_value(l));
  for (int i = DEEP - 1; i >= 0; i--) {
    const int at = i - (DEEP - x->rank);
    if (i) gpu_int(&c, at < 0 ? 1 : out->dim[at]);
    gpu_int(&c, at < 0 ? 1 : x->dim[at]);
    gpu_int(&c, at < 0 ? 0 : before[at]);
  }
  return gpu_dispatch_items(&c, out->elements, error);
}
