/* cpu_parallel.c - how the work of one launch is split over the host's threads. */
#include "cpu_parallel.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { TASKS_PER_WORKER = 4 };
/* nanoseconds: a few times what waking the other threads costs */
static const double WORTH_SPLITTING = 8000.0;

uint32_t cpu_workers(const kit_launch *l) {
  return l->host && l->host->parallel && l->host->workers ? l->host->workers(l->host->self) : 1;
}

#if defined(__x86_64__)
uint32_t cpu_float_mode_flush(void) {
  const uint32_t mode = _mm_getcsr();
  _mm_setcsr(mode | _MM_FLUSH_ZERO_ON | _MM_DENORMALS_ZERO_ON);
  return mode;
}
void cpu_float_mode_restore(uint32_t mode) { _mm_setcsr(mode); }
#else
uint32_t cpu_float_mode_flush(void) { return 0; }
void cpu_float_mode_restore(uint32_t mode) { (void)mode; }
#endif

typedef struct flushed {
  accel_plugin_task_fn fn;
  void *arg;
} flushed;

static void flushed_task(void *arg, uint32_t i, uint32_t worker) {
  const flushed *f = arg;
  const uint32_t mode = cpu_float_mode_flush();
  f->fn(f->arg, i, worker);
  cpu_float_mode_restore(mode);
}

void cpu_parallel(const kit_launch *l, uint32_t n, accel_plugin_task_fn fn, void *arg) {
  if (n > 1 && cpu_workers(l) > 1) {
    l->host->parallel(l->host->self, n, flushed_task, &(flushed){fn, arg});
    return;
  }
  for (uint32_t i = 0; i < n; i++) fn(arg, i, 0); /* the launch's thread is in the mode already */
}

uint32_t cpu_tasks(const kit_launch *l, int64_t rows, double cost) {
  uint32_t workers = cpu_workers(l);
  double all = cost * (double)rows;
  if (workers < 2 || rows < 2 || all < WORTH_SPLITTING) return 1;
  uint32_t n = all > 16 * WORTH_SPLITTING * workers ? workers * TASKS_PER_WORKER : workers;
  return (int64_t)n < rows ? n : (uint32_t)rows;
}
