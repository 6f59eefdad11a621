/* result.h - results of tasks: each is one arena, at offset 0 behind the public struct. */
#ifndef ACCEL_PROCESSING_RESULT_H
#define ACCEL_PROCESSING_RESULT_H

#include "core/arena.h"

/* A result that owns an arena: allocates `size` bytes (the public struct) with the arena hidden in
 * front; everything the result points to is taken from that arena; accel__task_free gives it all
 * back and is what the public _free functions call.
 */
void *accel__task_result(size_t size);
accel__arena *accel__task_arena(void *result);
void accel__task_free(void *result); /* NULL-safe */
/* The end of a task: `result` itself under ACCEL_OK, otherwise it is freed and the answer is
 * NULL. */
void *accel__task_finish(void *result, accel_status status);

#endif
