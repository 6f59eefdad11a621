/* builtin.c - see builtin.h. */
#include "hardware/builtin.h"

#include <stddef.h>

#ifndef ACCEL_BUILTIN_PLUGINS /* PLUGIN(cpu) PLUGIN(reference) */
#define ACCEL_BUILTIN_PLUGINS
#endif

#define PLUGIN(name) \
  const accel_plugin *accel_plugin_query_##name(const accel_plugin_host *host, uint32_t abi);
ACCEL_BUILTIN_PLUGINS
#undef PLUGIN

const accel__builtin *accel__builtin_plugins(void) {
#define PLUGIN(name) {#name, accel_plugin_query_##name},
  static const accel__builtin list[] = {ACCEL_BUILTIN_PLUGINS{NULL, NULL}};
#undef PLUGIN
  return list;
}
