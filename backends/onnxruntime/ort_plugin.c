/* ort_plugin.c - the one exported symbol and the table behind it. */
#include "kit/kit_plugin_table.h"
#include "onnxruntime/ort.h"

KIT_PLUGIN(*ort_backend_of(device), .name = "onnxruntime", .implementation_type = "ONNXRUNTIME",
           .devices = ort_devices, .memory = ort_memory, .cleanup = kit_cleanup,
           .buffer_alloc = kit_buffer_alloc, .buffer_free = kit_buffer_free,
           .buffer_copy = kit_buffer_copy)
