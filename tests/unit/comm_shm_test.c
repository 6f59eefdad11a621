/* comm_shm_test.c - ranks over shared memory: sums and broadcasts of any size, calls that do not
 * match, ranks that are gone, groups that cannot be joined. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "accel/comm.h"

enum { MOST = 300001 }; /* floats: several rounds */

static const accel_comm_transport *shm;

static int setup(void **state) {
  accel_comm_query_fn query;
  void *library = dlopen(ACCEL_TEST_PLUGINS "/libaccel_comm_shm.so", RTLD_NOW | RTLD_LOCAL);
  void *symbol = library ? dlsym(library, ACCEL_COMM_QUERY_SYMBOL) : NULL;
  (void)state;
  if (!symbol) return -1;
  memcpy(&query, &symbol, sizeof query);
  shm = query(ACCEL_COMM_ABI);
  return shm && !query(ACCEL_COMM_ABI + 1) ? 0 : -1;
}

static const char *job(void) {
  static char name[64];
  static int number;
  snprintf(name, sizeof name, "test-%ld-%d", (long)getpid(), number++);
  return name;
}

static int32_t join(const char *name, uint32_t rank, uint32_t world, uint32_t timeout_ms,
                    accel_comm **out, char why[256]) {
  const accel_comm_options options = {
      .size = sizeof options, .rank = rank, .world = world, .timeout_ms = timeout_ms, .job = name};
  why[0] = 0;
  return shm->open(&options, out, why, 256);
}

/* ---- ranks as threads ---- */

typedef struct member {
  pthread_t thread;
  const char *job;
  uint32_t rank, world;
  void (*work)(struct member *m, accel_comm *comm);
  int failures; /* of what its work expects; cmocka's asserts are the main thread's alone */
} member;

static void *be(void *arg) {
  member *m = arg;
  accel_comm *comm;
  char why[256];
  if (join(m->job, m->rank, m->world, 20000, &comm, why)) return m->failures++, NULL;
  m->work(m, comm);
  shm->close(comm);
  return NULL;
}

static void with_ranks(uint32_t world, void (*work)(member *m, accel_comm *comm)) {
  member m[4];
  const char *name = job();
  for (uint32_t r = 0; r < world; r++) {
    m[r] = (member){.job = name, .rank = r, .world = world, .work = work};
    assert_int_equal(pthread_create(&m[r].thread, NULL, be, &m[r]), 0);
  }
  for (uint32_t r = 0; r < world; r++) {
    pthread_join(m[r].thread, NULL);
    assert_int_equal(m[r].failures, 0);
  }
}
#define EXPECT(m, what) ((m)->failures += !(what))

/* Values whose sum depends on the order in which they are added. */
static float value(uint32_t rank, size_t i) {
  return (rank ? 1.0f : 16777216.0f) + (float)(i % 7) * 0.25f * (float)(rank + 1);
}

static void sums(member *m, accel_comm *comm) {
  static const size_t sizes[] = {1, 7, 2048, 131072, 131073, MOST};
  float *data = malloc(MOST * sizeof *data);
  for (size_t k = 0; data && k < sizeof sizes / sizeof *sizes; k++) {
    const size_t n = sizes[k];
    for (size_t i = 0; i < n; i++) data[i] = value(m->rank, i);
    EXPECT(m, shm->allreduce(comm, data, n, 1) == ACCEL_COMM_OK);
    for (size_t i = 0; i < n; i++) {
      float sum = value(0, i);
      for (uint32_t r = 1; r < m->world; r++) sum += value(r, i);
      EXPECT(m, data[i] == sum);
    }
  }
  EXPECT(m, data != NULL);
  free(data);
}

static void broadcasts(member *m, accel_comm *comm) {
  static const size_t sizes[] = {1, 4096, 524288, 524289, 1200001};
  unsigned char *bytes = malloc(1200001);
  for (size_t k = 0; bytes && k < sizeof sizes / sizeof *sizes; k++) {
    for (size_t i = 0; i < sizes[k]; i++) bytes[i] = m->rank ? 0 : (unsigned char)(i * 31 + k);
    EXPECT(m, shm->broadcast(comm, bytes, sizes[k], 2) == ACCEL_COMM_OK);
    for (size_t i = 0; i < sizes[k]; i++) EXPECT(m, bytes[i] == (unsigned char)(i * 31 + k));
  }
  free(bytes);
}

static void thousands(member *m, accel_comm *comm) {
  for (int i = 0; i < 3000; i++) {
    float x[3] = {(float)m->rank, (float)i, 1};
    EXPECT(m, shm->allreduce(comm, x, 3, 0) == ACCEL_COMM_OK);
    EXPECT(m, x[1] == (float)i * (float)m->world && x[2] == (float)m->world);
  }
}

static void test_sums(void **state) {
  (void)state;
  for (uint32_t world = 2; world <= 4; world++) with_ranks(world, sums);
}
static void test_broadcasts(void **state) {
  (void)state;
  for (uint32_t world = 2; world <= 3; world++) with_ranks(world, broadcasts);
}
static void test_many(void **state) {
  (void)state;
  with_ranks(2, thousands);
  with_ranks(3, thousands);
}

