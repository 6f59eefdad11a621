/* comm_nccl_test.c - sums between devices over a stub of NCCL and RCCL (tests/stubs/nccl_stub.c),
 * whose devices' memory is the host's: the way the ranks agree on, calls that do not match, ranks
 * that die within a sum; and the real NCCL, where it is installed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "accel/comm.h"

enum { MOST = 150001 }; /* floats: several rounds of the stub */

static const accel_comm_transport *shm, *nccl, *rccl;

static const accel_comm_transport *load(const char *path) {
  accel_comm_query_fn query;
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void *symbol = library ? dlsym(library, ACCEL_COMM_QUERY_SYMBOL) : NULL;
  if (!symbol) return NULL;
  memcpy(&query, &symbol, sizeof query);
  return query(ACCEL_COMM_ABI);
}

static int setup(void **state) {
  (void)state;
  /* by their names they are those that the transports ask for */
  if (!dlopen(ACCEL_TEST_BUILD "/tests/stubs/nccl/libnccl.so.2", RTLD_NOW | RTLD_LOCAL) ||
      !dlopen(ACCEL_TEST_BUILD "/tests/stubs/nccl/librccl.so.1", RTLD_NOW | RTLD_LOCAL))
    return -1;
  shm = load(ACCEL_TEST_PLUGINS "/libaccel_comm_shm.so");
  nccl = load(ACCEL_TEST_PLUGINS "/libaccel_comm_nccl.so");
  rccl = load(ACCEL_TEST_PLUGINS "/libaccel_comm_rccl.so");
  return shm && nccl && rccl ? 0 : -1;
}

/* ---- ranks ---- */

typedef struct rank {
  accel_comm *under, *comm;
  char why[256];
} rank;

static int32_t join(const accel_comm_transport *t, const char *job, uint32_t number, uint32_t world,
                    rank *r) {
  accel_comm_options o = {
      .size = sizeof o, .rank = number, .world = world, .timeout_ms = 20000, .job = job};
  int32_t rc = shm->open(&o, &r->under, r->why, sizeof r->why);
  if (rc) return rc;
  o.over = shm;
  o.over_comm = r->under;
  rc = t->open(&o, &r->comm, r->why, sizeof r->why);
  if (rc) shm->close(r->under);
  return rc;
}

static void leave(const accel_comm_transport *t, rank *r) {
  t->close(r->comm);
  shm->close(r->under);
}

typedef int work_fn(const accel_comm_transport *t, rank *r, uint32_t number, uint32_t world);

/* Every rank is a process; how that of rank 0, which `work` answers, ended. */
static int run(const accel_comm_transport *t, uint32_t world, const char *how, work_fn *work) {
  static int group;
  char job[64];
  pid_t pid[4];
  int status = 0, failures = 0;
  snprintf(job, sizeof job, "nccl-%ld-%d", (long)getpid(), group++);
  for (uint32_t i = 0; i < world; i++) {
    pid[i] = fork();
    if (pid[i]) continue;
    rank r = {.comm = NULL};
    setenv("STUB_NCCL", how, 1);
    if (join(t, job, i, world, &r)) _exit(100);
    failures = work(t, &r, i, world);
    leave(t, &r);
    _exit(failures);
  }
  for (uint32_t i = world; i-- > 0;) {
    waitpid(pid[i], &status, 0);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 101;
    if (!i || !strchr(how, ':')) failures += code;
  }
  return failures;
}
#define EXPECT(what) (bad += !(what))

static float value(uint32_t number, size_t i) {
  return (float)(number + 1) * (float)(i % 1000 + 1);
}

static int sums(const accel_comm_transport *t, rank *r, uint32_t number, uint32_t world) {
  static const size_t sizes[] = {1, 3000, 65536, MOST, 1};
  float *data = malloc(MOST * sizeof *data);
  int bad = !data;
  for (size_t k = 0; data && k < sizeof sizes / sizeof *sizes; k++) {
    for (size_t i = 0; i < sizes[k]; i++) data[i] = value(number, i);
    EXPECT(!t->allreduce_device(r->comm, 0, NULL, data, sizes[k], 7, r->why, sizeof r->why));
    for (size_t i = 0; i < sizes[k]; i++) EXPECT(data[i] == value(world * (world + 1) / 2 - 1, i));
    float host = 1; /* the other transport has its turn between */
    EXPECT(!t->allreduce(r->comm, &host, 1, 3) && host == (float)world);
    char text[8] = "";
    if (!number) strcpy(text, "hello");
    EXPECT(!t->broadcast(r->comm, text, sizeof text, 4) && !strcmp(text, "hello"));
  }
  EXPECT(t->look(r->comm) == ACCEL_COMM_OK);
  free(data);
  return bad > 90 ? 90 : bad;
}

static void test_sums(void **state) {
  (void)state;
  assert_string_equal(nccl->device_api, "cuda");
  assert_string_equal(rccl->device_api, "hip");
  assert_int_equal(run(nccl, 2, "", sums), 0);
  assert_int_equal(run(rccl, 3, "", sums), 0);
}

