/* bench_rows.c - reading runs, the ops of profiled ones, and goldens that regressed. */
#include "bench/bench_rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define X(id, name, sql) name,
const char *const bench_row_text_names[] = {BENCH_ROW_TEXT_COLUMNS(X)};
const char *const bench_row_number_names[] = {BENCH_ROW_NUMBER_COLUMNS(X)};
#undef X
#define X(id, name, sql) sql ", "
static const char row_columns[] = BENCH_ROW_TEXT_COLUMNS(X) BENCH_ROW_NUMBER_COLUMNS(X) "1";
#undef X

/* ---- runs ---- */

static void free_row(bench_row *row) {
  for (int i = 0; i < BENCH_ROW_TEXTS; ++i) free(row->text[i]);
}

static bool take_row(sqlite3_stmt *query, void *into) {
  bench_rows *to = into;
  if (to->n == to->capacity) {
    const uint32_t more = to->capacity ? 2 * to->capacity : 256;
    bench_row *grown = realloc(to->row, more * sizeof *grown);
    if (!grown) return false;
    to->row = grown;
    to->capacity = more;
  }
  bench_row *row = &to->row[to->n++];
  bool whole = true;
  row->family = NULL;
  for (int i = 0; i < BENCH_ROW_TEXTS; ++i) {
    const char *text = (const char *)sqlite3_column_text(query, i);
    row->text[i] = strdup(text ? text : "");
    whole &= row->text[i] != NULL;
  }
  for (int i = 0; i < BENCH_ROW_NUMBERS; ++i) {
    const int c = BENCH_ROW_TEXTS + i;
    row->number[i] = sqlite3_column_type(query, c) == SQLITE_NULL ? (double)NAN
                                                                  : sqlite3_column_double(query, c);
  }
  return whole;
}

/* What says which case a run is of. */
static const bench_row_text case_texts[] = {ROW_MODEL,  ROW_TASK,      ROW_SCENARIO,
                                            ROW_DEVICE, ROW_PRECISION, ROW_LENGTHS,
                                            ROW_OUTPUT, ROW_WEIGHTS,   ROW_MACHINE};
static const bench_row_number case_numbers[] = {ROW_THREADS, ROW_BATCH, ROW_NEW_TOKENS};

static int by_case(const bench_row *a, const bench_row *b) {
  int order = 0;
  for (size_t i = 0; !order && i < sizeof case_texts / sizeof *case_texts; ++i)
    order = strcmp(a->text[case_texts[i]], b->text[case_texts[i]]);
  for (size_t i = 0; !order && i < sizeof case_numbers / sizeof *case_numbers; ++i) {
    const double x = a->number[case_numbers[i]], y = b->number[case_numbers[i]];
    order = (x > y) - (x < y);
  }
  return order;
}

bool bench_row_same_case(const bench_row *a, const bench_row *b) { return !by_case(a, b); }

static int by_case_and_id(const void *a, const void *b) {
  const bench_row *x = a, *y = b;
  const int order = by_case(x, y);
  return order ? order
               : (x->number[ROW_ID] > y->number[ROW_ID]) - (x->number[ROW_ID] < y->number[ROW_ID]);
}

bool bench_rows_read(const bench_db *db, bench_rows *out, char *message, uint32_t size) {
  char sql[4096];
  bench_binder b;
  int rc;
  *out = (bench_rows){0};
  snprintf(sql, sizeof sql,
           "SELECT %s FROM run r JOIN machine m ON m.id = r.machine_ref JOIN device d ON d.id = "
           "r.device_ref JOIN build b ON b.id = r.build_ref",
           row_columns);
  if (bench_prepare(db, sql, &b, &rc)) {
    bench_bind_int(&b, bench_this_machine(db));
    rc = bench_take_rows(&b, take_row, out);
  }
  if (rc != SQLITE_DONE) bench_db_error(db, rc, message, size);
  if (rc == SQLITE_DONE && out->n) qsort(out->row, out->n, sizeof *out->row, by_case_and_id);
  return rc == SQLITE_DONE;
}

void bench_rows_free(bench_rows *rows) {
  for (uint32_t i = 0; i < rows->n; ++i) free_row(&rows->row[i]);
  free(rows->row);
  *rows = (bench_rows){0};
}

void bench_rows_keep(bench_rows *rows, bool (*keep)(const bench_row *row, const void *what),
                     const void *what) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < rows->n; ++i) {
    if (keep(&rows->row[i], what))
      rows->row[n++] = rows->row[i];
    else
      free_row(&rows->row[i]);
  }
  rows->n = n;
}

/* ---- ops ---- */

typedef struct op_list {
  bench_op **ops;
  uint32_t *n;
} op_list;

