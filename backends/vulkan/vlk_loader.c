/* vlk_loader.c - libvulkan.so.1, one instance, and the cards it shows.
 *
 * A driver that crashes or hangs while it is loaded is met first by accel-probe, which asks
 * `devices` in a process of its own. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vulkan/vlk.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static vlk_loader *loaded; /* for the rest of the process */

const char *vlk_result(VkResult result) {
  switch (result) {
    case VK_SUCCESS:
      return "success";
    case VK_NOT_READY:
      return "not ready";
    case VK_TIMEOUT:
      return "timeout";
    case VK_INCOMPLETE:
      return "incomplete";
    case VK_ERROR_OUT_OF_HOST_MEMORY:
      return "out of host memory";
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
      return "out of device memory";
    case VK_ERROR_INITIALIZATION_FAILED:
      return "initialisation failed";
    case VK_ERROR_DEVICE_LOST:
      return "device lost";
    case VK_ERROR_MEMORY_MAP_FAILED:
      return "mapping memory failed";
    case VK_ERROR_LAYER_NOT_PRESENT:
      return "a layer named by the environment is not installed";
    case VK_ERROR_EXTENSION_NOT_PRESENT:
      return "extension not present";
    case VK_ERROR_FEATURE_NOT_PRESENT:
      return "feature not present";
    case VK_ERROR_INCOMPATIBLE_DRIVER:
      return "no driver that fits";
    case VK_ERROR_TOO_MANY_OBJECTS:
      return "too many objects";
    case VK_ERROR_OUT_OF_POOL_MEMORY:
      return "out of pool memory";
    default:
      return "unknown error";
  }
}

static PFN_vkVoidFunction get(const vlk_loader *l, const char *name) {
  return l->get(l->instance, name);
}

static bool open_library(vlk_loader *l, char *why, size_t n) {
  void *library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
  void *symbol = library ? dlsym(library, "vkGetInstanceProcAddr") : NULL;
  memcpy(&l->get, &symbol, sizeof l->get);
  if (symbol) return true;
  const char *sentence = dlerror();
  snprintf(why, n, "the Vulkan loader cannot be opened: %s",
           sentence ? sentence : "libvulkan.so.1 has no vkGetInstanceProcAddr");
  return false;
}

static bool make_instance(vlk_loader *l, char *why, size_t n) {
  VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                   .pApplicationName = "libaccel",
                                   .apiVersion = VK_API_VERSION_1_1};
  VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                               .pApplicationInfo = &application};
  uint32_t version = VK_API_VERSION_1_0;
#define VLK_GLOBAL(name) l->name = (PFN_vk##name)get(l, "vk" #name);
#include "vulkan/functions.def"
  if (l->EnumerateInstanceVersion) l->EnumerateInstanceVersion(&version);
  if (!l->CreateInstance || version < VK_API_VERSION_1_1) {
    snprintf(why, n, "the Vulkan loader is of version %u.%u; 1.1 is needed",
             VK_API_VERSION_MAJOR(version), VK_API_VERSION_MINOR(version));
    return false;
  }
  VkResult result = l->CreateInstance(&info, NULL, &l->instance);
  if (result != VK_SUCCESS) {
    l->instance = VK_NULL_HANDLE;
    snprintf(why, n, "vkCreateInstance: %s (%d)", vlk_result(result), (int)result);
    return false;
  }
  const char *missing = NULL;
#define VLK_INSTANCE(name)                    \
  l->name = (PFN_vk##name)get(l, "vk" #name); \
  if (!l->name) missing = "vk" #name;
#include "vulkan/functions.def"
  if (missing) snprintf(why, n, "the Vulkan loader gives no %s", missing);
  return !missing;
}

/* A compute queue that does not draw leaves the desktop its own; else any that computes.  For copies
 * one that does nothing else: it has engines of its own. */
