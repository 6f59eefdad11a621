/* opencl.c - accel-probe asks the OpenCL loader: platforms and their devices. */
#include <stdio.h>
#include <string.h>

#include "hardware/probe/probe.h"

enum {
  CL_OK = 0,
  CL_NO_DEVICE = -1,
  CL_NO_PLATFORM = -1001,
  CL_MAX_PLATFORMS = 16,
  PLATFORM_NAME = 0x0902,
  PLATFORM_VERSION = 0x0901,
  DEVICE_TYPE = 0x1000,
  DEVICE_UNITS = 0x1002,
  DEVICE_MEMORY = 0x101F,
  DEVICE_NAME = 0x102B,
  DRIVER_VERSION = 0x102D,
  DEVICE_UNIFIED = 0x1035,
  DEVICE_PCI_KHR = 0x410F,
  DEVICE_TOPOLOGY_AMD = 0x4037,
  DEVICE_NV_BUS = 0x4008,
  DEVICE_NV_SLOT = 0x4009
};
static const uint64_t type_cpu = 2, type_gpu = 4, type_all = 0xFFFFFFFF;

typedef struct opencl_api {
  int (*platforms)(uint32_t n, void **platforms, uint32_t *found);
  int (*platform_info)(void *platform, uint32_t what, size_t n, void *value, size_t *wrote);
  int (*devices)(void *platform, uint64_t type, uint32_t n, void **devices, uint32_t *found);
  int (*device_info)(void *device, uint32_t what, size_t n, void *value, size_t *wrote);
} opencl_api;

static void text_info(const opencl_api *api, void *device, uint32_t what, char *out, size_t n) {
  char text[512] = "";
  if (api->device_info(device, what, sizeof text - 1, text, NULL) == CL_OK)
    snprintf(out, n, "%s", text);
}

/* Three vendors' ways to say where on the bus a device sits. */
static void pci_address(const opencl_api *api, void *device, char *out, size_t n) {
  uint32_t khr[4] = {0}, bus = 0, slot = 0; /* domain, bus, device, function */
  /* uint32 type 1, 17 unused bytes, bus, device, function */
  unsigned char amd[24] = {0};
  uint32_t kind = 0;
  if (api->device_info(device, DEVICE_PCI_KHR, sizeof khr, khr, NULL) == CL_OK) {
    snprintf(out, n, "%04x:%02x:%02x.%x", khr[0] & 0xffff, khr[1] & 255, khr[2] & 31, khr[3] & 7);
  } else if (api->device_info(device, DEVICE_TOPOLOGY_AMD, sizeof amd, amd, NULL) == CL_OK) {
    memcpy(&kind, amd, 4);
    if (kind == 1) snprintf(out, n, "0000:%02x:%02x.%x", amd[21], amd[22] & 31, amd[23] & 7);
  } else if (api->device_info(device, DEVICE_NV_BUS, sizeof bus, &bus, NULL) == CL_OK &&
             api->device_info(device, DEVICE_NV_SLOT, sizeof slot, &slot, NULL) == CL_OK) {
    snprintf(out, n, "0000:%02x:%02x.%x", bus & 255, slot >> 3 & 31, slot & 7);
  }
}

static void fill(const opencl_api *api, probe_device *d, void *device, const char *platform) {
  uint64_t type = 0;
  uint32_t unified = 0;
  snprintf(d->platform, sizeof d->platform, "%.95s", platform);
  text_info(api, device, DEVICE_NAME, d->name, sizeof d->name);
  text_info(api, device, DRIVER_VERSION, d->driver, sizeof d->driver);
  api->device_info(device, DEVICE_MEMORY, sizeof d->memory_total, &d->memory_total, NULL);
  api->device_info(device, DEVICE_UNITS, sizeof d->units, &d->units, NULL);
  api->device_info(device, DEVICE_TYPE, sizeof type, &type, NULL);
  api->device_info(device, DEVICE_UNIFIED, sizeof unified, &unified, NULL);
  pci_address(api, device, d->id, sizeof d->id);
  d->type = type & type_cpu   ? "software"
            : type & type_gpu ? (unified ? "integrated" : "discrete")
                              : "other";
}

static void ask_platform(probe_report *r, const opencl_api *api, void *platform) {
  char name[512] = "", version[512] = "";
  void *devices[PROBE_MAX_DEVICES];
  uint32_t n = 0;
  api->platform_info(platform, PLATFORM_NAME, sizeof name - 1, name, NULL);
  api->platform_info(platform, PLATFORM_VERSION, sizeof version - 1, version, NULL);
  if (!r->version[0]) snprintf(r->version, sizeof r->version, "%.63s", version);
  probe_stage("clGetDeviceIDs");
  int code = api->devices(platform, type_all, PROBE_MAX_DEVICES, devices, &n);
  if (code == CL_NO_DEVICE) return;
  if (code != CL_OK) {
    snprintf(r->error, sizeof r->error, "clGetDeviceIDs of the platform '%.300s' answered %d", name,
             code);
    return;
  }
  for (uint32_t i = 0; i < n && i < PROBE_MAX_DEVICES; i++) {
    probe_device *d = probe_add(r);
    if (d) fill(api, d, devices[i], name);
  }
}

void probe_opencl(probe_report *r) {
  static const char *const names[] = {"libOpenCL.so.1", NULL};
  opencl_api api = {0};
  void *platforms[CL_MAX_PLATFORMS];
  uint32_t n = 0;
  void *library = probe_open(
      r, names,
      "install an OpenCL loader and a driver (Debian: ocl-icd-libopencl1, and mesa-opencl-icd, "
      "intel-opencl-icd, rocm-opencl-icd or pocl-opencl-icd)");
  if (!library) return;
  if (!probe_symbol(r, library, "clGetPlatformIDs", &api.platforms) ||
      !probe_symbol(r, library, "clGetPlatformInfo", &api.platform_info) ||
      !probe_symbol(r, library, "clGetDeviceIDs", &api.devices) ||
      !probe_symbol(r, library, "clGetDeviceInfo", &api.device_info))
    return;
  probe_stage("clGetPlatformIDs");
  int code = api.platforms(CL_MAX_PLATFORMS, platforms, &n);
  if (code == CL_NO_PLATFORM || (code == CL_OK && n == 0)) {
    snprintf(r->remedy, sizeof r->remedy,
             "the loader is there but no driver: install one (Debian: mesa-opencl-icd, "
             "intel-opencl-icd, pocl-opencl-icd)");
    return;
  }
  if (code != CL_OK) {
    snprintf(r->error, sizeof r->error, "clGetPlatformIDs answered %d", code);
    return;
  }
  for (uint32_t i = 0; i < n && i < CL_MAX_PLATFORMS; i++) ask_platform(r, &api, platforms[i]);
}
