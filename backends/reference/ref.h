/* ref.h - the slowest readable backend: every op by the kit's scalar kernels, every weight as
 * fp32.  The oracle all others are tested against, and the template of a new one: copy this folder,
 * rename, and replace ref_launch.c op by op. */
#ifndef ACCEL_REFERENCE_H
#define ACCEL_REFERENCE_H

#include "kit/kit.h"

extern const kit_backend ref_backend; /* ref_launch.c */

int32_t ref_devices(const accel_plugin_host *host, accel_plugin_device *out, uint32_t capacity,
                    uint32_t *n, accel_plugin_error *error);
int32_t ref_memory(uint32_t device, accel_plugin_memory *out, accel_plugin_error *error);

#endif
