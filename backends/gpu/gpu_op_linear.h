/* gpu_op_linear.h - a product by whichever kernels the run's endpoint has for it. */
#ifndef ACCEL_GPU_OP_LINEAR_H
#define ACCEL_GPU_OP_LINEAR_H

#include "gpu/gpu_product.h"

/* Chooses between fp32 and quantised activations by the endpoint's variants (gpu_self.variants) and
 * the weight's format.  p->x must lie within one binding. */
int32_t gpu_linear_multiply(gpu_run *run, const kit_launch *l, const gpu_product *p,
                            accel_plugin_error *error);

#endif
