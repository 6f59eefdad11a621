/* core_threads_test.c - the pool: every index once, several callers, nesting, fork, refusal, cost;
 * run it under TSan too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/config.h"
#include "core/threads.h"
#include "core/topology.h"

/* more than processors too: what a busy machine looks like */
static accel__pool *make(uint32_t threads) {
  accel__pool *pool;
  if (threads ? accel__pool_create_exactly(threads, &pool) : accel__pool_create(0, &pool))
    fail_msg("%s", accel__message());
  return pool;
}

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- every index once ---- */

enum { MOST = 10000 };
typedef struct job {
  /* plain memory: TSan sees two workers with one index, and a return before all are done */
  unsigned char seen[MOST];
  uint32_t size;
  uint32_t spin_ns;
  atomic_uint workers, wrong;
} job;

static void mark(void *arg, uint32_t index, uint32_t worker) {
  job *j = arg;
  j->seen[index]++;
  atomic_fetch_or(&j->workers, 1u << (worker & 31));
  if (worker >= j->size) atomic_fetch_add(&j->wrong, 1);
  for (uint64_t start = now_ns(); j->spin_ns && now_ns() - start < j->spin_ns;) continue;
}

static void run_and_check(accel__pool *pool, job *j, uint32_t n, uint32_t spin_ns) {
  memset(j->seen, 0, sizeof j->seen);
  j->size = accel__pool_size(pool);
  j->spin_ns = spin_ns;
  accel__pool_run(pool, n, mark, j);
  for (uint32_t i = 0; i < MOST; i++) {
    if (j->seen[i] != (i < n)) fail_msg("index %u of %u ran %u times", i, n, j->seen[i]);
  }
  assert_int_equal(atomic_load(&j->wrong), 0);
}

static void test_every_index_once(void **state) {
  (void)state;
  static job j;
  static const uint32_t counts[] = {0, 1, 2, 3, 7, 64, 1000, MOST};
  for (uint32_t threads = 1; threads <= 9; threads += threads < 4 ? 1 : 5) {
    accel__pool *pool = make(threads);
    assert_int_equal(accel__pool_size(pool), threads);
    for (int round = 0; round < 20; round++) {
      for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        run_and_check(pool, &j, counts[i], 0);
      if (round % 5 == 0) usleep(1000); /* let the workers fall asleep */
    }
    accel__pool_destroy(&pool);
    assert_null(pool);
  }
}

static void test_small_jobs_in_a_row(void **state) {
  (void)state;
  static job j;
  for (uint32_t threads = 2; threads <= 5; threads += 3) {
    accel__pool *pool = make(threads);
    j.size = threads;
    for (uint32_t round = 0; round < 10000; round++) {
      uint32_t n = 1 + round % 7;
      memset(j.seen, 0, 8);
      accel__pool_run(pool, n, mark, &j);
      for (uint32_t i = 0; i < 8; i++) assert_int_equal(j.seen[i], i < n);
    }
    accel__pool_destroy(&pool);
  }
}

static void test_workers_take_part(void **state) {
  (void)state;
  static job j;
  accel__pool *pool = make(2);
  for (int round = 0; round < 100 && atomic_load(&j.workers) != 3; round++)
    run_and_check(pool, &j, 200, 20000);
  assert_int_equal(atomic_load(&j.workers), 3); /* after sleeping, too */
  atomic_store(&j.workers, 0);
  usleep(20000);
  for (int round = 0; round < 100 && atomic_load(&j.workers) != 3; round++)
    run_and_check(pool, &j, 200, 20000);
  assert_int_equal(atomic_load(&j.workers), 3);
  accel__pool_destroy(&pool);
}

/* ---- sizes ---- */

static void test_sizes(void **state) {
  (void)state;
  uint32_t most = accel__affinity_threads();
  const char *why = NULL;
  accel__pool *pool = make(1);
  assert_int_equal(accel__pool_size(pool), 1);
  accel__pool_destroy(&pool);
  assert_int_equal(accel__pool_create(100000, &pool), ACCEL_OK);
  assert_int_equal(accel__pool_size(pool), most);
  accel__pool_destroy(&pool);
  pool = make(0);
  assert_int_equal(accel__pool_size(pool), accel__default_threads(&why));
  assert_non_null(why);
  assert_in_range(accel__pool_size(pool), 1, most);
  accel__pool_destroy(&pool);
  accel__pool_destroy(&pool); /* NULL */
  assert_int_equal(accel__pool_size(NULL), 1);
  static job j;
  run_and_check(NULL, &j, 10, 0); /* no pool: inline */
}

