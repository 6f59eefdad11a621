/* arena.h - memory that is freed together: a list of blocks, bump allocation, no single free.  Not
 * thread-safe. */
#ifndef ACCEL_CORE_ARENA_H
#define ACCEL_CORE_ARENA_H

#include <stddef.h>

#include "core/status.h"

typedef struct accel__arena {
  struct accel__arena_block *block; /* newest */
  size_t bytes;                     /* taken from the system so far */
} accel__arena;                     /* {0} is a valid empty arena */

/* Zeroed, 16-byte aligned; NULL when memory is refused (accel__no_memory was called).  n = 0 gives
 * a valid pointer. */
void *accel__arena_alloc(accel__arena *arena, size_t n);
/* count * size with overflow check. */
void *accel__arena_array(accel__arena *arena, size_t count, size_t size);
char *accel__arena_copy(accel__arena *arena, const char *bytes, size_t n); /* adds a NUL */
char *accel__arena_string(accel__arena *arena, const char *string);
char *accel__arena_printf(accel__arena *arena, const char *format, ...) ACCEL_PRINTF(2, 3);
void accel__arena_free(accel__arena *arena); /* everything; the arena is empty and usable again */

#endif
