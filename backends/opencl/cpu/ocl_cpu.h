/* ocl_cpu.h - kernels for CPUs behind OpenCL (PoCL), which run the linear layers, attention and
 * norms of GPUs up to 200 times slower than these: one invocation a workgroup, vectors of 16
 * floats, no barriers. The op layer takes them by gpu_limits.cpu_kernels. */
#ifndef ACCEL_OPENCL_CPU_H
#define ACCEL_OPENCL_CPU_H

#include "gpu/gpu.h"

/* Kernel GPU_KERNELS + OCL_CPU_K_<name> of a gpu_dispatch, for each in ocl_cpu_kernels.def. */
typedef enum ocl_cpu_kernel_id {
#define GPU_KERNEL(name, file, defines, apis, subgroup) OCL_CPU_K_##name,
#define GPU_KERNEL_STORES(name, file, defines, apis, subgroup, count) \
  OCL_CPU_K_##name##_f32, OCL_CPU_K_##name##_last = OCL_CPU_K_##name##_f32 + GPU_STORES_##count - 1,
#include "opencl/cpu/ocl_cpu_kernels.def"
  OCL_CPU_KERNELS
} ocl_cpu_kernel_id;

extern const gpu_kernel ocl_cpu_kernels[OCL_CPU_KERNELS];      /* by embed.cmake */
extern const char *const ocl_cpu_kernel_text[OCL_CPU_KERNELS]; /* by embed.cmake */

/* What stands before a kernel's text that has the word ocl_prefetch. */
extern const char ocl_cpu_prefetch[];

/* For a CPU whose vector registers have this many floats; NULL: the kernels of GPUs (0). */
const gpu_cpu_kernels *ocl_cpu_kernels_for(uint32_t vector);

#endif
