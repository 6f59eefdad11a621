/* vulkan.c - accel-probe asks the Vulkan loader: instance version and physical devices.
 *
 * Own declarations of the few structs that are needed; where vulkan.h is installed the compiler
 * compares the layouts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hardware/probe/probe.h"

enum {
  VK_OK = 0,
  VK_MORE = 5,
  VK_NO_DRIVER = -9,
  S_APPLICATION = 0,
  S_INSTANCE = 1,
  S_PROPERTIES2 = 1000059001,
  S_DRIVER = 1000196000,
  S_PCI = 1000212000,
  VK_MAX_DEVICES = 32,
  HEAP_DEVICE_LOCAL = 1
};

typedef struct vk_application {
  int type;
  const void *next;
  const char *name;
  uint32_t version;
  const char *engine;
  uint32_t engine_version, api;
} vk_application;
typedef struct vk_instance_info {
  int type;
  const void *next;
  uint32_t flags;
  const vk_application *application;
  uint32_t n_layers;
  const char *const *layers;
  uint32_t n_extensions;
  const char *const *extensions;
} vk_instance_info;
typedef struct vk_properties { /* the head of VkPhysicalDeviceProperties; the rest is limits */
  uint32_t api, driver, vendor, device;
  int type;
  char name[256];
  uint8_t cache_uuid[16];
  _Alignas(8) unsigned char rest[4096];
} vk_properties;
typedef struct vk_properties2 {
  int type;
  void *next;
  vk_properties properties;
} vk_properties2;
typedef struct vk_pci {
  int type;
  void *next;
  uint32_t domain, bus, device, function;
} vk_pci;
typedef struct vk_driver {
  int type;
  void *next;
  int id;
  char name[256], info[256];
  uint8_t conformance[4];
} vk_driver;
typedef struct vk_memory {
  uint32_t n_types;
  struct {
    uint32_t flags, heap;
  } types[32];
  uint32_t n_heaps;
  struct {
    uint64_t size;
    uint32_t flags;
  } heaps[16];
} vk_memory;
typedef struct vk_extension {
  char name[256];
  uint32_t version;
} vk_extension;

#if defined(__has_include)
#if __has_include(<vulkan/vulkan_core.h>)
#include <vulkan/vulkan_core.h>
_Static_assert(sizeof(vk_application) == sizeof(VkApplicationInfo) &&
                   sizeof(vk_instance_info) == sizeof(VkInstanceCreateInfo),
               "");
_Static_assert(offsetof(vk_properties, rest) == offsetof(VkPhysicalDeviceProperties, limits), "");
_Static_assert(sizeof(VkPhysicalDeviceProperties2) <= sizeof(vk_properties2), "");
_Static_assert(offsetof(vk_properties2, properties) ==
                   offsetof(VkPhysicalDeviceProperties2, properties),
               "");
_Static_assert(sizeof(vk_pci) == sizeof(VkPhysicalDevicePCIBusInfoPropertiesEXT) &&
                   sizeof(vk_driver) == sizeof(VkPhysicalDeviceDriverProperties),
               "");
_Static_assert(sizeof(vk_memory) == sizeof(VkPhysicalDeviceMemoryProperties) &&
                   sizeof(vk_extension) == sizeof(VkExtensionProperties),
               "");
_Static_assert((int)S_DRIVER == (int)VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES &&
                   (int)S_PROPERTIES2 == (int)VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2 &&
                   (int)S_PCI == (int)VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT,
               "");
#endif
#endif

typedef void (*vk_function)(void);
typedef struct vk_api {
  vk_function (*get)(void *instance, const char *name);
  int (*version)(uint32_t *version);
  int (*create)(const vk_instance_info *info, const void *allocator, void **instance);
  void (*destroy)(void *instance, const void *allocator);
  int (*devices)(void *instance, uint32_t *n, void **devices);
  void (*properties)(void *device, vk_properties *out);
  void (*properties2)(void *device, vk_properties2 *out);
  void (*memory)(void *device, vk_memory *out);
  int (*extensions)(void *device, const char *layer, uint32_t *n, vk_extension *out);
} vk_api;

static void version_text(uint32_t v, char *out, size_t n) {
  snprintf(out, n, "%u.%u.%u", v >> 22 & 127, v >> 12 & 1023, v & 4095);
}

static bool has_extension(const vk_api *api, void *device, const char *name) {
  uint32_t n = 0;
  if (!api->extensions || api->extensions(device, NULL, &n, NULL) != VK_OK || n == 0 || n > 10000)
    return false;
  vk_extension *all = calloc(n, sizeof *all);
  bool found = false;
  if (all && api->extensions(device, NULL, &n, all) >= VK_OK)
    for (uint32_t i = 0; i < n && !found; i++)
      found = !strncmp(all[i].name, name, sizeof all[i].name);
  free(all);
  return found;
}

