/* bench_store.c - benchmark results in SQLite: WAL, one transaction for each result. */
#include <cjson/cJSON.h>
#include <sqlite3.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/bench_schema.h"

static int read_number(sqlite3 *db, const char *sql) {
  sqlite3_stmt *query;
  int number = -1;
  if (sqlite3_prepare_v2(db, sql, -1, &query, NULL) == SQLITE_OK &&
      sqlite3_step(query) == SQLITE_ROW)
    number = sqlite3_column_int(query, 0);
  sqlite3_finalize(query);
  return number;
}

/* Brings the tables to this version, in the transaction that is open.  false with a message, or with
 * an error of SQLite in *rc. */
static bool migrate(sqlite3 *db, const char *path, int *rc, char *message, uint32_t size) {
  const int version = read_number(db, "PRAGMA user_version");
  if (version > BENCH_SCHEMA_VERSION) {
    snprintf(message, size, "%s: made by a newer accel (schema %d; this one knows %d)", path,
             version, BENCH_SCHEMA_VERSION);
    return false;
  }
  const int estimates =
      version > 0 ? read_number(db, "SELECT count(*) FROM run WHERE measured != 1") : 0;
  if (estimates > 0) {
    snprintf(
        message, size,
        "%s: %d rows of its table run have measured = 0, and only measurements are kept; take "
        "them out: sqlite3 FILE 'PRAGMA foreign_keys = ON; DELETE FROM run WHERE measured = 0'",
        path, estimates);
    return false;
  }
  if (version == 0) *rc = sqlite3_exec(db, BENCH_SCHEMA, NULL, NULL, NULL);
  if (version == 1) *rc = sqlite3_exec(db, BENCH_SCHEMA_TO_2, NULL, NULL, NULL);
  if ((version == 1 || version == 2) && *rc == SQLITE_OK)
    *rc = sqlite3_exec(db, BENCH_SCHEMA_TO_3, NULL, NULL, NULL);
  return *rc == SQLITE_OK;
}

/* Opens the file, with a transaction begun, and makes its tables when it is new.  Foreign keys stay
 * off: migrating asks for it, and nothing is deleted here. */
static bool open_file(const char *path, int flags, sqlite3 **db, char *message, uint32_t size) {
  int rc = sqlite3_open_v2(path, db, SQLITE_OPEN_READWRITE | flags, NULL);
  message[0] = 0;
  if (rc == SQLITE_OK) {
    sqlite3_busy_timeout(*db, 10000);
    rc = sqlite3_exec(*db, "PRAGMA journal_mode = WAL; PRAGMA foreign_keys = OFF; BEGIN IMMEDIATE",
                      NULL, NULL, NULL);
  }
  if (rc == SQLITE_OK && migrate(*db, path, &rc, message, size)) return true;
  if (!message[0])
    snprintf(message, size, "%s: %s", path, *db ? sqlite3_errmsg(*db) : sqlite3_errstr(rc));
  return false;
}

