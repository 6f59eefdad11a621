/* gpu_op_norm.c - norm over the last dim or groups of it, with the residual sum. */
#include "gpu/gpu_layer.h"

GPU_OP(norm) {
  const kit_tensor *x = &l->in[0];
  const int64_t cols = kit_cols(x), groups = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_GROUPS, 1);
  const int64_t kind = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_NORM_KIND, ACCEL_PLUGIN_NORM_LAYER);
  const double eps =
      kit_attr_f(l->node, ACCEL_PLUGIN_ATTR_EPS, kind == ACCEL_PLUGIN_NORM_L2 ? 1e-12 : 1e-5);
  if (groups < 1 || cols % groups)
    return kit_launch_fail(l, error, ACCEL_PLUGIN_E_ARGUMENT, "%lld columns in %lld groups",
                           (long long)cols, (long long)groups);
  const gpu_cpu_kernels *cpu = run->self->limits.cpu_kernels;
  gpu_call c = gpu_call_new(run, l, cpu ? cpu->norm_rows : GPU_K_norm_rows);
  for (int i = 0; i < 4; i++) gpu_tensor(&c, &l->in[i]);
  gpu_tensor(&c, &l->out[0]);
  gpu_tensor(&c, &l->out[1]);
  const gpu_params_norm_rows params = {
      .items = kit_row_count(x) * groups,
      .size = cols / groups,
      .cols = cols,
      .x_stride = x->row_stride,
      .kind = kind,
      .flags = (kit_has(&l->in[1]) ? 1 : 0) | (kit_has(&l->in[2]) ? 2 : 0) |
               (kit_has(&l->in[3]) ? 4 : 0) | (kit_has(&l->out[1]) ? 8 : 0),
      .eps = eps,
      .offset = kit_attr_f(l->node, ACCEL_PLUGIN_ATTR_GAMMA_OFFSET, 0.0),
  };
  gpu_set_norm_rows(&c, &params);
  return gpu_dispatch_rows(&c, kit_row_count(x) * groups, error);
}
