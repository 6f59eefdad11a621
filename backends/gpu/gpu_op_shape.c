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

/* Gives m `rank` dims; those in front are 1. */
static void widen(moves *m, int rank) {
  const moves narrow = *m;
  const int more = rank - m->rank;
  for (int i = 0; i < rank; i++) {
    m->dim[i] = i < more ? 1 : narrow.dim[i - more];
    m->from[i] = i < more ? 0 : narrow.from[i - more];
    m->to[i] = i < more ? 0 : narrow.to[i - more];
  }
  m->rank = rank;
}

static void set_move_3(gpu_call *c, int64_t n, moves *m) {
  widen(m, SHALLOW);
  const gpu_params_move_3 params = {
      .n = n,
      .d2 = m->dim[2],
      .s2 = m->from[2],
      .t2 = m->to[2],
      .d1 = m->dim[1],
      .s1 = m->from[1],
      .t1 = m->to[1],
      .s0 = m->from[0],
      .t0 = m->to[0],
  };
  gpu_set_move_3(c, &params);
}

static void set_move_6(gpu_call *c, int64_t n, moves *m) {
  widen(m, DEEP);
  const gpu_params_move_6 params = {
      .n = n,
      .d5 = m->dim[5],
      .s5 = m->from[5],
      .t5 = m->to[5],
      .d4 = m->dim[4],
      .s4 = m->from[4],
      .t4 = m->to[4],
      .d3 = m->dim[3],
      .s3 = m->from[3],
      .t3 = m->to[3],
      .d2 = m->dim[2],
      .s2 = m->from[2],
      .t2 = m->to[2],
      .d1 = m->dim[1],
      .s1 = m->from[1],
      .t1 = m->to[1],
      .s0 = m->from[0],
      .t0 = m->to[0],
  };
  gpu_set_move_6(c, &params);
}

static int32_t move(gpu_run *run, const kit_launch *l, gpu_binding x, gpu_binding y, moves m,
                    accel_plugin_error *error) {
  int64_t n = 1;
  join(&m);
  for (int i = 0; i < m.rank; i++) n *= m.dim[i];
  if (m.rank == 0 || (m.rank == 1 && m.from[0] == 1 && m.to[0] == 1))
    return gpu_copy(run, gpu_part(y, 0, (uint64_t)n * 4), gpu_part(x, 0, (uint64_t)n * 4), error);
  const bool shallow = m.rank <= SHALLOW;
  gpu_call c = gpu_call_new(run, l, shallow ? GPU_K_move_3 : GPU_K_move_6);
  gpu_bind(&c, x);
  gpu_bind(&c, y);
  if (shallow)
    set_move_3(&c, n, &m);
  else
    set_move_6(&c, n, &m);
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
  int64_t o[DEEP], from[DEEP], b[DEEP];
  for (int i = 0; i < DEEP; i++) {
    const int at = i - (DEEP - x->rank); /* dims in front are 1 */
    o[i] = at < 0 ? 1 : out->dim[at];
    from[i] = at < 0 ? 1 : x->dim[at];
    b[i] = at < 0 ? 0 : before[at];
  }
  const gpu_params_pad_words params = {
      .n = out->elements,
      .kind = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_KIND, ACCEL_PLUGIN_PAD_CONSTANT),
      .fill = (int32_t)kit_pad_value(l),
      .o5 = o[5],
      .x5 = from[5],
      .b5 = b[5],
      .o4 = o[4],
      .x4 = from[4],
      .b4 = b[4],
      .o3 = o[3],
      .x3 = from[3],
      .b3 = b[3],
      .o2 = o[2],
      .x2 = from[2],
      .b2 = b[2],
      .o1 = o[1],
      .x1 = from[1],
      .b1 = b[1],
      .x0 = from[0],
      .b0 = b[0],
  };
  gpu_set_pad_words(&c, &params);
  return gpu_dispatch_items(&c, out->elements, error);
}