static void test_affinity_is_obeyed(void **state) {
  (void)state;
  cpu_set_t all, one;
  assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
  CPU_ZERO(&one);
  for (int i = 0; i < CPU_SETSIZE && !CPU_COUNT(&one); i++) {
    if (CPU_ISSET(i, &all)) CPU_SET(i, &one);
  }
  assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
  const char *why = NULL;
  assert_int_equal(accel__affinity_threads(), 1);
  assert_int_equal(accel__default_threads(&why), 1);
  accel__pool *pool;
  assert_int_equal(accel__pool_create(8, &pool), ACCEL_OK);
  assert_int_equal(accel__pool_size(pool), 1);
  accel__pool_destroy(&pool);
  assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
}

/* ---- several callers, nesting ---- */

typedef struct caller {
  accel__pool *pool;
  pthread_t thread;
  uint64_t sum;
} caller;

static void add_index(void *arg, uint32_t index, uint32_t worker) {
  uint64_t *sum = arg; /* one per worker, a line apart */
  sum[8 * worker] += index;
}
static void *call_often(void *arg) {
  caller *c = arg;
  for (int round = 0; round < 2000; round++) {
    uint64_t sum[64 * 8] = {0};
    accel__pool_run(c->pool, 50, add_index, sum);
    for (int i = 0; i < 64; i++) c->sum += sum[8 * i];
  }
  return NULL;
}

static void test_eight_callers(void **state) {
  (void)state;
  caller c[8];
  accel__pool *pool = make(4);
  for (int i = 0; i < 8; i++) {
    c[i] = (caller){.pool = pool};
    assert_int_equal(pthread_create(&c[i].thread, NULL, call_often, &c[i]), 0);
  }
  for (int i = 0; i < 8; i++) {
    pthread_join(c[i].thread, NULL);
    assert_int_equal(c[i].sum, 2000u * 1225u);
  }
  accel__pool_destroy(&pool);
}

static void test_two_pools(void **state) {
  (void)state;
  caller c[2];
  for (int i = 0; i < 2; i++) {
    c[i] = (caller){.pool = make(2)};
    assert_int_equal(pthread_create(&c[i].thread, NULL, call_often, &c[i]), 0);
  }
  for (int i = 0; i < 2; i++) {
    pthread_join(c[i].thread, NULL);
    assert_int_equal(c[i].sum, 2000u * 1225u);
    accel__pool_destroy(&c[i].pool);
  }
}

typedef struct nest {
  accel__pool *pool, *other;
  atomic_uint inner;
} nest;
static void inner(void *arg, uint32_t index, uint32_t worker) {
  nest *n = arg;
  (void)index;
  if (worker == 0) atomic_fetch_add(&n->inner, 1);
}
static void outer(void *arg, uint32_t index, uint32_t worker) {
  nest *n = arg;
  (void)worker;
  accel__pool_run(index % 2 ? n->pool : n->other, 10, inner, n);
}
static void test_nested(void **state) {
  (void)state;
  nest n = {.pool = make(3), .other = make(2)};
  for (int round = 0; round < 200; round++) accel__pool_run(n.pool, 8, outer, &n);
  assert_int_equal(atomic_load(&n.inner), 200 * 8 * 10); /* inner calls ran inline: worker 0 */
  static job j;
  run_and_check(n.pool, &j, 100, 0); /* and the mark of nesting is gone */
  accel__pool_destroy(&n.pool);
  accel__pool_destroy(&n.other);
}

/* ---- turns: never more threads than the pool's size ---- */

typedef struct crowd {
  accel__pool *pool;
  pthread_t thread;
  atomic_uint *running, *most, *wrong; /* shared by all callers */
  uint32_t rounds, size;
  uint64_t sum, expected;
  bool alone; /* tasks must be on the caller's thread */
  pthread_t self;
} crowd;

