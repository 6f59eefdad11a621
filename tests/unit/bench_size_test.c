/* bench_size_test.c - the queries of accel bench --compare and accel matrix on a million samples. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "bench/bench.h"
#include "bench/bench_ratings.h"
#include "bench/bench_rows.h"
#include "bench/bench_verdicts.h"

enum { SAMPLES = 1000, GOLDENS = 2500 };
#define SERIES(n) \
  "WITH RECURSIVE s(i) AS (VALUES (0) UNION ALL SELECT i + 1 FROM s WHERE i + 1 < " n ") "

static char path[] = "/tmp/accel-bench-size-XXXXXX";

/* This process's processor time: other processes do not count. */
static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bench_result result(bench_round *round, double *ms, uint32_t *length) {
  *round = (bench_round){.load_ms = 1, .first_ms = 2, .latency_ms = ms};
  bench_result r = {
      .rounds = 1, .iters = 1, .batch = 1, .round = round, .lengths = length, .tokens = 5};
  snprintf(r.device, sizeof r.device, "cpu");
  snprintf(r.model, sizeof r.model, "m");
  snprintf(r.precision, sizeof r.precision, "fp32");
  return r;
}

/* Copies of the first run, each with its samples and steps; and verdicts of 2500 goldens at eight
 * precisions by two builds.  Nothing of it is a measurement. */
static void fill(bench_db *db) {
  static const char sql[] =
      "CREATE TEMP TABLE one AS SELECT * FROM run WHERE id = 1;"
      "INSERT INTO build (version, build_id, compiler) VALUES ('0', 'another', '');" SERIES("1000")
      "INSERT INTO run SELECT i + 2, time, measured, library, host, cpu, 'm' || (i % 50), weights, "
      "task, device, implementation_type, driver, precision, listed, threads, batch, lengths, "
      "tokens, iters, rounds, load_ms, median_ms, min_ms, p90_ms, items_per_s, "
      "prefill_tokens_per_s, peak_rss_bytes, device_peak_bytes, peak_gflops, peak_gbytes_per_s, "
      "device_id, build, output, new_tokens, decode_tokens_per_s, decoder_ms_per_token, encoder_ms, "
      "memory_limit, stream_resident_bytes, stream_staging_bytes, stream_read_bytes, token_p50_ms, "
      "token_p95_ms, stream_gbytes_per_s, raw_gbytes_per_s, stream_raw_share, stream_wait_share, "
      "i || '', machine_ref, device_ref, build_ref, scenario, p99_ms, p99_bound_ms, offered_per_s, "
      "energy_j, cell FROM s, one;" SERIES("1000")
      "INSERT INTO sample SELECT r.id, 'latency', 0, 1 + i, 1.5 FROM run r, s;" SERIES("100")
      "INSERT INTO step SELECT r.id, i, 'n', 'linear', 0, 1, 2.0, 2.0, 1.0, 1.0, 1.0, 0.5, 0.5 FROM run r, s "
      "WHERE r.id > 1;" SERIES("2500")
      "INSERT INTO verify SELECT NULL, i || '/' || p.value || '/' || b.id, '2026-01-01T00:00:00Z', "
      "NULL, b.id, 1, 'm' || (i % 200), 'bert', 'h', 'BertModel', 'g' || i, 'g' || i, p.value, 'pass', "
      "'', 'o', 1e-6, 1.0, 1e-4, NULL, NULL, 1.0 FROM s, build b, json_each('[\"fp32\", \"fp16\", "
      "\"bf16\", \"int8\", \"fp8\", \"int4\", \"uint4\", \"fp4\"]') p;";
  char *wrong = NULL;
  if (sqlite3_exec(db->db, sql, NULL, NULL, &wrong) != SQLITE_OK) fail_msg("%s", wrong);
}

static int set_up(void **state) {
  (void)state;
  char message[512];
  double ms = 1.5;
  uint32_t length = 5;
  bench_round round;
  bench_db db;
  const bench_result r = result(&round, &ms, &length);
  const int fd = mkstemp(path);
  if (fd < 0) return -1;
  close(fd);
  if (!bench_store(path, &r, message, sizeof message) ||
      !bench_db_open(&db, path, BENCH_DB_WRITE, message, sizeof message))
    fail_msg("%s", message);
  fill(&db);
  const bool kept = bench_db_commit(&db, SQLITE_OK, message, sizeof message);
  bench_db_close(&db);
  return kept ? 0 : -1;
}

static int tear_down(void **state) {
  (void)state;
  char name[64];
  static const char *const tails[] = {"", "-wal", "-shm"};
  for (int i = 0; i < 3; ++i) {
    snprintf(name, sizeof name, "%s%s", path, tails[i]);
    unlink(name);
  }
  return 0;
}

