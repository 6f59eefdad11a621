/* threads.c - the pool.
 *
 * One word, `gate`, says whether a job is open and how many workers are inside it.  A caller opens it; workers that are
 * awake join by raising the count, take indices from `next`, and leave by lowering it; whoever finds the indices used up
 * closes it.  The caller waits for the workers inside only, never for one that still sleeps, so a short job costs no
 * wake-up, and in the child of a fork, where no worker exists, the caller just does all the work.  Idle workers look at the
 * gate for SPIN_NS and then sleep on it (futex).
 */
#include "core/threads.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/file.h"
#include "core/topology.h"

enum { LINE = 128, SPIN_NS = 40000 }; /* two cache lines: they are fetched in pairs */
#define OPEN 0x80000000u              /* gate: a job is open; the bits below count the workers inside */
#define QUIT 0x40000000u

typedef struct worker {
  struct accel__pool *pool;
  pthread_t thread;
  uint32_t number;
} worker;

struct accel__pool {
  _Alignas(LINE) atomic_uint gate;
  _Alignas(LINE) atomic_uint sleepers; /* workers that sleep, or are about to, on the gate */
  atomic_uint waiting;                 /* 1: the caller sleeps on this word until nobody is inside */
  _Alignas(LINE) atomic_uint_fast64_t next;
  _Alignas(LINE) atomic_flag busy; /* an application thread has the workers */
  uint32_t size, n;                /* n, fn, arg: the job; written before the gate opens */
  accel__task_fn fn;
  void *arg;
  pid_t pid;
  worker *workers; /* [size - 1] */
};

static _Thread_local bool inside_task; /* this thread runs an index of some pool: parallel calls run inline */

static void futex_wait(atomic_uint *word, uint32_t value) {
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}
static void futex_wake(atomic_uint *word, uint32_t n) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0); }

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb"); /* "yield" is a no-op on most cores */
#endif
}

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Looks at the word until (value & mask) == want or SPIN_NS have passed; the last value seen. */
static uint32_t spin(atomic_uint *word, uint32_t mask, bool want) {
  uint64_t start = 0;
  for (;;) {
    for (int i = 0; i < 64; i++, relax()) {
      uint32_t value = atomic_load_explicit(word, memory_order_acquire);
      if (((value & mask) != 0) == want) return value;
    }
    uint64_t now = now_ns();
    if (!start) start = now;
    if (now - start > SPIN_NS) return atomic_load_explicit(word, memory_order_acquire);
  }
}

static void take_indices(accel__pool *pool, uint32_t number) {
  uint64_t i;
  inside_task = true;
  while ((i = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed)) < pool->n)
    pool->fn(pool->arg, (uint32_t)i, number);
  inside_task = false;
  atomic_fetch_and(&pool->gate, ~OPEN);
}

static void leave(accel__pool *pool) {
  uint32_t left = atomic_fetch_sub(&pool->gate, 1) - 1;
  if (!(left & ~QUIT) && atomic_exchange(&pool->waiting, 0)) futex_wake(&pool->waiting, 1);
}

static void *work(void *arg) {
  worker *w = arg;
  accel__pool *pool = w->pool;
  for (;;) {
    uint32_t gate = spin(&pool->gate, OPEN | QUIT, true);
    if (gate & QUIT) return NULL;
    if (gate & OPEN) {
      if (!atomic_compare_exchange_strong(&pool->gate, &gate, gate + 1)) continue;
      take_indices(pool, w->number);
      leave(pool);
      continue;
    }
    atomic_fetch_add(&pool->sleepers, 1); /* before the last look: the caller opens the gate before it counts sleepers */
    gate = atomic_load(&pool->gate);
    if (!(gate & (OPEN | QUIT))) futex_wait(&pool->gate, gate);
    atomic_fetch_sub(&pool->sleepers, 1);
  }
}

/* ---- a parallel call ---- */

static void run_inline(uint32_t n, accel__task_fn fn, void *arg) {
  bool nested = inside_task;
  inside_task = true;
  for (uint32_t i = 0; i < n; i++) fn(arg, i, 0);
  inside_task = nested;
}

static void wait_until_empty(accel__pool *pool) {
  while (spin(&pool->gate, ~QUIT, false) & ~QUIT) {
    atomic_store(&pool->waiting, 1);
    if (atomic_load(&pool->gate) & ~QUIT) futex_wait(&pool->waiting, 1);
    atomic_store(&pool->waiting, 0);
  }
}

