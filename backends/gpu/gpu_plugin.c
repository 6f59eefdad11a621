/* gpu_plugin.c - the table of a GPU plugin, compiled once for each: GPU_PLUGIN_NAME and
 * GPU_IMPLEMENTATION are its strings.  All but devices and memory is the kit's over the hooks of
 * the op layer. */
#include "gpu/gpu_layer.h"
#include "kit/kit_plugin_table.h"

static const kit_backend backend = {.name = GPU_PLUGIN_NAME, GPU_BACKEND_HOOKS};

static int32_t devices(const accel_plugin_host *host, accel_plugin_device *out, uint32_t capacity,
                       uint32_t *n, accel_plugin_error *error) {
  return gpu_plugin_api.devices(host, out, capacity, n, error);
}

static int32_t memory(uint32_t device, accel_plugin_memory *out, accel_plugin_error *error) {
  return gpu_plugin_api.memory(device, out, error);
}

KIT_PLUGIN(backend, .name = GPU_PLUGIN_NAME, .implementation_type = GPU_IMPLEMENTATION,
           .devices = devices, .memory = memory, .cleanup = kit_cleanup,
           .buffer_alloc = gpu_buffer_alloc, .buffer_free = gpu_buffer_free,
           .buffer_copy = gpu_buffer_copy)
