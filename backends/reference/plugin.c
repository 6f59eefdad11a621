/* plugin.c - the one exported symbol and the table behind it.  All but devices and launches is the kit's. */
#include "reference/reference.h"

static int32_t ref_supports(uint32_t device, const accel_plugin_program *program, const accel_plugin_precision *precision,
                            accel_plugin_verdict *verdict, accel_plugin_error *error) {
  (void)device;
  return kit_supports(&ref_backend, program, precision, verdict, error);
}

static int32_t ref_estimate(uint32_t device, const accel_plugin_program *program, const accel_plugin_options *options,
                            accel_plugin_estimate *out, accel_plugin_error *error) {
  (void)device;
  return kit_estimate(&ref_backend, program, options, out, error);
}

static int32_t ref_init(uint32_t device, const accel_plugin_program *program, const accel_plugin_options *options,
                        accel_plugin_endpoint **out, accel_plugin_error *error) {
  return kit_init(&ref_backend, device, program, options, out, error);
}

static const accel_plugin table = {
    .size = sizeof table,
    .abi = ACCEL_PLUGIN_ABI_NOW,
    .name = "reference",
    .implementation_type = "REFERENCE",
    .version = ACCEL_VERSION,
    .build_id = ACCEL_BUILD_ID,
    .sanitizer = ACCEL_SANITIZER,
    .devices = ref_devices,
    .memory = ref_memory,
    .supports = ref_supports,
    .estimate = ref_estimate,
    .init = ref_init,
    .handler = kit_handler,
    .cleanup = kit_cleanup,
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
