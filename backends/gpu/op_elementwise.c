/* op_elementwise.c - unary. */
#include "gpu/ops.h"

GPU_OP(unary) {
  const kit_tensor *x = &l->in[0];
  const int32_t kind = (int32_t)kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_KIND, -1);
  gpu_call c = gpu_call_new(run, l, GPU_K_unary_f32);
  gpu_tensor(&c, x);
  gpu_tensor(&c, &l->out[0]);
  gpu_int(&c, x->elements);
  gpu_int(&c, kind);
  gpu_float(&c, kit_unary_alpha(l->node, kind));
  gpu_float(&c, kit_unary_beta(l->node, kind));
  return gpu_dispatch_items(&c, x->elements, error);
}
