/* bench_store.c - benchmark results in SQLite: WAL, one transaction for each result. */
#include <cjson/cJSON.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/bench_db.h"
#include "bench/bench_machine.h"

static const char *task_of(const bench_result *r) {
  return r->streams       ? "stream"
         : r->paints      ? "text-to-image"
         : r->transcribes ? "transcribe"
         : r->new_tokens  ? "generate"
                          : "encode";
}

static char *lengths_text(const bench_result *r) {
  char *text = malloc((size_t)r->batch * 11 + 1);
  size_t at = 0;
  for (uint32_t b = 0; text && b < r->batch; ++b)
    at += (size_t)sprintf(text + at, "%s%u", b ? "," : "", r->lengths[b]);
  return text;
}

/* Identity of a run: what must be the same for two of them to be compared. */
static void bind_case(bench_binder *b, const bench_result *r, const char *lengths) {
  bench_bind_text(b, r->model), bench_bind_text(b, task_of(r)), bench_bind_text(b, r->device);
  bench_bind_text(b, r->precision), bench_bind_int(b, r->threads), bench_bind_int(b, r->batch);
  bench_bind_text(b, lengths), bench_bind_int(b, r->new_tokens), bench_bind_text(b, r->output);
  bench_bind_int(b, (int64_t)r->memory_limit);
}

/* The device as far as a run tells of it. */
static accel_device_info device_of(const bench_result *r) {
  return (accel_device_info){.name = r->device,
                             .hardware = r->hardware,
                             .plugin = r->plugin,
                             .implementation_type = r->implementation_type,
                             .description = r->description,
                             .arch = r->arch,
                             .driver = r->driver,
                             .id = r->device_id,
                             .type = r->device_type};
}

/* NULLs of a run that is not streamed. */
static void bind_stream(bench_binder *b, const bench_result *r) {
  const bench_stream *s = &r->stream;
  const uint64_t bytes[] = {s->resident, s->staging, s->read};
  const double figures[] = {s->token_p50_ms,     s->token_p95_ms, s->gbytes_per_s,
                            s->raw_gbytes_per_s, s->raw_share,    s->wait_share};
  for (size_t i = 0; i < sizeof bytes / sizeof *bytes; ++i)
    if (r->streams)
      bench_bind_int(b, (int64_t)bytes[i]);
    else
      bench_bind_real(b, (double)NAN);
  for (size_t i = 0; i < sizeof figures / sizeof *figures; ++i)
    bench_bind_real(b, r->streams ? figures[i] : (double)NAN);
}

