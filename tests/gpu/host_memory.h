/* host_memory.h - for tests linked with -Wl,--wrap=malloc and so on (tests/gpu/CMakeLists.txt):
 * allocations by the code that is linked into the test (not by libraries) are counted, and any one
 * of them can be refused. */
#ifndef ACCEL_TESTS_HOST_MEMORY_H
#define ACCEL_TESTS_HOST_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

/* calls so far, blocks held, which call is refused */
static atomic_long host_calls, host_live, host_refused = -1;

static bool host_refuses(void) {
  return atomic_fetch_add(&host_calls, 1) + 1 == atomic_load(&host_refused);
}
static void *host_taken(void *block) {
  if (block) atomic_fetch_add(&host_live, 1);
  return block;
}

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *block, size_t n);
void *__real_aligned_alloc(size_t unit, size_t n);
void __real_free(void *block);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *block, size_t n);
void *__wrap_aligned_alloc(size_t unit, size_t n);
void __wrap_free(void *block);

void *__wrap_malloc(size_t n) { return host_refuses() ? NULL : host_taken(__real_malloc(n)); }
void *__wrap_calloc(size_t n, size_t size) {
  return host_refuses() ? NULL : host_taken(__real_calloc(n, size));
}
void *__wrap_aligned_alloc(size_t unit, size_t n) {
  return host_refuses() ? NULL : host_taken(__real_aligned_alloc(unit, n));
}
void *__wrap_realloc(void *block, size_t n) {
  if (host_refuses()) return NULL;
  const bool fresh = !block;
  void *moved = __real_realloc(block, n);
  return fresh ? host_taken(moved) : moved;
}
void __wrap_free(void *block) {
  if (block) atomic_fetch_sub(&host_live, 1);
  __real_free(block);
}

#endif
