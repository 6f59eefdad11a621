/* gpu_op_linear_q.h - products with quantised or narrowed activations. */
#ifndef ACCEL_GPU_OP_LINEAR_Q_H
#define ACCEL_GPU_OP_LINEAR_Q_H

#include "gpu/gpu_product.h"

/* p->w is a weight for which gpu_activations_q_variant is not 0; p->x lies within one binding. */
int32_t gpu_linear_q_multiply(gpu_run *run, const kit_launch *l, const gpu_product *p,
                              accel_plugin_error *error);

#endif
