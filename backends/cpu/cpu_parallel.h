/* cpu_parallel.h - how the work of one launch is split over the host's threads.
 *
 * The plugin has no threads of its own: the host lends a pool with `workers` threads, the calling
 * one among them (accel_plugin_host.parallel).  A launch is cut into tasks, and a
 * worker that is free takes the next one. */
#ifndef ACCEL_CPU_PARALLEL_H
#define ACCEL_CPU_PARALLEL_H

#include "kit/kit.h"

/* Has the calling thread read and write numbers below 2^-126 as zeros, as bf16's instructions do:
 * arithmetic of x86 takes a hundred times as long with each of them, and SiLU and GELU make them of
 * large negative numbers.  Answers what cpu_float_mode_restore gives back.  On other processors they
 * cost nothing, and nothing changes. */
uint32_t cpu_float_mode_flush(void);
void cpu_float_mode_restore(uint32_t mode);

/* Threads that run the tasks of a launch, the calling one included: 1 where the host lends none. */
uint32_t cpu_workers(const kit_launch *launch);

/* Runs fn(arg, i, worker) for all i < n on the host's threads and returns when all are done; worker
 * < cpu_workers tells tasks that run at the same time apart.  On the calling thread alone, as
 * worker 0, when n is 1 or there are no others.  Called in a launch, whose thread is in the mode of
 * cpu_float_mode_flush; so are the others meanwhile. */
void cpu_parallel(const kit_launch *launch, uint32_t n, accel_plugin_task_fn fn, void *arg);

/* Into how many tasks to split `rows` rows that take about `cost` nanoseconds each: 1 when waking
 * the other threads would take longer than they save, else a few for each worker; never more than
 * rows. */
uint32_t cpu_tasks(const kit_launch *launch, int64_t rows, double cost);

/* Where part i of n equal parts of `all` begins; part i ends where part i + 1 begins. */
static inline int64_t cpu_share(int64_t all, uint32_t i, uint32_t n) { return all * i / n; }

#endif
