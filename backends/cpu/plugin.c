/* plugin.c - the CPU plugin's table; see cpu.h for the files. */
#include "cpu.h"

static const kit_backend backend = {
    .name = "cpu",
    .weight_format = cpu_weight_format,
    .weight_bytes = cpu_weight_bytes,
    .weight_stays = cpu_weight_stays,
    .open = cpu_open,
    .close = cpu_close,
    .weight = cpu_weight_data,
    .launch = cpu_launch,
    .strided = cpu_strided,
    .joins = cpu_joins,
    .follows = cpu_follows,
    .workspace = cpu_workspace,
};

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

static void cleanup(accel_plugin_endpoint *endpoint, const accel_plugin_host *host) {
  if (!endpoint) return;
  cpu_unmap(kit_endpoint_self(endpoint), host);
  kit_cleanup(endpoint, host);
}

static const accel_plugin table = {
    .size = sizeof(accel_plugin),
    .abi = ACCEL_PLUGIN_ABI_NOW,
    .name = "cpu",
    .implementation_type = "CPU",
    .version = ACCEL_VERSION,
    .build_id = ACCEL_BUILD_ID,
    .sanitizer = ACCEL_SANITIZER,
    .devices = cpu_devices,
    .memory = cpu_memory,
    .supports = supports,
    .estimate = estimate,
    .init = init,
    .handler = kit_handler,
    .cleanup = cleanup,
    .trim = kit_trim,
    .session_new = kit_session_new,
    .session_free = kit_session_free,
    .session_control = kit_session_control,
    .buffer_alloc = kit_buffer_alloc,
    .buffer_free = kit_buffer_free,
    .buffer_copy = kit_buffer_copy,
};

__attribute__((visibility("default"))) const accel_plugin *accel_plugin_query(const accel_plugin_host *host,
                                                                              uint32_t core_abi);
const accel_plugin *accel_plugin_query(const accel_plugin_host *host, uint32_t core_abi) {
  (void)host;
  return kit_speaks(core_abi) ? &table : NULL;
}
