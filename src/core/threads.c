/* threads.c - the pool.
 *
 * Two planes.  Who works for whom is settled under `lock`, a few times a turn: a run is one
 * caller's seat with the workers that attend it; each run has a quota, and the sum of all members
 * never passes the pool's size.  The parallel calls of a run need no lock: the caller writes the
 * job, sets `claim` to the number of tasks, and raises `gate`, which the run's workers watch.
 * Everybody takes tasks by lowering `claim` and adds what it did to `done`; a claimed task keeps
 * the job open, so its fields may be read after a successful claim and at no other time.  A worker
 * that sees no job for SPIN_NS, or is one more than its run's quota, gives its place back and
 * sleeps on a word of its own.
 */
#include "core/threads.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef __EMSCRIPTEN__
#include <emscripten/threading.h>
#else
#include <linux/futex.h>
#include <sys/syscall.h>
#endif

#include "core/file.h"
#include "core/topology.h"

enum {
  LINE = 128,      /* two cache lines: they are fetched in pairs */
  SPIN_NS = 40000, /* a worker looks for the next job this long */
  /* a place left by a caller is kept for it this long before a worker takes it for another run */
  HOLD_NS = 200000,
  /* callers who wait compete with those who come back at once, until they have waited this long */
  PATIENCE_NS = 20000000
};
/* of `claim`: takers who come too late lower it below, never to zero */
#define SLACK      0x40000000u
#define MOST_TASKS 0x40000000u

typedef struct accel__pool_run {
  _Alignas(LINE) atomic_uint gate; /* changes when a job opens and when workers are to leave */
  uint32_t n;                      /* n, fn, arg: the job */
  accel__task_fn fn;
  void *arg;
  _Alignas(LINE) atomic_uint claim; /* SLACK + tasks not taken yet */
  _Alignas(LINE) atomic_uint done;  /* tasks finished */
  atomic_uint waiting;              /* 1: the caller sleeps on this word until all are */
  /* threads in this run, and how many it may have; written under the lock */
  _Alignas(LINE) atomic_uint members, quota;
  /* has a caller.  Workers stay a little after it has left */
  bool active;
  uint32_t width; /* most members, by the caller's wish */
} run;

typedef struct worker {
  struct accel__pool *pool;
  pthread_t thread;
  uint32_t number;
  _Alignas(LINE) atomic_uint order; /* REST, SERVE or QUIT: the worker sleeps on it */
  run *run;                         /* SERVE: whom */
  uint32_t gate;                    /* its gate before the first job to look at */
  /* to be woken by this one: a tree, so that no thread makes many system calls */
  struct worker *wake[2];
} worker;
enum { REST, SERVE, QUIT };

typedef struct waiter { /* a caller without a place, on its stack */
  struct waiter *next;
  run *run; /* its seat, once granted */
  uint32_t width;
  uint64_t patient_until; /* ns */
  atomic_uint word;       /* it sleeps on it */
} waiter;
enum { WAIT, TRY, GRANTED };

/* A pool that a fork has copied has no workers in the child.  Forks are counted instead of asking
 * getpid(), a system call, at every run: 5 % of a decode step of a tiny model. */
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
static atomic_uint n_forks; /* between the first process and this one */
static int fork_error;      /* of pthread_atfork; 0: forks are counted */
static void count_fork(void) { atomic_fetch_add(&n_forks, 1); }
static void watch_forks(void) { fork_error = pthread_atfork(NULL, NULL, count_fork); }
static uint32_t process_now(void) { return atomic_load_explicit(&n_forks, memory_order_relaxed); }

struct accel__pool {
  pthread_mutex_t lock;
  uint32_t size, width, active, members; /* active runs; members of all runs, at most size */
  uint32_t n_resting;
  uint64_t hold_until; /* ns */
  waiter *first, **last;
  uint32_t process; /* process_now() when it was made: its workers are of that process alone */
  worker **resting; /* [size - 1] stack */
  worker *workers;  /* [size - 1] */
  run *runs;        /* [size] */
};

/* this thread runs an index of some pool: parallel calls run inline */
static _Thread_local bool inside_task;
static _Thread_local accel__pool_turn *innermost_turn;