void accel__pool_run(accel__pool *pool, uint32_t n, accel__task_fn fn, void *arg) {
  if (!pool || pool->size == 1 || n <= 1 || inside_task ||
      atomic_flag_test_and_set_explicit(&pool->busy, memory_order_acquire)) {
    run_inline(n, fn, arg);
    return;
  }
  pool->n = n;
  pool->fn = fn;
  pool->arg = arg;
  atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
  atomic_fetch_or(&pool->gate, OPEN);
  uint32_t asleep = atomic_load(&pool->sleepers);
  if (asleep) futex_wake(&pool->gate, asleep < n - 1 ? asleep : n - 1);
  take_indices(pool, 0);
  wait_until_empty(pool);
  atomic_flag_clear_explicit(&pool->busy, memory_order_release);
}

/* ---- life ---- */

static accel_status start_workers(accel__pool *pool) {
  sigset_t ours, callers; /* the application's signal handlers are not to run on our threads; faults stay deliverable */
  sigfillset(&ours);
  static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) sigdelset(&ours, faults[i]);
  pthread_sigmask(SIG_SETMASK, &ours, &callers);
  uint32_t wanted = pool->size, error = 0;
  for (pool->size = 1; pool->size < wanted && !error;) {
    worker *w = &pool->workers[pool->size - 1];
    *w = (worker){.pool = pool, .number = pool->size};
    error = accel__fault("thread") ? EAGAIN : (uint32_t)pthread_create(&w->thread, NULL, work, w);
    if (error) break;
    char name[16];
    snprintf(name, sizeof name, "accel-%u", pool->size);
    pthread_setname_np(w->thread, name);
    pool->size++;
  }
  pthread_sigmask(SIG_SETMASK, &callers, NULL);
  if (!error) return ACCEL_OK;
  accel__fail(ACCEL_ERROR_LIMIT, "thread pool: the system refused thread %u of %u: %s", pool->size + 1, wanted,
              strerror((int)error));
  return accel__remedy(
      ACCEL_ERROR_LIMIT,
      "ask for fewer threads (--threads, ACCEL_THREADS) or raise the limit of processes (ulimit -u, pids.max)");
}

accel_status accel__pool_create(uint32_t threads, accel__pool **out) {
  uint32_t most = accel__affinity_threads();
  if (!threads) threads = accel__default_threads(NULL);
  return accel__pool_create_exactly(threads < most ? threads : most, out);
}

accel_status accel__pool_create_exactly(uint32_t threads, accel__pool **out) {
  *out = NULL;
  accel__pool *pool = accel__fault("allocation") ? NULL : aligned_alloc(LINE, sizeof *pool);
  if (!pool) return accel__no_memory(sizeof *pool);
  memset(pool, 0, sizeof *pool);
  pool->size = threads;
  pool->pid = getpid();
  pool->workers = threads > 1 ? calloc(threads - 1, sizeof *pool->workers) : NULL;
  accel_status status =
      threads > 1 && !pool->workers ? accel__no_memory((threads - 1) * sizeof *pool->workers) : start_workers(pool);
  if (status) return accel__pool_destroy(&pool), status;
  *out = pool;
  return ACCEL_OK;
}

void accel__pool_destroy(accel__pool **pool) {
  accel__pool *p = *pool;
  *pool = NULL;
  if (!p) return;
  if (p->workers && p->pid == getpid()) { /* after a fork the workers are the parent's */
    atomic_fetch_or(&p->gate, QUIT);
    futex_wake(&p->gate, p->size);
    for (uint32_t i = 0; i + 1 < p->size; i++) pthread_join(p->workers[i].thread, NULL);
  }
  free(p->workers);
  free(p);
}

uint32_t accel__pool_size(const accel__pool *pool) { return pool ? pool->size : 1; }

uint32_t accel__affinity_threads(void) {
  accel__cpu_mask mask;
  accel__affinity_mask(&mask);
  uint32_t n = accel__mask_count(&mask);
  return n ? n : 1;
}

uint32_t accel__default_threads(const char **why) {
  accel__cpu_mask mask;
  accel__affinity_mask(&mask);
  return accel__choose_threads(accel__mask_count(&mask), accel__cgroup_cpus(""), accel__cores_in("", &mask), why);
}
