/* block_cache.c - see block_cache.h: what is kept lies in a list, oldest first. */
#include "core/block_cache.h"

#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/status.h"

/* Sanitizers are to see every block freed. */
enum { BLOCKS = ACCEL_SANITIZER ? 0 : 8, LEAST = 64 << 10, MOST = 32 << 20, HUGE_PAGE = 2 << 20 };

static struct {
  pthread_mutex_t lock;
  uint32_t n;
  size_t bytes;
  struct {
    void *block;
    size_t bytes;
  } block[BLOCKS + 1];
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *take(uint32_t i) {
  void *block = kept.block[i].block;
  kept.bytes -= kept.block[i].bytes;
  memmove(&kept.block[i], &kept.block[i + 1], (--kept.n - i) * sizeof *kept.block);
  return block;
}

/* The smallest block that is large enough, and not twice as large. */
static void *again(size_t bytes) {
  void *block = NULL;
  pthread_mutex_lock(&kept.lock);
  uint32_t best = kept.n;
  for (uint32_t i = 0; i < kept.n; i++) {
    const size_t have = kept.block[i].bytes;
    if (have >= bytes && have / 2 <= bytes && (best == kept.n || have < kept.block[best].bytes))
      best = i;
  }
  if (best < kept.n) block = take(best);
  pthread_mutex_unlock(&kept.lock);
  return block;
}

static void *fresh(size_t bytes) {
  void *block = NULL;
  if (bytes < HUGE_PAGE / 2) {
    block = malloc(bytes ? bytes : 1);
  } else if (bytes <= SIZE_MAX - HUGE_PAGE) {
    const size_t all = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    block = aligned_alloc(HUGE_PAGE, all);
#if defined(MADV_HUGEPAGE)
    if (block) (void)madvise(block, all, MADV_HUGEPAGE); /* advice only */
#endif
  }
  if (!block) accel__no_memory(bytes);
  return block;
}

void *accel__block_alloc(size_t bytes) {
  void *block = bytes >= LEAST / 2 && bytes <= MOST ? again(bytes) : NULL;
  return block ? block : fresh(bytes);
}

void *accel__block_calloc(size_t bytes) {
  void *block = bytes >= LEAST / 2 && bytes <= MOST ? again(bytes) : NULL;
  if (block) return memset(block, 0, bytes);
  block = calloc(1, bytes ? bytes : 1);
  if (!block) accel__no_memory(bytes);
  return block;
}

void accel__block_free(void *block) {
  const size_t bytes = block ? malloc_usable_size(block) : 0;
  if (!BLOCKS || bytes < LEAST || bytes > MOST) {
    free(block);
    return;
  }
  pthread_mutex_lock(&kept.lock);
  while (kept.n == BLOCKS || kept.bytes + bytes > MOST) free(take(0));
  kept.block[kept.n].block = block;
  kept.block[kept.n++].bytes = bytes;
  kept.bytes += bytes;
  pthread_mutex_unlock(&kept.lock);
}

void accel__block_cache_trim(void) {
  pthread_mutex_lock(&kept.lock);
  while (kept.n) free(take(0));
  pthread_mutex_unlock(&kept.lock);
}
