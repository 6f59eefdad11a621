/* vlk_device.c - the cards: what they are called, whether they can serve, their memory. */
#include <stdio.h>
#include <string.h>

#include "vulkan/vlk.h"

void vlk_unusable(const vlk_card *card, char *why, size_t n) {
  uint32_t api = card->properties.apiVersion;
  *why = 0;
  if (api < VK_API_VERSION_1_1)
    snprintf(why, n, "its driver offers Vulkan %u.%u, 1.1 is needed: update the driver",
             VK_API_VERSION_MAJOR(api), VK_API_VERSION_MINOR(api));
  else if (card->queue_family < 0)
    snprintf(why, n, "its driver has no queue that computes: update the driver");
  else if (card->properties.limits.maxPerStageDescriptorStorageBuffers < GPU_BINDINGS / 2)
    snprintf(why, n, "a shader may read only %u buffers there, %d are needed",
             card->properties.limits.maxPerStageDescriptorStorageBuffers, GPU_BINDINGS / 2);
}

static uint32_t type_of(const vlk_card *card) {
  switch (card->properties.deviceType) {
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
      return ACCEL_PLUGIN_DEVICE_INTEGRATED_GPU;
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
      return ACCEL_PLUGIN_DEVICE_DISCRETE_GPU;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
      return ACCEL_PLUGIN_DEVICE_DISCRETE_GPU;
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
      return ACCEL_PLUGIN_DEVICE_SOFTWARE;
    default:
      return ACCEL_PLUGIN_DEVICE_OTHER;
  }
}

static void put_uuid(const uint8_t *u, char *out, size_t n) {
  snprintf(out, n, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0],
           u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14],
           u[15]);
}

static void describe(const vlk_card *card, accel_plugin_device *d) {
  const VkPhysicalDeviceProperties *p = &card->properties;
  d->type = type_of(card);
  d->route = 40;
  d->wave = card->subgroup.subgroupSize;
  d->max_allocation = card->allocation.maxMemoryAllocationSize;
  d->max_binding = p->limits.maxStorageBufferRange;
  d->max_shared = p->limits.maxComputeSharedMemorySize;
  if (d->type == ACCEL_PLUGIN_DEVICE_SOFTWARE || d->type == ACCEL_PLUGIN_DEVICE_INTEGRATED_GPU)
    d->flags |= ACCEL_PLUGIN_DEVICE_UNIFIED_MEMORY;
  if (p->vendorID == 0x1002) d->flags |= ACCEL_PLUGIN_DEVICE_AMD;
  if (*card->pci)
    snprintf(d->id, sizeof d->id, "%s", card->pci);
  else
    put_uuid(card->id.deviceUUID, d->id, sizeof d->id);
  snprintf(d->name, sizeof d->name, "%.95s", p->deviceName);
  snprintf(d->arch, sizeof d->arch, "%04x:%04x", p->vendorID & 0xffff, p->deviceID & 0xffff);
  if (*card->driver.driverName)
    snprintf(d->driver, sizeof d->driver, "%.31s%s%.31s", card->driver.driverName,
             *card->driver.driverInfo ? " " : "", card->driver.driverInfo);
  else
    snprintf(d->driver, sizeof d->driver, "%u.%u.%u", VK_API_VERSION_MAJOR(p->driverVersion),
             VK_API_VERSION_MINOR(p->driverVersion), VK_API_VERSION_PATCH(p->driverVersion));
  vlk_unusable(card, d->unusable, sizeof d->unusable);
}

int32_t vlk_devices(const accel_plugin_host *host, accel_plugin_device *out, uint32_t capacity,
                    uint32_t *n, accel_plugin_error *error) {
  char why[200] = "";
  const vlk_loader *l = vlk_load(why, sizeof why);
  *n = 0;
  if (!l) { /* no device; the detection asks the loader itself and tells what is missing */
    if (host && host->log) host->log(host->self, 3, why);
    return ACCEL_PLUGIN_OK;
  }
  if (capacity && out[0].size < sizeof *out)
    return kit_fail(error, ACCEL_PLUGIN_E_ABI, -1, "devices are shorter than this plugin's");
  for (uint32_t i = 0; i < l->n_card && i < capacity; i++) {
    accel_plugin_device d = {.size = out[i].size};
    describe(&l->card[i], &d);
    out[i] = d;
  }
  *n = l->n_card;
  return ACCEL_PLUGIN_OK;
}

/* Budgets count what other programs took; without them, all of a heap is thought free. */
int32_t vlk_memory(uint32_t device, accel_plugin_memory *out, accel_plugin_error *error) {
  char why[200] = "";
  const vlk_loader *l = vlk_load(why, sizeof why);
  if (!l || device >= l->n_card)
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "no Vulkan device %u%s%s", device,
                    *why ? ": " : "", why);
  const vlk_card *card = &l->card[device];
  VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
  VkPhysicalDeviceMemoryProperties2 now = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2,
      .pNext = card->has_budget ? &budget : NULL};
  accel_plugin_memory m = {.size = out->size};
  if (card->properties.apiVersion >= VK_API_VERSION_1_1)
    l->GetPhysicalDeviceMemoryProperties2(card->handle, &now);
  for (uint32_t i = 0; i < now.memoryProperties.memoryHeapCount; i++) {
    const VkMemoryHeap *heap = &now.memoryProperties.memoryHeaps[i];
    bool local = heap->flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT,
         shared = type_of(card) != ACCEL_PLUGIN_DEVICE_DISCRETE_GPU;
    if (!local) continue;
    uint64_t room = card->has_budget && budget.heapBudget[i] < heap->size ? budget.heapBudget[i]
                                                                          : heap->size,
             used = budget.heapUsage[i];
    m.total += heap->size;
    m.budget += room;
    m.free += room > used ? room - used : 0;
    if (shared) m.shared_with_host += heap->size;
  }
  memcpy(out, &m, out->size < sizeof m ? out->size : sizeof m);
  return ACCEL_PLUGIN_OK;
}