static void counted(void *arg, uint32_t index, uint32_t worker) {
  crowd *c = arg;
  uint32_t now = atomic_fetch_add(c->running, 1) + 1, most = atomic_load(c->most);
  while (now > most && !atomic_compare_exchange_weak(c->most, &most, now)) continue;
  for (uint64_t start = now_ns(); now_ns() - start < 3000;) continue;
  if (worker >= c->size || (c->alone && (worker || !pthread_equal(c->self, pthread_self()))))
    atomic_fetch_add(c->wrong, 1);
  __atomic_fetch_add(&c->sum, index, __ATOMIC_RELAXED);
  atomic_fetch_sub(c->running, 1);
}
static void *use_turns(void *arg) {
  crowd *c = arg;
  c->self = pthread_self();
  for (uint32_t round = 0; round < c->rounds; round++) {
    accel__pool_turn turn;
    bool takes = round % 3; /* without one, a call takes its own */
    uint32_t calls = takes ? 1 + round % 7 : 1;
    if (takes) accel__pool_enter(c->pool, 0, &turn);
    for (uint32_t i = 0; i < calls; i++) accel__pool_run(c->pool, 1 + round % 5, counted, c);
    if (takes) accel__pool_leave(&turn);
    c->expected += (uint64_t)calls * (round % 5) * (1 + round % 5) / 2;
    if (round % 16 == 0) usleep(300); /* workers fall asleep, places are left */
  }
  return NULL;
}

static void use_together(uint32_t size, uint32_t width, uint32_t n, uint32_t rounds) {
  crowd c[9];
  atomic_uint running = 0, most = 0, wrong = 0;
  accel__pool *pool = make(size);
  accel__pool_set_width(pool, width);
  assert_int_equal(accel__pool_width(pool), width ? width : size);
  for (uint32_t i = 0; i < n; i++) {
    c[i] = (crowd){.pool = pool,
                   .running = &running,
                   .most = &most,
                   .wrong = &wrong,
                   .rounds = rounds,
                   .size = size,
                   .alone = width == 1};
    assert_int_equal(pthread_create(&c[i].thread, NULL, use_turns, &c[i]), 0);
  }
  for (uint32_t i = 0; i < n; i++) {
    pthread_join(c[i].thread, NULL);
    assert_int_equal(c[i].sum, c[i].expected);
  }
  assert_int_equal(atomic_load(&wrong), 0);
  assert_in_range(atomic_load(&most), 1, size);
  accel__pool_destroy(&pool);
}

static void test_never_more_threads_than_the_size(void **state) {
  (void)state;
  for (uint32_t size = 1; size <= 4; size++)
    for (uint32_t n = 1; n <= 9; n += 4) use_together(size, 0, n, 200);
}

static void test_throughput_mode(void **state) {
  (void)state;
  for (uint32_t size = 1; size <= 3; size++)
    for (uint32_t n = 1; n <= 5; n += 2) use_together(size, 1, n, 200);
}

static void test_width_of_a_turn(void **state) {
  (void)state;
  static job j;
  accel__pool *pool = make(3), *other = make(2);
  accel__pool_turn turn, inner, elsewhere;
  accel__pool_set_width(pool, 1);
  accel__pool_enter(pool, UINT32_MAX, &turn); /* loading a model: all threads in either mode */
  assert_int_equal(accel__pool_width(pool), 3);
  assert_int_equal(accel__pool_width(other), 2);
  accel__pool_enter(other, 0, &elsewhere);
  accel__pool_enter(pool, 1, &inner); /* uses the outer turn's place and width */
  assert_int_equal(accel__pool_width(pool), 3);
  for (int round = 0; round < 100 && (atomic_load(&j.workers) & 7) != 7; round++)
    run_and_check(pool, &j, 200, 20000);
  assert_int_equal(atomic_load(&j.workers), 7);
  accel__pool_leave(&inner);
  run_and_check(other, &j, 100, 0);
  accel__pool_leave(&elsewhere);
  run_and_check(pool, &j, 100, 0);
  accel__pool_leave(&turn);
  assert_int_equal(accel__pool_width(pool), 1);
  accel__pool_enter(NULL, 0, &turn);
  assert_int_equal(accel__pool_width(NULL), 1);
  accel__pool_leave(&turn);
  accel__pool_destroy(&pool);
  accel__pool_destroy(&other);
}