static void choose_queue(const vlk_loader *l, vlk_card *card) {
  VkQueueFamilyProperties family[16];
  uint32_t n = 16;
  card->queue_family = -1;
  l->GetPhysicalDeviceQueueFamilyProperties(card->handle, &n, family);
  for (uint32_t i = 0; i < n && card->has_timeline; i++) {
    const VkQueueFlags flags = family[i].queueFlags;
    const bool copies = flags & VK_QUEUE_TRANSFER_BIT && family[i].queueCount &&
                        !(flags & (VK_QUEUE_COMPUTE_BIT | VK_QUEUE_GRAPHICS_BIT));
    if (copies && card->copy_family < 0) card->copy_family = (int32_t)i;
  }
  for (uint32_t i = 0; i < n; i++) {
    bool computes = family[i].queueFlags & VK_QUEUE_COMPUTE_BIT,
         draws = family[i].queueFlags & VK_QUEUE_GRAPHICS_BIT;
    if (!computes || !family[i].queueCount || (card->queue_family >= 0 && draws)) continue;
    card->queue_family = (int32_t)i;
    card->timestamp_bits = family[i].timestampValidBits;
    if (!draws) break;
  }
}

static bool lists(const VkExtensionProperties *all, uint32_t n, const char *name) {
  for (uint32_t i = 0; i < n; i++)
    if (!strncmp(all[i].extensionName, name, sizeof all[i].extensionName)) return true;
  return false;
}

static void read_dot(const vlk_loader *l, vlk_card *card) {
  VkPhysicalDeviceShaderIntegerDotProductFeaturesKHR can = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES_KHR};
  VkPhysicalDeviceShaderIntegerDotProductPropertiesKHR how = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES_KHR};
  VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                        .pNext = &can};
  VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                            .pNext = &how};
  l->GetPhysicalDeviceFeatures2(card->handle, &features);
  l->GetPhysicalDeviceProperties2(card->handle, &properties);
  card->has_dot = can.shaderIntegerDotProduct;
  card->fast_dot = card->has_dot && how.integerDotProduct4x8BitPackedSignedAccelerated;
}

uint32_t vlk_matrix_sizes(const VkCooperativeMatrixPropertiesNV *list, uint32_t n) {
  static const struct {
    uint32_t variant, k;
    VkComponentTypeNV factor, sum;
  } size[] = {
      {GPU_VARIANT_MATRIX_F16, 16, VK_COMPONENT_TYPE_FLOAT16_NV, VK_COMPONENT_TYPE_FLOAT32_NV},
      {GPU_VARIANT_MATRIX_I8, 32, VK_COMPONENT_TYPE_SINT8_NV, VK_COMPONENT_TYPE_SINT32_NV}};
  uint32_t found = 0;
  for (uint32_t i = 0; i < n; i++)
    for (size_t j = 0; j < sizeof size / sizeof *size; j++)
      if (list[i].MSize == 16 && list[i].NSize == 16 && list[i].KSize == size[j].k &&
          list[i].AType == size[j].factor && list[i].BType == size[j].factor &&
          list[i].CType == size[j].sum && list[i].DType == size[j].sum &&
          list[i].scope == VK_SCOPE_SUBGROUP_NV)
        found |= size[j].variant;
  return found;
}

/* Cooperative matrices, their memory model and their narrow types; sub-groups are looked at when
 * the device is opened. */
static void read_matrix(const vlk_loader *l, vlk_card *card) {
  VkPhysicalDeviceCooperativeMatrixFeaturesNV matrix = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_NV};
  VkPhysicalDeviceVulkanMemoryModelFeatures model = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES, .pNext = &matrix};
  VkPhysicalDeviceShaderFloat16Int8Features narrow = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES, .pNext = &model};
  VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                        .pNext = &narrow};
  VkCooperativeMatrixPropertiesNV list[64];
  uint32_t n = sizeof list / sizeof *list;
  PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesNV sizes =
      (PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesNV)l->get(
          l->instance, "vkGetPhysicalDeviceCooperativeMatrixPropertiesNV");
  for (uint32_t i = 0; i < n; i++)
    list[i] = (VkCooperativeMatrixPropertiesNV){
        .sType = VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_NV};
  l->GetPhysicalDeviceFeatures2(card->handle, &features);
  if (!sizes || !matrix.cooperativeMatrix || !model.vulkanMemoryModel ||
      sizes(card->handle, &n, list) < VK_SUCCESS)
    return;
  card->matrix = vlk_matrix_sizes(list, n);
  if (!narrow.shaderFloat16) card->matrix &= ~(uint32_t)GPU_VARIANT_MATRIX_F16;
  if (!narrow.shaderInt8) card->matrix &= ~(uint32_t)GPU_VARIANT_MATRIX_I8;
}

