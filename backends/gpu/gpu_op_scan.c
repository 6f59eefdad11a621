/* gpu_op_scan.c - selective_scan and gated_delta_rule, one dispatch for each item, as each has a
 * state of its own. */
#include <float.h>
#include <math.h>
#include <stdio.h>

#include "gpu/gpu_layer.h"
#include "kit/kit_scalar.h"

enum { X, DT, A, B, C, D, Z, DT_BIAS };
enum {
  RATES = 1,
  SOFTPLUS = 2,
  HAS_D = 4,
  HAS_Z = 8,
  HAS_DT_BIAS = 16,
  BEFORE = 32,
  AFTER = 64,
  MOST_STATES = 256
};

static gpu_binding vector_at(const gpu_run *run, const void *memory) {
  const gpu_memory *m = memory;
  return m ? (gpu_binding){.buffer = m->buffer, .offset = m->offset, .bytes = m->bytes}
           : gpu_none(run);
}

static int32_t scan_item(gpu_run *run, const kit_launch *l, int32_t from, int32_t to,
                         const kit_state_view *state, accel_plugin_error *error) {
  const kit_tensor *x = &l->in[X], *a = &l->in[A];
  const bool rates = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_VERSION, 1) == 1;
  const int64_t cols = kit_cols(x), heads = a->dim[0],
                groups = rates ? 1 : kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_GROUPS, 1);
  gpu_call c = gpu_call_new(run, l, GPU_K_selective_scan);
  for (int i = X; i <= DT_BIAS; i++) gpu_tensor(&c, &l->in[i]);
  gpu_bind(&c, vector_at(run, state->current));
  gpu_tensor(&c, &l->out[0]);
  gpu_bind(&c, vector_at(run, state->next));
  const gpu_params_selective_scan params = {
      .first = from,
      .rows = to - from,
      .cols = cols,
      .p = cols / heads,
      .n = kit_cols(&l->in[B]) / groups,
      .share = heads / groups,
      .x_stride = x->row_stride,
      .dt_stride = l->in[DT].row_stride,
      .b_stride = l->in[B].row_stride,
      .c_stride = l->in[C].row_stride,
      .z_stride = kit_has(&l->in[Z]) ? l->in[Z].row_stride : 0,
      .flags = (rates ? RATES : 0) |
               (kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_DT_SOFTPLUS, 0) ? SOFTPLUS : 0) |
               (kit_has(&l->in[D]) ? HAS_D : 0) | (kit_has(&l->in[Z]) ? HAS_Z : 0) |
               (kit_has(&l->in[DT_BIAS]) ? HAS_DT_BIAS : 0) | (state->current ? BEFORE : 0) |
               (state->next ? AFTER : 0),
      .low = fmax(kit_attr_f(l->node, ACCEL_PLUGIN_ATTR_DT_MIN, -FLT_MAX), -FLT_MAX),
      .high = fmin(kit_attr_f(l->node, ACCEL_PLUGIN_ATTR_DT_MAX, FLT_MAX), FLT_MAX),
  };
  gpu_set_selective_scan(&c, &params);
  return gpu_dispatch_rows(&c, cols, error);
}

GPU_OP(selective_scan) {
  const kit_tensor *x = &l->in[X], *a = &l->in[A], *b = &l->in[B];
  const bool rates = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_VERSION, 1) == 1;
  const int64_t cols = kit_cols(x), heads = a->dim[0],
                groups = rates ? 1 : kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_GROUPS, 1);
  if (heads < 1 || groups < 1 || cols % heads || heads % groups || kit_cols(b) % groups)
    return kit_launch_fail(l, error, ACCEL_PLUGIN_E_ARGUMENT,
                           "%lld columns, %lld heads and %lld groups do not fit", (long long)cols,
                           (long long)heads, (long long)groups);
  const int64_t n = kit_cols(b) / groups;
  if (n > MOST_STATES)
    return kit_launch_fail(l, error, ACCEL_PLUGIN_E_LIMIT,
                           "%lld states for a column; kernels take %d", (long long)n, MOST_STATES);
  int32_t whole[2], rc = ACCEL_PLUGIN_OK;
  const kit_rows rows = kit_rows_of(l, ACCEL_PLUGIN_ATTR_SPACE, x->dim[0], whole);
  for (int32_t item = 0; !rc && item < rows.items; item++) {
    kit_state_view state = {0};
    const int32_t from = rows.start[item], to = rows.start[item + 1];
    if (l->node->state >= 0)
      rc = kit_state_step(l, (uint32_t)item, to - from, (uint64_t)(cols * n), &state, error);
    if (!rc && (to > from || state.next)) rc = scan_item(run, l, from, to, &state, error);
  }
  return rc;
}

