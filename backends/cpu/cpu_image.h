/* cpu_image.h - launches of pool, resize and group_norm. */
#ifndef ACCEL_CPU_IMAGE_H
#define ACCEL_CPU_IMAGE_H

#include "cpu.h"

cpu_launch_fn cpu_launch_pool;
cpu_workspace_fn cpu_pool_workspace;
cpu_launch_fn cpu_launch_resize;
cpu_workspace_fn cpu_resize_workspace;
cpu_launch_fn cpu_launch_group_norm;

/* Which inputs each output index of a resize reads, by dim, as kernels take it. */
typedef struct cpu_taps {
  int64_t width[2];
  int32_t *index[2]; /* [out][width] */
  float *weight[2];
} cpu_taps;
/* `taps` is zeroed; cpu_taps_free also after a failure. */
int32_t cpu_taps_new(const kit_launch *launch, const int64_t out[2], cpu_taps *taps,
                     accel_plugin_error *error);
void cpu_taps_free(cpu_taps *taps);

#endif
