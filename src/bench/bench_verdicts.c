/* bench_verdicts.c - verdicts of goldens: stored, found again, and read for tables. */
#include "bench/bench_verdicts.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench_machine.h"

/* ---- storing ---- */

static int finish(bench_binder *b) {
  const int rc = sqlite3_step(b->query);
  sqlite3_finalize(b->query);
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int insert_plan(const bench_db *db, const char *plan_hash, uint32_t cells) {
  bench_refs refs;
  bench_binder b;
  int rc = bench_refs_of(db, NULL, &refs);
  if (rc != SQLITE_OK ||
      !bench_prepare(
          db,
          "INSERT INTO verify_run (time, plan_hash, build, machine, cells, state) VALUES "
          "(strftime('%Y-%m-%dT%H:%M:%SZ', 'now'), ?, ?, ?, ?, 'begun')",
          &b, &rc))
    return rc;
  bench_bind_text(&b, plan_hash), bench_bind_int(&b, refs.build);
  bench_bind_int(&b, refs.machine), bench_bind_int(&b, cells);
  return finish(&b);
}

bool bench_plan_begin(bench_db *db, const char *plan_hash, uint32_t cells, int64_t *run,
                      char *message, uint32_t size) {
  if (!bench_db_begin(db, message, size)) return false;
  const int rc = insert_plan(db, plan_hash, cells);
  *run = sqlite3_last_insert_rowid(db->db);
  return bench_db_commit(db, rc, message, size);
}

bool bench_plan_end(bench_db *db, int64_t run, char *message, uint32_t size) {
  bench_binder b;
  int rc;
  if (!bench_db_begin(db, message, size)) return false;
  if (bench_prepare(db, "UPDATE verify_run SET state = 'done' WHERE id = ?", &b, &rc)) {
    bench_bind_int(&b, run);
    rc = finish(&b);
  }
  return bench_db_commit(db, rc, message, size);
}

static int insert_verdict(const bench_db *db, int64_t run, const bench_cell *c,
                          const bench_verdict *v) {
  static const char sql[] =
      "INSERT INTO verify (time, uid, run, build, device, model, model_type, model_hash, "
      "architecture, golden, golden_hash, precision, state, reason, output, max_abs, cosine, "
      "bound, "
      "cpu_max_abs, cpu_cosine, wall_ms) VALUES (strftime('%Y-%m-%dT%H:%M:%SZ', 'now'), ?, ?, ?, "
      "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
  const char *texts[] = {c->model,       c->model_type, c->model_hash, c->architecture, c->golden,
                         c->golden_hash, c->precision,  v->state,      v->reason,       v->output};
  const double reals[] = {v->max_abs,     v->cosine,     v->bound,
                          v->cpu_max_abs, v->cpu_cosine, v->wall_ms};
  char uid[33];
  bench_refs refs;
  bench_binder b;
  int rc = bench_refs_of(db, c->device, &refs);
  if (rc != SQLITE_OK || !bench_prepare(db, sql, &b, &rc)) return rc;
  bench_uid(uid);
  bench_bind_text(&b, uid), bench_bind_int(&b, run);
  bench_bind_int(&b, refs.build), bench_bind_int(&b, refs.device);
  for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i) bench_bind_text(&b, texts[i]);
  for (size_t i = 0; i < sizeof reals / sizeof *reals; ++i) bench_bind_real(&b, reals[i]);
  return finish(&b);
}

bool bench_verdict_add(bench_db *db, int64_t run, const bench_cell *cell,
                       const bench_verdict *verdict, char *message, uint32_t size) {
  return bench_db_begin(db, message, size) &&
         bench_db_commit(db, insert_verdict(db, run, cell, verdict), message, size);
}

/* ---- finding ---- */

static void bind_cell(bench_binder *b, const bench_cell *c, int64_t machine) {
  bench_bind_text(b, c->golden_hash), bench_bind_text(b, c->precision);
  bench_bind_text(b, c->model_hash), bench_bind_text(b, c->architecture);
  bench_bind_text(b, c->device->name), bench_bind_int(b, machine);
}
#define CELL                                                                                     \
  "FROM verify v JOIN device d ON d.id = v.device JOIN build b ON b.id = v.build "               \
  "WHERE v.golden_hash = ? AND v.precision = ? AND v.model_hash = ? AND v.architecture = ? AND " \
  "d.name = ? AND d.machine = ? AND "

cJSON *bench_verdict_find(const bench_db *db, const bench_cell *cell) {
  static const char *const but[] = {"id", "uid", "run", "build", "device", NULL};
  bench_binder b;
  int rc;
  cJSON *found = NULL;
  if (!bench_prepare(
          db,
          "SELECT v.* " CELL
          "d.driver = ? AND b.build_id = ? AND b.compiler = ? ORDER BY v.id DESC LIMIT 1",
          &b, &rc))
    return NULL;
  bind_cell(&b, cell, bench_this_machine(db));
  bench_bind_text(&b, cell->device->driver), bench_bind_text(&b, bench_build_id());
  bench_bind_text(&b, bench_compiler());
  if (sqlite3_step(b.query) == SQLITE_ROW) {
    found = cJSON_CreateObject();
    bench_row_json(b.query, but, found);
  }
  sqlite3_finalize(b.query);
  return found;
}

