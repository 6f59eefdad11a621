/* gpu_probe_results.h - does a kernel variant give right results on a device? */
#ifndef ACCEL_GPU_PROBE_RESULTS_H
#define ACCEL_GPU_PROBE_RESULTS_H

#include "gpu/gpu_layer.h"

/* Runs the variant's kernels (one bit of gpu_variant; store: of the weights it multiplies) on
 * numbers whose results are known. *right is false after an error, too. */
int32_t gpu_probe_results(gpu_self *self, const accel_plugin_host *host, uint32_t variant,
                          gpu_store store, bool *right, accel_plugin_error *error);

#endif
