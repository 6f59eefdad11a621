/* gpu_variants.h - which kernel variants (gpu_variant) an endpoint takes. */
#ifndef ACCEL_GPU_VARIANTS_H
#define ACCEL_GPU_VARIANTS_H

#include "gpu/gpu_layer.h"

/* Changes a device's limits as ACCEL_GPU_VARIANTS says; without it they stay. */
void gpu_limits_from_env(gpu_limits *limits);
/* Sets self->variants and limits.small_tiles, once the weights are loaded.  May run kernels to try
 * them, and logs those that are left out. */
void gpu_variants_open(gpu_self *self, const kit_open *open);

#endif