#ifdef __EMSCRIPTEN__
/* Other threads have files read by the one that started the module: it must look after them. */
static void futex_wait(atomic_uint *word, uint32_t value) {
  const bool serves = emscripten_is_main_runtime_thread();
  emscripten_futex_wait(word, value, serves ? 1 : 100); /* ms; every caller looks again */
  if (serves) emscripten_current_thread_process_queued_calls();
}
static void futex_wake(atomic_uint *word) { emscripten_futex_wake(word, 1); }
#else
static void futex_wait(atomic_uint *word, uint32_t value) {
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}
static void futex_wake(atomic_uint *word) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
#endif

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb"); /* "yield" is a no-op on most cores */
#endif
}

uint64_t accel__now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Looks at the word until it is (or, equal false, is not) `value`, for SPIN_NS at most; whether it
 * came to that. */
static bool spin(atomic_uint *word, uint32_t value, bool equal) {
  for (uint64_t start = 0;;) {
    for (int i = 0; i < 64; i++, relax())
      if ((atomic_load_explicit(word, memory_order_acquire) == value) == equal) return true;
    uint64_t now = accel__now_ns();
    if (!start) start = now;
    if (now - start > SPIN_NS) return false;
  }
}

/* ---- a job ---- */

/* A worker that its run may not keep. */
static bool surplus(const run *r) {
  return atomic_load_explicit(&r->members, memory_order_relaxed) >
         atomic_load_explicit(&r->quota, memory_order_relaxed);
}

/* Takes tasks until there are none, and counts them as done. */
static void take_tasks(run *r, uint32_t number) {
  uint32_t left, mine = 0, n = 0;
  inside_task = true;
  while ((left = atomic_fetch_sub_explicit(&r->claim, 1, memory_order_acq_rel)) > SLACK) {
    n = r->n;
    r->fn(r->arg, n - (left - SLACK), number);
    mine++;
    if (left == SLACK + 1 || (number && surplus(r))) break;
  }
  inside_task = false;
  if (mine && atomic_fetch_add(&r->done, mine) + mine == n && number &&
      atomic_exchange(&r->waiting, 0))
    futex_wake(&r->waiting);
}

static void wait_until_done(run *r, uint32_t n) {
  while (!spin(&r->done, n, true)) {
    atomic_store(&r->waiting, 1);
    if (atomic_load(&r->done) != n) futex_wait(&r->waiting, 1);
    atomic_store(&r->waiting, 0);
  }
}

static void run_inline(uint32_t n, accel__task_fn fn, void *arg) {
  bool nested = inside_task;
  inside_task = true;
  for (uint32_t i = 0; i < n; i++) fn(arg, i, 0);
  inside_task = nested;
}

/* ---- places; with the lock held ---- */

/* Each active run may have an equal share of the threads, but no more than it wants. */
static void share_out(accel__pool *pool) {
  uint32_t rank = 0;
  for (uint32_t i = 0; i < pool->size; i++) {
    run *r = &pool->runs[i];
    uint32_t quota =
        r->active ? pool->size / pool->active + (rank++ < pool->size % pool->active) : 0;
    atomic_store(&r->quota, quota < r->width ? quota : r->width);
  }
}

/* A free seat, one that workers still attend if there is any. */
static run *free_seat(accel__pool *pool) {
  run *best = NULL;
  for (uint32_t i = 0; i < pool->size; i++) {
    run *r = &pool->runs[i];
    if (!r->active && (!best || atomic_load(&r->members) > atomic_load(&best->members))) best = r;
  }
  return best;
}

/* Seats a caller; NULL: every place is taken, and workers that are too many have been told to
 * go. */
static run *seat(accel__pool *pool, uint32_t width) {
  if (pool->active == pool->size) return NULL;
  if (pool->members == pool->size) {
    pool->active++; /* as if it were here: what the others would have to give */
    share_out(pool);
    pool->active--;
    for (uint32_t i = 0; i < pool->size; i++)
      if (surplus(&pool->runs[i])) atomic_fetch_add(&pool->runs[i].gate, 1);
    return NULL;
  }
  run *r = free_seat(pool);
  r->active = true;
  r->width = width;
  pool->active++;
  pool->members++;
  atomic_fetch_add(&r->members, 1);
  share_out(pool);
  return r;
}

static void leave_queue(accel__pool *pool) {
  pool->first = pool->first->next;
  if (!pool->first) pool->last = &pool->first;
}