bool bench_verdict_passed_before(const bench_db *db, const bench_cell *cell, char *build,
                                 size_t size) {
  bench_binder b;
  int rc;
  if (!bench_prepare(db,
                     "SELECT b.build_id " CELL
                     "v.state = 'pass' AND b.build_id != ? ORDER BY v.id DESC LIMIT 1",
                     &b, &rc))
    return false;
  bind_cell(&b, cell, bench_this_machine(db));
  bench_bind_text(&b, bench_build_id());
  const bool passed = sqlite3_step(b.query) == SQLITE_ROW;
  if (passed) snprintf(build, size, "%s", (const char *)sqlite3_column_text(b.query, 0));
  sqlite3_finalize(b.query);
  return passed;
}

/* ---- rows for tables ---- */

/* The texts of a row in order, and the columns or members they come from. */
#define TEXT(name) offsetof(bench_verdict_row, name), #name
static const struct {
  size_t at;
  const char *name;
} row_texts[] = {{TEXT(where)},  {TEXT(device)},    {TEXT(driver)},     {TEXT(hardware)},
                 {TEXT(type)},   {TEXT(model)},     {TEXT(model_type)}, {TEXT(architecture)},
                 {TEXT(golden)}, {TEXT(precision)}, {TEXT(state)},      {TEXT(reason)},
                 {TEXT(build)},  {TEXT(time)}},
  row_reals[] = {
      {TEXT(max_abs)}, {TEXT(cosine)}, {TEXT(bound)}, {TEXT(cpu_max_abs)}, {TEXT(cpu_cosine)}};
#undef TEXT
enum {
  ROW_TEXTS = sizeof row_texts / sizeof *row_texts,
  ROW_REALS = sizeof row_reals / sizeof *row_reals
};

static bench_verdict_row *new_row(bench_verdict_rows *to) {
  if (to->n == to->capacity) {
    const uint32_t more = to->capacity ? 2 * to->capacity : 256;
    bench_verdict_row *grown = realloc(to->row, more * sizeof *grown);
    if (!grown) return NULL;
    to->row = grown;
    to->capacity = more;
  }
  to->row[to->n] = (bench_verdict_row){0};
  return &to->row[to->n++];
}

static char **text_of(bench_verdict_row *row, int i) {
  return (char **)((char *)row + row_texts[i].at);
}
static double *real_of(bench_verdict_row *row, int i) {
  return (double *)((char *)row + row_reals[i].at);
}

static bool take_row(sqlite3_stmt *query, void *into) {
  bench_verdict_row *row = new_row(into);
  bool whole = row != NULL;
  for (int i = 0; row && i < ROW_TEXTS; ++i) {
    const char *text = (const char *)sqlite3_column_text(query, i);
    *text_of(row, i) = strdup(text ? text : "");
    whole &= *text_of(row, i) != NULL;
  }
  for (int i = 0; row && i < ROW_REALS; ++i)
    *real_of(row, i) = sqlite3_column_type(query, ROW_TEXTS + i) == SQLITE_NULL
                           ? (double)NAN
                           : sqlite3_column_double(query, ROW_TEXTS + i);
  if (row) row->stale = sqlite3_column_int(query, ROW_TEXTS + ROW_REALS) != 0;
  return whole;
}

/* The newest row of a cell: max() takes the others' columns along. */
bool bench_verdict_rows_read(const bench_db *db, bench_verdict_rows *out, char *message,
                             uint32_t size) {
  static const char sql[] =
      "SELECT CASE WHEN m.id = ?1 THEN '' ELSE m.host END, d.name, d.driver, d.hardware, d.type, "
      "v.model, "
      "v.model_type, v.architecture, v.golden, v.precision, v.state, v.reason, b.build_id, v.time, "
      "v.max_abs, v.cosine, v.bound, v.cpu_max_abs, v.cpu_cosine, b.build_id != ?2 AND m.id = ?1, "
      "max((b.build_id = ?2) || v.time || printf('%012d', v.id)) "
      "FROM verify v JOIN device d ON d.id = v.device JOIN build b ON b.id = v.build JOIN machine "
      "m "
      "ON m.id = d.machine GROUP BY m.id, d.name, v.model, v.model_type, v.architecture, v.golden, "
      "v.precision ORDER BY v.model, v.golden, d.name, v.precision, m.id";
  bench_binder b;
  int rc;
  if (bench_prepare(db, sql, &b, &rc)) {
    bench_bind_int(&b, bench_this_machine(db)), bench_bind_text(&b, bench_build_id());
    rc = bench_take_rows(&b, take_row, out);
  }
  if (rc != SQLITE_DONE) bench_db_error(db, rc, message, size);
  return rc == SQLITE_DONE;
}

bool bench_verdict_rows_add(bench_verdict_rows *to, const cJSON *object) {
  bench_verdict_row *row = new_row(to);
  bool whole = row != NULL;
  for (int i = 0; row && i < ROW_TEXTS; ++i) {
    const char *text =
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, row_texts[i].name));
    *text_of(row, i) = strdup(text && (*text || i) ? text : i ? "" : "elsewhere");
    whole &= text != NULL && *text_of(row, i) != NULL;
  }
  for (int i = 0; row && i < ROW_REALS; ++i) {
    const cJSON *number = cJSON_GetObjectItemCaseSensitive(object, row_reals[i].name);
    *real_of(row, i) = cJSON_IsNumber(number) ? number->valuedouble : (double)NAN;
  }
  if (row) row->stale = false; /* its build is told */
  return whole;
}

void bench_verdict_rows_free(bench_verdict_rows *rows) {
  for (uint32_t r = 0; r < rows->n; ++r)
    for (int i = 0; i < ROW_TEXTS; ++i) free(*text_of(&rows->row[r], i));
  free(rows->row);
  *rows = (bench_verdict_rows){0};
}
