/* vlk_open.c - logical devices: one per card and process, shared by its endpoints. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vulkan/vlk.h"

static const uint64_t SECOND = 1000000000u;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static gpu_device *opened[VLK_MAX_DEVICES];

int32_t vlk_lost(accel_plugin_error *error) {
  return kit_fail(error, ACCEL_PLUGIN_E_DEVICE_LOST, -1,
                  "the Vulkan device was lost; it can be opened again when its endpoints are "
                  "closed (system log: driver reset)");
}

int32_t vlk_fail(gpu_device *device, accel_plugin_error *error, VkResult result, const char *what) {
  int32_t rc = ACCEL_PLUGIN_E_DRIVER;
  if (result == VK_ERROR_DEVICE_LOST) {
    atomic_store(&device->lost, true);
    rc = ACCEL_PLUGIN_E_DEVICE_LOST;
  } else if (result == VK_ERROR_OUT_OF_HOST_MEMORY) {
    rc = ACCEL_PLUGIN_E_HOST_MEMORY;
  } else if (result == VK_ERROR_OUT_OF_DEVICE_MEMORY || result == VK_ERROR_TOO_MANY_OBJECTS) {
    rc = ACCEL_PLUGIN_E_DEVICE_MEMORY;
  }
  kit_fail(error, rc, -1, "%s: %s (%d)", what, vlk_result(result), (int)result);
  if (error) error->native = (int32_t)result;
  return rc;
}

/* What the lanes of a compute shader's sub-group do together: VK_SUBGROUP_FEATURE_*_BIT. */
static bool sub_groups_have(const vlk_card *card, VkSubgroupFeatureFlags operations) {
  const VkPhysicalDeviceSubgroupProperties *s = &card->subgroup;
  return s->supportedStages & VK_SHADER_STAGE_COMPUTE_BIT &&
         (s->supportedOperations & operations) == operations;
}

/* What the kernels linear_cooperative_* ask for beside the matrices: waves of 32, which are known
 * by their number. */
static uint32_t matrices(const vlk_card *card) {
  return card->subgroup.subgroupSize == 32 && sub_groups_have(card, VK_SUBGROUP_FEATURE_BASIC_BIT)
             ? card->matrix
             : 0;
}

static void fill_limits(gpu_device *d) {
  const VkPhysicalDeviceLimits *l = &d->card->properties.limits;
  gpu_limits *out = &d->limits;
  uint64_t local = 0, largest = 0;
  for (uint32_t i = 0; i < d->card->memory.memoryHeapCount; i++) {
    const VkMemoryHeap *heap = &d->card->memory.memoryHeaps[i];
    if (!(heap->flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT)) continue;
    local += heap->size;
    if (heap->size > largest) largest = heap->size;
  }
  *out = (gpu_limits){
      .binding = l->maxStorageBufferRange - l->minStorageBufferOffsetAlignment,
      .buffer = d->card->allocation.maxMemoryAllocationSize,
      .align = l->minStorageBufferOffsetAlignment > 16 ? l->minStorageBufferOffsetAlignment : 16,
      .memory = local,
      .local_size = l->maxComputeWorkGroupInvocations,
      .local_bytes = l->maxComputeSharedMemorySize,
      .int_dot = d->card->fast_dot && !vlk_is_cpu(d->card),
      .int_dot_native = d->card->has_dot,
      .sub_groups = sub_groups_have(
          d->card, VK_SUBGROUP_FEATURE_BASIC_BIT | VK_SUBGROUP_FEATURE_ARITHMETIC_BIT),
      .cpu = vlk_is_cpu(d->card),
      .matrix = matrices(d->card),
      .cooperative = matrices(d->card) != 0,
      .wave = vlk_is_cpu(d->card) ? 1 : d->card->subgroup.subgroupSize,
      .unified = d->card->properties.deviceType != VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU &&
                 d->card->properties.deviceType != VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU};
  if (largest && out->buffer > largest) out->buffer = largest;
  memcpy(out->groups, l->maxComputeWorkGroupCount, sizeof out->groups);
}