/* A place has become free: who waits first gets it, or is woken to try, for a thread switch at
 * every turn of callers who come back at once would cost more than it is worth.  The word to wake
 * it by, once the lock is open: a thread that is woken may push its waker off the processor, lock
 * and all. */
static atomic_uint *admit(accel__pool *pool, bool at_once) {
  waiter *w = pool->first;
  if (!w) return NULL;
  bool starving = accel__now_ns() > w->patient_until;
  if (at_once || starving) w->run = seat(pool, w->width);
  if (w->run) leave_queue(pool);
  atomic_store(&w->word, w->run ? GRANTED : TRY);
  return &w->word;
}

static void unlock_and_wake(accel__pool *pool, atomic_uint *word) {
  pthread_mutex_unlock(&pool->lock);
  /* a waiter may be gone by now: a wake-up too many at that address harms nobody */
  if (word) futex_wake(word);
}

/* Sends resting workers to a run that has an open job, up to its quota and to `most` members.  The
 * word of the first. */
static atomic_uint *call_workers(accel__pool *pool, run *r, uint32_t most) {
  worker *called[64];
  uint32_t n = 0, quota = atomic_load(&r->quota);
  if (pool->first || (pool->hold_until && accel__now_ns() < pool->hold_until)) return NULL;
  if (most > quota) most = quota;
  while (n < 64 && pool->n_resting && pool->members < pool->size &&
         atomic_load(&r->members) < most) {
    worker *w = called[n++] = pool->resting[--pool->n_resting];
    w->run = r;
    w->gate = atomic_load(&r->gate) - 1;
    w->wake[0] = w->wake[1] = NULL;
    if (n > 1) called[n / 2 - 1]->wake[n % 2] = w; /* a heap: i wakes 2i+1 and 2i+2 */
    pool->members++;
    atomic_fetch_add(&r->members, 1);
  }
  for (uint32_t i = n; i-- > 0;) atomic_store(&called[i]->order, SERVE);
  return n ? &called[0]->order : NULL;
}

/* ---- workers ---- */

/* Gives the place back.  False: not after all, as others went and it is no longer one too many
 * (called), or a job came up while it was idle. */
static bool go_to_rest(worker *w, uint32_t seen, bool called) {
  accel__pool *pool = w->pool;
  run *r = w->run;
  pthread_mutex_lock(&pool->lock);
  bool must = surplus(r);
  /* before the look at the gate: the caller raises it before it counts members */
  atomic_fetch_sub(&r->members, 1);
  if (!must && (called || atomic_load(&r->gate) != seen)) {
    atomic_fetch_add(&r->members, 1);
    pthread_mutex_unlock(&pool->lock);
    return false;
  }
  pool->members--;
  pool->resting[pool->n_resting++] = w;
  uint32_t served = SERVE;
  atomic_compare_exchange_strong(&w->order, &served, REST); /* QUIT stays */
  unlock_and_wake(pool, admit(pool, true));
  return true;
}

static void serve(worker *w) {
  run *r = w->run;
  uint32_t seen = w->gate;
  for (;;) {
    bool called = spin(&r->gate, seen, false);
    if (called) {
      seen = atomic_load_explicit(&r->gate, memory_order_acquire);
      take_tasks(r, w->number);
      if (!surplus(r)) continue;
    }
    if (go_to_rest(w, seen, called)) return;
    if (called) seen--; /* back to the same job */
  }
}

static void *work(void *arg) {
  worker *w = arg;
  for (;;) {
    uint32_t order = atomic_load(&w->order);
    if (order == QUIT) return NULL;
    if (order == REST) {
      futex_wait(&w->order, REST);
      continue;
    }
    for (int i = 0; i < 2; i++)
      if (w->wake[i]) futex_wake(&w->wake[i]->order);
    serve(w);
  }
}

/* ---- turns ---- */

/* The turn of this thread in the pool, or NULL. */
static accel__pool_turn *turn_in(const accel__pool *pool) {
  accel__pool_turn *t = innermost_turn;
  while (t && t->pool != pool) t = t->outer;
  return t;
}

