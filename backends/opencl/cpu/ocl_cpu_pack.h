/* ocl_cpu_pack.h - weights packed in panels of 16 columns, as kernels/panel.k reads them. */
#ifndef ACCEL_OPENCL_CPU_PACK_H
#define ACCEL_OPENCL_CPU_PACK_H

#include "gpu/gpu_layer.h"

enum { OCL_CPU_PANEL = 16 }; /* columns of the result in a panel */

/* gpu_weight.packed */
struct gpu_packed {
  gpu_memory *codes, *factors; /* factors NULL for plain stores */
  uint32_t panel_words;
  bool offsets; /* some group has a zero other than 0 */
};

/* As gpu_cpu_kernels says. */
int32_t ocl_cpu_pack(const gpu_weight_source *source, gpu_weight *w, accel_plugin_error *error);
void ocl_cpu_packed_free(gpu_self *self, gpu_weight *w);

#endif
