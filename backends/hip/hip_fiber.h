/* hip_fiber.h - one stack of its own for a piece of work that pauses and goes on: the lanes of
 * an emulated block.
 *
 * Switching is a dozen instructions on x86-64 and AArch64 (hip_fiber.c), ucontext elsewhere. A
 * fiber runs on the thread that resumes it and must be resumed by one thread at a time. */
#ifndef ACCEL_HIP_FIBER_H
#define ACCEL_HIP_FIBER_H

#include <stddef.h>

typedef struct hip_fiber hip_fiber;

/* A fiber that will call work(arg) again and again, pausing after each return.  NULL: no memory. */
hip_fiber *hip_fiber_new(size_t stack_bytes);
/* paused or not, nothing of its stack is unwound; NULL: nothing */
void hip_fiber_free(hip_fiber *fiber);
/* (Re)starts: what was on its stack is forgotten. */
void hip_fiber_start(hip_fiber *fiber, void (*work)(void *), void *arg);
void hip_fiber_resume(hip_fiber *fiber); /* until it pauses */
void hip_fiber_pause(hip_fiber *fiber);  /* from within: back to the one who resumed it */

#endif
