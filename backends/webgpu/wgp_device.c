/* wgp_device.c - the adapters: what they are called, whether they can serve, their memory. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "webgpu/wgp.h"

void wgp_unusable(const wgp_card *card, char *why, size_t n) {
  const uint32_t buffers = card->limits.maxStorageBuffersPerShaderStage;
  *why = 0;
  if (buffers < GPU_BINDINGS / 2)
    snprintf(why, n, "a shader may read only %u buffers there, %d are needed", buffers,
             GPU_BINDINGS / 2);
}

static uint32_t type_of(const wgp_card *card) {
  switch (card->type) {
    case WGPUAdapterType_DiscreteGPU:
      return ACCEL_PLUGIN_DEVICE_DISCRETE_GPU;
    case WGPUAdapterType_IntegratedGPU:
      return ACCEL_PLUGIN_DEVICE_INTEGRATED_GPU;
    case WGPUAdapterType_CPU:
      return ACCEL_PLUGIN_DEVICE_SOFTWARE;
    default:
      return ACCEL_PLUGIN_DEVICE_OTHER;
  }
}

/* WebGPU tells no address: an id is the API, the PCI ids, and which one of these it is. */
static void put_id(const wgp_library *l, uint32_t index, char *out, size_t n) {
  const wgp_card *card = &l->card[index];
  uint32_t before = 0;
  for (uint32_t i = 0; i < index; i++)
    before += l->card[i].vendor == card->vendor && l->card[i].device == card->device &&
              !strcmp(l->card[i].api, card->api);
  snprintf(out, n, "webgpu-%s-%04x-%04x-%u", card->api, card->vendor & 0xffff,
           card->device & 0xffff, before);
  for (; *out; out++) *out = (char)tolower((unsigned char)*out);
}

static void device_of(const wgp_library *l, uint32_t index, accel_plugin_device *d) {
  const wgp_card *card = &l->card[index];
  d->type = type_of(card);
  d->route = 50; /* what WebGPU reaches here, Vulkan reaches without it */
  d->max_allocation = card->limits.maxBufferSize;
  d->max_binding = card->limits.maxStorageBufferBindingSize;
  d->max_shared = card->limits.maxComputeWorkgroupStorageSize;
  if (d->type == ACCEL_PLUGIN_DEVICE_SOFTWARE || d->type == ACCEL_PLUGIN_DEVICE_INTEGRATED_GPU)
    d->flags |= ACCEL_PLUGIN_DEVICE_UNIFIED_MEMORY;
  if (card->vendor == 0x1002) d->flags |= ACCEL_PLUGIN_DEVICE_AMD;
  put_id(l, index, d->id, sizeof d->id);
  snprintf(d->name, sizeof d->name, "%s", card->name);
  snprintf(d->arch, sizeof d->arch, "%04x:%04x", card->vendor & 0xffff, card->device & 0xffff);
  snprintf(d->driver, sizeof d->driver, "wgpu %.11s %s %.32s", l->version, card->api, card->driver);
  wgp_unusable(card, d->unusable, sizeof d->unusable);
}

int32_t wgp_devices(const accel_plugin_host *host, accel_plugin_device *out, uint32_t capacity,
                    uint32_t *n, accel_plugin_error *error) {
  const wgp_library *l = wgp_open_library();
  (void)host;
  *n = 0;
  if (*l->why) return kit_fail(error, ACCEL_PLUGIN_E_DRIVER, -1, "%s", l->why);
  if (capacity && out[0].size < sizeof *out)
    return kit_fail(error, ACCEL_PLUGIN_E_ABI, -1, "devices are shorter than this plugin's");
  for (uint32_t i = 0; i < l->n_card && i < capacity; i++) {
    accel_plugin_device d = {.size = out[i].size};
    device_of(l, i, &d);
    out[i] = d;
  }
  *n = l->n_card;
  return ACCEL_PLUGIN_OK;
}

/* WebGPU tells neither size nor use of a card's memory: 0, not known.  What is computed in the host's
 * memory has the host's. */
int32_t wgp_memory(uint32_t device, accel_plugin_memory *out, accel_plugin_error *error) {
  const wgp_library *l = wgp_open_library();
  if (*l->why || device >= l->n_card)
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "no WebGPU device %u%s%s", device,
                    *l->why ? ": " : "", l->why);
  accel_plugin_memory m = {.size = out->size};
  const wgp_card *card = &l->card[device];
  if (type_of(card) == ACCEL_PLUGIN_DEVICE_SOFTWARE && !card->browser) {
    const int32_t rc = kit_system_memory(&m, error);
    if (rc) return rc;
  }
  memcpy(out, &m, out->size < sizeof m ? out->size : sizeof m);
  return ACCEL_PLUGIN_OK;
}
