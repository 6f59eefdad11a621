/* cpu_limit.c - what a kernel's instructions allow, for profiles: how long it takes over operands
 * that the caches hold, on all threads at once, as they may share cores.  Measured once for each
 * kind of step. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cpu_limit.h"
#include "cpu_parallel.h"

enum { KINDS = 64, MAX_WORKERS = 256 };

typedef struct kind {
  int64_t key[CPU_LIMIT_KEY];
  double us;
} kind;

struct cpu_limits {
  pthread_mutex_t lock;
  uint32_t n;
  kind kind[KINDS];
};

cpu_limits *cpu_limits_new(void) {
  cpu_limits *limits = calloc(1, sizeof *limits);
  if (limits) pthread_mutex_init(&limits->lock, NULL);
  return limits;
}

void cpu_limits_free(cpu_limits *limits) {
  if (!limits) return;
  pthread_mutex_destroy(&limits->lock);
  free(limits);
}

typedef struct measurement {
  cpu_repeat_fn *fn;
  const void *arg;
  double us[MAX_WORKERS];
} measurement;

/* The fastest of some rounds: whatever else the machine does only makes it slower. */
static void measure_task(void *arg, uint32_t index, uint32_t worker) {
  enum { ROUNDS = 5 };
  const double round_us = 1000;
  measurement *m = arg;
  (void)worker;
  m->fn(m->arg, index); /* into the caches */
  m->us[index] = INFINITY;
  for (int r = 0; r < ROUNDS; r++) {
    int64_t n = 0;
    const double start = kit_now_us();
    double us;
    do {
      m->fn(m->arg, index);
      n++;
    } while ((us = kit_now_us() - start) < round_us);
    if (us / (double)n < m->us[index]) m->us[index] = us / (double)n;
  }
}

double cpu_limit(cpu_limits *limits, const kit_launch *l, const int64_t key[CPU_LIMIT_KEY],
                 cpu_repeat_fn *fn, const void *arg) {
  const uint32_t workers = cpu_workers(l) < MAX_WORKERS ? cpu_workers(l) : MAX_WORKERS;
  double us = 0;
  pthread_mutex_lock(&limits->lock);
  for (uint32_t i = 0; i < limits->n && us == 0; i++)
    if (!memcmp(limits->kind[i].key, key, sizeof limits->kind[i].key)) us = limits->kind[i].us;
  if (us == 0 && limits->n < KINDS) {
    measurement m = {.fn = fn, .arg = arg};
    cpu_parallel(l, workers, measure_task, &m);
    for (uint32_t i = 0; i < workers; i++) us += m.us[i] / workers;
    kind *new = &limits->kind[limits->n++];
    memcpy(new->key, key, sizeof new->key);
    new->us = us;
  }
  pthread_mutex_unlock(&limits->lock);
  return us;
}
