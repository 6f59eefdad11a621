/* gpu_op_moe.c - mixture of experts: up, gate and down products of the experts that each row is
 * routed to, then their weighted sum. */
#include "gpu/gpu_layer.h"

enum { SEGMENTS = 8 };

/* y[pairs, n] = x . w[expert] + bias */
static int32_t product(gpu_run *run, const kit_launch *l, gpu_binding x, int64_t x_stride,
                       bool by_pair, uint32_t w, gpu_binding y, accel_plugin_error *error) {
  enum { BIAS = 1, BY_PAIR = 2 };
  const kit_tensor *idx = &l->in[1], *weight = &l->in[w], *bias = &l->in[w + 2];
  const gpu_matrix m = gpu_matrix_of(run, weight);
  const int64_t n = weight->dim[1], pairs = idx->elements;
  const uint32_t *most = run->self->limits.groups;
  gpu_binding errors, part;
  int32_t word,
      rc = gpu_check_indices(run, l, "expert", idx, weight->dim[0], &errors, &word, error);
  for (int64_t first = 0; !rc && first < m.w.n;) {
    const int64_t rows = gpu_matrix_rows(run, &m, first, &part);
    gpu_call c = gpu_call_new(run, l, gpu_kernel_of_store(GPU_K_moe_f32, m.w.store));
    gpu_bind(&c, x);
    gpu_matrix_bind(&c, &m, part);
    gpu_tensor(&c, bias);
    gpu_tensor(&c, idx);
    gpu_bind(&c, y);
    gpu_bind(&c, errors);
    const gpu_params_moe params = {
        .pairs = pairs,
        .choices = kit_cols(idx),
        .experts = weight->dim[0],
        .n = n,
        .k = m.w.k,
        .x_stride = x_stride,
        .rows = rows,
        .segment = ((m.w.k + SEGMENTS - 1) / SEGMENTS + 31) / 32 * 32,
        .flags = (kit_has(bias) ? BIAS : 0) | (by_pair ? BY_PAIR : 0),
        .word = word,
        GPU_WEIGHT_PARAMS(&m, first),
    };
    gpu_set_moe(&c, &params);
    const int64_t columns = (n + 7) / 8;
    rc = gpu_dispatch_grid(&c, columns < most[0] ? columns : most[0],
                           pairs < most[1] ? pairs : most[1], 1, error);
    first += rows;
  }
  return rc;
}

static int32_t gate(gpu_run *run, const kit_launch *l, gpu_binding both, gpu_binding h,
                    accel_plugin_error *error) {
  enum { GATED = 1, UP_PLUS_ONE = 2 };
  const int64_t glu = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_GLU, ACCEL_PLUGIN_GLU_NONE),
                n = l->in[4].dim[2], wide = l->in[3].dim[1], pairs = l->in[1].elements;
  const int32_t act = (int32_t)kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_ACT, ACCEL_PLUGIN_ACT_NONE);
  const bool gated = glu != ACCEL_PLUGIN_GLU_NONE, between = glu == ACCEL_PLUGIN_GLU_INTERLEAVED,
             last = glu == ACCEL_PLUGIN_GLU_GATE_LAST;
  gpu_call c = gpu_call_new(run, l, GPU_K_moe_gate);
  gpu_bind(&c, both);
  gpu_bind(&c, h);
  const gpu_params_moe_gate params = {
      .pairs = pairs,
      .n = n,
      .wide = wide,
      .step = between ? 2 : 1,
      .gate = last ? n : 0,
      .up = !gated || last ? 0
            : between      ? 1
                           : n,
      .flags = (gated ? GATED : 0) | (act == ACCEL_PLUGIN_ACT_SWIGLU_OAI ? UP_PLUS_ONE : 0),
      .act = act,
      .alpha = (double)kit_act_alpha(l->node, act),
      .limit = kit_attr_f(l->node, ACCEL_PLUGIN_ATTR_LIMIT, 0.0),
  };
  gpu_set_moe_gate(&c, &params);
  return gpu_dispatch_items(&c, pairs * n, error);
}

static uint64_t aligned(int64_t elements) {
  return ((uint64_t)elements * 4 + KIT_ALIGN - 1) / KIT_ALIGN * KIT_ALIGN;
}

/* Three buffers, a pair being a row and one of its experts: up and gate [pairs, wide], their
 * combination [pairs, inner], down [pairs, hidden]. */
uint64_t gpu_workspace_moe(const gpu_self *self, const kit_launch *l) {
  const int64_t pairs = l->in[1].elements;
  (void)self;
  return aligned(pairs * l->in[3].dim[1]) + aligned(pairs * l->in[4].dim[2]) +
         aligned(pairs * l->in[4].dim[1]);
}

GPU_OP(moe) {
  const kit_tensor *x = &l->in[0], *idx = &l->in[1], *wt = &l->in[2], *up = &l->in[3],
                   *down = &l->in[4];
  const int64_t pairs = idx->elements, n = kit_cols(&l->out[0]), inner = down->dim[2];
  if (!pairs) return kit_launch_fail(l, error, ACCEL_PLUGIN_E_ARGUMENT, "no experts are chosen");
  const gpu_binding both = gpu_workspace_at(l, 0, (uint64_t)(pairs * up->dim[1]) * 4);
  const gpu_binding h =
      gpu_workspace_at(l, aligned(pairs * up->dim[1]), (uint64_t)(pairs * inner) * 4);
  const gpu_binding d = gpu_workspace_at(l, aligned(pairs * up->dim[1]) + aligned(pairs * inner),
                                         (uint64_t)(pairs * down->dim[1]) * 4);
  int32_t rc = product(run, l, gpu_at(run, x), x->row_stride, false, 3, both, error);
  if (!rc) rc = gate(run, l, both, h, error);
  if (!rc) rc = product(run, l, h, inner, true, 4, d, error);
  if (rc) return rc;
  gpu_call c = gpu_call_new(run, l, GPU_K_moe_sum);
  gpu_bind(&c, d);
  gpu_tensor(&c, wt);
  gpu_tensor(&c, &l->out[0]);
  const gpu_params_moe_sum params = {
      .tokens = kit_row_count(x),
      .n = n,
      .choices = kit_cols(idx),
  };
  gpu_set_moe_sum(&c, &params);
  return gpu_dispatch_items(&c, kit_row_count(x) * n, error);
}