static const char *task_of(const bench_result *r) {
  return r->transcribes ? "transcribe" : r->new_tokens ? "generate" : "encode";
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

/* Identity of a run: what must be the same for two of them to be compared. */
static void bind_case(binder *b, const bench_result *r, const char *lengths) {
  bind_text(b, r->model), bind_text(b, task_of(r)), bind_text(b, r->device);
  bind_text(b, r->precision), bind_int(b, r->threads), bind_int(b, r->batch);
  bind_text(b, lengths), bind_int(b, r->new_tokens), bind_text(b, r->output);
}

static int insert_run(sqlite3 *db, const bench_result *r) {
  static const char sql[] =
      "INSERT INTO run (time, measured, model, task, device, precision, threads, batch, lengths, "
      "new_tokens, output, library, host, cpu, weights, implementation_type, driver, device_id, "
      "build, listed, tokens, iters, rounds, load_ms, median_ms, min_ms, p90_ms, items_per_s, "
      "prefill_tokens_per_s, peak_rss_bytes, peak_gflops, peak_gbytes_per_s, decode_tokens_per_s, "
      "decoder_ms_per_token, encoder_ms)"
      " VALUES (strftime('%Y-%m-%dT%H:%M:%SZ', 'now'), 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "
      "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, nullif(?, 0), nullif(?, 0), nullif(?, 0), "
      "nullif(?, 0), nullif(?, 0))";
  binder b = {0};
  int rc = sqlite3_prepare_v2(db, sql, -1, &b.query, NULL);
  if (rc != SQLITE_OK) return rc;
  char host[256] = "", *lengths = lengths_text(r);
  gethostname(host, sizeof host - 1);
  bind_case(&b, r, lengths);
  bind_text(&b, accel_version()), bind_text(&b, host), bind_text(&b, r->cpu);
  bind_text(&b, r->weights), bind_text(&b, r->implementation_type), bind_text(&b, r->driver);
  bind_text(&b, r->device_id), bind_text(&b, r->build);
  bind_int(&b, r->listed), bind_int(&b, (int64_t)r->tokens);
  bind_int(&b, r->iters), bind_int(&b, r->rounds);
  bind_real(&b, r->load_ms), bind_real(&b, r->median_ms), bind_real(&b, r->min_ms);
  bind_real(&b, r->p90_ms), bind_real(&b, r->items_per_s), bind_real(&b, r->prefill_tokens_per_s);
  bind_int(&b, (int64_t)r->peak_rss_bytes);
  bind_real(&b, r->profile.peak_gflops), bind_real(&b, r->profile.peak_gbytes_per_s);
  bind_real(&b, r->decode_tokens_per_s), bind_real(&b, r->decoder_ms_per_token);
  bind_real(&b, r->encoder_ms);
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

/* What the samples of a run are called, and where a round has them. */
static const struct {
  const char *what;
  bool generates; /* only runs that decode have them */
  size_t at;      /* of the pointer in bench_round */
} sample_kinds[] = {{"latency", false, offsetof(bench_round, latency_ms)},
                    {"prefill", true, offsetof(bench_round, prefill_ms)},
                    {"decode", true, offsetof(bench_round, decode_ms)}};
enum { SAMPLE_KINDS = sizeof sample_kinds / sizeof *sample_kinds };

static int insert_sample(binder *b, int64_t id, const char *what, uint32_t round, uint32_t iter,
                         double ms) {
  b->n = 0;
  sqlite3_reset(b->query);
  bind_int(b, id), bind_text(b, what), bind_int(b, round), bind_int(b, iter), bind_real(b, ms);
  return sqlite3_step(b->query);
}

static int insert_round(binder *b, const bench_result *r, int64_t id, uint32_t k) {
  const bench_round *round = &r->round[k];
  int rc = insert_sample(b, id, "load", k, 0, round->load_ms);
  if (rc == SQLITE_DONE) rc = insert_sample(b, id, "first", k, 0, round->first_ms);
  for (int s = 0; s < SAMPLE_KINDS; ++s) {
    const double *ms = *(double *const *)((const char *)round + sample_kinds[s].at);
    if (sample_kinds[s].generates && !r->new_tokens) continue;
    for (uint32_t i = 0; i < r->iters && rc == SQLITE_DONE; ++i)
      rc = insert_sample(b, id, sample_kinds[s].what, k, i, ms[i]);
  }
  return rc;
}

static int insert_samples(sqlite3 *db, const bench_result *r, int64_t id) {
  binder b = {0};
  int rc = sqlite3_prepare_v2(db, "INSERT INTO sample VALUES (?, ?, ?, ?, ?)", -1, &b.query, NULL);
  if (rc != SQLITE_OK) return rc;
  rc = SQLITE_DONE;
  for (uint32_t k = 0; k < r->rounds && rc == SQLITE_DONE; ++k) rc = insert_round(&b, r, id, k);
  sqlite3_finalize(b.query);
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

bool bench_store(const char *path, const bench_result *result, char *message, uint32_t size) {
  sqlite3 *db = NULL;
  bool stored = open_file(path, SQLITE_OPEN_CREATE, &db, message, size);
  if (stored) {
    int rc = insert_run(db, result);
    int64_t id = sqlite3_last_insert_rowid(db);
    if (rc == SQLITE_OK) rc = insert_samples(db, result, id);
    if (rc == SQLITE_OK) rc = insert_steps(db, result, id);
    if (rc == SQLITE_OK) rc = sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
    stored = rc == SQLITE_OK;
    if (!stored) snprintf(message, size, "%s: %s", path, sqlite3_errmsg(db));
  }
  sqlite3_close(db);
  return stored;
}

/* ---- reading ---- */

bool bench_is_store(const char *path) {
  static const char magic[] = "SQLite format 3";
  char first[sizeof magic] = "";
  FILE *f = fopen(path, "rb");
  const bool whole = f && fread(first, sizeof first, 1, f) == 1;
  if (f) fclose(f);
  return whole && !memcmp(first, magic, sizeof magic);
}

/* The columns of a row under their own names, as bench_compare reads them. */
static void read_columns(sqlite3_stmt *query, cJSON *out) {
  for (int c = 0; c < sqlite3_column_count(query); ++c) {
    const char *name = sqlite3_column_name(query, c);
    const int type = sqlite3_column_type(query, c);
    if (type == SQLITE_TEXT)
      cJSON_AddStringToObject(out, name, (const char *)sqlite3_column_text(query, c));
    else if (type != SQLITE_NULL)
      cJSON_AddNumberToObject(out, name, sqlite3_column_double(query, c));
  }
}

/* Samples of a kind, round after round: "decode" as the list "decode_ms". */
static int read_samples(sqlite3 *db, int64_t id, cJSON *out) {
  binder b = {0};
  int rc =
      sqlite3_prepare_v2(db, "SELECT what, ms FROM sample WHERE run = ? ORDER BY what, round, iter",
                         -1, &b.query, NULL);
  if (rc != SQLITE_OK) return rc;
  bind_int(&b, id);
  while ((rc = sqlite3_step(b.query)) == SQLITE_ROW) {
    char name[32];
    snprintf(name, sizeof name, "%s_samples_ms", (const char *)sqlite3_column_text(b.query, 0));
    if (!strcmp(name, "latency_samples_ms")) snprintf(name, sizeof name, "latency_ms");
    cJSON *list = cJSON_GetObjectItemCaseSensitive(out, name);
    if (!list) list = cJSON_AddArrayToObject(out, name);
    cJSON_AddItemToArray(list, cJSON_CreateNumber(sqlite3_column_double(b.query, 1)));
  }
  sqlite3_finalize(b.query);
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int read_latest(sqlite3 *db, const bench_result *like, cJSON *out, bool *found) {
  static const char sql[] =
      "SELECT * FROM run WHERE model = ? AND task = ? AND device = ? AND precision = ? AND "
      "threads = ? AND batch = ? AND lengths = ? AND new_tokens = ? AND output IN (?, '') "
      "ORDER BY id DESC LIMIT 1";
  binder b = {0};
  int64_t id = 0;
  int rc = sqlite3_prepare_v2(db, sql, -1, &b.query, NULL);
  if (rc != SQLITE_OK) return rc;
  char *lengths = lengths_text(like);
  bind_case(&b, like, lengths);
  rc = sqlite3_step(b.query);
  *found = rc == SQLITE_ROW;
  if (*found) {
    id = sqlite3_column_int64(b.query, 0);
    read_columns(b.query, out);
  }
  sqlite3_finalize(b.query);
  free(lengths);
  if (!*found) return rc == SQLITE_DONE ? SQLITE_OK : rc;
  return read_samples(db, id, out);
}

bool bench_stored(const char *path, const bench_result *like, char **json, char *message,
                  uint32_t size) {
  sqlite3 *db = NULL;
  cJSON *out = cJSON_CreateObject();
  bool found = false;
  *json = NULL;
  if (open_file(path, 0, &db, message, size)) {
    cJSON_AddStringToObject(out, "schema", "accel.bench/1");
    int rc = read_latest(db, like, out, &found);
    if (rc == SQLITE_OK) rc = sqlite3_exec(db, "COMMIT", NULL, NULL, NULL); /* of a migration */
    if (rc != SQLITE_OK)
      snprintf(message, size, "%s: %s", path, sqlite3_errmsg(db));
    else if (!found)
      snprintf(message, size,
               "%s: holds no run of %s (%s) on %s at %s with these threads, batch and lengths",
               path, like->model, task_of(like), like->device, like->precision);
    found = found && rc == SQLITE_OK;
  }
  sqlite3_close(db);
  if (found) *json = cJSON_PrintUnformatted(out);
  cJSON_Delete(out);
  return *json != NULL;
}
