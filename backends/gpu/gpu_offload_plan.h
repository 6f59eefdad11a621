/* gpu_offload_plan.h - which weights of linear layers lie in host memory (gpu_offload.h). */
#ifndef ACCEL_GPU_OFFLOAD_PLAN_H
#define ACCEL_GPU_OFFLOAD_PLAN_H

#include "gpu/gpu_layer.h"
#include "kit/kit_stream.h"

enum { GPU_OFFLOAD_PAIR = 2 }; /* weights of one node, at most */

typedef struct gpu_offload_plan {
  kit_segment *weight; /* [n_weight] resident: it stays; bytes as they pass the ring, 0: it must */
  uint64_t *launch;    /* [n_weight] bytes of the largest launch that reads it, at most */
  uint64_t fixed;      /* bytes of weights that must stay */
  uint64_t least;      /* the smallest budget; 0: there is nothing to offload */
  uint64_t ring;       /* bytes; holds two launches: 0: all weights stay */
  uint64_t resident;   /* bytes that stay, `fixed` among them */
  uint64_t host;       /* bytes of the others */
  uint64_t read;       /* bytes that a run of kit_stream_entry copies */
} gpu_offload_plan;

/* budget 0: the least.  A plan that passes the budget is the least one. */
int32_t gpu_offload_plan_make(const accel_plugin_program *program,
                              const accel_plugin_format *format, uint64_t budget,
                              gpu_offload_plan *out, accel_plugin_error *error);
void gpu_offload_plan_free(gpu_offload_plan *plan);
/* Weights of a linear layer that may lie in host memory: how many. */
uint32_t gpu_offload_operands(const accel_plugin_program *program, const accel_plugin_node *node,
                              uint32_t out[GPU_OFFLOAD_PAIR]);

#endif