static VkResult make_layout(gpu_device *d, uint32_t n, vlk_layout *out) {
  VkDescriptorSetLayoutBinding binding[GPU_BINDINGS];
  for (uint32_t i = 0; i < n; i++)
    binding[i] = (VkDescriptorSetLayoutBinding){.binding = i,
                                                .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                                .descriptorCount = 1,
                                                .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT};
  VkDescriptorSetLayoutCreateInfo set = {
      .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
      .bindingCount = n,
      .pBindings = binding};
  VkResult result = d->CreateDescriptorSetLayout(d->handle, &set, NULL, &out->set);
  if (result != VK_SUCCESS) return result;
  VkPushConstantRange params = {.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT, .size = GPU_PARAMS};
  VkPipelineLayoutCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                     .setLayoutCount = 1,
                                     .pSetLayouts = &out->set,
                                     .pushConstantRangeCount = 1,
                                     .pPushConstantRanges = &params};
  return d->CreatePipelineLayout(d->handle, &info, NULL, &out->pipeline);
}

static VkResult make_device(gpu_device *d) {
  const float priority = 1.0f;
  uint32_t family = (uint32_t)d->card->queue_family;
  const int32_t copy_family = d->card->copy_family;
  const VkDeviceQueueCreateInfo queue[2] = {
      {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
       .queueFamilyIndex = family,
       .queueCount = 1,
       .pQueuePriorities = &priority},
      {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
       .queueFamilyIndex = copy_family < 0 ? 0 : (uint32_t)copy_family,
       .queueCount = 1,
       .pQueuePriorities = &priority}};
  VkPhysicalDeviceTimelineSemaphoreFeatures timeline = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES,
      .timelineSemaphore = VK_TRUE};
  VkPhysicalDeviceShaderIntegerDotProductFeaturesKHR dot = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES_KHR,
      .shaderIntegerDotProduct = VK_TRUE};
  VkPhysicalDeviceShaderFloat16Int8Features narrow = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES,
      .shaderFloat16 = (d->limits.matrix & GPU_VARIANT_MATRIX_F16) != 0,
      .shaderInt8 = (d->limits.matrix & GPU_VARIANT_MATRIX_I8) != 0};
  VkPhysicalDeviceVulkanMemoryModelFeatures model = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES,
      .pNext = &narrow,
      .vulkanMemoryModel = VK_TRUE};
  VkPhysicalDeviceCooperativeMatrixFeaturesNV matrix = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_NV,
      .pNext = &model,
      .cooperativeMatrix = VK_TRUE};
  const char *name[5];
  VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                             .queueCreateInfoCount = copy_family < 0 ? 1 : 2,
                             .pQueueCreateInfos = queue,
                             .ppEnabledExtensionNames = name};
  if (d->card->has_dot) {
    name[info.enabledExtensionCount++] = VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME;
    info.pNext = &dot;
  }
  if (d->limits.cooperative) {
    name[info.enabledExtensionCount++] = VK_NV_COOPERATIVE_MATRIX_EXTENSION_NAME;
    name[info.enabledExtensionCount++] = VK_KHR_VULKAN_MEMORY_MODEL_EXTENSION_NAME;
    name[info.enabledExtensionCount++] = VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME;
    narrow.pNext = (void *)info.pNext;
    info.pNext = &matrix;
  }
  if (d->card->has_timeline) {
    name[info.enabledExtensionCount++] = VK_KHR_TIMELINE_SEMAPHORE_EXTENSION_NAME;
    timeline.pNext = (void *)info.pNext;
    info.pNext = &timeline;
  }
  VkResult result = d->loader->CreateDevice(d->card->handle, &info, NULL, &d->handle);
  if (result != VK_SUCCESS) {
    d->handle = VK_NULL_HANDLE;
    return result;
  }
  bool missing = false;
