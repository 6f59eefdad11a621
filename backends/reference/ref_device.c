/* ref_device.c - the one device: this machine's memory, seen as a software device so that only its
 * name selects it. */
#include <stdio.h>
#include <string.h>

#include "reference/ref.h"

int32_t ref_devices(const accel_plugin_host *host, accel_plugin_device *out, uint32_t capacity,
                    uint32_t *n, accel_plugin_error *error) {
  (void)host;
  *n = 1;
  if (capacity < 1) return ACCEL_PLUGIN_OK;
  if (out->size < sizeof *out)
    return kit_fail(error, ACCEL_PLUGIN_E_ABI, -1, "devices are shorter than this plugin's");
  accel_plugin_device d = {
      .size = out->size,
      .type = ACCEL_PLUGIN_DEVICE_SOFTWARE,
      .flags = ACCEL_PLUGIN_DEVICE_UNIFIED_MEMORY | ACCEL_PLUGIN_DEVICE_REFERENCE,
      .wave = 1,
      .units = 1};
  snprintf(d.id, sizeof d.id, "reference");
  snprintf(d.name, sizeof d.name, "reference kernels in plain C");
  snprintf(d.arch, sizeof d.arch, "scalar");
  snprintf(d.driver, sizeof d.driver, "%s", ACCEL_VERSION);
  *out = d;
  return ACCEL_PLUGIN_OK;
}

int32_t ref_memory(uint32_t device, accel_plugin_memory *out, accel_plugin_error *error) {
  (void)device;
  accel_plugin_memory m = {.size = out->size};
  const int32_t rc = kit_system_memory(&m, error);
  if (rc) return rc;
  memcpy(out, &m, out->size < sizeof m ? out->size : sizeof m);
  return ACCEL_PLUGIN_OK;
}