static bool take_op(sqlite3_stmt *query, void *into) {
  const op_list *to = into;
  bench_op *grown = realloc(*to->ops, (*to->n + (size_t)1) * sizeof *grown);
  if (!grown) return false;
  *to->ops = grown;
  bench_op *op = &grown[(*to->n)++];
  *op = (bench_op){.ms = sqlite3_column_double(query, 1),
                   .flop = sqlite3_column_double(query, 2),
                   .bytes = sqlite3_column_double(query, 3),
                   .bound_ms = sqlite3_column_type(query, 4) == SQLITE_NULL
                                   ? (double)NAN
                                   : sqlite3_column_double(query, 4),
                   .steps = (uint32_t)sqlite3_column_int(query, 5)};
  snprintf(op->op, sizeof op->op, "%s", (const char *)sqlite3_column_text(query, 0));
  return true;
}

bool bench_ops_read(const bench_db *db, double run, bench_op **ops, uint32_t *n, char *message,
                    uint32_t size) {
  bench_binder b;
  int rc;
  *ops = NULL;
  *n = 0;
  if (bench_prepare(db,
                    "SELECT op, sum(ms), sum(flop), sum(bytes), CASE WHEN count(*) = "
                    "count(bound_ms) THEN sum(bound_ms) END, count(*) FROM step WHERE run = ? "
                    "GROUP BY op ORDER BY sum(ms) DESC",
                    &b, &rc)) {
    bench_bind_int(&b, (int64_t)run);
    rc = bench_take_rows(&b, take_op, &(op_list){ops, n});
  }
  if (rc != SQLITE_DONE) bench_db_error(db, rc, message, size);
  return rc == SQLITE_DONE;
}

/* ---- goldens that regressed ---- */

static char **regression_text(bench_regression *r, int i) {
  char **const texts[] = {&r->model,  &r->golden, &r->device, &r->precision,
                          &r->reason, &r->build,  &r->passed};
  return texts[i];
}
enum { REGRESSION_TEXTS = 7 };

static bool take_regression(sqlite3_stmt *query, void *into) {
  bench_regressions *to = into;
  bench_regression *grown = realloc(to->item, (to->n + (size_t)1) * sizeof *grown);
  bool whole = grown != NULL;
  if (!grown) return false;
  to->item = grown;
  grown[to->n] = (bench_regression){0};
  for (int i = 0; i < REGRESSION_TEXTS; ++i) {
    const char *text = (const char *)sqlite3_column_text(query, i);
    *regression_text(&grown[to->n], i) = strdup(text ? text : "");
    whole &= *regression_text(&grown[to->n], i) != NULL;
  }
  to->n++;
  return whole;
}

bool bench_regressions_read(const bench_db *db, bench_regressions *out, char *message,
                            uint32_t size) {
#define SAME_CELL(other)                                                                \
  other ".golden_hash = v.golden_hash AND " other ".precision = v.precision AND " other \
        ".model_hash = v.model_hash AND " other ".architecture = v.architecture"
  static const char sql[] =
      "SELECT * FROM (SELECT v.model, v.golden, d.name, v.precision, v.reason, b.build_id, "
      "(SELECT c.build_id FROM verify w JOIN build c ON c.id = w.build JOIN device e ON e.id = "
      "w.device WHERE " SAME_CELL("w") " AND e.name = d.name AND e.machine = d.machine AND "
      "w.state = 'pass' AND c.build_id != b.build_id AND w.id < v.id ORDER BY w.id DESC LIMIT 1) "
      "AS passed FROM verify v JOIN device d ON d.id = v.device JOIN build b ON b.id = v.build "
      "WHERE v.state = 'fail' AND d.machine = ? AND NOT EXISTS (SELECT 1 FROM verify n JOIN device "
      "f ON f.id = n.device WHERE " SAME_CELL("n") " AND f.name = d.name AND f.machine = d.machine "
      "AND n.id > v.id)) WHERE passed IS NOT NULL ORDER BY 1, 2, 3, 4";
#undef SAME_CELL
  bench_binder b;
  int rc;
  *out = (bench_regressions){0};
  if (bench_prepare(db, sql, &b, &rc)) {
    bench_bind_int(&b, bench_this_machine(db));
    rc = bench_take_rows(&b, take_regression, out);
  }
  if (rc != SQLITE_DONE) bench_db_error(db, rc, message, size);
  return rc == SQLITE_DONE;
}

void bench_regressions_free(bench_regressions *list) {
  for (uint32_t r = 0; r < list->n; ++r)
    for (int i = 0; i < REGRESSION_TEXTS; ++i) free(*regression_text(&list->item[r], i));
  free(list->item);
  *list = (bench_regressions){0};
}