#define VLK_DEVICE(name)                                                       \
  d->name = (PFN_vk##name)d->loader->GetDeviceProcAddr(d->handle, "vk" #name); \
  missing |= !d->name;
#define VLK_TIMELINE(name)                                                     \
  d->name = (PFN_vk##name)d->loader->GetDeviceProcAddr(d->handle, "vk" #name); \
  missing |= d->card->has_timeline && !d->name;
#include "vulkan/functions.def"
  if (missing) return VK_ERROR_INCOMPATIBLE_DRIVER;
  d->GetDeviceQueue(d->handle, family, 0, &d->queue);
  d->copy_queue = d->queue;
  if (copy_family >= 0) d->GetDeviceQueue(d->handle, (uint32_t)copy_family, 0, &d->copy_queue);
  uint32_t most = d->card->properties.limits.maxPerStageDescriptorStorageBuffers;
  for (uint32_t n = 1; result == VK_SUCCESS && n <= GPU_BINDINGS && n <= most; n++)
    result = make_layout(d, n, &d->layout[n]);
  return result;
}

/* Destroys the logical device and everything made on it, unless work may still run there: then
 * nothing is destroyed. */
static void destroy(gpu_device *d) {
  if (d->handle && !atomic_load(&d->stuck) && d->DestroyDevice) {
    vlk_streams_free(d);
    if (d->staging) vlk_release(d, d->staging);
    for (uint32_t i = 0; i < GPU_KERNELS; i++)
      if (d->pipeline[i]) d->DestroyPipeline(d->handle, d->pipeline[i], NULL);
    if (d->cache) d->DestroyPipelineCache(d->handle, d->cache, NULL);
    for (uint32_t i = 0; i <= GPU_BINDINGS; i++) {
      if (d->layout[i].pipeline) d->DestroyPipelineLayout(d->handle, d->layout[i].pipeline, NULL);
      if (d->layout[i].set) d->DestroyDescriptorSetLayout(d->handle, d->layout[i].set, NULL);
    }
    d->DestroyDevice(d->handle, NULL);
  }
  pthread_mutex_destroy(&d->queue_lock);
  pthread_mutex_destroy(&d->staging_lock);
  pthread_mutex_destroy(&d->cache_lock);
  pthread_mutex_destroy(&d->stream_lock);
  free(d);
}

static int32_t make(const vlk_loader *loader, uint32_t index, gpu_device **out,
                    accel_plugin_error *error) {
  gpu_device *d = calloc(1, sizeof *d);
  if (!d) return kit_no_memory(error, sizeof *d);
  d->loader = loader;
  d->card = &loader->card[index];
  /* of at most about 100 ms of work; a CPU may be busy otherwise */
  d->timeout_ns = (vlk_is_cpu(d->card) ? 900 : 60) * SECOND;
  if (d->card->timestamp_bits)
    d->ms_per_tick = 1e-6 * (double)d->card->properties.limits.timestampPeriod;
  atomic_init(&d->quota, VLK_QUOTA);
  pthread_mutex_init(&d->queue_lock, NULL);
  pthread_mutex_init(&d->staging_lock, NULL);
  pthread_mutex_init(&d->cache_lock, NULL);
  pthread_mutex_init(&d->stream_lock, NULL);
  fill_limits(d);
  VkResult result = make_device(d);
  if (!d->handle && d->limits.cooperative) { /* a driver that lists them and then refuses */
    d->limits.matrix = 0;
    d->limits.cooperative = false;
    result = make_device(d);
  }
  if (result == VK_SUCCESS) {
    *out = d;
    return ACCEL_PLUGIN_OK;
  }
  int32_t rc = vlk_fail(d, error, result, "opening the Vulkan device");
  destroy(d);
  return rc;
}

int32_t vlk_open(uint32_t index, const accel_plugin_options *options, gpu_device **out,
                 gpu_limits *limits, accel_plugin_error *error) {
  char why[200] = "";
  const vlk_loader *loader = vlk_load(why, sizeof why);
  *out = NULL;
  if (!loader) return kit_fail(error, ACCEL_PLUGIN_E_DRIVER, -1, "%s", why);
  if (index >= loader->n_card)
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "no Vulkan device %u: there are %u", index,
                    loader->n_card);
  vlk_unusable(&loader->card[index], why, sizeof why);
  if (*why)
    return kit_fail(error, ACCEL_PLUGIN_E_DRIVER, -1, "%s: %s",
                    loader->card[index].properties.deviceName, why);
  pthread_mutex_lock(&lock);
  gpu_device *d = opened[index];
  int32_t rc = ACCEL_PLUGIN_OK;
  if (d && atomic_load(&d->lost)) rc = vlk_lost(error);
  if (!rc && !d) {
    rc = make(loader, index, &d, error);
    if (!rc) {
      opened[index] = d;
      vlk_cache_open(d, options->host);
    }
  }
  if (!rc) {
    d->users++;
    *out = d;
    *limits = d->limits;
  }
  pthread_mutex_unlock(&lock);
  return rc;
}

void vlk_close(gpu_device *d) {
  pthread_mutex_lock(&lock);
  if (--d->users == 0 && atomic_load(&d->lost)) {
    for (uint32_t i = 0; i < VLK_MAX_DEVICES; i++)
      if (opened[i] == d) opened[i] = NULL;
    destroy(d);
  }
  pthread_mutex_unlock(&lock);
}