static run *try_seat(accel__pool *pool, waiter *w) {
  pthread_mutex_lock(&pool->lock);
  run *r = w->run; /* granted meanwhile */
  if (!r && pool->first == w && (r = seat(pool, w->width))) leave_queue(pool);
  if (!r) atomic_store(&w->word, WAIT);
  /* room for the next, too? */
  unlock_and_wake(pool, r && pool->members < pool->size ? admit(pool, false) : NULL);
  return r;
}

static run *wait_for_seat(accel__pool *pool, uint32_t width) {
  waiter w = {.width = width};
  pthread_mutex_lock(&pool->lock);
  uint64_t now = pool->first ? accel__now_ns() : 0;
  run *r = pool->first && now > pool->first->patient_until ? NULL : seat(pool, width);
  if (!r) {
    w.patient_until = (now ? now : accel__now_ns()) + PATIENCE_NS;
    *pool->last = &w;
    pool->last = &w.next;
  }
  pthread_mutex_unlock(&pool->lock);
  while (!r) {
    uint32_t word = atomic_load(&w.word);
    if (word == WAIT) futex_wait(&w.word, WAIT);
    if (word == GRANTED) return w.run;
    if (word == TRY) r = try_seat(pool, &w);
  }
  return r;
}

void accel__pool_enter(accel__pool *pool, uint32_t width, accel__pool_turn *turn) {
  accel__pool_turn *outer = turn_in(pool);
  *turn = (accel__pool_turn){.pool = pool, .outer = innermost_turn, .width = 1, .nested = true};
  if (outer) {
    turn->run = outer->run;
    turn->width = outer->width;
    /* after a fork the workers are the parent's */
  } else if (pool && !inside_task && pool->process == process_now()) {
    turn->width = !width ? pool->width : width < pool->size ? width : pool->size;
    turn->run = wait_for_seat(pool, turn->width);
    turn->nested = false;
  }
  innermost_turn = turn;
}

void accel__pool_leave(accel__pool_turn *turn) {
  accel__pool *pool = turn->pool;
  run *r = turn->run;
  innermost_turn = turn->outer;
  if (turn->nested || pool->process != process_now()) return;
  pthread_mutex_lock(&pool->lock);
  r->active = false;
  atomic_fetch_sub(&r->members, 1);
  pool->members--;
  pool->hold_until = --pool->active ? accel__now_ns() + HOLD_NS : 0;
  if (pool->active) share_out(pool);
  unlock_and_wake(pool, admit(pool, false));
}

static void run_job(accel__pool *pool, run *r, uint32_t n, accel__task_fn fn, void *arg) {
  r->n = n;
  r->fn = fn;
  r->arg = arg;
  atomic_store_explicit(&r->done, 0, memory_order_relaxed);
  atomic_store_explicit(&r->claim, SLACK + n, memory_order_release);
  atomic_fetch_add(&r->gate, 1);
  uint32_t quota = atomic_load(&r->quota), most = n < quota ? n : quota;
  if (atomic_load(&r->members) < most && pool->process == process_now()) {
    pthread_mutex_lock(&pool->lock);
    unlock_and_wake(pool, call_workers(pool, r, most));
  }
  take_tasks(r, 0);
  wait_until_done(r, n);
}

void accel__pool_run(accel__pool *pool, uint32_t n, accel__task_fn fn, void *arg) {
  accel__pool_turn turn, *mine = turn_in(pool);
  if (!pool || inside_task || !n) {
    run_inline(n, fn, arg);
    return;
  }
  if (!mine) accel__pool_enter(pool, 0, mine = &turn);
  if (n == 1 || n > MOST_TASKS || !mine->run || mine->width == 1)
    run_inline(n, fn, arg);
  else
    run_job(pool, mine->run, n, fn, arg);
  if (mine == &turn) accel__pool_leave(&turn);
}

/* ---- life ---- */

int accel__thread_start(pthread_t *thread, size_t stack, const char *name, void *(*fn)(void *),
                        void *arg) {
  static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
  sigset_t ours, callers;
  pthread_attr_t attributes;
  if (accel__fault("thread")) return EAGAIN;
  int error = pthread_attr_init(&attributes);
  if (error) return error;
  if (stack) error = pthread_attr_setstacksize(&attributes, stack);
  sigfillset(&ours);
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) sigdelset(&ours, faults[i]);
  pthread_sigmask(SIG_SETMASK, &ours, &callers);
  if (!error) error = pthread_create(thread, &attributes, fn, arg);
  pthread_sigmask(SIG_SETMASK, &callers, NULL);
  pthread_attr_destroy(&attributes);
  if (!error) pthread_setname_np(*thread, name);
  return error;
}