static void fill_more(const vk_api *api, probe_device *d, void *device, uint32_t device_api) {
  static vk_properties2 two;
  vk_pci pci = {.type = S_PCI};
  vk_driver driver = {.type = S_DRIVER};
  if (!api->properties2) return;
  bool has_pci = has_extension(api, device, "VK_EXT_pci_bus_info"),
       has_driver = device_api >= (1u << 22 | 2u << 12);
  memset(&two, 0, sizeof two);
  two.type = S_PROPERTIES2;
  if (has_pci) two.next = &pci;
  if (has_driver) {
    driver.next = two.next;
    two.next = &driver;
  }
  api->properties2(device, &two);
  if (has_pci)
    snprintf(d->id, sizeof d->id, "%04x:%02x:%02x.%x", pci.domain & 0xffff, pci.bus & 255,
             pci.device & 31, pci.function & 7);
  if (has_driver) snprintf(d->driver, sizeof d->driver, "%.40s %.50s", driver.name, driver.info);
}

static void fill(const vk_api *api, probe_device *d, void *device) {
  static const char *const types[] = {"other", "integrated", "discrete", "other", "software"};
  static vk_properties p;
  vk_memory memory = {0};
  memset(&p, 0, sizeof p);
  api->properties(device, &p);
  p.name[sizeof p.name - 1] = 0;
  snprintf(d->name, sizeof d->name, "%.127s", p.name);
  d->type = p.type >= 0 && p.type < 5 ? types[p.type] : "other";
  snprintf(d->arch, sizeof d->arch, "%04x:%04x", p.vendor & 0xffff, p.device & 0xffff);
  version_text(p.api, d->platform, sizeof d->platform);
  api->memory(device, &memory);
  for (uint32_t i = 0; i < memory.n_heaps && i < 16; i++)
    if (memory.heaps[i].flags & HEAP_DEVICE_LOCAL && memory.heaps[i].size > d->memory_total)
      d->memory_total = memory.heaps[i].size;
  fill_more(api, d, device, p.api);
}

static bool make_instance(probe_report *r, vk_api *api, void **instance) {
  uint32_t version = 1u << 22;
  vk_application application = {
      .type = S_APPLICATION, .name = "accel-probe", .api = 1u << 22 | 1u << 12};
  vk_instance_info info = {.type = S_INSTANCE, .application = &application};
  if (api->version) api->version(&version);
  version_text(version, r->version, sizeof r->version);
  if (version < application.api) application.api = version;
  probe_stage("vkCreateInstance");
  int code = api->create(&info, NULL, instance);
  if (code == VK_OK) return true;
  snprintf(r->error, sizeof r->error, "vkCreateInstance answered %d%s", code,
           code == VK_NO_DRIVER ? " (no Vulkan driver installed)" : "");
  snprintf(r->remedy, sizeof r->remedy,
           "install your card's Vulkan driver (Debian: mesa-vulkan-drivers, or the vendor's)");
  return false;
}

static bool load(probe_report *r, vk_api *api) {
  static const char *const names[] = {"libvulkan.so.1", NULL};
  void *library = probe_open(r, names,
                             "install the Vulkan loader and a driver (Debian: libvulkan1 and "
                             "mesa-vulkan-drivers, or the vendor's)");
  if (!library || !probe_symbol(r, library, "vkGetInstanceProcAddr", &api->get) ||
      !probe_symbol(r, library, "vkCreateInstance", &api->create))
    return false;
  probe_optional(library, "vkEnumerateInstanceVersion", &api->version);
  return true;
}

#define VK_GET(slot, name)                           \
  do {                                               \
    vk_function function_ = api.get(instance, name); \
    memcpy(&api.slot, &function_, sizeof function_); \
  } while (0)

void probe_vulkan(probe_report *r) {
  vk_api api = {0};
  void *instance = NULL, *devices[VK_MAX_DEVICES];
  uint32_t n = VK_MAX_DEVICES;
  if (!load(r, &api) || !make_instance(r, &api, &instance)) return;
  VK_GET(destroy, "vkDestroyInstance");
  VK_GET(devices, "vkEnumeratePhysicalDevices");
  VK_GET(properties, "vkGetPhysicalDeviceProperties");
  VK_GET(properties2, "vkGetPhysicalDeviceProperties2");
  VK_GET(memory, "vkGetPhysicalDeviceMemoryProperties");
  VK_GET(extensions, "vkEnumerateDeviceExtensionProperties");
  if (!api.devices || !api.properties || !api.memory) {
    snprintf(r->error, sizeof r->error, "the loader gives no functions to list devices");
    return;
  }
  probe_stage("vkEnumeratePhysicalDevices");
  int code = api.devices(instance, &n, devices);
  if (code != VK_OK && code != VK_MORE) {
    snprintf(r->error, sizeof r->error, "vkEnumeratePhysicalDevices answered %d", code);
    return;
  }
  for (uint32_t i = 0; i < n && i < VK_MAX_DEVICES; i++) {
    probe_device *d = probe_add(r);
    probe_stage("asking a Vulkan device");
    if (d) fill(&api, d, devices[i]);
  }
}
