/* ref_plugin.c - the one exported symbol and the table behind it.  All but devices and launches is
 * the kit's. */
#include "reference/ref.h"
#include "kit/kit_plugin_table.h"

KIT_PLUGIN(ref_backend, .name = "reference", .implementation_type = "REFERENCE",
           .devices = ref_devices, .memory = ref_memory, .cleanup = kit_cleanup,
           .buffer_alloc = kit_buffer_alloc, .buffer_free = kit_buffer_free,
           .buffer_copy = kit_buffer_copy)
