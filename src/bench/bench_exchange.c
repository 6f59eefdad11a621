/* bench_exchange.c - export and import: a line holds a row of run or verify and all it refers to,
 * under the names of the columns. */
#include "bench/bench_exchange.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench_db.h"

/* ---- export ---- */

/* The row of `table` whose id is `id`, as the member of that name. */
static int add_row(const bench_db *db, const char *table, int64_t id, const char *const *but,
                   cJSON *line) {
  char sql[96];
  bench_binder b;
  int rc;
  snprintf(sql, sizeof sql, "SELECT * FROM %s WHERE id = ?", table);
  if (!bench_prepare(db, sql, &b, &rc)) return rc;
  bench_bind_int(&b, id);
  rc = sqlite3_step(b.query);
  if (rc == SQLITE_ROW) bench_row_json(b.query, but, cJSON_AddObjectToObject(line, table));
  sqlite3_finalize(b.query);
  return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* All rows of `table` that belong to a run, as a list of objects. */
static int add_parts(const bench_db *db, const char *table, int64_t run, cJSON *line) {
  static const char *const but[] = {"run", NULL};
  char sql[96];
  bench_binder b;
  int rc;
  snprintf(sql, sizeof sql, "SELECT * FROM %s WHERE run = ?", table);
  if (!bench_prepare(db, sql, &b, &rc)) return rc;
  bench_bind_int(&b, run);
  cJSON *list = cJSON_AddArrayToObject(line, table);
  while ((rc = sqlite3_step(b.query)) == SQLITE_ROW) {
    cJSON *row = cJSON_CreateObject();
    bench_row_json(b.query, but, row);
    cJSON_AddItemToArray(list, row);
  }
  sqlite3_finalize(b.query);
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int write_line(const bench_db *db, const char *kind, const int64_t id[4], FILE *to) {
  static const char *const but[] = {"id",  "machine_ref", "device_ref", "build_ref", "machine",
                                    "run", "device",      "build",      NULL};
  static const char *const run_but[] = {"id", "machine_ref", "device_ref", "build_ref", NULL};
  const bool is_run = !strcmp(kind, "run");
  cJSON *line = cJSON_CreateObject();
  cJSON_AddStringToObject(line, "schema", "accel.row/1");
  int rc = add_row(db, "machine", id[1], but, line);
  if (rc == SQLITE_OK) rc = add_row(db, "device", id[2], but, line);
  if (rc == SQLITE_OK) rc = add_row(db, "build", id[3], but, line);
  if (rc == SQLITE_OK) rc = add_row(db, kind, id[0], is_run ? run_but : but, line);
  if (rc == SQLITE_OK && is_run) rc = add_parts(db, "sample", id[0], line);
  if (rc == SQLITE_OK && is_run) rc = add_parts(db, "step", id[0], line);
  char *text = cJSON_PrintUnformatted(line);
  if (!text) rc = SQLITE_NOMEM;
  if (rc == SQLITE_OK && fprintf(to, "%s\n", text) < 0) rc = SQLITE_FULL;
  free(text);
  cJSON_Delete(line);
  return rc;
}

static int write_table(const bench_db *db, const char *kind, const char *sql, FILE *to,
                       uint32_t *count) {
  bench_binder b;
  int rc, written = SQLITE_OK;
  if (!bench_prepare(db, sql, &b, &rc)) return rc;
  while (written == SQLITE_OK && (rc = sqlite3_step(b.query)) == SQLITE_ROW) {
    int64_t id[4];
    for (int i = 0; i < 4; ++i) id[i] = sqlite3_column_int64(b.query, i);
    written = write_line(db, kind, id, to);
    *count += written == SQLITE_OK;
  }
  sqlite3_finalize(b.query);
  return written != SQLITE_OK ? written : rc == SQLITE_DONE ? SQLITE_OK : rc;
}

bool bench_export(const char *path, FILE *to, bench_exchanged *count, char *message,
                  uint32_t size) {
  bench_db db;
  *count = (bench_exchanged){0};
  if (!bench_db_open(&db, path, BENCH_DB_READ, message, size)) return false;
  int rc =
      write_table(&db, "run", "SELECT id, machine_ref, device_ref, build_ref FROM run ORDER BY id",
                  to, &count->runs);
  if (rc == SQLITE_OK)
    rc = write_table(&db, "verify",
                     "SELECT v.id, d.machine, v.device, v.build FROM verify v JOIN device d ON "
                     "d.id = v.device ORDER BY v.id",
                     to, &count->verdicts);
  const bool written = bench_db_commit(&db, rc, message, size);
  bench_db_close(&db);
  return written;
}

/* ---- import ---- */

enum { MAX_COLUMNS = 64, STATEMENTS = 8 };

/* An INSERT that was prepared, for rows that name the same columns in the same order. */
typedef struct statement {
  char text[4096]; /* "" none */
  sqlite3_stmt *query;
} statement;

/* What a table's columns are called. */
typedef struct columns {
  const char *table; /* NULL: none yet */
  char name[MAX_COLUMNS][64];
  int n;
} columns;

typedef struct importer {
  const bench_db *db;
  bench_exchanged *count;
  char *message; /* of what is wrong with a line */
  uint32_t size;
  columns known[STATEMENTS];      /* of tables that were met */
  statement prepared[STATEMENTS]; /* INSERTs; the oldest makes room */
  statement searched[STATEMENTS]; /* SELECTs of ids */
  uint32_t next_prepared, next_searched;
} importer;

/* The columns of one of the few tables that rows go to. */
static int columns_of(importer *im, const char *table, const columns **out) {
  bench_binder b;
  int rc, at = 0;
  while (at < STATEMENTS - 1 && im->known[at].table && strcmp(im->known[at].table, table) != 0)
    ++at;
  columns *c = &im->known[at];
  *out = c;
  if (c->table && !strcmp(c->table, table)) return SQLITE_OK;
  *c = (columns){.table = table};
  if (!bench_prepare(im->db, "SELECT name FROM pragma_table_info(?)", &b, &rc)) return rc;
  bench_bind_text(&b, table);
  while ((rc = sqlite3_step(b.query)) == SQLITE_ROW && c->n < MAX_COLUMNS)
    snprintf(c->name[c->n++], 64, "%s", (const char *)sqlite3_column_text(b.query, 0));
  sqlite3_finalize(b.query);
  return rc == SQLITE_DONE || rc == SQLITE_ROW ? SQLITE_OK : rc;
}

/* The statement of that text, reset, to be bound anew; the importer keeps it. */
static int prepare_once(const importer *im, statement *list, uint32_t *next, const char *text,
                        bench_binder *b) {
  int rc = SQLITE_OK, at = 0;
  while (at < STATEMENTS && strcmp(list[at].text, text) != 0) ++at;
  if (at == STATEMENTS) {
    at = (int)((*next)++ % STATEMENTS);
    sqlite3_finalize(list[at].query);
    list[at].text[0] = 0;
    bench_prepare(im->db, text, b, &rc);
    list[at].query = b->query;
    if (rc == SQLITE_OK) snprintf(list[at].text, sizeof list[at].text, "%s", text);
  }
  *b = (bench_binder){.query = list[at].query};
  if (rc == SQLITE_OK) sqlite3_reset(b->query);
  return rc;
}

static void forget_statements(importer *im) {
  for (int i = 0; i < STATEMENTS; ++i) {
    sqlite3_finalize(im->prepared[i].query);
    sqlite3_finalize(im->searched[i].query);
  }
}

static void bind_json(bench_binder *b, const cJSON *value) {
  const double number = value->valuedouble;
  if (cJSON_IsString(value))
    bench_bind_text(b, value->valuestring);
  else if (cJSON_IsNumber(value) && number == floor(number) && fabs(number) < 9e15)
    bench_bind_int(b, (int64_t)number);
  else
    bench_bind_real(b, cJSON_IsNumber(value) ? number : (double)NAN);
}

typedef struct ref {
  const char *column;
  int64_t id;
} ref;

/* INSERT of a row given as an object, with `more` further columns of ids.  Names are compared with
 * the table's own columns, so that none of them gets into the statement as it came. */
static int insert_text(importer *im, const char *table, const cJSON *row, const ref *more,
                       int n_more, char *sql, size_t size) {
  const columns *known;
  char marks[3 * MAX_COLUMNS] = "";
  bool used[MAX_COLUMNS] = {false};
  int rc = columns_of(im, table, &known);
  if (rc != SQLITE_OK) return rc;
  int at = snprintf(sql, size, "INSERT INTO %s (", table);
  for (const cJSON *item = row ? row->child : NULL; item; item = item->next) {
    int c = 0;
    while (c < known->n && strcmp(known->name[c], item->string) != 0) ++c;
    if (c == known->n || used[c] || !strcmp(item->string, "id")) {
      snprintf(im->message, im->size, "%s.%s is no column here: made by a newer accel?", table,
               item->string);
      return SQLITE_ERROR;
    }
    at += snprintf(sql + at, size - (size_t)at, "%s%s", *marks ? ", " : "", known->name[c]);
    strcat(marks, *marks ? ",?" : "?");
    used[c] = true;
  }
  for (int i = 0; i < n_more; ++i) {
    at += snprintf(sql + at, size - (size_t)at, "%s%s", *marks ? ", " : "", more[i].column);
    strcat(marks, *marks ? ",?" : "?");
  }
  snprintf(sql + at, size - (size_t)at, ") VALUES (%s)", marks);
  return SQLITE_OK;
}

static int insert_row(importer *im, const char *table, const cJSON *row, const ref *more,
                      int n_more) {
  char sql[4096];
  bench_binder b;
  int rc = insert_text(im, table, row, more, n_more, sql, sizeof sql);
  if (rc == SQLITE_OK) rc = prepare_once(im, im->prepared, &im->next_prepared, sql, &b);
  if (rc != SQLITE_OK) return rc;
  for (const cJSON *item = row ? row->child : NULL; item; item = item->next) bind_json(&b, item);
  for (int i = 0; i < n_more; ++i) bench_bind_int(&b, more[i].id);
  rc = sqlite3_step(b.query);
  sqlite3_reset(b.query);
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* The id of the row whose columns keys[n] are as in `row`, and `machine`, unless 0. */
static int id_like(importer *im, const char *table, const cJSON *row, int64_t machine,
                   const char *const *keys, int64_t *id) {
  char sql[256];
  bench_binder b;
  int rc, at = snprintf(sql, sizeof sql, "SELECT id FROM %s WHERE 1", table);
  for (const char *const *k = keys; *k; ++k)
    at += snprintf(sql + at, sizeof sql - (size_t)at, " AND %s = ?", *k);
  if (machine) snprintf(sql + at, sizeof sql - (size_t)at, " AND machine = ?");
  *id = 0;
  rc = prepare_once(im, im->searched, &im->next_searched, sql, &b);
  if (rc != SQLITE_OK) return rc;
  for (const char *const *k = keys; *k; ++k) {
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(row, *k));
    bench_bind_text(&b, text ? text : "");
  }
  if (machine) bench_bind_int(&b, machine);
  rc = sqlite3_step(b.query);
  if (rc == SQLITE_ROW) *id = sqlite3_column_int64(b.query, 0);
  sqlite3_reset(b.query);
  return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* The row of a machine, device or build, made when absent. */
static int take_ref(importer *im, const char *table, const cJSON *line, int64_t machine,
                    const char *const *keys, int64_t *id) {
  const cJSON *row = cJSON_GetObjectItemCaseSensitive(line, table);
  const ref more = {"machine", machine};
  if (!cJSON_IsObject(row)) {
    snprintf(im->message, im->size, "its \"%s\" is missing", table);
    return SQLITE_ERROR;
  }
  int rc = id_like(im, table, row, machine, keys, id);
  if (rc != SQLITE_OK || *id) return rc;
  rc = insert_row(im, table, row, &more, machine != 0);
  *id = sqlite3_last_insert_rowid(im->db->db);
  return rc;
}

static int take_parts(importer *im, const char *table, const cJSON *line, int64_t run) {
  const ref more = {"run", run};
  const cJSON *row;
  int rc = SQLITE_OK;
  cJSON_ArrayForEach(row, cJSON_GetObjectItemCaseSensitive(line, table)) {
    if (rc == SQLITE_OK) rc = insert_row(im, table, row, &more, 1);
  }
  return rc;
}

static int take_line(importer *im, const cJSON *line) {
  static const char *const machine_keys[] = {"hash", NULL},
                           *const device_keys[] = {"name", "driver", "uid", NULL},
                           *const build_keys[] = {"version", "build_id", "compiler", NULL},
                           *const uid[] = {"uid", NULL};
  const char *schema = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(line, "schema"));
  const cJSON *run = cJSON_GetObjectItemCaseSensitive(line, "run"),
              *verify = cJSON_GetObjectItemCaseSensitive(line, "verify"), *row = run ? run : verify;
  const char *table = run ? "run" : "verify";
  int64_t machine, device, build, known;
  if (!schema || strcmp(schema, "accel.row/1") != 0 || !cJSON_IsObject(row) ||
      !cJSON_IsString(cJSON_GetObjectItemCaseSensitive(row, "uid"))) {
    snprintf(im->message, im->size,
             "no row of accel bench --export (schema accel.row/1 with a \"run\" or \"verify\" that "
             "has a uid)");
    return SQLITE_ERROR;
  }
  int rc = id_like(im, table, row, 0, uid, &known);
  if (rc == SQLITE_OK && known) im->count->known++;
  if (rc != SQLITE_OK || known) return rc;
  rc = take_ref(im, "machine", line, 0, machine_keys, &machine);
  if (rc == SQLITE_OK) rc = take_ref(im, "device", line, machine, device_keys, &device);
  if (rc == SQLITE_OK) rc = take_ref(im, "build", line, 0, build_keys, &build);
  if (rc != SQLITE_OK) return rc;
  const ref refs[] = {{run ? "device_ref" : "device", device},
                      {run ? "build_ref" : "build", build},
                      {"machine_ref", machine}};
  rc = insert_row(im, table, row, refs, run ? 3 : 2);
  if (rc != SQLITE_OK) return rc;
  const int64_t id = sqlite3_last_insert_rowid(im->db->db);
  *(run ? &im->count->runs : &im->count->verdicts) += 1;
  rc = run ? take_parts(im, "sample", line, id) : SQLITE_OK;
  return rc == SQLITE_OK && run ? take_parts(im, "step", line, id) : rc;
}

bool bench_import(const char *path, FILE *from, const char *name, bench_exchanged *count,
                  char *message, uint32_t size) {
  bench_db db;
  char *text = NULL, wrong[512] = "";
  size_t capacity = 0;
  uint32_t number = 0;
  importer im = {.db = &db, .count = count, .message = wrong, .size = sizeof wrong};
  int rc = SQLITE_OK;
  *count = (bench_exchanged){0};
  if (!bench_db_open(&db, path, BENCH_DB_CREATE, message, size)) return false;
  for (ssize_t n; rc == SQLITE_OK && (n = getline(&text, &capacity, from)) >= 0;) {
    ++number;
    if (n == 0 || text[strspn(text, " \t\r\n")] == 0) continue;
    cJSON *line = cJSON_Parse(text);
    if (!line) snprintf(wrong, sizeof wrong, "no JSON");
    rc = line ? take_line(&im, line) : SQLITE_ERROR;
    cJSON_Delete(line);
  }
  if (rc != SQLITE_OK && !*wrong && (rc & 0xff) == SQLITE_CONSTRAINT)
    snprintf(wrong, sizeof wrong, "%s: only what was measured is kept", sqlite3_errmsg(db.db));
  free(text);
  bool taken = false;
  if (*wrong)
    snprintf(message, size, "%s: line %u: %s; nothing was imported", name, number, wrong);
  else
    taken = bench_db_commit(&db, rc, message, size);
  forget_statements(&im);
  bench_db_close(&db);
  return taken;
}
