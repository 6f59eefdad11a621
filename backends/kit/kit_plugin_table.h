/* kit_plugin_table.h - the one exported symbol of a plugin and the table behind it, for plugins
 * that leave to the kit all but devices, memory and launches. */
#ifndef ACCEL_KIT_PLUGIN_TABLE_H
#define ACCEL_KIT_PLUGIN_TABLE_H

#include "kit/kit.h"

__attribute__((visibility("default"))) const accel_plugin *accel_plugin_query(
    const accel_plugin_host *host, uint32_t core_abi);

/* backend: a static kit_backend, or an expression for one in which `device` is the device's number.
 * Behind it what is the plugin's own in accel_plugin: .name,
 * .implementation_type, .devices, .memory, .cleanup (kit_cleanup when nothing is to be added),
 * .buffer_alloc, .buffer_free, .buffer_copy. */
#define KIT_PLUGIN(backend, ...)                                                                   \
  static int32_t supports_(uint32_t device, const accel_plugin_program *program,                   \
                           const accel_plugin_precision *precision, accel_plugin_verdict *verdict, \
                           accel_plugin_error *error) {                                            \
    (void)device;                                                                                  \
    return kit_supports(&(backend), program, precision, verdict, error);                           \
  }                                                                                                \
  static int32_t estimate_(uint32_t device, const accel_plugin_program *program,                   \
                           const accel_plugin_options *options, accel_plugin_estimate *out,        \
                           accel_plugin_error *error) {                                            \
    return kit_estimate(&(backend), device, program, options, out, error);                         \
  }                                                                                                \
  static int32_t init_(uint32_t device, const accel_plugin_program *program,                       \
                       const accel_plugin_options *options, accel_plugin_endpoint **out,           \
                       accel_plugin_error *error) {                                                \
    return kit_init(&(backend), device, program, options, out, error);                             \
  }                                                                                                \
  static const accel_plugin table_ = {.size = sizeof(accel_plugin),                                \
                                      .abi = ACCEL_PLUGIN_ABI_NOW,                                 \
                                      .version = ACCEL_VERSION,                                    \
                                      .build_id = ACCEL_BUILD_ID,                                  \
                                      .sanitizer = ACCEL_SANITIZER,                                \
                                      .supports = supports_,                                       \
                                      .estimate = estimate_,                                       \
                                      .init = init_,                                               \
                                      .handler = kit_handler,                                      \
                                      .trim = kit_trim,                                            \
                                      .session_new = kit_session_new,                              \
                                      .session_free = kit_session_free,                            \
                                      .session_control = kit_session_control,                      \
                                      __VA_ARGS__};                                                \
  const accel_plugin *accel_plugin_query(const accel_plugin_host *host, uint32_t core_abi) {       \
    (void)host;                                                                                    \
    return kit_abi_compatible(core_abi) ? &table_ : NULL;                                          \
  }

#endif
