/* arena.c - blocks in a list, newest first, doubling from 4 KiB to 1 MiB; a request too large for
 * that gets a block of its own. */
#include "core/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"

enum { ALIGN = 16, FIRST_BLOCK = 4096, LARGEST_BLOCK = 1 << 20 };

typedef struct accel__arena_block {
  struct accel__arena_block *older;
  size_t used, capacity; /* bytes of data */
  _Alignas(16) unsigned char data[];
} block;

static block *new_block(accel__arena *arena, size_t capacity) {
  /* large blocks come as zero pages: nothing is touched before it is used */
  block *b = calloc(1, sizeof(block) + capacity);
  if (!b) return accel__no_memory(sizeof(block) + capacity), NULL;
  b->capacity = capacity;
  arena->bytes += sizeof(block) + capacity;
  return b;
}

/* A block with room for n more bytes: the newest, or a new one. */
static block *block_for(accel__arena *arena, size_t n) {
  block *newest = arena->block;
  if (newest && newest->capacity - newest->used >= n) return newest;
  size_t capacity = !newest                            ? FIRST_BLOCK
                    : newest->capacity < LARGEST_BLOCK ? 2 * newest->capacity
                                                       : LARGEST_BLOCK;
  bool alone = n > capacity / 4;
  block *b = new_block(arena, alone ? n : capacity);
  if (!b) return NULL;
  if (alone && newest) { /* behind the newest, whose rest stays in use */
    b->older = newest->older;
    newest->older = b;
  } else {
    b->older = newest;
    arena->block = b;
  }
  return b;
}

void *accel__arena_alloc(accel__arena *arena, size_t n) {
  if (accel__fault("allocation") || n > SIZE_MAX / 4) return accel__no_memory(n), NULL;
  n = n ? (n + ALIGN - 1) / ALIGN * ALIGN : ALIGN;
  block *b = block_for(arena, n);
  if (!b) return NULL;
  void *p = b->data + b->used;
  b->used += n;
  return p;
}

void *accel__arena_array(accel__arena *arena, size_t count, size_t size) {
  size_t n;
  if (__builtin_mul_overflow(count, size, &n)) return accel__no_memory(SIZE_MAX), NULL;
  return accel__arena_alloc(arena, n);
}

char *accel__arena_copy(accel__arena *arena, const char *bytes, size_t n) {
  if (n == SIZE_MAX) return accel__no_memory(n), NULL;
  char *copy = accel__arena_alloc(arena, n + 1);
  if (copy && n) memcpy(copy, bytes, n);
  return copy;
}

char *accel__arena_string(accel__arena *arena, const char *string) {
  return accel__arena_copy(arena, string, strlen(string));
}

char *accel__arena_printf(accel__arena *arena, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int n = vsnprintf(NULL, 0, format, args);
  va_end(args);
  if (n < 0)
    return accel__fail(ACCEL_ERROR_INTERNAL, "text '%s' could not be formatted", format), NULL;
  char *text = accel__arena_alloc(arena, (size_t)n + 1);
  if (!text) return NULL;
  va_start(args, format);
  vsnprintf(text, (size_t)n + 1, format, args);
  va_end(args);
  return text;
}

void accel__arena_free(accel__arena *arena) {
  while (arena->block) {
    block *b = arena->block;
    arena->block = b->older;
    free(b);
  }
  arena->bytes = 0;
}
