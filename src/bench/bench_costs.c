/* bench_costs.c - see bench_costs.h. */
#include "bench/bench_costs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_profiled_here(const bench_row *row, const void *unused) {
  (void)unused;
  return !*row->text[ROW_WHERE] && row->number[ROW_STEPS] > 0;
}

/* The runs of a case by the build that measured it last. */
typedef struct same_case {
  const bench_row *fastest;
  char *ids; /* "[3,17]" */
} same_case;

/* Of rows of one case, oldest first; false: no memory. */
static bool sum_case(const bench_row *rows, uint32_t n, same_case *out) {
  const char *build = rows[n - 1].text[ROW_BUILD];
  size_t at = 0;
  *out = (same_case){.fastest = &rows[n - 1], .ids = malloc((size_t)n * 24 + 3)};
  for (uint32_t i = 0; out->ids && i < n; ++i) {
    if (strcmp(rows[i].text[ROW_BUILD], build) != 0) continue;
    if (rows[i].number[ROW_MIN_MS] < out->fastest->number[ROW_MIN_MS]) out->fastest = &rows[i];
    at +=
        (size_t)sprintf(out->ids + at, "%c%lld", at ? ',' : '[', (long long)rows[i].number[ROW_ID]);
  }
  if (out->ids) strcpy(out->ids + at, "]");
  return out->ids != NULL;
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

/* Where pictures are made, a step of a part runs as often as the part; flop and bytes are those of all
 * of them. */
static bool take_step(sqlite3_stmt *query, void *into) {
  const int times = sqlite3_column_int(query, 6) > 1 ? sqlite3_column_int(query, 6) : 1;
  bench_cost step = {.flop = sqlite3_column_double(query, 1) / times,
                     .bytes = sqlite3_column_double(query, 2) / times,
                     .weights = sqlite3_column_double(query, 3) / times,
                     .results = sqlite3_column_double(query, 4) / times,
                     .ms = sqlite3_column_double(query, 5)};
  bool good = true;
  snprintf(step.op, sizeof step.op, "%s", (const char *)sqlite3_column_text(query, 0));
  for (int i = 0; i < times && good; ++i) good = bench_cost_add(into, &step);
  return good;
}

static bool take_decode(sqlite3_stmt *query, void *into) {
  *(double *)into = sqlite3_column_double(query, 0);
  return true;
}

/* Each step, and of generations a token, at their least in any of the runs `ids`: what other work on
 * the machine takes is at another place in each. */
static int read_run(const bench_db *db, const bench_row *row, const char *ids,
                    bench_cost_run *run) {
  bench_binder b;
  int rc;
  if (!bench_prepare(db,
                     "SELECT op, flop, bytes, weight_bytes, result_bytes, min(min_ms), "
                     "CASE WHEN ? THEN calls / (SELECT iters FROM run WHERE id = step.run) ELSE 1 "
                     "END FROM step WHERE run IN (SELECT value FROM json_each(?)) GROUP BY node, "
                     "op, flop, bytes "
                     "ORDER BY node",
                     &b, &rc))
    return rc;
  bench_bind_int(&b, !strcmp(row->text[ROW_TASK], "text-to-image"));
  bench_bind_text(&b, ids);
  rc = bench_take_rows(&b, take_step, run);
  bench_cost_finish(run);
  if (rc != SQLITE_DONE || !run->decodes) return rc;
  if (!bench_prepare(db,
                     "SELECT min(CASE what WHEN 'token' THEN ms ELSE ms / ? END) FROM sample "
                     "WHERE run IN (SELECT value FROM json_each(?)) AND what IN ('decode', "
                     "'token')",
                     &b, &rc))
    return rc;
  bench_bind_real(&b, row->number[ROW_NEW_TOKENS] - 1);
  bench_bind_text(&b, ids);
  return bench_take_rows(&b, take_decode, &run->ms);
}

/* NaN is none. */
static void raise(double *peak, double value) {
  if (value > *peak) *peak = value;
}

static int take_case(const bench_db *db, const same_case *c, bench_cost_groups *out) {
  const bench_row *row = c->fastest;
  bench_cost_group *g = group_of(out, row);
  bench_cost_run *run = g ? add_run(g, row) : NULL;
  if (!run) return SQLITE_NOMEM;
  raise(&g->runs.peak_gflops, row->number[ROW_PEAK_GFLOPS]);
  raise(&g->runs.peak_gbytes_per_s, row->number[ROW_PEAK_GBYTES]);
  return read_run(db, row, c->ids, run);
}

bool bench_costs_read(const bench_db *db, bench_cost_groups *out, char *message, uint32_t size) {
  int rc = SQLITE_DONE;
  *out = (bench_cost_groups){0};
  if (!bench_rows_read(db, &out->rows, message, size)) return false;
  bench_rows_keep(&out->rows, is_profiled_here, NULL);
  for (uint32_t first = 0, n; rc == SQLITE_DONE && first < out->rows.n; first += n) {
    const bench_row *rows = &out->rows.row[first];
    same_case c;
    for (n = 1; first + n < out->rows.n && bench_row_same_case(rows, &rows[n]);) ++n;
    rc = sum_case(rows, n, &c) ? take_case(db, &c, out) : SQLITE_NOMEM;
    free(c.ids);
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
