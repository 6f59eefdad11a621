/* others.c - accel-probe looks for OpenVINO, and for runtimes that have no plugin yet: Qualcomm QNN,
 * WebGPU.  Presence and version only. */
#include <stdio.h>
#include <string.h>

#include "core/file.h"
#include "hardware/probe/probe.h"
#include "shared/openvino_places.h"

void probe_openvino(probe_report *r) {
  typedef struct version { /* ov_version_t */
    const char *build, *description;
  } version;
  char path[ACCEL_OPENVINO_PATH];
  accel_openvino_find(accel__env("ACCEL_OPENVINO_DIR"), accel__env("VIRTUAL_ENV"),
                      accel__env("HOME"), path);
  const char *const names[] = {path, NULL};
  int (*get)(version * v) = NULL;
  version v = {0};
  void *library = probe_open(r, names, ACCEL_OPENVINO_REMEDY);
  if (library && probe_symbol(r, library, "ov_get_openvino_version", &get) && get(&v) == 0 &&
      v.build)
    snprintf(r->version, sizeof r->version, "%s", v.build);
}

void probe_qualcomm(probe_report *r) {
  static const char *const names[] = {"libQnnHtp.so", "libQnnGpu.so", "libQnnCpu.so", NULL};
  void *library = probe_open(r, names, "QNN needs a Qualcomm processor and Qualcomm's SDK");
  void *providers = NULL;
  if (library) probe_symbol(r, library, "QnnInterface_getProviders", &providers);
}

void probe_webgpu(probe_report *r) {
  static const char *const names[] = {"libwgpu_native.so", "libwebgpu_dawn.so", "libdawn.so", NULL};
  void *library = probe_open(r, names, "install wgpu-native or Dawn");
  void *create = NULL;
  if (library) probe_symbol(r, library, "wgpuCreateInstance", &create);
}