static int insert_run(const bench_db *db, const bench_result *r) {
  static const char sql[] =
      "INSERT INTO run (time, measured, model, task, device, precision, threads, batch, lengths, "
      "new_tokens, output, memory_limit, library, host, cpu, weights, implementation_type, driver, "
      "device_id, "
      "build, listed, tokens, iters, rounds, load_ms, median_ms, min_ms, p90_ms, items_per_s, "
      "prefill_tokens_per_s, peak_rss_bytes, peak_gflops, peak_gbytes_per_s, decode_tokens_per_s, "
      "decoder_ms_per_token, encoder_ms, uid, machine_ref, device_ref, build_ref, scenario, cell, "
      "p99_ms, p99_bound_ms, offered_per_s, energy_j, stream_resident_bytes, stream_staging_bytes, "
      "stream_read_bytes, token_p50_ms, token_p95_ms, stream_gbytes_per_s, raw_gbytes_per_s, "
      "stream_raw_share, stream_wait_share)"
      " VALUES (strftime('%Y-%m-%dT%H:%M:%SZ', 'now'), 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, "
      "nullif(?, 0), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, nullif(?, 0), "
      "nullif(?, 0), nullif(?, 0), nullif(?, 0), nullif(?, 0), ?, ?, ?, ?, ?, nullif(?, ''), "
      "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
  const accel_device_info device = device_of(r);
  bench_refs refs;
  bench_binder b;
  int rc = bench_refs_of(db, &device, &refs);
  if (rc != SQLITE_OK || !bench_prepare(db, sql, &b, &rc)) return rc;
  char host[256] = "", uid[33], *lengths = lengths_text(r);
  gethostname(host, sizeof host - 1);
  bench_uid(uid);
  bind_case(&b, r, lengths);
  bench_bind_text(&b, accel_version()), bench_bind_text(&b, host), bench_bind_text(&b, r->cpu);
  bench_bind_text(&b, r->weights), bench_bind_text(&b, r->implementation_type),
      bench_bind_text(&b, r->driver);
  bench_bind_text(&b, r->device_id), bench_bind_text(&b, r->build);
  bench_bind_int(&b, r->listed), bench_bind_int(&b, (int64_t)r->tokens);
  bench_bind_int(&b, r->iters), bench_bind_int(&b, r->rounds);
  bench_bind_real(&b, r->load_ms), bench_bind_real(&b, r->median_ms),
      bench_bind_real(&b, r->min_ms);
  bench_bind_real(&b, r->p90_ms), bench_bind_real(&b, r->items_per_s),
      bench_bind_real(&b, r->prefill_tokens_per_s);
  bench_bind_int(&b, (int64_t)r->peak_rss_bytes);
  bench_bind_real(&b, r->profile.peak_gflops), bench_bind_real(&b, r->profile.peak_gbytes_per_s);
  bench_bind_real(&b, r->decode_tokens_per_s), bench_bind_real(&b, r->decoder_ms_per_token);
  bench_bind_real(&b, r->encoder_ms);
  bench_bind_text(&b, uid), bench_bind_int(&b, refs.machine), bench_bind_int(&b, refs.device);
  bench_bind_int(&b, refs.build);
  bench_bind_text(&b, r->scenario), bench_bind_text(&b, r->cell);
  bench_bind_real(&b, r->p99_ms), bench_bind_real(&b, r->p99_bound_ms);
  bench_bind_real(&b, r->offered_per_s), bench_bind_real(&b, r->energy_j);
  bind_stream(&b, r);
  rc = sqlite3_step(b.query);
  sqlite3_finalize(b.query);
  free(lengths);
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int insert_steps(const bench_db *db, const bench_result *r, int64_t id) {
  bench_binder b;
  int rc;
  if (!bench_prepare(db,
                     "INSERT INTO step VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, nullif(?, 0), ?, ?)",
                     &b, &rc))
    return rc;
  rc = SQLITE_DONE;
  for (uint32_t i = 0; i < r->profile.n && rc == SQLITE_DONE; ++i) {
    const bench_step *s = &r->profile.step[i];
    b.n = 0;
    sqlite3_reset(b.query);
    bench_bind_int(&b, id), bench_bind_int(&b, s->index), bench_bind_text(&b, s->node),
        bench_bind_text(&b, s->op), bench_bind_int(&b, s->stage);
    bench_bind_int(&b, s->calls), bench_bind_real(&b, 1e-3 * s->us),
        bench_bind_real(&b, 1e-3 * s->min_us), bench_bind_real(&b, s->flop);
    bench_bind_real(&b, s->bytes), bench_bind_real(&b, 1e-3 * bench_limit_us(&r->profile, s));
    const bool parts = s->weight_bytes > 0 || s->result_bytes > 0;
    bench_bind_real(&b, parts ? s->weight_bytes : (double)NAN);
    bench_bind_real(&b, parts ? s->result_bytes : (double)NAN);
    rc = sqlite3_step(b.query);
  }
  sqlite3_finalize(b.query);
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

static int insert_sample(bench_binder *b, int64_t id, const char *what, uint32_t round,
                         uint32_t iter, double ms) {
  b->n = 0;
  sqlite3_reset(b->query);
  bench_bind_int(b, id), bench_bind_text(b, what), bench_bind_int(b, round),
      bench_bind_int(b, iter), bench_bind_real(b, ms);
  return sqlite3_step(b->query);
}

static int insert_round(bench_binder *b, const bench_result *r, int64_t id, uint32_t k) {
  const bench_round *round = &r->round[k];
  int rc = insert_sample(b, id, "load", k, 0, round->load_ms);
  if (rc == SQLITE_DONE) rc = insert_sample(b, id, "first", k, 0, round->first_ms);
  for (int s = 0; s < SAMPLE_KINDS; ++s) {
    const double *ms = *(double *const *)((const char *)round + sample_kinds[s].at);
    if (sample_kinds[s].generates && !r->new_tokens) continue;
    for (uint32_t i = 0; i < r->iters && rc == SQLITE_DONE; ++i)
      rc = insert_sample(b, id, sample_kinds[s].what, k, i, ms[i]);
  }
  for (uint32_t i = 0; r->streams && i < r->iters && rc == SQLITE_DONE; ++i)
    rc = insert_sample(b, id, "raw", k, i, round->raw_ms[i]);
  const uint32_t tokens = round->token_ms ? r->iters * (r->new_tokens - 1) : 0;
  for (uint32_t i = 0; i < tokens && rc == SQLITE_DONE; ++i)
    if (round->token_ms[i] > 0) rc = insert_sample(b, id, "token", k, i, round->token_ms[i]);
  return rc;
}

static int insert_samples(const bench_db *db, const bench_result *r, int64_t id) {
  bench_binder b;
  int rc;
  if (!bench_prepare(db, "INSERT INTO sample VALUES (?, ?, ?, ?, ?)", &b, &rc)) return rc;
  rc = SQLITE_DONE;
  for (uint32_t k = 0; k < r->rounds && rc == SQLITE_DONE; ++k) rc = insert_round(&b, r, id, k);
  sqlite3_finalize(b.query);
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

bool bench_store(const char *path, const bench_result *result, char *message, uint32_t size) {
  bench_db db;
  if (!bench_db_open(&db, path, BENCH_DB_CREATE, message, size)) return false;
  int rc = insert_run(&db, result);
  const int64_t id = sqlite3_last_insert_rowid(db.db);
  if (rc == SQLITE_OK) rc = insert_samples(&db, result, id);
  if (rc == SQLITE_OK) rc = insert_steps(&db, result, id);
  const bool stored = bench_db_commit(&db, rc, message, size);
  bench_db_close(&db);
  return stored;
}

/* ---- reading ---- */

/* Samples of a kind, round after round: "decode" as the list "decode_ms". */
static int read_samples(const bench_db *db, int64_t id, cJSON *out) {
  bench_binder b;
  int rc;
  if (!bench_prepare(db, "SELECT what, ms FROM sample WHERE run = ? ORDER BY what, round, iter", &b,
                     &rc))
    return rc;
  bench_bind_int(&b, id);
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

/* The latest run of the case `like` on this machine. */
static int read_latest(const bench_db *db, const bench_result *like, cJSON *out, bool *found) {
  static const char sql[] =
      "SELECT * FROM run WHERE model = ? AND task = ? AND device = ? AND precision = ? AND "
      "threads = ? AND batch = ? AND lengths = ? AND new_tokens = ? AND output IN (?, '') AND "
      "scenario = '' AND memory_limit IS nullif(?, 0) AND machine_ref = ? ORDER BY id DESC LIMIT 1";
  bench_binder b;
  int64_t id = 0;
  int rc;
  if (!bench_prepare(db, sql, &b, &rc)) return rc;
  char *lengths = lengths_text(like);
  bind_case(&b, like, lengths);
  bench_bind_int(&b, bench_this_machine(db));
  rc = sqlite3_step(b.query);
  *found = rc == SQLITE_ROW;
  if (*found) {
    id = sqlite3_column_int64(b.query, 0);
    bench_row_json(b.query, NULL, out);
  }
  sqlite3_finalize(b.query);
  free(lengths);
  if (!*found) return rc == SQLITE_DONE ? SQLITE_OK : rc;
  return read_samples(db, id, out);
}

/* ", but 3 that were measured elsewhere (host1, host2)", or "". */
static void tell_elsewhere(const bench_db *db, const bench_result *like, char *into, size_t size) {
  static const char sql[] =
      "SELECT count(*), group_concat(DISTINCT m.host) FROM run r JOIN machine m ON "
      "m.id = r.machine_ref WHERE model = ? AND task = ? AND device = ? AND precision = ? AND "
      "threads = ? AND batch = ? AND lengths = ? AND new_tokens = ? AND output IN (?, '') AND "
      "memory_limit IS nullif(?, 0)";
  bench_binder b;
  int rc;
  into[0] = 0;
  if (!bench_prepare(db, sql, &b, &rc)) return;
  char *lengths = lengths_text(like);
  bind_case(&b, like, lengths);
  if (sqlite3_step(b.query) == SQLITE_ROW && sqlite3_column_int(b.query, 0))
    snprintf(into, size,
             ", but %d that were measured elsewhere (%s): runs of two machines are not compared",
             sqlite3_column_int(b.query, 0), (const char *)sqlite3_column_text(b.query, 1));
  sqlite3_finalize(b.query);
  free(lengths);
}

bool bench_stored(const char *path, const bench_result *like, char **json, char *message,
                  uint32_t size) {
  bench_db db;
  char elsewhere[512];
  bool found = false;
  *json = NULL;
  if (!bench_db_open(&db, path, BENCH_DB_READ, message, size)) return false;
  cJSON *out = cJSON_CreateObject();
  cJSON_AddStringToObject(out, "schema", "accel.bench/1");
  const int rc = read_latest(&db, like, out, &found);
  if (rc == SQLITE_OK && !found) {
    tell_elsewhere(&db, like, elsewhere, sizeof elsewhere);
    snprintf(message, size,
             "%s: holds no run of %s (%s) on %s at %s with these threads, batch and lengths%s",
             path, like->model, task_of(like), like->device, like->precision, elsewhere);
  }
  /* a migration is kept, too */
  if (!bench_db_commit(&db, rc, message, size)) found = false;
  bench_db_close(&db);
  if (found) *json = cJSON_PrintUnformatted(out);
  cJSON_Delete(out);
  return *json != NULL;
}
