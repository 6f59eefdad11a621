/* gpu_op_softmax.c - softmax over one axis. */
#include "gpu/gpu_layer.h"
#include "kit/kit_scalar.h"

GPU_OP(softmax) {
  const kit_tensor *x = &l->in[0];
  const kit_around a = kit_split(x, kit_axis(l->node, -1, x->rank)); /* [outer, n, inner] */
  const int64_t logarithm = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_LOG, 0) != 0;
  gpu_call c = gpu_call_new(run, l, a.inner == 1 ? GPU_K_softmax_rows : GPU_K_softmax_strided);
  gpu_tensor(&c, x);
  gpu_tensor(&c, &l->out[0]);
  if (a.inner == 1) {
    const gpu_params_softmax_rows params = {.rows = a.outer, .cols = a.n, .take_log = logarithm};
    gpu_set_softmax_rows(&c, &params);
    return gpu_dispatch_rows(&c, a.outer, error);
  }
  const gpu_params_softmax_strided params = {
      .outer = a.outer, .n = a.n, .inner = a.inner, .take_log = logarithm};
  gpu_set_softmax_strided(&c, &params);
  return gpu_dispatch_items(&c, a.outer * a.inner, error);
}
