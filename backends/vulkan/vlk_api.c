/* vlk_api.c - the table gpu_plugin_api of the Vulkan plugin, which the op layer calls. */
#include "vulkan/vlk.h"

const gpu_api gpu_plugin_api = {
    .devices = vlk_devices,
    .memory = vlk_memory,
    .open = vlk_open,
    .close = vlk_close,
    .alloc = vlk_alloc,
    .release = vlk_release,
    .write = vlk_write,
    .read = vlk_read,
    .begin = vlk_begin,
    .dispatch = vlk_dispatch,
    .copy = vlk_copy,
    .update = vlk_update,
    .mark = vlk_mark,
    .end = vlk_end,
    .own_memory = vlk_own_memory,
    .begin_copies = vlk_begin_copies,
    .event_new = vlk_event_new,
    .event_free = vlk_event_free,
    .record = vlk_record,
    .wait = vlk_wait,
    .reached = vlk_reached,
};
