/* bench_store_test.c - the database of what was measured with two writers at once, and with writers
 * that are killed. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "bench/bench.h"
#include "bench/bench_db.h"

static char folder[] = "/tmp/accel-bench-store-XXXXXX", path[64];

/* A result as `accel bench` would have it, of `samples` runs. */
static bool store(uint32_t samples, char *message, uint32_t size) {
  double *ms = calloc(3 * (size_t)samples, sizeof *ms);
  uint32_t length = 5;
  bench_round round = {.load_ms = 1, .first_ms = 2, .latency_ms = ms};
  bench_result r = {
      .rounds = 1, .iters = samples, .batch = 1, .round = &round, .lengths = &length, .tokens = 5};
  round.prefill_ms = ms + samples, round.decode_ms = ms + 2 * (size_t)samples;
  for (uint32_t i = 0; i < samples; ++i) ms[i] = 1 + i;
  snprintf(r.device, sizeof r.device, "cpu");
  snprintf(r.model, sizeof r.model, "m");
  snprintf(r.precision, sizeof r.precision, "fp32");
  const bool stored = bench_store(path, &r, message, size);
  free(ms);
  return stored;
}

static int64_t number(const char *sql) {
  bench_db db;
  bench_binder b;
  char message[512];
  int rc;
  if (!bench_db_open(&db, path, BENCH_DB_READ, message, sizeof message)) fail_msg("%s", message);
  assert_true(bench_prepare(&db, sql, &b, &rc));
  assert_int_equal(sqlite3_step(b.query), SQLITE_ROW);
  const int64_t found = sqlite3_column_int64(b.query, 0);
  sqlite3_finalize(b.query);
  bench_db_close(&db);
  return found;
}

/* A process that stores `count` results of `samples` runs (0: without end). */
static pid_t writer(uint32_t count, uint32_t samples) {
  const pid_t pid = fork();
  if (pid) return pid;
  char message[512];
  for (uint32_t i = 0; !count || i < count; ++i) {
    if (!store(samples, message, sizeof message)) {
      fprintf(stderr, "%s\n", message);
      _exit(1);
    }
  }
  _exit(0);
}

static int set_up(void **state) {
  (void)state;
  snprintf(path, sizeof path, "%s/b.sqlite", folder);
  return 0;
}
static int tear_down(void **state) {
  (void)state;
  char name[128];
  for (int i = 0; i < 3; ++i) {
    static const char *const tails[] = {"", "-wal", "-shm"};
    snprintf(name, sizeof name, "%s%s", path, tails[i]);
    unlink(name);
  }
  return 0;
}

static void two_writers(void **state) {
  (void)state;
  enum { COUNT = 100, SAMPLES = 7 };
  const pid_t pids[2] = {writer(COUNT, SAMPLES), writer(COUNT, SAMPLES)};
  for (int i = 0; i < 2; ++i) {
    int status;
    assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
    assert_int_equal(status, 0);
  }
  assert_int_equal(number("SELECT count(*) FROM run"), 2 * COUNT);
  assert_int_equal(number("SELECT count(DISTINCT uid) FROM run"), 2 * COUNT);
  assert_int_equal(number("SELECT count(*) FROM sample"), 2 * COUNT * (SAMPLES + 2));
  assert_int_equal(number("SELECT count(*) FROM machine"), 1);
  assert_int_equal(number("SELECT count(*) FROM device"), 1);
  assert_int_equal(number("SELECT count(*) FROM build"), 1);
}

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* SIGKILL while it writes: every row that is there is whole, and the next writer goes on.  The
 * kills come at eight moments of the time that one result takes here; the last one waits until its
 * writer has stored something. */
static void killed_writers(void **state) {
  (void)state;
  enum { SAMPLES = 3000, KILLS = 8 };
  char message[512];
  const int64_t begin = now_ns();
  assert_true(store(SAMPLES, message, sizeof message));
  const int64_t one = now_ns() - begin;
  int64_t before = 1;
  for (int i = 0; i < KILLS; ++i) {
    const pid_t pid = writer(0, SAMPLES);
    const int64_t wait = one * (i + 1) / KILLS, limit = now_ns() + 1000 * one;
    nanosleep(&(struct timespec){.tv_sec = wait / 1000000000, .tv_nsec = wait % 1000000000}, NULL);
    while (i == KILLS - 1 && number("SELECT count(*) FROM run") == before && now_ns() < limit) {
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    const int64_t runs = number("SELECT count(*) FROM run");
    assert_true(runs >= before);
    before = runs;
    assert_int_equal(number("SELECT count(*) FROM sample"), runs * (SAMPLES + 2));
    assert_int_equal(number("SELECT integrity_check = 'ok' FROM pragma_integrity_check"), 1);
  }
  assert_true(before > 1);
  assert_true(store(1, message, sizeof message));
}

/* A newer file is told as such, again and again: nothing stays locked. */
static void newer_file(void **state) {
  (void)state;
  char message[512];
  bench_db db;
  assert_true(store(1, message, sizeof message));
  assert_true(bench_db_open(&db, path, BENCH_DB_WRITE, message, sizeof message));
  assert_true(bench_db_commit(
      &db, sqlite3_exec(db.db, "PRAGMA user_version = 99", NULL, NULL, NULL), message, 512));
  for (int i = 0; i < 2; ++i) {
    assert_false(store(1, message, sizeof message));
    assert_non_null(strstr(message, "newer accel"));
  }
  bench_db_close(&db);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(two_writers, set_up, tear_down),
      cmocka_unit_test_setup_teardown(killed_writers, set_up, tear_down),
      cmocka_unit_test_setup_teardown(newer_file, set_up, tear_down),
  };
  if (!mkdtemp(folder)) return 1;
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  rmdir(folder);
  return failed;
}
