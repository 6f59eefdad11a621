/* others.c - accel-probe looks for OpenVINO, for wgpu-native, and for Qualcomm's QNN beside ONNX
 * Runtime.  Presence and version only. */
#include <stdio.h>
#include <string.h>

#include "core/file.h"
#include "hardware/probe/probe.h"
#include "shared/library_places.h"

static void find(const accel_library_places *places, const char *variable, char *path) {
  const accel_library_wish wish = {accel__env(variable), accel__env("VIRTUAL_ENV"),
                                   accel__env("HOME")};
  accel_library_find(places, &wish, path);
}

void probe_openvino(probe_report *r) {
  typedef struct version { /* ov_version_t */
    const char *build, *description;
  } version;
  char path[ACCEL_LIBRARY_PATH];
  find(&accel_openvino_places, "ACCEL_OPENVINO_DIR", path);
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
  find(&accel_onnxruntime_places, "ACCEL_ONNXRUNTIME_DIR", runtime);
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
  char path[ACCEL_LIBRARY_PATH];
  find(&accel_webgpu_places, "ACCEL_WEBGPU_DIR", path);
  const char *const names[] = {path, NULL};
  uint32_t (*get)(void) = NULL; /* the numbers of a version, one a byte */
  void *library = probe_open(r, names, ACCEL_WEBGPU_REMEDY);
  if (!library) return;
  const uint32_t v = probe_optional(library, "wgpuGetVersion", &get) ? get() : 0;
  if (v >> 24 != ACCEL_WEBGPU_VERSION) /* the plugin says what it is */
    snprintf(r->remedy, sizeof r->remedy, "%s", ACCEL_WEBGPU_REMEDY);
  if (!v) return;
  snprintf(r->version, sizeof r->version, "%u.%u.%u.%u", v >> 24, v >> 16 & 255, v >> 8 & 255,
           v & 255);
}