/* Two ranks on one card: NCCL makes no communicator, and says so once. */
static int refused(const accel_comm_transport *t, rank *r, uint32_t number, uint32_t world) {
  float x = (float)number;
  int bad = 0;
  (void)world;
  EXPECT(t->allreduce_device(r->comm, 0, NULL, &x, 1, 0, r->why, sizeof r->why) ==
         ACCEL_COMM_E_HOST);
  EXPECT(strstr(r->why, "invalid usage") && strstr(r->why, "Duplicate GPU") && x == (float)number);
  EXPECT(t->allreduce_device(r->comm, 0, NULL, &x, 1, 0, r->why, sizeof r->why) ==
         ACCEL_COMM_E_HOST);
  EXPECT(!*r->why);
  EXPECT(!t->allreduce(r->comm, &x, 1, 0) && x == 1);
  return bad;
}

static void test_refused(void **state) {
  (void)state;
  assert_int_equal(run(nccl, 2, "refuse", refused), 0);
}

/* Ranks that do not make the same call, then one that is on another device. */
static int unlike(const accel_comm_transport *t, rank *r, uint32_t number, uint32_t world) {
  float x[2] = {1, 1};
  int bad = 0;
  (void)world;
  const int32_t first = number ? t->allreduce(r->comm, x, 1, 2)
                               : t->allreduce_device(r->comm, 0, NULL, x, 1, 0, r->why, 256);
  EXPECT(first == ACCEL_COMM_E_MISMATCH); /* before there is a communicator */
  x[0] = 1;
  EXPECT(!t->allreduce_device(r->comm, 0, NULL, x, 1, 0, r->why, 256) && x[0] == 2);
  const int32_t later = number ? t->allreduce(r->comm, x, 1, 2)
                               : t->allreduce_device(r->comm, 0, NULL, x, 1, 0, r->why, 256);
  EXPECT(later == ACCEL_COMM_E_MISMATCH);
  EXPECT(t->allreduce_device(r->comm, 0, NULL, x, 1 + number, 0, r->why, 256) ==
         ACCEL_COMM_E_MISMATCH);
  EXPECT(t->allreduce_device(r->comm, 0, NULL, x, 1, number, r->why, 256) == ACCEL_COMM_E_MISMATCH);
  x[0] = 1;
  EXPECT(t->allreduce_device(r->comm, number, NULL, x, 1, 0, r->why, 256) == ACCEL_COMM_E_HOST);
  EXPECT(x[0] == 1);
  EXPECT(!t->allreduce_device(r->comm, 0, NULL, x, 1, 0, r->why, 256) && x[0] == 2);
  return bad;
}

static void test_unlike(void **state) {
  (void)state;
  assert_int_equal(run(nccl, 2, "", unlike), 0);
}

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Rank 1 ends within its second sum, which NCCL would wait for. */
static int bereft(const accel_comm_transport *t, rank *r, uint32_t number, uint32_t world) {
  float x = 1;
  int bad = 0;
  (void)number, (void)world;
  EXPECT(!t->allreduce_device(r->comm, 0, NULL, &x, 1, 0, r->why, 256));
  const double from = seconds();
  EXPECT(t->allreduce_device(r->comm, 0, NULL, &x, 1, 0, r->why, 256) == ACCEL_COMM_E_LOST);
  EXPECT(seconds() - from < 2);
  EXPECT(t->look(r->comm) == ACCEL_COMM_E_LOST);
  EXPECT(t->allreduce_device(r->comm, 0, NULL, &x, 1, 0, r->why, 256) == ACCEL_COMM_E_LOST);
  return bad;
}

static void test_lost(void **state) {
  (void)state;
  assert_int_equal(run(nccl, 2, "die:1:2", bereft), 0);
}

static void test_alone(void **state) {
  const accel_comm_options o = {.size = sizeof o, .world = 2, .job = "alone"};
  accel_comm *comm;
  char why[256];
  (void)state;
  assert_int_equal(nccl->open(&o, &comm, why, sizeof why), ACCEL_COMM_E_SYSTEM);
  assert_non_null(strstr(why, "shm+nccl"));
}

/* ---- the real library ---- */

typedef struct unique_id {
  char bytes[128];
} unique_id;

/* NCCL loads and makes ids where there is no card. */
static void test_real(void **state) {
  static const char *const names[] = {"ncclCommInitRankConfig", "ncclCommGetAsyncError",
                                      "ncclAllReduce",          "ncclCommAbort",
                                      "ncclCommDestroy",        "ncclGetErrorString"};
  const char *path = getenv("ACCEL_TEST_NCCL");
  int (*version)(int *), (*get_id)(unique_id *), number = 0;
  unique_id one, two;
  (void)state;
  void *library = path && *path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
  if (!library) skip();
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    assert_non_null(dlsym(library, names[i]));
  void *symbol = dlsym(library, "ncclGetVersion");
  memcpy(&version, &symbol, sizeof version);
  symbol = dlsym(library, "ncclGetUniqueId");
  memcpy(&get_id, &symbol, sizeof get_id);
  assert_int_equal(version(&number), 0);
  assert_true(number >= 21400);
  assert_int_equal(get_id(&one), 0);
  assert_int_equal(get_id(&two), 0);
  assert_memory_not_equal(&one, &two, sizeof one);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_sums),   cmocka_unit_test(test_refused),
                                     cmocka_unit_test(test_unlike), cmocka_unit_test(test_lost),
                                     cmocka_unit_test(test_alone),  cmocka_unit_test(test_real)};
  return cmocka_run_group_tests(tests, setup, NULL);
}
