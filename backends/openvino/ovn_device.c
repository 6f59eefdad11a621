/* ovn_device.c - OpenVINO's devices as ours: openvino:0 is its first, usually the CPU. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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
  *n = ov->n_device;
  if (*ov->why) {
    *n = 0;
    return kit_fail(error, ACCEL_PLUGIN_E_DRIVER, -1, "%s", ov->why);
  }
  for (uint32_t i = 0; i < ov->n_device && i < capacity; i++) {
    if (out[i].size < sizeof *out)
      return kit_fail(error, ACCEL_PLUGIN_E_ABI, -1, "devices are shorter than this plugin's");
    const uint32_t size = out[i].size;
    out[i] = ov->device[i].info;
    out[i].size = size;
  }
  return ACCEL_PLUGIN_OK;
}

int32_t ovn_memory(uint32_t device, accel_plugin_memory *out, accel_plugin_error *error) {
  const ovn_library *ov = ovn_open_library();
  if (device >= ov->n_device)
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "no device %u", device);
  const long page = sysconf(_SC_PAGESIZE), all = sysconf(_SC_PHYS_PAGES),
             available = sysconf(_SC_AVPHYS_PAGES);
  if (page < 0 || all < 0 || available < 0)
    return kit_fail(error, ACCEL_PLUGIN_E_IO, -1, "the system does not tell its memory");
  const uint64_t total = (uint64_t)page * (uint64_t)all,
                 unused = (uint64_t)page * (uint64_t)available;
  accel_plugin_memory m = {.size = out->size, .total = total, .free = unused, .budget = unused};
  char text[32];
  unsigned long long bytes = 0;
  property(ov, &ov->device[device], "GPU_DEVICE_TOTAL_MEM_SIZE", text, sizeof text);
  if (sscanf(text, "%llu", &bytes) == 1)
    m.total = m.free = m.budget = bytes;
  else
    m.shared_with_host = total;
  memcpy(out, &m, out->size < sizeof m ? out->size : sizeof m);
  return ACCEL_PLUGIN_OK;
}
