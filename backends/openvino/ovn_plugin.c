/* ovn_plugin.c - the one exported symbol and the table behind it. */
#include "kit/kit_plugin_table.h"
#include "openvino/ovn.h"

KIT_PLUGIN(ovn_backend, .name = "openvino", .implementation_type = "OPENVINO",
           .devices = ovn_devices, .memory = ovn_memory, .cleanup = kit_cleanup,
           .buffer_alloc = kit_buffer_alloc, .buffer_free = kit_buffer_free,
           .buffer_copy = kit_buffer_copy)