static accel_status start_workers(accel__pool *pool, uint32_t wanted) {
  int error = 0;
  for (pool->size = 1; pool->size < wanted; pool->size++) {
    worker *w = &pool->workers[pool->size - 1];
    char name[20];
    snprintf(name, sizeof name, "accel-%u", pool->size);
    name[15] = 0; /* the most that a thread's name holds */
    w->pool = pool;
    w->number = pool->size;
    error = accel__thread_start(&w->thread, 0, name, work, w);
    if (error) break;
    pool->resting[pool->n_resting++] = w;
  }
  if (!error) return ACCEL_OK;
  accel__fail(ACCEL_ERROR_LIMIT, "thread pool: the system refused thread %u of %u: %s",
              pool->size + 1, wanted, strerror(error));
  return accel__remedy(ACCEL_ERROR_LIMIT,
                       "ask for fewer threads (--threads, ACCEL_THREADS) or raise the limit of "
                       "processes (ulimit -u, pids.max)");
}

accel_status accel__pool_create(uint32_t threads, accel__pool **out) {
  uint32_t most = accel__affinity_threads();
  if (!threads) threads = accel__default_threads(NULL);
  return accel__pool_create_exactly(threads < most ? threads : most, out);
}

static void *zeroed_lines(size_t n, size_t size) { /* sizes are multiples of LINE */
  void *lines = aligned_alloc(LINE, n * size);
  if (lines) memset(lines, 0, n * size);
  return lines;
}

accel_status accel__pool_create_exactly(uint32_t threads, accel__pool **out) {
  *out = NULL;
  pthread_once(&fork_once, watch_forks);
  accel__pool *pool = fork_error || accel__fault("allocation") ? NULL : calloc(1, sizeof *pool);
  if (!pool) return accel__no_memory(sizeof *pool);
  pthread_mutex_init(&pool->lock, NULL);
  pool->size = 1;
  pool->width = threads;
  pool->process = process_now();
  pool->last = &pool->first;
  pool->runs = zeroed_lines(threads, sizeof *pool->runs);
  pool->workers = zeroed_lines(threads, sizeof *pool->workers);
  pool->resting = calloc(threads, sizeof(worker *));
  accel_status status = pool->runs && pool->workers && pool->resting
                            ? start_workers(pool, threads)
                            : accel__no_memory(threads * sizeof *pool->runs);
  if (status) return accel__pool_destroy(&pool), status;
  *out = pool;
  return ACCEL_OK;
}

void accel__pool_destroy(accel__pool **pool) {
  accel__pool *p = *pool;
  *pool = NULL;
  if (!p) return;
  /* after a fork the workers are the parent's */
  for (uint32_t i = 0; p->process == process_now() && i + 1 < p->size; i++) {
    atomic_store(&p->workers[i].order, QUIT);
    futex_wake(&p->workers[i].order);
  }
  for (uint32_t i = 0; p->process == process_now() && i + 1 < p->size; i++)
    pthread_join(p->workers[i].thread, NULL);
  pthread_mutex_destroy(&p->lock);
  free(p->resting);
  free(p->workers);
  free(p->runs);
  free(p);
}

uint32_t accel__pool_size(const accel__pool *pool) { return pool ? pool->size : 1; }

void accel__pool_set_width(accel__pool *pool, uint32_t width) {
  pool->width = width && width < pool->size ? width : pool->size;
}

uint32_t accel__pool_width(const accel__pool *pool) {
  const accel__pool_turn *turn = turn_in(pool);
  return !pool ? 1 : turn ? turn->width : pool->width;
}

uint32_t accel__affinity_threads(void) {
  accel__cpu_mask mask;
  accel__affinity_mask(&mask);
  uint32_t n = accel__mask_count(&mask);
  return n ? n : 1;
}

uint32_t accel__default_threads(const char **why) {
  accel__cpu_mask mask;
  accel__affinity_mask(&mask);
  return accel__choose_threads(accel__mask_count(&mask), accel__cgroup_cpus(""),
                               accel__cores_in("", &mask), why);
}
