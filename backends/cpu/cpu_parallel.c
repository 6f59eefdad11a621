/* cpu_parallel.c - how the work of one launch is split over the host's threads. */
#include "cpu_parallel.h"

enum { TASKS_PER_WORKER = 4 };
/* nanoseconds: a few times what waking the other threads costs */
static const double WORTH_SPLITTING = 8000.0;

uint32_t cpu_workers(const kit_launch *l) {
  return l->host && l->host->parallel && l->host->workers ? l->host->workers(l->host->self) : 1;
}

void cpu_parallel(const kit_launch *l, uint32_t n, accel_plugin_task_fn fn, void *arg) {
  if (n > 1 && cpu_workers(l) > 1) {
    l->host->parallel(l->host->self, n, fn, arg);
    return;
  }
  for (uint32_t i = 0; i < n; i++) fn(arg, i, 0);
}

uint32_t cpu_tasks(const kit_launch *l, int64_t rows, double cost) {
  uint32_t workers = cpu_workers(l);
  double all = cost * (double)rows;
  if (workers < 2 || rows < 2 || all < WORTH_SPLITTING) return 1;
  uint32_t n = all > 16 * WORTH_SPLITTING * workers ? workers * TASKS_PER_WORKER : workers;
  return (int64_t)n < rows ? n : (uint32_t)rows;
}
