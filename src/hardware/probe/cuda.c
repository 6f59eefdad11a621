/* cuda.c - accel-probe asks the CUDA driver (libcuda.so.1), or a layer that answers in its name on
 * other cards. */
#include <stdio.h>
#include <string.h>

#include "hardware/probe/probe.h"

enum {
  CUDA_OK = 0,
  CUDA_NO_DEVICE = 100,
  CUDA_STUB = 34,
  CUDA_ATTR_WARP = 10,
  CUDA_ATTR_UNITS = 16,
  CUDA_ATTR_INTEGRATED = 18,
  CUDA_ATTR_MAJOR = 75,
  CUDA_ATTR_MINOR = 76
};

typedef struct cuda_api {
  int (*init)(unsigned flags);
  int (*version)(int *version);
  int (*count)(int *n);
  int (*get)(int *device, int ordinal);
  int (*name)(char *name, int n, int device);
  int (*total)(size_t *bytes, int device);
  int (*pci)(char *id, int n, int device);
  int (*attribute)(int *value, int which, int device);
  int (*uuid)(unsigned char uuid[16], int device);
  int (*error_string)(int code, const char **text);
} cuda_api;

static bool load(probe_report *r, cuda_api *api) {
  static const char *const names[] = {"libcuda.so.1", NULL};
  void *library = probe_open(
      r, names,
      "install the NVIDIA driver (its libcuda.so.1); in a container, run it with --gpus all");
  if (!library) return false;
  probe_optional(library, "cuDeviceTotalMem_v2", &api->total);
  probe_optional(library, "cuDeviceGetPCIBusId", &api->pci);
  probe_optional(library, "cuDeviceGetAttribute", &api->attribute);
  probe_optional(library, "cuDeviceGetUuid", &api->uuid);
  probe_optional(library, "cuGetErrorString", &api->error_string);
  return probe_symbol(r, library, "cuInit", &api->init) &&
         probe_symbol(r, library, "cuDriverGetVersion", &api->version) &&
         probe_symbol(r, library, "cuDeviceGetCount", &api->count) &&
         probe_symbol(r, library, "cuDeviceGet", &api->get) &&
         probe_symbol(r, library, "cuDeviceGetName", &api->name);
}

static void fail(probe_report *r, const cuda_api *api, const char *call, int code) {
  const char *text = NULL;
  if (api->error_string) api->error_string(code, &text);
  snprintf(r->error, sizeof r->error, "%s answered %d (%s)", call, code, text ? text : "no text");
  snprintf(
      r->remedy, sizeof r->remedy, "%s",
      code == CUDA_STUB
          ? "the toolkit's stub library was loaded instead of the driver's: take its stubs folder "
            "out of LD_LIBRARY_PATH"
          : "check the driver with nvidia-smi; after an update of the driver, restart the machine");
}

static void fill(const cuda_api *api, probe_device *d, int device) {
  int major = 0, minor = 0, value = 0;
  size_t total = 0;
  unsigned char uuid[16] = {0};
  if (api->name(d->name, sizeof d->name, device) != CUDA_OK) d->name[0] = 0;
  if (api->pci && api->pci(d->id, sizeof d->id, device) != CUDA_OK) d->id[0] = 0;
  d->name[sizeof d->name - 1] = d->id[sizeof d->id - 1] = 0;
  probe_lower(d->id);
  if (api->total && api->total(&total, device) == CUDA_OK) d->memory_total = total;
  if (api->uuid && api->uuid(uuid, device) == CUDA_OK) {
    char *at = d->uuid + snprintf(d->uuid, sizeof d->uuid, "GPU-");
    for (int i = 0; i < 16; i++)
      at += snprintf(at, 4, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
  }
  if (!api->attribute) return;
  if (api->attribute(&major, CUDA_ATTR_MAJOR, device) == CUDA_OK &&
      api->attribute(&minor, CUDA_ATTR_MINOR, device) == CUDA_OK)
    snprintf(d->arch, sizeof d->arch, "sm_%d%d", major, minor);
  if (api->attribute(&value, CUDA_ATTR_UNITS, device) == CUDA_OK && value > 0)
    d->units = (uint32_t)value;
  if (api->attribute(&value, CUDA_ATTR_WARP, device) == CUDA_OK && value > 0)
    d->wave = (uint32_t)value;
  if (api->attribute(&value, CUDA_ATTR_INTEGRATED, device) == CUDA_OK)
    d->type = value ? "integrated" : "discrete";
}

void probe_cuda(probe_report *r) {
  cuda_api api = {0};
  int version = 0, n = 0;
  if (!load(r, &api)) return;
  if (api.version(&version) == CUDA_OK && version > 0)
    snprintf(r->version, sizeof r->version, "%d.%d", version / 1000, version % 1000 / 10);
  probe_stage("cuInit");
  int code = api.init(0);
  if (code == CUDA_NO_DEVICE) return; /* an answer: none */
  if (code != CUDA_OK) {
    fail(r, &api, "cuInit", code);
    return;
  }
  probe_stage("cuDeviceGetCount");
  code = api.count(&n);
  if (code != CUDA_OK && code != CUDA_NO_DEVICE) {
    fail(r, &api, "cuDeviceGetCount", code);
    return;
  }
  for (int i = 0; code == CUDA_OK && i < n; i++) {
    int device = 0;
    if (api.get(&device, i) != CUDA_OK) continue;
    probe_device *d = probe_add(r);
    if (!d) return;
    probe_stage("asking a CUDA device");
    fill(&api, d, device);
  }
}