static void read_card(const vlk_loader *l, vlk_card *card, VkPhysicalDevice handle) {
  VkPhysicalDevicePCIBusInfoPropertiesEXT pci = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT};
  VkPhysicalDeviceProperties2 more = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                      .pNext = &card->id};
  VkPhysicalDeviceMemoryProperties2 memory = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2};
  VkExtensionProperties *extension = NULL;
  uint32_t n = 0;
  card->handle = handle;
  card->queue_family = card->copy_family = -1;
  l->GetPhysicalDeviceProperties(handle, &card->properties);
  if (card->properties.apiVersion < VK_API_VERSION_1_1) return; /* vlk_unusable says so */
  if (l->EnumerateDeviceExtensionProperties(handle, NULL, &n, NULL) == VK_SUCCESS && n && n < 10000)
    extension = calloc(n, sizeof *extension);
  if (!extension || l->EnumerateDeviceExtensionProperties(handle, NULL, &n, extension) < VK_SUCCESS)
    n = 0;
  bool has_pci = lists(extension, n, VK_EXT_PCI_BUS_INFO_EXTENSION_NAME),
       has_driver = card->properties.apiVersion >= VK_API_VERSION_1_2 ||
                    lists(extension, n, VK_KHR_DRIVER_PROPERTIES_EXTENSION_NAME);
  card->has_timeline = lists(extension, n, VK_KHR_TIMELINE_SEMAPHORE_EXTENSION_NAME);
  card->has_budget = lists(extension, n, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
  if (lists(extension, n, VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME)) read_dot(l, card);
  if (lists(extension, n, VK_NV_COOPERATIVE_MATRIX_EXTENSION_NAME) &&
      lists(extension, n, VK_KHR_VULKAN_MEMORY_MODEL_EXTENSION_NAME) &&
      lists(extension, n, VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME))
    read_matrix(l, card);
  free(extension);
  card->id = (VkPhysicalDeviceIDProperties){
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES, .pNext = &card->subgroup};
  card->subgroup = (VkPhysicalDeviceSubgroupProperties){
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES, .pNext = &card->allocation};
  card->allocation = (VkPhysicalDeviceMaintenance3Properties){
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES};
  card->driver = (VkPhysicalDeviceDriverProperties){
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES};
  void **tail = &card->allocation.pNext;
  if (has_driver) *tail = &card->driver, tail = &card->driver.pNext;
  if (has_pci) *tail = &pci;
  l->GetPhysicalDeviceProperties2(handle, &more);
  card->id.pNext = card->subgroup.pNext = card->allocation.pNext = card->driver.pNext =
      NULL; /* the chain was of this stack */
  card->properties = more.properties;
  if (has_pci)
    snprintf(card->pci, sizeof card->pci, "%04x:%02x:%02x.%x", pci.pciDomain & 0xffff,
             pci.pciBus & 255, pci.pciDevice & 31, pci.pciFunction & 7);
  l->GetPhysicalDeviceMemoryProperties2(handle, &memory);
  card->memory = memory.memoryProperties;
  choose_queue(l, card);
}

static bool read_cards(vlk_loader *l, char *why, size_t n) {
  VkPhysicalDevice handle[VLK_MAX_DEVICES];
  uint32_t found = VLK_MAX_DEVICES;
  VkResult result = l->EnumeratePhysicalDevices(l->instance, &found, handle);
  if (result < VK_SUCCESS) {
    snprintf(why, n, "vkEnumeratePhysicalDevices: %s (%d)", vlk_result(result), (int)result);
    return false;
  }
  l->n_card = found < VLK_MAX_DEVICES ? found : VLK_MAX_DEVICES;
  for (uint32_t i = 0; i < l->n_card; i++) read_card(l, &l->card[i], handle[i]);
  return true;
}

const vlk_loader *vlk_load(char *why, size_t n) {
  pthread_mutex_lock(&lock);
  vlk_loader *l = loaded ? loaded : calloc(1, sizeof *l);
  if (!l) snprintf(why, n, "out of host memory");
  if (l && !loaded) {
    if (open_library(l, why, n) && make_instance(l, why, n) && read_cards(l, why, n)) {
      loaded = l;
    } else {
      if (l->instance && l->DestroyInstance) l->DestroyInstance(l->instance, NULL);
      free(l);
      l = NULL;
    }
  }
  pthread_mutex_unlock(&lock);
  return l;
}
