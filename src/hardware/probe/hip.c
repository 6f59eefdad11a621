/* hip.c - accel-probe asks the HIP runtime.  Whatever major is installed: only functions whose form
 * has been the same since HIP 4 are used, and hipDeviceProp_t (whose layout changed at 6.0) is not
 * read; gfx names come from HSA and sysfs. */
#include <stdio.h>
#include <string.h>

#include "hardware/probe/probe.h"

enum { HIP_OK = 0, HIP_NO_DEVICE = 100, HIP_INVALID_DEVICE = 101 };

typedef struct hip_api {
  int (*init)(unsigned flags);
  int (*count)(int *n);
  int (*name)(char *name, int n, int device);
  int (*total)(size_t *bytes, int device);
  int (*pci)(char *id, int n, int device);
  int (*runtime_version)(int *version);
  int (*driver_version)(int *version);
  const char *(*error_string)(int code);
} hip_api;

static bool load(probe_report *r, hip_api *api) {
  static const char *const names[] = {"libamdhip64.so.7",
                                      "libamdhip64.so.6",
                                      "libamdhip64.so.5",
                                      "libamdhip64.so",
                                      "/opt/rocm/lib/libamdhip64.so.7",
                                      "/opt/rocm/lib/libamdhip64.so.6",
                                      "/opt/rocm/lib/libamdhip64.so.5",
                                      "/opt/rocm/lib/libamdhip64.so",
                                      NULL};
  void *library = probe_open(r, names,
                             "install the HIP runtime (ROCm, or Debian's libamdhip64-5), or add "
                             "its folder to LD_LIBRARY_PATH");
  if (!library) return false;
  probe_optional(library, "hipRuntimeGetVersion", &api->runtime_version);
  probe_optional(library, "hipDriverGetVersion", &api->driver_version);
  probe_optional(library, "hipGetErrorString", &api->error_string);
  probe_optional(library, "hipDeviceTotalMem", &api->total);
  probe_optional(library, "hipDeviceGetPCIBusId", &api->pci);
  return probe_symbol(r, library, "hipInit", &api->init) &&
         probe_symbol(r, library, "hipGetDeviceCount", &api->count) &&
         probe_symbol(r, library, "hipDeviceGetName", &api->name);
}

static void fail(probe_report *r, const hip_api *api, const char *call, int code) {
  const char *text = api->error_string ? api->error_string(code) : NULL;
  snprintf(r->error, sizeof r->error, "%s answered %d (%s)", call, code, text ? text : "no text");
  snprintf(r->remedy, sizeof r->remedy, "%s",
           code == HIP_NO_DEVICE
               ? "see the amdgpu driver, the permissions of /dev/kfd and the visibility variables"
               : "");
}

void probe_hip(probe_report *r) {
  hip_api api = {0};
  int version = 0, n = 0;
  if (!load(r, &api)) return;
  if (api.runtime_version && api.runtime_version(&version) == HIP_OK && version > 0)
    snprintf(r->version, sizeof r->version, "%d.%d.%d", version / 10000000, version / 100000 % 100,
             version % 100000);
  probe_stage("hipInit");
  int code = api.init(0);
  /* HIP 5.2 answers "invalid device" where there is none; the count then says so properly. */
  if (code != HIP_OK && code != HIP_NO_DEVICE && code != HIP_INVALID_DEVICE) {
    fail(r, &api, "hipInit", code);
    return;
  }
  probe_stage("hipGetDeviceCount");
  code = api.count(&n);
  if (code == HIP_NO_DEVICE || (code == HIP_OK && n <= 0)) return; /* an answer: none */
  if (code != HIP_OK) {
    fail(r, &api, "hipGetDeviceCount", code);
    return;
  }
  for (int i = 0; i < n; i++) {
    probe_device *d = probe_add(r);
    if (!d) return;
    size_t total = 0;
    probe_stage("asking a HIP device");
    if (api.name(d->name, sizeof d->name, i) != HIP_OK) d->name[0] = 0;
    if (api.pci && api.pci(d->id, sizeof d->id, i) != HIP_OK) d->id[0] = 0;
    if (api.total && api.total(&total, i) == HIP_OK) d->memory_total = total;
    d->name[sizeof d->name - 1] = d->id[sizeof d->id - 1] = 0;
    probe_lower(d->id);
  }
}