static void compare(void **state) {
  (void)state;
  char message[512], *json = NULL;
  double ms = 1.5;
  uint32_t length = 5;
  bench_round round;
  bench_comparison found;
  bench_result r = result(&round, &ms, &length);
  snprintf(r.model, sizeof r.model, "m7");
  const double begin = seconds();
  assert_true(bench_stored(path, &r, &json, message, sizeof message));
  assert_true(bench_compare(json, &r, &found, message, sizeof message));
  assert_true(seconds() - begin < 1);
  assert_true(strlen(json) > 3 * SAMPLES); /* its samples are in it */
  bench_comparison_free(&found);
  free(json);
}

static void matrix(void **state) {
  (void)state;
  char message[512];
  bench_db db;
  bench_verdict_rows rows = {0};
  bench_ratings ratings;
  assert_true(bench_db_open(&db, path, BENCH_DB_READ, message, sizeof message));
  double begin = seconds();
  assert_true(bench_verdict_rows_read(&db, &rows, message, sizeof message));
  assert_true(seconds() - begin < 1);
  assert_int_equal(rows.n, GOLDENS * 8); /* of two builds the present one's */
  for (uint32_t i = 0; i < rows.n; ++i) assert_false(rows.row[i].stale);
  begin = seconds();
  assert_true(bench_ratings_read(&db, &ratings, message, sizeof message));
  assert_true(seconds() - begin < 1);
  assert_int_equal(ratings.n, 50);
  for (uint32_t i = 0; i < ratings.n; ++i) assert_float_equal(ratings.item[i].share, 0.5, 1e-9);
  bench_verdict_rows_free(&rows);
  bench_ratings_free(&ratings);
  bench_db_close(&db);
}

/* What accel report asks: every run, the ops of one, changes between builds, goldens that
 * regressed. */
static void report(void **state) {
  (void)state;
  char message[512];
  bench_db db;
  bench_rows rows;
  bench_shifts shifts;
  bench_regressions regressions;
  bench_op *ops;
  uint32_t n;
  assert_true(bench_db_open(&db, path, BENCH_DB_WRITE, message, sizeof message));
  /* half of the runs are of another build: all samples are read */
  assert_int_equal(sqlite3_exec(db.db,
                                "UPDATE run SET build_ref = (SELECT id FROM build WHERE build_id = "
                                "'another') WHERE id % 100 < 50",
                                NULL, NULL, NULL),
                   SQLITE_OK);
  double begin = seconds();
  assert_true(bench_rows_read(&db, &rows, message, sizeof message));
  assert_true(seconds() - begin < 1);
  assert_int_equal(rows.n, SAMPLES + 1);
  begin = seconds();
  assert_true(bench_shifts_of_builds(&db, &rows, &shifts, message, sizeof message));
  assert_true(seconds() - begin < 1);
  assert_int_equal(shifts.n, 50);
  for (uint32_t i = 0; i < shifts.n; ++i) assert_int_equal(shifts.item[i].verdict, BENCH_SAME);
  begin = seconds();
  assert_true(bench_regressions_read(&db, &regressions, message, sizeof message));
  assert_true(bench_ops_read(&db, 2, &ops, &n, message, sizeof message));
  assert_true(seconds() - begin < 1);
  assert_int_equal(regressions.n, 0);
  assert_int_equal(n, 1);
  assert_float_equal(ops->ms, 200, 1e-9);
  free(ops);
  bench_regressions_free(&regressions);
  bench_shifts_free(&shifts);
  bench_rows_free(&rows);
  bench_db_close(&db);
}

/* A cell of the plan is looked up in a database that has 40000 verdicts. */
static void find(void **state) {
  (void)state;
  char message[512], build[64];
  bench_db db;
  const accel_device_info device = {.name = "cpu", .driver = "", .id = ""};
  bench_cell cell = {.model = "m1",
                     .model_type = "bert",
                     .model_hash = "h",
                     .architecture = "BertModel",
                     .golden = "g1",
                     .golden_hash = "g1",
                     .precision = "int8",
                     .device = &device};
  assert_true(bench_db_open(&db, path, BENCH_DB_READ, message, sizeof message));
  const double begin = seconds();
  for (int i = 0; i < 100; ++i) {
    cJSON *found = bench_verdict_find(&db, &cell);
    assert_non_null(found);
    cJSON_Delete(found);
    assert_true(bench_verdict_passed_before(&db, &cell, build, sizeof build));
  }
  assert_true(seconds() - begin < 1);
  assert_string_equal(build, "another");
  cell.golden_hash = "another";
  assert_null(bench_verdict_find(&db, &cell));
  assert_false(bench_verdict_passed_before(&db, &cell, build, sizeof build));
  bench_db_close(&db);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(compare), cmocka_unit_test(matrix),
                                     cmocka_unit_test(find), cmocka_unit_test(report)};
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
