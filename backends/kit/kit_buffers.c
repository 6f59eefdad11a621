/* kit_buffers.c - buffer_alloc, buffer_free and buffer_copy of plugins that compute in host memory. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kit/kit.h"

enum { HUGE_PAGE = 2 << 20 };

static uint64_t unit_of(uint64_t bytes) { return bytes >= HUGE_PAGE ? HUGE_PAGE : KIT_ALIGN; }

uint64_t kit_alloc_pages_size(uint64_t bytes) {
  const uint64_t unit = unit_of(bytes);
  return (bytes ? bytes + unit - 1 : unit) / unit * unit;
}

void *kit_alloc_pages(uint64_t bytes) {
  const uint64_t unit = unit_of(bytes);
  if (bytes > SIZE_MAX - unit) return NULL;
  const uint64_t all = kit_alloc_pages_size(bytes);
  void *memory = aligned_alloc(unit, all);
#if defined(MADV_HUGEPAGE)
  if (memory && unit == HUGE_PAGE) (void)madvise(memory, all, MADV_HUGEPAGE); /* advice only */
#endif
  return memory;
}

/* Large buffers are mappings of their own: what is never written takes no memory, and what is freed
 * goes back at once.  From the heap, pages of a cache that are freed half full leave what they had
 * written behind.  Their size lies before them. */
enum { HEAD = KIT_ALIGN };

/* they watch the heap */
static bool own_mapping(uint64_t all) { return !ACCEL_SANITIZER && all >= KIT_OWN_MAPPING; }

int32_t kit_buffer_alloc(uint32_t device, uint64_t n, void **out, accel_plugin_error *error) {
  const uint64_t all = n + HEAD;
  char *memory = NULL;
  (void)device;
  *out = NULL;
  if (n < SIZE_MAX - 2 * HEAD && own_mapping(all)) {
    memory = mmap(NULL, (size_t)all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) memory = NULL;
  } else if (n < SIZE_MAX - 2 * HEAD) {
    memory = aligned_alloc(KIT_ALIGN, (size_t)((all + KIT_ALIGN - 1) / KIT_ALIGN * KIT_ALIGN));
  }
  if (!memory) return kit_no_memory(error, n);
  memcpy(memory, &all, sizeof all);
  *out = memory + HEAD;
  return ACCEL_PLUGIN_OK;
}

void kit_buffer_free(uint32_t device, void *buffer) {
  char *memory = buffer ? (char *)buffer - HEAD : NULL;
  uint64_t all = 0;
  (void)device;
  if (memory) memcpy(&all, memory, sizeof all);
  if (own_mapping(all))
    munmap(memory, (size_t)all);
  else
    free(memory);
}

int32_t kit_buffer_copy(uint32_t device, void *dst, uint64_t dst_offset, const void *src,
                        uint64_t src_offset, uint64_t n, int32_t to_device,
                        accel_plugin_error *error) {
  (void)device, (void)to_device, (void)error;
  memcpy((char *)dst + dst_offset, (const char *)src + src_offset, (size_t)n);
  return ACCEL_PLUGIN_OK;
}
