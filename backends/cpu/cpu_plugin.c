/* cpu_plugin.c - the CPU plugin's table; see cpu.h for the files. */
#include "cpu_launch.h"

#include "cpu_stream.h"
#include "cpu_weights.h"
#include "kit/kit_plugin_table.h"

static const kit_backend backend = {
    .name = "cpu",
    .weight_format = cpu_weight_format,
    .weight_bytes = cpu_weight_bytes,
    .weight_in_place = cpu_weight_stays,
    .weight_by_rows = cpu_weight_by_rows,
    .open = cpu_open,
    .close = cpu_close,
    .weight = cpu_weight_data,
    .launch = cpu_launch,
    .strided = cpu_strided,
    .fuse_parallel = cpu_fuse_parallel,
    .fuse_chain = cpu_fuse_chain,
    .workspace = cpu_workspace,
    .limit_us = cpu_limit_us,
    .plan_open = cpu_plan_open,
    .plan_close = cpu_plan_close,
    .stream_estimate = cpu_stream_estimate,
    .stream_segments = cpu_stream_segments,
};

static void cleanup(accel_plugin_endpoint *endpoint, const accel_plugin_host *host) {
  if (!endpoint) return;
  cpu_unmap(kit_endpoint_self(endpoint), host);
  kit_cleanup(endpoint, host);
}

KIT_PLUGIN(backend, .name = "cpu", .implementation_type = "CPU", .devices = cpu_devices,
           .memory = cpu_memory, .cleanup = cleanup, .buffer_alloc = kit_buffer_alloc,
           .buffer_free = kit_buffer_free, .buffer_copy = kit_buffer_copy)
