/* bench_costs.c - see bench_costs.h. */
#include "bench/bench_costs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_profiled_here(const bench_row *row, const void *unused) {
  (void)unused;
  return !*row->text[ROW_WHERE] && row->number[ROW_STEPS] > 0;
}

/* Of each case the fastest run of the build that measured it last: what other work on the machine
 * took is in the others. */
static void mark_kept(bench_rows *rows) {
  for (uint32_t first = 0, end; first < rows->n; first = end) {
    bench_row *all = &rows->row[first];
    uint32_t n = 1;
    while (first + n < rows->n && bench_row_same_case(all, &all[n])) ++n;
    uint32_t best = n - 1;
    for (uint32_t i = 0; i < n; ++i)
      if (!strcmp(all[i].text[ROW_BUILD], all[n - 1].text[ROW_BUILD]) &&
          all[i].number[ROW_MIN_MS] < all[best].number[ROW_MIN_MS])
        best = i;
    all[best].family = "kept";
    end = first + n;
  }
}

static bool is_kept(const bench_row *row, const void *unused) {
  (void)unused;
  return row->family != NULL;
}

static bool same_group(const bench_cost_group *g, const bench_row *row) {
  return !strcmp(g->device, row->text[ROW_DEVICE]) &&
         !strcmp(g->precision, row->text[ROW_PRECISION]) && g->threads == row->number[ROW_THREADS];
}

/* The group of a row, made when there is none; NULL: no memory. */
static bench_cost_group *group_of(bench_cost_groups *to, const bench_row *row) {
  for (uint32_t i = 0; i < to->n; ++i)
    if (same_group(&to->group[i], row)) return &to->group[i];
  bench_cost_group *grown = realloc(to->group, (to->n + (size_t)1) * sizeof *grown);
  if (!grown) return NULL;
  to->group = grown;
  grown += to->n++;
  *grown = (bench_cost_group){.device = row->text[ROW_DEVICE],
                              .precision = row->text[ROW_PRECISION],
                              .threads = (uint32_t)row->number[ROW_THREADS]};
  return grown;
}

/* An empty run of the row at the end of its group; NULL: no memory. */
static bench_cost_run *add_run(bench_cost_group *g, const bench_row *row) {
  const size_t n = g->runs.n + (size_t)1;
  bench_cost_run *run = realloc(g->runs.run, n * sizeof *run);
  if (run) g->runs.run = run;
  const bench_row **rows = realloc((void *)g->row, n * sizeof *rows);
  if (rows) g->row = rows;
  if (!run || !rows) return NULL;
  uint32_t model = g->runs.models;
  for (uint32_t i = 0; i < g->runs.n && model == g->runs.models; ++i)
    if (!strcmp(rows[i]->text[ROW_MODEL], row->text[ROW_MODEL])) model = run[i].model;
  g->runs.models += model == g->runs.models;
  rows[g->runs.n] = row;
  run += g->runs.n++;
  *run = (bench_cost_run){
      .model = model, .decodes = row->number[ROW_NEW_TOKENS] > 1, .ms = row->number[ROW_MIN_MS]};
  return run;
}

static bool take_step(sqlite3_stmt *query, void *into) {
  return bench_cost_add(into, (const char *)sqlite3_column_text(query, 0),
                        sqlite3_column_double(query, 1), sqlite3_column_double(query, 2),
                        sqlite3_column_double(query, 3));
}

static bool take_decode(sqlite3_stmt *query, void *into) {
  *(double *)into = sqlite3_column_double(query, 0);
  return true;
}

static int read_run(const bench_db *db, const bench_row *row, bench_cost_run *run) {
  bench_binder b;
  int rc;
  if (!bench_prepare(db, "SELECT op, flop, bytes, min_ms FROM step WHERE run = ?", &b, &rc))
    return rc;
  bench_bind_int(&b, (int64_t)row->number[ROW_ID]);
  rc = bench_take_rows(&b, take_step, run);
  bench_cost_finish(run);
  if (rc != SQLITE_DONE || !run->decodes) return rc;
  if (!bench_prepare(db, "SELECT min(ms) FROM sample WHERE run = ? AND what = 'decode'", &b, &rc))
    return rc;
  bench_bind_int(&b, (int64_t)row->number[ROW_ID]);
  rc = bench_take_rows(&b, take_decode, &run->ms);
  run->ms /= row->number[ROW_NEW_TOKENS] - 1;
  return rc;
}

/* NaN is none. */
static void raise(double *peak, double value) {
  if (value > *peak) *peak = value;
}

bool bench_costs_read(const bench_db *db, bench_cost_groups *out, char *message, uint32_t size) {
  int rc = SQLITE_DONE;
  *out = (bench_cost_groups){0};
  if (!bench_rows_read(db, &out->rows, message, size)) return false;
  bench_rows_keep(&out->rows, is_profiled_here, NULL);
  mark_kept(&out->rows);
  bench_rows_keep(&out->rows, is_kept, NULL);
  for (uint32_t i = 0; rc == SQLITE_DONE && i < out->rows.n; ++i) {
    const bench_row *row = &out->rows.row[i];
    bench_cost_group *g = group_of(out, row);
    bench_cost_run *run = g ? add_run(g, row) : NULL;
    rc = run ? read_run(db, row, run) : SQLITE_NOMEM;
    if (!g) continue;
    raise(&g->runs.peak_gflops, row->number[ROW_PEAK_GFLOPS]);
    raise(&g->runs.peak_gbytes_per_s, row->number[ROW_PEAK_GBYTES]);
  }
  if (rc != SQLITE_DONE) bench_db_error(db, rc, message, size);
  return rc == SQLITE_DONE;
}

void bench_costs_free(bench_cost_groups *groups) {
  for (uint32_t i = 0; i < groups->n; ++i) {
    bench_cost_runs_free(&groups->group[i].runs);
    free((void *)groups->group[i].row);
  }
  free(groups->group);
  bench_rows_free(&groups->rows);
  *groups = (bench_cost_groups){0};
}
