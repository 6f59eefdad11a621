/* gpu_probe_times.h - is a kernel variant faster than the plain kernels on a device? */
#ifndef ACCEL_GPU_PROBE_TIMES_H
#define ACCEL_GPU_PROBE_TIMES_H

#include "gpu/gpu_layer.h"

/* Beside the bits of gpu_variant: not a variant, but timed as they are. Tiles of 128 rows beside
 * those of 64, for products large enough to take them by their size. */
#define GPU_LARGE_TILES 0x80000000u

/* Whether the variant (one bit of gpu_variant, or GPU_LARGE_TILES; store: of the weights it
 * multiplies), which is right, is at least as fast as the plain kernels. 1: yes, 0: no, -1: it
 * could not be measured. */
int gpu_probe_is_faster(gpu_self *self, const accel_plugin_host *host, uint32_t variant,
                        gpu_store store);

#endif
