/* gpu_choice.h - which of two right ways to multiply is faster on a device. */
#ifndef ACCEL_GPU_CHOICE_H
#define ACCEL_GPU_CHOICE_H

#include "gpu/gpu_ops.h"

/* Whether the variant is at least as fast as the plain kernels on this device: 1 yes, 0 no, -1: it
 * could not be measured. */
int gpu_variant_is_faster(gpu_self *self, const accel_plugin_host *host, uint32_t variant,
                          gpu_store store);
/* The same of tiles of 128 rows beside those of 64, for products large enough for them. */
int gpu_large_tiles_are_faster(gpu_self *self, const accel_plugin_host *host);

#endif
