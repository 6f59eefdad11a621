/* wgp_api.c - the table gpu_plugin_api of the WebGPU plugin, which the op layer calls. */
#include "webgpu/wgp.h"

/* WebGPU has no memory that stays mapped while a device uses it: weights are not streamed. */
static bool own_memory(uint32_t index) { return (void)index, false; }

const gpu_api gpu_plugin_api = {
    .devices = wgp_devices,
    .memory = wgp_memory,
    .open = wgp_open,
    .close = wgp_close,
    .alloc = wgp_alloc,
    .release = wgp_release,
    .write = wgp_write,
    .read = wgp_read,
    .begin = wgp_begin,
    .dispatch = wgp_dispatch,
    .copy = wgp_copy,
    .update = wgp_update,
    .mark = wgp_mark,
    .end = wgp_end,
    .own_memory = own_memory,
};