/* A second caller gets its place while the first one's turn goes on. */
typedef struct lasting {
  accel__pool *pool;
  pthread_t thread;
  atomic_bool arrived, served;
} lasting;
static void *come_second(void *arg) {
  lasting *l = arg;
  accel__pool_turn turn;
  atomic_store(&l->arrived, true);
  accel__pool_enter(l->pool, 0, &turn);
  atomic_store(&l->served, true);
  accel__pool_leave(&turn);
  return NULL;
}
static void short_task(void *arg, uint32_t index, uint32_t worker) {
  (void)arg, (void)index, (void)worker;
  for (uint64_t start = now_ns(); now_ns() - start < 10000;) continue;
}
static void test_second_caller_is_let_in(void **state) {
  (void)state;
  for (uint32_t size = 2; size <= 3; size++) {
    lasting l = {.pool = make(size)};
    accel__pool_turn turn;
    accel__pool_enter(l.pool, 0, &turn);
    /* the workers are here */
    for (int i = 0; i < 100; i++) accel__pool_run(l.pool, 8, short_task, NULL);
    assert_int_equal(pthread_create(&l.thread, NULL, come_second, &l), 0);
    uint64_t start = now_ns();
    while (!atomic_load(&l.served) && now_ns() - start < 10000000000u)
      accel__pool_run(l.pool, 8, short_task, NULL);
    assert_true(atomic_load(&l.served));
    accel__pool_leave(&turn);
    pthread_join(l.thread, NULL);
    accel__pool_destroy(&l.pool);
  }
}

static uint64_t cpu_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
static void test_idle_pool_uses_no_processor(void **state) {
  (void)state;
  static job j;
  accel__pool *pool = make(4);
  accel__pool_turn turn;
  run_and_check(pool, &j, 1000, 1000);
  usleep(50000);
  uint64_t before = cpu_ns();
  usleep(300000);
  assert_in_range(cpu_ns() - before, 0, 5000000); /* under 2 % of one processor */
  accel__pool_enter(pool, 0, &turn);              /* nor within a turn that computes nothing */
  run_and_check(pool, &j, 1000, 1000);
  usleep(50000);
  before = cpu_ns();
  usleep(300000);
  assert_in_range(cpu_ns() - before, 0, 5000000);
  accel__pool_leave(&turn);
  accel__pool_destroy(&pool);
}

/* ---- fork ---- */

typedef struct forker {
  accel__pool *pool;
  atomic_int status;
} forker;

static int use_in_child(accel__pool *pool) {
  uint64_t sum[64 * 8] = {0}, all = 0;
  alarm(20); /* a hang fails */
  for (int round = 0; round < 100; round++) accel__pool_run(pool, 50, add_index, sum);
  for (int i = 0; i < 64; i++) all += sum[8 * i];
  accel__pool_destroy(&pool);
  return all == 100 * 1225 ? 0 : 1;
}
static void fork_inside(void *arg, uint32_t index, uint32_t worker) {
  forker *f = arg;
  (void)worker;
  if (index != 3) return;
  pid_t child = fork();
  if (!child) _exit(use_in_child(f->pool));
  int status = -1;
  waitpid(child, &status, 0);
  atomic_store(&f->status, status);
}

static void test_fork(void **state) {
  (void)state;
  forker f = {.pool = make(3)};
  static job j;
  run_and_check(f.pool, &j, 100, 1000);
  pid_t child = fork();
  if (!child) _exit(use_in_child(f.pool));
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  usleep(2000); /* now with the workers asleep */
  child = fork();
  if (!child) _exit(use_in_child(f.pool));
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  atomic_store(&f.status, -1); /* and from the midst of a parallel call */
  accel__pool_run(f.pool, 8, fork_inside, &f);
  assert_int_equal(atomic_load(&f.status), 0);
  run_and_check(f.pool, &j, 1000, 0); /* the parent goes on */
  accel__pool_destroy(&f.pool);
}

