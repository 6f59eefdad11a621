/* wgp_pipeline.c - kernels become pipelines when they are first dispatched. */
#include <stdio.h>
#include <stdlib.h>

#include "gpu/spirv/gpu_spirv.h"
#include "webgpu/wgp.h"

/* In a page always, where the kernels' SPIR-V is not linked. */
static bool is_wgsl(const gpu_device *d) {
#ifdef __EMSCRIPTEN__
  (void)d;
  return true;
#else
  return d->card->wgsl;
#endif
}

static uint32_t bindings(uint32_t n_bind, uint64_t names) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < n_bind; i++) n += wgp_name_of(names, i) == i;
  return n;
}

/* NULL: no host memory. */
static WGPUComputePipeline make(const gpu_device *d, uint32_t kernel, uint64_t names) {
  static const char entry[] = "main";
  const wgp_functions *f = d->f;
  WGPUShaderModule module =
      is_wgsl(d) ? wgp_wgsl_module(d, kernel, names) : wgp_spirv_module(d, kernel);
  if (!module) return NULL;
  const WGPUComputePipelineDescriptor wanted = {
      .layout = d->layout[bindings(gpu_kernels[kernel].n_bind, names)].pipeline,
      .compute = {.module = module, .entryPoint = {entry, sizeof entry - 1}}};
  WGPUComputePipeline made = f->DeviceCreateComputePipeline(d->handle, &wanted);
  f->ShaderModuleRelease(module);
  return made;
}

static WGPUComputePipeline find_shared(gpu_device *d, uint32_t kernel, uint64_t names) {
  WGPUComputePipeline found = NULL;
  pthread_mutex_lock(&d->shared_lock);
  for (const wgp_shared *s = d->shared; s && !found; s = s->next)
    if (s->kernel == kernel && s->names == names) found = s->pipeline;
  pthread_mutex_unlock(&d->shared_lock);
  return found;
}

/* The one that stays: made, or what another thread was faster with; NULL: no host memory. */
static WGPUComputePipeline keep(gpu_device *d, uint32_t kernel, uint64_t names,
                                WGPUComputePipeline made) {
  WGPUComputePipeline none = NULL;
  if (names == wgp_names_apart(gpu_kernels[kernel].n_bind))
    return atomic_compare_exchange_strong(&d->pipeline[kernel], &none, made) ? made : none;
  wgp_shared *s = malloc(sizeof *s);
  if (!s) return NULL;
  pthread_mutex_lock(&d->shared_lock);
  *s = (wgp_shared){.next = d->shared, .kernel = kernel, .names = names, .pipeline = made};
  d->shared = s; /* of two, the later one is found from now on */
  pthread_mutex_unlock(&d->shared_lock);
  return made;
}

/* No lock is held while the driver compiles: two threads that need a kernel at once both make it. */
int32_t wgp_pipeline(gpu_device *d, uint32_t kernel, uint64_t names, WGPUComputePipeline *out,
                     accel_plugin_error *error) {
  const gpu_shader *shader = is_wgsl(d) ? &gpu_wgsl[kernel] : &gpu_spirv[kernel];
  char why[160];
  *out = names == wgp_names_apart(gpu_kernels[kernel].n_bind)
             ? atomic_load_explicit(&d->pipeline[kernel], memory_order_acquire)
             : find_shared(d, kernel, names);
  if (*out) return ACCEL_PLUGIN_OK;
  gpu_shader_lacks(shader, d->limits.local_size,
                   d->card->wgsl ? GPU_BINDINGS : d->card->limits.maxStorageBuffersPerShaderStage,
                   "WebGPU", kernel, why, sizeof why);
  if (*why)
    return kit_fail(error, ACCEL_PLUGIN_E_UNSUPPORTED, -1, "kernel %s: %s",
                    gpu_kernels[kernel].name, why);
  wgp_forget();
  WGPUComputePipeline made = make(d, kernel, names);
  if (!made) return kit_no_memory(error, shader->bytes);
  snprintf(why, sizeof why, "kernel %s cannot be compiled", gpu_kernels[kernel].name);
  int32_t rc = wgp_check(d, why, error);
  if (!rc) *out = keep(d, kernel, names, made);
  if (!rc && !*out) rc = kit_no_memory(error, sizeof(wgp_shared));
  if (*out != made) d->f->ComputePipelineRelease(made);
  return rc;
}
