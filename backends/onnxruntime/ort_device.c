/* ort_device.c - execution providers as devices: onnxruntime:0 is the processor's; Qualcomm's NPU
 * is listed as the hardware qualcomm. */
#include <glob.h>
#include <stdio.h>
#include <string.h>

#include "onnxruntime/ort.h"
#include "shared/library_places.h"

#if defined(__x86_64__)
enum { SIMULATED = true }; /* Qualcomm's libraries for x86-64 simulate the NPU */
#else
enum { SIMULATED = false };
#endif

#define QNN_PROVIDER "QNNExecutionProvider"

static ort_device *add(ort_library *ort, const char *provider) {
  if (ort->n_device == ORT_DEVICES) return NULL;
  ort_device *d = &ort->device[ort->n_device++];
  accel_plugin_device *i = &d->info;
  snprintf(d->provider, sizeof d->provider, "%s", provider);
  d->qnn = !strcmp(provider, QNN_PROVIDER);
  *i = (accel_plugin_device){.size = sizeof *i,
                             .type = ACCEL_PLUGIN_DEVICE_SOFTWARE, /* by name alone: route 0 */
                             .wave = 1};
  snprintf(i->id, sizeof i->id, "onnxruntime-%.30s", provider);
  snprintf(i->driver, sizeof i->driver, "ONNX Runtime %.40s", ort->version);
  return d;
}

static void add_processor(ort_library *ort) {
  ort_device *d = add(ort, "CPUExecutionProvider");
  d->info.flags = ACCEL_PLUGIN_DEVICE_UNIFIED_MEMORY;
  snprintf(d->info.name, sizeof d->info.name, "CPU: ONNX Runtime's own provider");
  snprintf(d->info.arch, sizeof d->info.arch, "CPU");
}

/* ---- Qualcomm ---- */

static void describe_qnn(ort_device *d) {
  accel_plugin_device *i = &d->info;
  d->simulated = SIMULATED;
  i->flags |= ACCEL_PLUGIN_DEVICE_FP16;
  snprintf(i->id, sizeof i->id, "qualcomm-htp"); /* whose beginning makes it qualcomm:N */
  snprintf(i->name, sizeof i->name, "%s",
           SIMULATED ? "Qualcomm's simulator of the Hexagon NPU (HTP) on x86-64"
                     : "Qualcomm Hexagon NPU (HTP)");
  snprintf(i->arch, sizeof i->arch, "%s", SIMULATED ? "htp-simulator" : "htp");
}

/* The library that computes, libQnnHtp.so, lies beside that of the provider. */
static void remember_backend(ort_library *ort, const char *provider) {
  const char *slash = strrchr(provider, '/');
  if (slash)
    snprintf(ort->qnn, sizeof ort->qnn, "%.*s/libQnnHtp.so", (int)(slash - provider), provider);
}

/* ---- providers by plugin ---- */

/* "qnn" of ".../libonnxruntime_providers_qnn.so"; NULL: the bridge of providers that are built in. */
static const char *provider_of(const char *path, char *out, size_t n) {
  static const char before[] = "libonnxruntime_providers_";
  const char *at = strstr(path, before);
  if (!at) return NULL;
  snprintf(out, n, "%s", at + sizeof before - 1);
  char *end = strstr(out, ".so");
  if (end) *end = 0;
  return strcmp(out, "shared") ? out : NULL;
}

static void register_provider(ort_library *ort, const char *path) {
  char name[64];
  if (!provider_of(path, name, sizeof name)) return;
  const bool qnn = !strcmp(name, "qnn");
  if (qnn) remember_backend(ort, path);
  /* Qualcomm's provider is called what it is registered as */
  OrtStatus *status =
      ort->RegisterExecutionProviderLibrary(ort->env, qnn ? QNN_PROVIDER : name, path);
  if (status && qnn) { /* listed with the reason */
    accel_plugin_error error = {.size = sizeof error};
    ort_device *d = add(ort, QNN_PROVIDER);
    ort_fail(ort, status, "Qualcomm's provider does not load", &error);
    if (!d) return;
    describe_qnn(d);
    snprintf(d->info.unusable, sizeof d->info.unusable, "%.100s; pip install -U onnxruntime-qnn",
             error.message);
  } else if (status) {
    ort->ReleaseStatus(status); /* no provider that this release can load */
  }
}

static void register_providers(ort_library *ort) {
  char pattern[ACCEL_LIBRARY_PATH];
  for (size_t i = 0; accel_onnxruntime_providers(ort->path, "*", i, pattern); i++) {
    glob_t files = {0};
    if (!glob(pattern, 0, NULL, &files))
      for (size_t k = 0; k < files.gl_pathc; k++) register_provider(ort, files.gl_pathv[k]);
    globfree(&files);
  }
}

static void add_provider(ort_library *ort, const OrtEpDevice *ep) {
  static const char *const types[] = {"CPU", "GPU", "NPU"};
  const OrtHardwareDevice *hardware = ort->EpDevice_Device(ep);
  const int type = ort->HardwareDevice_Type(hardware);
  const char *name = ort->EpDevice_EpName(ep), *word = type >= 0 && type < 3 ? types[type] : "?";
  if (!strcmp(name, "CPUExecutionProvider")) return; /* there already */
  for (uint32_t i = 0; i < ort->n_device; i++)
    if (ort->device[i].qnn && !strcmp(name, QNN_PROVIDER)) return; /* one device of HTP */
  ort_device *d = add(ort, name);
  if (!d) return;
  d->ep = ep;
  snprintf(d->info.name, sizeof d->info.name, "%s: %.40s on %.30s", word, name,
           ort->HardwareDevice_Vendor(hardware));
  snprintf(d->info.arch, sizeof d->info.arch, "%.31s", name);
  if (d->qnn) describe_qnn(d);
}

void ort_list(ort_library *ort) {
  const OrtEpDevice *const *ep = NULL;
  size_t n = 0;
  add_processor(ort);
  register_providers(ort);
  OrtStatus *status = ort->GetEpDevices(ort->env, &ep, &n);
  if (status) {
    ort->ReleaseStatus(status);
    n = 0;
  }
  for (size_t i = 0; i < n; i++) add_provider(ort, ep[i]);
}

int32_t ort_devices(const accel_plugin_host *host, accel_plugin_device *out, uint32_t capacity,
                    uint32_t *n, accel_plugin_error *error) {
  (void)host;
  const ort_library *ort = ort_open_library();
  return kit_compiled_devices(&ort->device[0].info, sizeof *ort->device, ort->n_device, ort->why,
                              out, capacity, n, error);
}

int32_t ort_memory(uint32_t device, accel_plugin_memory *out, accel_plugin_error *error) {
  accel_plugin_memory m = {.size = out->size};
  if (device >= ort_open_library()->n_device)
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "no device %u", device);
  const int32_t rc = kit_system_memory(&m, error);
  if (!rc) memcpy(out, &m, out->size < sizeof m ? out->size : sizeof m);
  return rc;
}
