/* wgp_pipeline.c - kernels become pipelines when they are first dispatched. */
#include <stdio.h>
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

/* NULL: no host memory. */
static WGPUComputePipeline make(const gpu_device *d, uint32_t kernel) {
  static const char entry[] = "main";
  const wgp_functions *f = d->f;
  uint32_t *words = gpu_spirv_unpack(kernel);
  if (!words) return NULL;
  const WGPUShaderSourceSPIRV source = {
      .chain = {.sType = WGPUSType_ShaderSourceSPIRV},
      .codeSize = drop_not_writable(words, gpu_spirv[kernel].bytes / 4),
      .code = words};
  const WGPUShaderModuleDescriptor code = {.nextInChain = &source.chain};
  /* kernels stay within what is bound by themselves */
  WGPUShaderModule module =
      f->DeviceCreateShaderModuleTrusted(d->handle, &code, WGPUShaderRuntimeChecks_None);
  const WGPUComputePipelineDescriptor wanted = {
      .layout = d->layout[gpu_kernels[kernel].n_bind].pipeline,
      .compute = {.module = module, .entryPoint = {entry, sizeof entry - 1}}};
  WGPUComputePipeline made = f->DeviceCreateComputePipeline(d->handle, &wanted);
  f->ShaderModuleRelease(module);
  free(words);
  return made;
}

/* No lock is held while the driver compiles: of two threads that need a kernel at once both make
 * it, and the first one's stays. */
int32_t wgp_pipeline(gpu_device *d, uint32_t kernel, WGPUComputePipeline *out,
                     accel_plugin_error *error) {
  char why[160];
  *out = atomic_load_explicit(&d->pipeline[kernel], memory_order_acquire);
  if (*out) return ACCEL_PLUGIN_OK;
  gpu_spirv_lacks(d->limits.local_size, d->card->limits.maxStorageBuffersPerShaderStage, "WebGPU",
                  kernel, why, sizeof why);
  if (*why)
    return kit_fail(error, ACCEL_PLUGIN_E_UNSUPPORTED, -1, "kernel %s: %s",
                    gpu_kernels[kernel].name, why);
  wgp_forget();
  WGPUComputePipeline made = make(d, kernel), none = NULL;
  if (!made) return kit_no_memory(error, gpu_spirv[kernel].bytes);
  snprintf(why, sizeof why, "kernel %s cannot be compiled", gpu_kernels[kernel].name);
  const int32_t rc = wgp_check(d, why, error);
  if (!rc && atomic_compare_exchange_strong(&d->pipeline[kernel], &none, made)) {
    *out = made;
    return rc;
  }
  d->f->ComputePipelineRelease(made);
  *out = none;
  return rc;
}
