/* bench_store.c - benchmark results in SQLite: WAL, one transaction for each result. */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/bench_schema.h"

static int read_version(sqlite3 *db) {
  sqlite3_stmt *query;
  int version = -1;
  if (sqlite3_prepare_v2(db, "PRAGMA user_version", -1, &query, NULL) == SQLITE_OK &&
      sqlite3_step(query) == SQLITE_ROW)
    version = sqlite3_column_int(query, 0);
  sqlite3_finalize(query);
  return version;
}

/* Opens the file and makes its tables when it is new. */
static bool open_file(const char *path, sqlite3 **db, char *message, uint32_t size) {
  int rc = sqlite3_open_v2(path, db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL);
  if (rc == SQLITE_OK) {
    sqlite3_busy_timeout(*db, 10000);
    rc = sqlite3_exec(*db, "PRAGMA journal_mode = WAL; PRAGMA foreign_keys = ON; BEGIN IMMEDIATE",
                      NULL, NULL, NULL);
  }
  int version = rc == SQLITE_OK ? read_version(*db) : 0;
  if (rc == SQLITE_OK && version == 0) rc = sqlite3_exec(*db, BENCH_SCHEMA, NULL, NULL, NULL);
  if (rc == SQLITE_OK && version == 1) rc = sqlite3_exec(*db, BENCH_SCHEMA_TO_2, NULL, NULL, NULL);
  if (rc == SQLITE_OK && version > BENCH_SCHEMA_VERSION) {
    snprintf(message, size, "%s: made by a newer accel (schema %d; this one knows %d)", path,
             version, BENCH_SCHEMA_VERSION);
    return false;
  }
  if (rc == SQLITE_OK) return true;
  snprintf(message, size, "%s: %s", path, *db ? sqlite3_errmsg(*db) : sqlite3_errstr(rc));
  return false;
}

static char *lengths_text(const bench_result *r) {
  char *text = malloc((size_t)r->batch * 11 + 1);
  size_t at = 0;
  for (uint32_t b = 0; text && b < r->batch; ++b)
    at += (size_t)sprintf(text + at, "%s%u", b ? "," : "", r->lengths[b]);
  return text;
}

/* The n-th '?' of an INSERT, by type. */
typedef struct binder {
  sqlite3_stmt *query;
  int n;
} binder;
static void bind_text(binder *b, const char *value) {
  sqlite3_bind_text(b->query, ++b->n, value, -1, SQLITE_TRANSIENT);
}
static void bind_int(binder *b, int64_t value) { sqlite3_bind_int64(b->query, ++b->n, value); }
static void bind_real(binder *b, double value) { sqlite3_bind_double(b->query, ++b->n, value); }

static int insert_run(sqlite3 *db, const bench_result *r) {
  static const char sql[] =
      "INSERT INTO run (time, measured, library, host, cpu, model, weights, task, device, "
      "implementation_type, driver, "
      "precision, listed,"
      " threads, batch, lengths, tokens, iters, rounds, load_ms, median_ms, min_ms, p90_ms, "
      "items_per_s, "
      "prefill_tokens_per_s, peak_rss_bytes, peak_gflops, peak_gbytes_per_s)"
      " VALUES (strftime('%Y-%m-%dT%H:%M:%SZ', 'now'), 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "
      "?, ?, ?, ?, ?, ?, "
      "?, ?, ?, ?, ?, nullif(?, 0), nullif(?, 0))";
  binder b = {0};
  int rc = sqlite3_prepare_v2(db, sql, -1, &b.query, NULL);
  if (rc != SQLITE_OK) return rc;
  char host[256] = "", *lengths = lengths_text(r);
  gethostname(host, sizeof host - 1);
  bind_text(&b, accel_version()), bind_text(&b, host), bind_text(&b, r->cpu),
      bind_text(&b, r->model), bind_text(&b, r->weights),
      bind_text(&b, r->transcribes  ? "transcribe"
                    : r->new_tokens ? "generate"
                                    : "encode");
  bind_text(&b, r->device), bind_text(&b, r->implementation_type), bind_text(&b, r->driver),
      bind_text(&b, r->precision);
  bind_int(&b, r->listed), bind_int(&b, r->threads), bind_int(&b, r->batch), bind_text(&b, lengths),
      bind_int(&b, (int64_t)r->tokens);
  bind_int(&b, r->iters), bind_int(&b, r->rounds);
  bind_real(&b, r->load_ms), bind_real(&b, r->median_ms), bind_real(&b, r->min_ms),
      bind_real(&b, r->p90_ms);
  bind_real(&b, r->items_per_s), bind_real(&b, r->prefill_tokens_per_s),
      bind_int(&b, (int64_t)r->peak_rss_bytes);
  bind_real(&b, r->profile.peak_gflops), bind_real(&b, r->profile.peak_gbytes_per_s);
  rc = sqlite3_step(b.query);
  sqlite3_finalize(b.query);
  free(lengths);
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int insert_steps(sqlite3 *db, const bench_result *r, int64_t id) {
  sqlite3_stmt *query;
  int rc = sqlite3_prepare_v2(db, "INSERT INTO step VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", -1,
                              &query, NULL);
  if (rc != SQLITE_OK) return rc;
  rc = SQLITE_DONE;
  for (uint32_t i = 0; i < r->profile.n && rc == SQLITE_DONE; ++i) {
    const bench_step *s = &r->profile.step[i];
    binder b = {.query = query};
    sqlite3_reset(query);
    bind_int(&b, id), bind_int(&b, s->index), bind_text(&b, s->node), bind_text(&b, s->op),
        bind_int(&b, s->stage);
    bind_int(&b, s->calls), bind_real(&b, 1e-3 * s->us), bind_real(&b, 1e-3 * s->min_us),
        bind_real(&b, s->flop);
    bind_real(&b, s->bytes);
    rc = sqlite3_step(query);
  }
  sqlite3_finalize(query);
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int insert_latencies(sqlite3 *db, const bench_result *r, int64_t id) {
  sqlite3_stmt *query;
  int rc = sqlite3_prepare_v2(db, "INSERT INTO latency VALUES (?, ?, ?, ?)", -1, &query, NULL);
  if (rc != SQLITE_OK) return rc;
  rc = SQLITE_DONE;
  for (uint32_t k = 0; k < r->rounds && rc == SQLITE_DONE; ++k) {
    for (uint32_t i = 0; i < r->iters && rc == SQLITE_DONE; ++i) {
      binder b = {.query = query};
      sqlite3_reset(query);
      bind_int(&b, id), bind_int(&b, k), bind_int(&b, i), bind_real(&b, r->round[k].latency_ms[i]);
      rc = sqlite3_step(query);
    }
  }
  sqlite3_finalize(query);
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

bool bench_store(const char *path, const bench_result *result, char *message, uint32_t size) {
  sqlite3 *db = NULL;
  bool stored = open_file(path, &db, message, size);
  if (stored) {
    int rc = insert_run(db, result);
    int64_t id = sqlite3_last_insert_rowid(db);
    if (rc == SQLITE_OK) rc = insert_latencies(db, result, id);
    if (rc == SQLITE_OK) rc = insert_steps(db, result, id);
    if (rc == SQLITE_OK) rc = sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
    stored = rc == SQLITE_OK;
    if (!stored) snprintf(message, size, "%s: %s", path, sqlite3_errmsg(db));
  }
  sqlite3_close(db);
  return stored;
}
