/* gpu_probe.h - linear products and softmaxes run on a device apart from any program's run, to see
 * whether a kernel variant gives right results there (gpu_probe_results.c) and how long it takes
 * (gpu_probe_times.c).
 *
 * The endpoint is one that gpu_open still builds: the probing thread alone uses it, and sets
 * gpu_self.variants to say which kernels run. */
#ifndef ACCEL_GPU_PROBE_H
#define ACCEL_GPU_PROBE_H

#include "gpu/gpu_product.h"

/* Memory of a probe, in the order of gpu_probe.memory. */
enum {
  GPU_PROBE_X,
  GPU_PROBE_W,
  GPU_PROBE_SCALE,
  GPU_PROBE_Y,
  GPU_PROBE_ACTIVATIONS_Q,
  GPU_PROBE_MEMORIES
};

typedef struct gpu_probe {
  gpu_self *self;
  const accel_plugin_host *host;
  gpu_product product;
  kit_tensor x;
  gpu_memory *memory[GPU_PROBE_MEMORIES];
} gpu_probe;

/* Makes room for products of up to m rows of k numbers with a weight [n, k] in `store`, by the
 * variants that probe->self takes now; codes have a scale for each group_k of them along k (k: one
 * for each row). probe->self and ->host are set, all else is zero. What
 * the memory holds is the caller's to upload. gpu_probe_close is called after failure, too. */
int32_t gpu_probe_open(gpu_probe *probe, gpu_store store, int64_t m, int64_t n, int64_t k,
                       int64_t group_k, accel_plugin_error *error);
void gpu_probe_close(gpu_probe *probe);

/* One run of `times` products of m rows. *ms: the device's milliseconds, 0 where it has no
 * clock. */
int32_t gpu_probe_products(gpu_probe *probe, int64_t m, int times, double *ms,
                           accel_plugin_error *error);
/* One run of `times` logarithms of the softmax of x [rows, columns], into y. */
int32_t gpu_probe_softmax(gpu_probe *probe, int64_t rows, int64_t columns, int times, double *ms,
                          accel_plugin_error *error);

#endif
