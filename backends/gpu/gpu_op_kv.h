/* gpu_op_kv.h - attention over the keys that a session keeps. */
#ifndef ACCEL_GPU_OP_KV_H
#define ACCEL_GPU_OP_KV_H

#include "gpu/gpu_layer.h"

/* The whole attention op for nodes with a state. */
int32_t gpu_attention_pages(gpu_run *run, const kit_launch *l, accel_plugin_error *error);

#endif