/* ---- refusal, signals ---- */

static void test_refused(void **state) {
  (void)state;
  accel__pool *pool = (void *)1;
  accel__fault_arm("allocation");
  assert_int_equal(accel__pool_create(2, &pool), ACCEL_ERROR_OUT_OF_MEMORY);
  assert_null(pool);
  accel__fault_arm("thread:3"); /* two workers run already */
  assert_int_equal(accel__pool_create_exactly(5, &pool), ACCEL_ERROR_LIMIT);
  assert_null(pool);
  assert_string_equal(
      accel__message(),
      "thread pool: the system refused thread 4 of 5: Resource temporarily unavailable");
  assert_true(strstr(accel__remedy_text(), "ACCEL_THREADS") != NULL);
  accel__fault_arm(NULL);
}

static void blocked_signals(void *arg, uint32_t index, uint32_t worker) {
  sigset_t set;
  (void)index;
  pthread_sigmask(SIG_BLOCK, NULL, &set);
  if (worker &&
      (!sigismember(&set, SIGINT) || !sigismember(&set, SIGUSR1) || sigismember(&set, SIGSEGV))) {
    atomic_fetch_add((atomic_int *)arg, 1);
  }
  for (uint64_t start = now_ns(); now_ns() - start < 20000;) continue;
}
static void test_signals_stay_with_the_application(void **state) {
  (void)state;
  sigset_t before, after;
  atomic_int wrong = 0;
  pthread_sigmask(SIG_BLOCK, NULL, &before);
  accel__pool *pool = make(2);
  pthread_sigmask(SIG_BLOCK, NULL, &after);
  for (int i = 1; i < 65; i++) assert_int_equal(sigismember(&before, i), sigismember(&after, i));
  for (int round = 0; round < 20; round++) accel__pool_run(pool, 20, blocked_signals, &wrong);
  assert_int_equal(atomic_load(&wrong), 0);
  accel__pool_destroy(&pool);
}

/* ---- cost ---- */

static void nothing(void *arg, uint32_t index, uint32_t worker) {
  (void)arg, (void)index, (void)worker;
}

static void test_cost(void **state) {
  (void)state;
  accel__pool *pool = make(2);
  uint64_t best = UINT64_MAX;
  for (int round = 0; round < 20; round++) {
    uint64_t start = now_ns();
    for (int i = 0; i < 1000; i++) accel__pool_run(pool, 2, nothing, NULL);
    uint64_t each = (now_ns() - start) / 1000;
    if (each < best) best = each;
  }
  print_message("a parallel call over 2 indices: %lu ns\n", (unsigned long)best);
  /* generous: sanitizers and busy machines; a worker that sleeps between calls costs far more than
   * ~1 us */
  assert_true(best < 200000);
  accel__pool_destroy(&pool);
}

static void test_creation_and_destruction(void **state) {
  (void)state;
  for (int round = 0; round < 200; round++) {
    accel__pool *pool = make(2);
    if (round % 3) accel__pool_run(pool, 4, nothing, NULL);
    if (round % 50 == 0) usleep(500);
    accel__pool_destroy(&pool);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_index_once),
      cmocka_unit_test(test_small_jobs_in_a_row),
      cmocka_unit_test(test_workers_take_part),
      cmocka_unit_test(test_sizes),
      cmocka_unit_test(test_affinity_is_obeyed),
      cmocka_unit_test(test_eight_callers),
      cmocka_unit_test(test_two_pools),
      cmocka_unit_test(test_nested),
      cmocka_unit_test(test_never_more_threads_than_the_size),
      cmocka_unit_test(test_throughput_mode),
      cmocka_unit_test(test_width_of_a_turn),
      cmocka_unit_test(test_second_caller_is_let_in),
      cmocka_unit_test(test_idle_pool_uses_no_processor),
      cmocka_unit_test(test_fork),
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_signals_stay_with_the_application),
      cmocka_unit_test(test_cost),
      cmocka_unit_test(test_creation_and_destruction),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