/* ---- gated_delta_rule ---- */

enum { DELTA_COLS = 32, DELTA_FEW = 128, DELTA_MOST = 256 }; /* delta.k: columns, elements of q */

int32_t gpu_support_delta(const accel_plugin_program *p, const accel_plugin_node *node, char *why,
                          size_t n) {
  const accel_plugin_dim *cols = &p->dim[p->tensor[kit_operand(node, 0)].dim[1]];
  const int64_t heads = kit_attr_i(node, ACCEL_PLUGIN_ATTR_HEADS, 1);
  if (cols->op != ACCEL_PLUGIN_DIM_CONST || heads < 1 || cols->c / heads <= DELTA_MOST)
    return ACCEL_PLUGIN_NATIVE;
  snprintf(why, n, "heads of %lld columns; kernels take %d", (long long)(cols->c / heads),
           DELTA_MOST);
  return ACCEL_PLUGIN_NO;
}

static int32_t delta_item(gpu_run *run, const kit_launch *l, const kit_delta *d, int32_t from,
                          int32_t to, const kit_state_view *state, accel_plugin_error *error) {
  enum { Q, K, V, G, BETA };
  const kit_tensor *in = l->in;
  const int64_t blocks = (d->v_dim + DELTA_COLS - 1) / DELTA_COLS;
  gpu_call c = gpu_call_new(
      run, l, d->k_dim <= DELTA_FEW ? GPU_K_gated_delta_rule : GPU_K_gated_delta_rule_wide);
  for (int i = Q; i <= BETA; i++) gpu_tensor(&c, &in[i]);
  gpu_bind(&c, vector_at(run, state->current));
  gpu_tensor(&c, &l->out[0]);
  gpu_bind(&c, vector_at(run, state->next));
  const gpu_params_gated_delta_rule params = {
      .first = from,
      .rows = to - from,
      .dk = d->k_dim,
      .dv = d->v_dim,
      .heads = d->v_heads,
      .share = d->v_heads / d->heads,
      .blocks = blocks,
      .q_stride = in[Q].row_stride,
      .k_stride = in[K].row_stride,
      .v_stride = in[V].row_stride,
      .g_stride = in[G].row_stride,
      .beta_stride = in[BETA].row_stride,
      .flags = (state->current ? 1 : 0) | (state->next ? 2 : 0),
      .eps = d->eps,
      .scale = d->scale,
  };
  gpu_set_gated_delta_rule(&c, &params);
  return gpu_dispatch_rows(&c, d->v_heads * blocks, error);
}

GPU_OP(gated_delta_rule) {
  kit_delta d;
  int32_t whole[2], rc = kit_delta_of(l, &d, error);
  const kit_rows rows = kit_rows_of(l, ACCEL_PLUGIN_ATTR_SPACE, l->in[0].dim[0], whole);
  for (int32_t item = 0; !rc && item < rows.items; item++) {
    kit_state_view state = {0};
    const int32_t from = rows.start[item], to = rows.start[item + 1];
    if (l->node->state >= 0)
      rc = kit_state_step(l, (uint32_t)item, to - from, kit_delta_cells(&d), &state, error);
    if (!rc && (to > from || state.next)) rc = delta_item(run, l, &d, from, to, &state, error);
  }
  return rc;
}
