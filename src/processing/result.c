/* result.c - results that own their memory: one arena a result. */
#include <stdlib.h>

#include "processing/result.h"

typedef struct owned {
  accel__arena arena;
  max_align_t result[];
} owned;

static owned *owner(void *result) { return (owned *)((char *)result - offsetof(owned, result)); }

void *accel__task_result(size_t size) {
  owned *o = calloc(1, sizeof *o + size);
  if (!o) accel__no_memory(size);
  return o ? o->result : NULL;
}

accel__arena *accel__task_arena(void *result) { return &owner(result)->arena; }

void *accel__task_finish(void *result, accel_status status) {
  if (status == ACCEL_OK) return result;
  accel__task_free(result);
  return NULL;
}

void accel__task_free(void *result) {
  if (!result) return;
  accel__arena_free(&owner(result)->arena);
  free(owner(result));
}
