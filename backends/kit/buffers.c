/* buffers.c - buffer_alloc, buffer_free and buffer_copy of plugins that compute in host memory. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kit/kit.h"

enum { HUGE_PAGE = 2 << 20 };

static uint64_t unit_of(uint64_t bytes) { return bytes >= HUGE_PAGE ? HUGE_PAGE : KIT_ALIGN; }

uint64_t kit_room_bytes(uint64_t bytes) {
  const uint64_t unit = unit_of(bytes);
  return (bytes ? bytes + unit - 1 : unit) / unit * unit;
}

void *kit_room(uint64_t bytes) {
  const uint64_t unit = unit_of(bytes);
  if (bytes > SIZE_MAX - unit) return NULL;
  const uint64_t all = kit_room_bytes(bytes);
  void *room = aligned_alloc(unit, all);
#if defined(MADV_HUGEPAGE)
  if (room && unit == HUGE_PAGE) (void)madvise(room, all, MADV_HUGEPAGE); /* advice only */
#endif
  return room;
}

int32_t kit_buffer_alloc(uint32_t device, uint64_t n, void **out, accel_plugin_error *error) {
  (void)device;
  *out = n < SIZE_MAX ? malloc((size_t)n + 1) : NULL;
  return *out ? ACCEL_PLUGIN_OK : kit_no_memory(error, n);
}

void kit_buffer_free(uint32_t device, void *buffer) {
  (void)device;
  free(buffer);
}

int32_t kit_buffer_copy(uint32_t device, void *dst, uint64_t dst_offset, const void *src, uint64_t src_offset, uint64_t n,
                        int32_t to_device, accel_plugin_error *error) {
  (void)device, (void)to_device, (void)error;
  memcpy((char *)dst + dst_offset, (const char *)src + src_offset, (size_t)n);
  return ACCEL_PLUGIN_OK;
}
