/* gpu_spirv.h - the kernels as SPIR-V 1.3 (Vulkan 1.1), made at build by modules.cmake from the
 * dialect's GLSL, and as WGSL, made of that by make_wgsl.py. */
#ifndef ACCEL_GPU_SPIRV_H
#define ACCEL_GPU_SPIRV_H

#include "gpu/gpu.h"

/* Deflated (RFC 1951, a tenth of it); n 0: the kernel is another API's. */
typedef struct gpu_shader {
  const uint8_t *deflated;
  uint32_t n, bytes; /* bytes there and of what it holds */
} gpu_shader;
extern const gpu_shader gpu_spirv[GPU_KERNELS]; /* words */
extern const gpu_shader gpu_wgsl[GPU_KERNELS];  /* text; wgsl.py says what a caller finds in it */

/* What a shader holds, `bytes` of it and a zero; free() it.  NULL: no memory. */
void *gpu_shader_unpack(const gpu_shader *shader);
/* Writes what a device lacks for a kernel, `shader` its text or words, that allows so many
 * invocations of a workgroup and buffers of a kernel; an empty text when it lacks nothing.  api:
 * "Vulkan". */
void gpu_shader_lacks(const gpu_shader *shader, uint32_t local_size, uint32_t buffers,
                      const char *api, uint32_t kernel, char *why, size_t n);

#endif