/* One rank makes another call than the others: all are told, and go on. */
static void mismatches(member *m, accel_comm *comm) {
  float x[4] = {1, 1, 1, 1};
  const int32_t other =
      m->rank == 1 ? shm->allreduce(comm, x, 3, 0) : shm->allreduce(comm, x, 4, 0);
  EXPECT(m, other == ACCEL_COMM_E_MISMATCH);
  EXPECT(m, shm->allreduce(comm, x, 2, m->rank ? 5 : 6) == ACCEL_COMM_E_MISMATCH);
  const int32_t kind = m->rank ? shm->allreduce(comm, x, 4, 0) : shm->broadcast(comm, x, 4, 0);
  EXPECT(m, kind == ACCEL_COMM_E_MISMATCH);
  x[0] = 2;
  EXPECT(m, shm->allreduce(comm, x, 1, 0) == ACCEL_COMM_OK);
  EXPECT(m, x[0] == 2.0f * (float)m->world);
}
static void test_mismatch(void **state) {
  (void)state;
  with_ranks(2, mismatches);
  with_ranks(3, mismatches);
}

static void aborts(member *m, accel_comm *comm) {
  float x = 1;
  EXPECT(m, shm->allreduce(comm, &x, 1, 0) == ACCEL_COMM_OK);
  if (m->rank == 1) shm->abort(comm);
  EXPECT(m, shm->allreduce(comm, &x, 1, 0) == ACCEL_COMM_E_LOST);
  EXPECT(m, shm->broadcast(comm, &x, 1, 0) == ACCEL_COMM_E_LOST);
}
static void test_abort(void **state) {
  (void)state;
  with_ranks(3, aborts);
}

/* ---- ranks as processes ---- */

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void test_a_rank_dies(void **state) {
  const char *name = job();
  accel_comm *comm;
  char why[256];
  float x = 1;
  (void)state;
  const pid_t pid = fork();
  if (!pid) {
    if (join(name, 1, 2, 20000, &comm, why) || shm->allreduce(comm, &x, 1, 0)) _exit(1);
    pause();
    _exit(1);
  }
  assert_int_equal(join(name, 0, 2, 20000, &comm, why), ACCEL_COMM_OK);
  assert_int_equal(shm->allreduce(comm, &x, 1, 0), ACCEL_COMM_OK);
  kill(pid, SIGKILL);
  const double begin = now();
  assert_int_equal(shm->allreduce(comm, &x, 1, 0), ACCEL_COMM_E_LOST);
  assert_true(now() - begin < 2);
  assert_int_equal(shm->allreduce(comm, &x, 1, 0), ACCEL_COMM_E_LOST);
  shm->close(comm);
  waitpid(pid, NULL, 0);
}

/* What a group that was killed before it was whole has left is in nobody's way. */
static void test_left_behind(void **state) {
  static const char *name;
  accel_comm *comm;
  char why[256];
  (void)state;
  name = job();
  const pid_t pid = fork();
  if (!pid) _exit(join(name, 0, 2, 20000, &comm, why));
  usleep(200000);
  assert_int_equal(join(name, 0, 2, 100, &comm, why), ACCEL_COMM_E_SYSTEM);
  assert_non_null(strstr(why, "another group"));
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
  const pid_t second = fork();
  if (!second) {
    float x = 1;
    _exit(join(name, 1, 2, 20000, &comm, why) || shm->allreduce(comm, &x, 1, 0) || x != 2);
  }
  float x = 1;
  int status = 1;
  assert_int_equal(join(name, 0, 2, 20000, &comm, why), ACCEL_COMM_OK);
  assert_int_equal(shm->allreduce(comm, &x, 1, 0), ACCEL_COMM_OK);
  shm->close(comm);
  waitpid(second, &status, 0);
  assert_int_equal(status, 0);
}

static void test_refused(void **state) {
  accel_comm *comm;
  char why[256];
  (void)state;
  assert_int_equal(join("a/b", 0, 2, 10, &comm, why), ACCEL_COMM_E_SYSTEM);
  assert_non_null(strstr(why, "name"));
  assert_null(comm);
  assert_int_equal(join("", 0, 2, 10, &comm, why), ACCEL_COMM_E_SYSTEM);
  assert_int_equal(join(job(), 1, 2, 50, &comm, why), ACCEL_COMM_E_SYSTEM);
  assert_string_equal(why, "rank 0 did not come");
  assert_int_equal(join(job(), 0, 3, 50, &comm, why), ACCEL_COMM_E_SYSTEM);
  assert_string_equal(why, "only 1 of 3 ranks came");
  const char *name = job();
  const pid_t pid = fork();
  if (!pid) _exit(join(name, 0, 2, 1500, &comm, why));
  assert_int_equal(join(name, 1, 3, 1000, &comm, why), ACCEL_COMM_E_SYSTEM);
  assert_non_null(strstr(why, "a group of 2"));
  waitpid(pid, NULL, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sums),        cmocka_unit_test(test_broadcasts),
      cmocka_unit_test(test_many),        cmocka_unit_test(test_mismatch),
      cmocka_unit_test(test_abort),       cmocka_unit_test(test_a_rank_dies),
      cmocka_unit_test(test_left_behind), cmocka_unit_test(test_refused)};
  return cmocka_run_group_tests(tests, setup, NULL);
}
