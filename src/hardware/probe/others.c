/* others.c - accel-probe looks for OpenVINO, for Qualcomm's QNN, and for a runtime that has no plugin yet:
 * WebGPU.  Presence and version only. */
#include <stdio.h>
#include <string.h>

#include "core/file.h"
#include "hardware/probe/probe.h"
#include "shared/onnxruntime_places.h"
#include "shared/openvino_places.h"

void probe_openvino(probe_report *r) {
  typedef struct version { /* ov_version_t */
    const char *build, *description;
  } version;
  char path[ACCEL_LIBRARY_PATH];
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

/* The provider that brings QNN to ONNX Runtime; nothing of Qualcomm's is started. */
void probe_qualcomm(probe_report *r) {
  char runtime[ACCEL_LIBRARY_PATH], pattern[ACCEL_LIBRARY_PATH], path[ACCEL_LIBRARY_PATH] = "";
  accel_onnxruntime_find(accel__env("ACCEL_ONNXRUNTIME_DIR"), accel__env("VIRTUAL_ENV"),
                         accel__env("HOME"), runtime);
  for (size_t i = 0; !*path && accel_onnxruntime_providers(runtime, "qnn", i, pattern); i++)
    accel_library_matching(pattern, path);
  const char *const names[] = {path, NULL};
  void *library = *path ? probe_open(r, names, ACCEL_QNN_REMEDY) : NULL, *make = NULL;
  if (library) probe_symbol(r, library, "CreateEpFactories", &make);
  if (*path) return;
  snprintf(r->error, sizeof r->error, "no libonnxruntime_providers_qnn.so beside %.200s", runtime);
  snprintf(r->remedy, sizeof r->remedy, "%s", ACCEL_QNN_REMEDY);
}

void probe_webgpu(probe_report *r) {
  static const char *const names[] = {"libwgpu_native.so", "libwebgpu_dawn.so", "libdawn.so", NULL};
  void *library = probe_open(r, names, "install wgpu-native or Dawn");
  void *create = NULL;
  if (library) probe_symbol(r, library, "wgpuCreateInstance", &create);
}
