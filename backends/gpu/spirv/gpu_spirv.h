/* gpu_spirv.h - the kernels as SPIR-V 1.3 (Vulkan 1.1), made at build by modules.cmake from the
 * dialect's GLSL. */
#ifndef ACCEL_GPU_SPIRV_H
#define ACCEL_GPU_SPIRV_H

#include "gpu/gpu.h"

/* Deflated (RFC 1951, a tenth of it); n 0: the kernel is another API's. */
typedef struct gpu_spirv_module {
  const uint8_t *deflated;
  uint32_t n, bytes; /* bytes there and of the words */
} gpu_spirv_module;
extern const gpu_spirv_module gpu_spirv[GPU_KERNELS];

/* A kernel's words, gpu_spirv[kernel].bytes; free() them.  NULL: no memory. */
uint32_t *gpu_spirv_unpack(uint32_t kernel);
/* Writes what a device lacks for a kernel that allows so many invocations of a workgroup and
 * buffers of a kernel; an empty text when it lacks nothing.  api: "Vulkan". */
void gpu_spirv_lacks(uint32_t local_size, uint32_t buffers, const char *api, uint32_t kernel,
                     char *why, size_t n);

#endif
