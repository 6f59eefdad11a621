/* vlk_pipeline.c - kernels become pipelines when they are first dispatched; drivers keep what they
 * compiled in a cache that lives on disk between processes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/spirv/gpu_spirv.h"
#include "vulkan/vlk.h"

static VkResult make(gpu_device *d, uint32_t kernel, VkPipeline *out) {
  uint32_t *words = gpu_shader_unpack(&gpu_spirv[kernel]);
  if (!words) return VK_ERROR_OUT_OF_HOST_MEMORY;
  VkShaderModuleCreateInfo code = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                   .codeSize = gpu_spirv[kernel].bytes,
                                   .pCode = words};
  VkComputePipelineCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
      .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                .pName = "main"},
      .layout = d->layout[gpu_kernels[kernel].n_bind].pipeline};
  VkResult result = d->CreateShaderModule(d->handle, &code, NULL, &info.stage.module);
  free(words);
  if (result != VK_SUCCESS) return result;
  result = d->CreateComputePipelines(d->handle, d->cache, 1, &info, NULL, out);
  d->DestroyShaderModule(d->handle, info.stage.module, NULL);
  return result;
}

/* No lock is held while the driver compiles: of two threads that need a kernel at once both make
 * it, and the first one's stays. */
int32_t vlk_pipeline(gpu_device *d, uint32_t kernel, VkPipeline *out, accel_plugin_error *error) {
  char why[160];
  *out = atomic_load_explicit(&d->pipeline[kernel], memory_order_acquire);
  if (*out) return ACCEL_PLUGIN_OK;
  gpu_shader_lacks(&gpu_spirv[kernel], d->limits.local_size,
                   d->card->properties.limits.maxPerStageDescriptorStorageBuffers, "Vulkan", kernel,
                   why, sizeof why);
  if (*why)
    return kit_fail(error, ACCEL_PLUGIN_E_UNSUPPORTED, -1, "kernel %s: %s",
                    gpu_kernels[kernel].name, why);
  VkPipeline made, none = VK_NULL_HANDLE;
  const VkResult result = make(d, kernel, &made);
  snprintf(why, sizeof why, "kernel %s cannot be compiled by the driver", gpu_kernels[kernel].name);
  if (result != VK_SUCCESS) return vlk_fail(d, error, result, why);
  if (atomic_compare_exchange_strong(&d->pipeline[kernel], &none, made)) {
    atomic_fetch_add(&d->made, 1);
    *out = made;
  } else {
    d->DestroyPipeline(d->handle, made, NULL);
    *out = none;
  }
  return ACCEL_PLUGIN_OK;
}

/* ---- the cache on disk ---- */

static void cache_key(const gpu_device *d, char *key, size_t n) {
  const VkPhysicalDeviceProperties *p = &d->card->properties;
  int at =
      snprintf(key, n, "pipelines-%08x-%08x-%08x-", p->vendorID, p->deviceID, p->driverVersion);
  for (unsigned i = 0; i < VK_UUID_SIZE; i++)
    at += snprintf(key + at, n - (size_t)at, "%02x", p->pipelineCacheUUID[i]);
}

/* Drivers should check the header, too, but some are said to trust it. */
static bool is_ours(const gpu_device *d, const void *data, uint64_t n) {
  const VkPhysicalDeviceProperties *p = &d->card->properties;
  VkPipelineCacheHeaderVersionOne head;
  if (n < sizeof head) return false;
  memcpy(&head, data, sizeof head);
  return head.headerVersion == VK_PIPELINE_CACHE_HEADER_VERSION_ONE &&
         head.headerSize >= sizeof head && head.headerSize <= n && head.vendorID == p->vendorID &&
         head.deviceID == p->deviceID &&
         !memcmp(head.pipelineCacheUUID, p->pipelineCacheUUID, VK_UUID_SIZE);
}

/* Without a cache everything works, only slower: nothing here fails. */
void vlk_cache_open(gpu_device *d, const accel_plugin_host *host) {
  VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
  char key[128];
  uint64_t n = 0;
  void *data = NULL;
  cache_key(d, key, sizeof key);
  if (host && host->cache_get && !host->cache_get(host->self, key, NULL, &n) && n && n < SIZE_MAX)
    data = malloc((size_t)n);
  if (data && !host->cache_get(host->self, key, data, &n) && is_ours(d, data, n)) {
    info.initialDataSize = (size_t)n;
    info.pInitialData = data;
  }
  if (d->CreatePipelineCache(d->handle, &info, NULL, &d->cache) != VK_SUCCESS)
    d->cache = VK_NULL_HANDLE;
  free(data);
}

void vlk_cache_save(gpu_device *d, const accel_plugin_host *host) {
  char key[128];
  size_t n = 0;
  if (!host || !host->cache_put || !d->cache) return;
  pthread_mutex_lock(&d->cache_lock);
  const uint32_t made = atomic_load(&d->made);
  bool more = made > d->saved &&
              d->GetPipelineCacheData(d->handle, d->cache, &n, NULL) == VK_SUCCESS &&
              n > sizeof(VkPipelineCacheHeaderVersionOne);
  void *data = more ? malloc(n) : NULL;
  if (data && d->GetPipelineCacheData(d->handle, d->cache, &n, data) == VK_SUCCESS) {
    accel_plugin_part part = {data, n};
    cache_key(d, key, sizeof key);
    host->cache_put(host->self, key, &part, 1);
  }
  d->saved = made;
  pthread_mutex_unlock(&d->cache_lock);
  free(data);
}
