/* others.c - accel-probe looks for runtimes that have no plugin yet: OpenVINO, Qualcomm QNN,
 * WebGPU.  Presence and version only. */
#include <glob.h>
#include <stdio.h>
#include <string.h>

#include "core/file.h"
#include "hardware/probe/probe.h"

/* pip's OpenVINO has no unversioned name: the newest of a folder's libopenvino_c.so.* is taken when
 * ACCEL_OPENVINO_DIR names one. */
static const char *openvino_in_folder(char *out, size_t n) {
  const char *folder = accel__env("ACCEL_OPENVINO_DIR");
  char pattern[512];
  glob_t found = {0};
  if (!folder) return NULL;
  snprintf(pattern, sizeof pattern, "%s/libopenvino_c.so*", folder);
  const char *result = NULL;
  if (glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc > 0) {
    snprintf(out, n, "%s", found.gl_pathv[found.gl_pathc - 1]);
    result = out;
  }
  globfree(&found);
  return result;
}

void probe_openvino(probe_report *r) {
  typedef struct version { /* ov_version_t */
    const char *build, *description;
  } version;
  char folder[512];
  const char *in_folder = openvino_in_folder(folder, sizeof folder);
  const char *const names[] = {in_folder ? in_folder : "libopenvino_c.so",
                               in_folder ? "libopenvino_c.so" : NULL, NULL};
  int (*get)(version * v) = NULL;
  version v = {0};
  void *library = probe_open(
      r, names, "install OpenVINO and name the folder of libopenvino_c.so in ACCEL_OPENVINO_DIR");
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
