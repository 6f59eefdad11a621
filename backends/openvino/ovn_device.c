/* ovn_device.c - OpenVINO's devices as ours: openvino:0 is its first, usually the CPU. */
#include <stdio.h>
#include <string.h>

#include "openvino/ovn.h"

/* A property of a device; "" when it has none. */
static void property(const ovn_library *ov, const ovn_device *d, const char *key, char *out,
                     size_t n) {
  char *value = NULL;
  *out = 0;
  if (ov->ov_core_get_property(ov->core, d->name, key, &value) || !value) return;
  snprintf(out, n, "%s", value);
  ov->ov_free(value);
}

void ovn_describe(ovn_library *ov, ovn_device *d) {
  char title[72], abilities[256];
  accel_plugin_device *i = &d->info;
  property(ov, d, "FULL_DEVICE_NAME", title, sizeof title);
  property(ov, d, "OPTIMIZATION_CAPABILITIES", abilities, sizeof abilities);
  d->halves = strstr(abilities, "FP16") != NULL;
  d->bfloats = strstr(abilities, "BF16") != NULL;
  d->fixed = !strncmp(d->name, "NPU", 3);
  *i = (accel_plugin_device){.size = sizeof *i,
                             .type = ACCEL_PLUGIN_DEVICE_SOFTWARE, /* by name alone: route 0 */
                             .wave = 1};
  if (!strncmp(d->name, "CPU", 3)) i->flags = ACCEL_PLUGIN_DEVICE_UNIFIED_MEMORY;
  if (d->halves) i->flags |= ACCEL_PLUGIN_DEVICE_FP16;
  if (d->bfloats) i->flags |= ACCEL_PLUGIN_DEVICE_BF16;
  snprintf(i->id, sizeof i->id, "openvino-%s", d->name);
  snprintf(i->name, sizeof i->name, "%s: %.60s", d->name, *title ? title : "OpenVINO device");
  snprintf(i->arch, sizeof i->arch, "%.31s", d->name);
  snprintf(i->driver, sizeof i->driver, "OpenVINO %.50s", ov->version);
}

int32_t ovn_devices(const accel_plugin_host *host, accel_plugin_device *out, uint32_t capacity,
                    uint32_t *n, accel_plugin_error *error) {
  (void)host;
  const ovn_library *ov = ovn_open_library();
  return kit_compiled_devices(&ov->device[0].info, sizeof *ov->device, ov->n_device, ov->why, out,
                              capacity, n, error);
}

int32_t ovn_memory(uint32_t device, accel_plugin_memory *out, accel_plugin_error *error) {
  const ovn_library *ov = ovn_open_library();
  accel_plugin_memory m = {.size = out->size};
  char text[32];
  unsigned long long bytes = 0;
  if (device >= ov->n_device)
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "no device %u", device);
  const int32_t rc = kit_system_memory(&m, error);
  if (rc) return rc;
  property(ov, &ov->device[device], "GPU_DEVICE_TOTAL_MEM_SIZE", text, sizeof text);
  if (sscanf(text, "%llu", &bytes) == 1) {
    m.total = m.free = m.budget = bytes;
    m.shared_with_host = 0;
  }
  memcpy(out, &m, out->size < sizeof m ? out->size : sizeof m);
  return ACCEL_PLUGIN_OK;
}
