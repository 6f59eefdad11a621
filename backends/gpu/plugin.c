/* plugin.c - the table of a GPU plugin, compiled once for each: GPU_PLUGIN_NAME and GPU_IMPLEMENTATION are its strings.  All
 * but devices and memory is the kit's over the hooks of the op layer. */
#include "gpu/ops.h"

static const kit_backend backend = {
    .name = GPU_PLUGIN_NAME,
    .support = gpu_support,
    .weight_format = gpu_weight_format,
    .weight_bytes = gpu_weight_bytes,
    .open = gpu_open,
    .close = gpu_close,
    .weight = gpu_weight_buffer,
    .launch = gpu_launch,
    .strided = gpu_strided,
    .workspace = gpu_workspace,
    .alloc = gpu_alloc,
    .release = gpu_release,
    .upload = gpu_upload,
    .download = gpu_download,
    .begin = gpu_begin,
    .finish = gpu_finish,
};

static int32_t devices(const accel_plugin_host *host, accel_plugin_device *out, uint32_t capacity, uint32_t *n,
                       accel_plugin_error *error) {
  return gpu_plugin_api.devices(host, out, capacity, n, error);
}

static int32_t memory(uint32_t device, accel_plugin_memory *out, accel_plugin_error *error) {
  return gpu_plugin_api.memory(device, out, error);
}

static int32_t supports(uint32_t device, const accel_plugin_program *program, const accel_plugin_precision *precision,
                        accel_plugin_verdict *verdict, accel_plugin_error *error) {
  (void)device;
  return kit_supports(&backend, program, precision, verdict, error);
}

static int32_t estimate(uint32_t device, const accel_plugin_program *program, const accel_plugin_options *options,
                        accel_plugin_estimate *out, accel_plugin_error *error) {
  (void)device;
  return kit_estimate(&backend, program, options, out, error);
}

static int32_t init(uint32_t device, const accel_plugin_program *program, const accel_plugin_options *options,
                    accel_plugin_endpoint **out, accel_plugin_error *error) {
  return kit_init(&backend, device, program, options, out, error);
}

static const accel_plugin table = {
    .size = sizeof(accel_plugin),
    .abi = ACCEL_PLUGIN_ABI_NOW,
    .name = GPU_PLUGIN_NAME,
    .implementation_type = GPU_IMPLEMENTATION,
    .version = ACCEL_VERSION,
    .build_id = ACCEL_BUILD_ID,
    .sanitizer = ACCEL_SANITIZER,
    .devices = devices,
    .memory = memory,
    .supports = supports,
    .estimate = estimate,
    .init = init,
    .handler = kit_handler,
    .cleanup = kit_cleanup,
    .trim = kit_trim,
    .session_new = kit_session_new,
    .session_free = kit_session_free,
    .session_control = kit_session_control,
    .buffer_alloc = gpu_buffer_alloc,
    .buffer_free = gpu_buffer_free,
    .buffer_copy = gpu_buffer_copy,
};

__attribute__((visibility("default"))) const accel_plugin *accel_plugin_query(const accel_plugin_host *host,
                                                                              uint32_t core_abi);
const accel_plugin *accel_plugin_query(const accel_plugin_host *host, uint32_t core_abi) {
  (void)host;
  return kit_speaks(core_abi) ? &table : NULL;
}
