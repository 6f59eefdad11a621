/* threads.h - the context's thread pool: at most `threads` threads work at any time, whoever calls.
 *
 * A call into the library that computes takes a *turn*: it holds one of the pool's `threads` places
 * itself, and idle workers hold the others for it.  A second caller gets its place from a worker of
 * the first (after that worker's present task), so two endpoints in use at once share the
 * processors instead of fighting for them; more callers than places wait in order. Within a turn
 * the workers look for the next parallel call without sleeping, so that it costs no system call;
 * without one for some tens of microseconds they sleep.  Nothing runs when no turn is taken. */
#ifndef ACCEL_CORE_THREADS_H
#define ACCEL_CORE_THREADS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

typedef struct accel__pool accel__pool;
/* same type as accel_plugin_task_fn */
typedef void (*accel__task_fn)(void *arg, uint32_t index, uint32_t worker);

/* threads counts the calling thread: 1 makes no worker.  Clamped to [1, affinity]; 0:
 * accel__default_threads. */
accel_status accel__pool_create(uint32_t threads, accel__pool **out);
/* Tests: exactly `threads`, more than there are processors if need be. */
accel_status accel__pool_create_exactly(uint32_t threads, accel__pool **out);
void accel__pool_destroy(accel__pool **pool); /* NULL-safe; not while a turn is taken */
uint32_t accel__pool_size(const accel__pool *pool);

/* Most threads of a turn that does not ask for a number: the pool's size (latency, as created) or 1
 * (throughput). */
/* before the first turn; 0: the size */
void accel__pool_set_width(accel__pool *pool, uint32_t width);
/* Most threads that a parallel call made here and now may have: of this thread's turn, or of a turn
 * yet to be taken. */
uint32_t accel__pool_width(const accel__pool *pool);

/* One thread's stay in a pool; on its stack. */
typedef struct accel__pool_turn {
  accel__pool *pool;
  struct accel__pool_run *run; /* NULL: parallel calls run inline */
  struct accel__pool_turn *outer;
  uint32_t width;
  bool nested; /* the run belongs to a turn further out */
} accel__pool_turn;

/* Waits for a place, then holds it until accel__pool_leave on the same thread.  width: most threads
 * of this turn, 0 the pool's own width.  pool may be NULL.  Turns nest: an inner one uses the outer
 * one's place.  Neither call fails. */
void accel__pool_enter(accel__pool *pool, uint32_t width, accel__pool_turn *turn);
void accel__pool_leave(accel__pool_turn *turn); /* in the reverse order of the enters */

/* Runs fn(arg, i, worker) for every i in [0, n), worker in [0, size), no two at once with the same
 * worker; returns when all are done.  Outside of a turn it takes one for its own length.  Called
 * from inside fn: runs inline, worker 0.  The caller takes part, and needs nobody: in the child of
 * a fork, where no worker exists, it does all the work. */
void accel__pool_run(accel__pool *pool, uint32_t n, accel__task_fn fn, void *arg);

/* Starts a thread of libaccel: the application's signal handlers do not run on it, faults stay
 * deliverable.  name: at most 15 bytes.  stack: bytes, 0 the system's default.  0, or an errno. */
int accel__thread_start(pthread_t *thread, size_t stack, const char *name, void *(*fn)(void *),
                        void *arg);
/* of the clock that only runs forward */
uint64_t accel__now_ns(void);

/* min(affinity, floor(cgroup quota), physical cores within the affinity), at least 1; *why (may be
 * NULL) gets a static sentence. */
uint32_t accel__default_threads(const char **why);
uint32_t accel__affinity_threads(void);

#endif
