/* threads.h - the context's thread pool: pthreads, workers spin briefly and then sleep. */
#ifndef ACCEL_CORE_THREADS_H
#define ACCEL_CORE_THREADS_H

#include <stdint.h>

#include "core/status.h"

typedef struct accel__pool accel__pool;
typedef void (*accel__task_fn)(void *arg, uint32_t index, uint32_t worker); /* same type as accel_plugin_task_fn */

/* threads counts the calling thread: 1 makes no worker.  Clamped to [1, affinity]; 0: accel__default_threads. */
accel_status accel__pool_create(uint32_t threads, accel__pool **out);
/* Tests: exactly `threads`, more than there are processors if need be. */
accel_status accel__pool_create_exactly(uint32_t threads, accel__pool **out);
void accel__pool_destroy(accel__pool **pool); /* NULL-safe; not while a parallel call runs */
uint32_t accel__pool_size(const accel__pool *pool);
/* Runs fn(arg, i, worker) for every i in [0, n), worker in [0, size); returns when all are done.  Several application threads
 * may call at once: one gets the workers, the others run their indices themselves.  Called from inside fn: runs inline. */
void accel__pool_run(accel__pool *pool, uint32_t n, accel__task_fn fn, void *arg);

/* min(affinity, floor(cgroup quota), physical cores within the affinity), at least 1; *why (may be NULL) gets a static sentence. */
uint32_t accel__default_threads(const char **why);
uint32_t accel__affinity_threads(void);

#endif
