/* builtin.h - plugins that are linked into the library, where nothing can be loaded: WebAssembly.
 *
 * The build names them (ACCEL_BUILTIN_PLUGINS in CMakeLists.txt) and compiles each with its query
 * function renamed to accel_plugin_query_NAME.  The loader treats them like files that need no
 * driver: same checks of the table, same self-test, no helper process.  They are found first.
 */
#ifndef ACCEL_HARDWARE_BUILTIN_H
#define ACCEL_HARDWARE_BUILTIN_H

#include "accel/plugin.h"

typedef struct accel__builtin {
  const char *name; /* "cpu"; NULL ends the list */
  accel_plugin_query_fn query;
} accel__builtin;

/* A constant list, in the build's order; usually empty. */
const accel__builtin *accel__builtin_plugins(void);

#endif
