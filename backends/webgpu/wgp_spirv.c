/* wgp_spirv.c - shaders that are SPIR-V, which wgpu-native takes. */
#include <stdlib.h>

#include "gpu/spirv/gpu_spirv.h"
#include "webgpu/wgp.h"

/* Takes out what says that a buffer is not written: of bindings that may all be written
 * (wgp_open.c), shaders must say the same.  Returns how many words are left. */
static uint32_t drop_not_writable(uint32_t *words, uint32_t n) {
  enum { HEADER = 5, DECORATE = 71, MEMBER_DECORATE = 72, NON_WRITABLE = 24 };
  uint32_t to = HEADER;
  for (uint32_t at = HEADER, length; at < n; at += length) {
    const uint32_t op = words[at] & 0xffff;
    length = words[at] >> 16;
    if (!length || length > n - at) return 0; /* not SPIR-V */
    if ((op == DECORATE && length > 2 && words[at + 2] == NON_WRITABLE) ||
        (op == MEMBER_DECORATE && length > 3 && words[at + 3] == NON_WRITABLE))
      continue;
    for (uint32_t i = 0; i < length; i++) words[to++] = words[at + i];
  }
  return to;
}

WGPUShaderModule wgp_spirv_module(const gpu_device *d, uint32_t kernel) {
  uint32_t *words = gpu_shader_unpack(&gpu_spirv[kernel]);
  if (!words) return NULL;
  const WGPUShaderSourceSPIRV source = {
      .chain = {.sType = WGPUSType_ShaderSourceSPIRV},
      .codeSize = drop_not_writable(words, gpu_spirv[kernel].bytes / 4),
      .code = words};
  const WGPUShaderModuleDescriptor code = {.nextInChain = &source.chain};
  /* kernels stay within what is bound by themselves */
  WGPUShaderModule module =
      d->f->DeviceCreateShaderModuleTrusted(d->handle, &code, WGPUShaderRuntimeChecks_None);
  free(words);
  return module;
}
