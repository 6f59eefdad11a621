/* bench_shifts.c - what changed between two builds, of one database or two: rounds are the values. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench_rounds.h"
#include "bench/bench_rows.h"
#include "bench/bench_stats.h"

const char *bench_shift_word(bench_shift_verdict verdict) {
  static const char *const words[] = {"too few rounds", "same within noise", "faster", "slower"};
  return words[verdict];
}

/* Rows of one case by one build, which are neighbours: newest last. */
typedef struct group {
  const bench_db *db;
  const bench_row *newest;
  const bench_row *first; /* of the case */
  uint32_t n;             /* rows of the case; those of another build do not count */
} group;

static int read_group(const group *g, const char *what, bench_values *to) {
  int rc = SQLITE_OK;
  for (uint32_t i = 0; i < g->n && rc == SQLITE_OK; ++i)
    if (!strcmp(g->first[i].text[ROW_BUILD], g->newest->text[ROW_BUILD]))
      rc = bench_rounds_read(g->db, g->first[i].number[ROW_ID], what, to);
  return rc;
}

static bool append(bench_shifts *to, const bench_shift *shift) {
  bench_shift *grown = realloc(to->item, (to->n + (size_t)1) * sizeof *grown);
  if (!grown) return false;
  to->item = grown;
  grown[to->n++] = *shift;
  return true;
}

/* One figure of both; nothing where one has no samples of it. */
static int compare_figure(const group *before, const group *after, const char *what,
                          bench_shifts *out) {
  bench_values a = {0}, b = {0};
  bench_ratio ratio = {(double)NAN, (double)NAN, (double)NAN};
  double u;
  int rc = read_group(before, what, &a);
  if (rc == SQLITE_OK) rc = read_group(after, what, &b);
  if (rc == SQLITE_OK && a.n && b.n) {
    bench_shift s = {.before = before->newest,
                     .after = after->newest,
                     .what = what,
                     .n_before = a.n,
                     .n_after = b.n,
                     .p = (double)NAN,
                     .alarms = (double)NAN};
    if (a.n >= BENCH_LEAST_ROUNDS && b.n >= BENCH_LEAST_ROUNDS) {
      s.p = bench_u_test(a.item, a.n, b.item, b.n, &u);
      bench_ratio_of(a.item, a.n, b.item, b.n, &ratio);
    }
    s.ratio = ratio.ratio;
    s.low = ratio.low;
    s.high = ratio.high;
    s.ms_before = bench_median(a.item, a.n);
    s.ms_after = bench_median(b.item, b.n);
    if (!append(out, &s)) rc = SQLITE_NOMEM;
  }
  free(a.item);
  free(b.item);
  return rc;
}

/* What of a run's samples is compared: of one that starts, the start. */
static int compare_groups(const group *before, const group *after, bench_shifts *out) {
  static const char *const steady[] = {"latency", "prefill", "decode", NULL}, *const start[] = {
                                                                                  "load", "first",
                                                                                  NULL};
  const char *scenario = after->newest->text[ROW_SCENARIO];
  int rc = SQLITE_OK;
  for (const char *const *what = strstr(scenario, "-start") ? start : steady;
       *what && rc == SQLITE_OK; ++what)
    rc = compare_figure(before, after, *what, out);
  return rc;
}

static bool judge(bench_shifts *s) {
  double *p = malloc((s->n + (size_t)1) * sizeof *p);
  uint32_t n = 0;
  if (!p) return false;
  for (uint32_t i = 0; i < s->n; ++i)
    if (isfinite(s->item[i].p)) p[n++] = s->item[i].p;
  const bool good = bench_adjust(p, n);
  n = 0;
  for (uint32_t i = 0; good && i < s->n; ++i) {
    bench_shift *x = &s->item[i];
    if (!isfinite(x->p)) continue;
    x->alarms = p[n++];
    const bool sure = x->alarms < BENCH_ALARMS;
    x->verdict = sure && x->low > 1 + BENCH_LEAST_CHANGE          ? BENCH_SLOWER
                 : sure && x->high < 1 / (1 + BENCH_LEAST_CHANGE) ? BENCH_FASTER
                                                                  : BENCH_SAME;
  }
  free(p);
  return good;
}

/* Rows of one case behind row i. */
static uint32_t case_length(const bench_rows *rows, uint32_t i) {
  uint32_t n = 1;
  while (i + n < rows->n && bench_row_same_case(&rows->row[i], &rows->row[i + n])) ++n;
  return n;
}

static bool finish(const bench_db *db, int rc, bench_shifts *out, char *message, uint32_t size) {
  if (rc == SQLITE_OK && !judge(out)) rc = SQLITE_NOMEM;
  if (rc != SQLITE_OK) bench_db_error(db, rc, message, size);
  return rc == SQLITE_OK;
}

bool bench_shifts_of_databases(const bench_db *before, const bench_rows *rows_before,
                               const bench_db *after, const bench_rows *rows_after,
                               bench_shifts *out, char *message, uint32_t size) {
  int rc = SQLITE_OK;
  *out = (bench_shifts){0};
  for (uint32_t i = 0, n; i < rows_after->n && rc == SQLITE_OK; i += n) {
    n = case_length(rows_after, i);
    const group b = {after, &rows_after->row[i + n - 1], &rows_after->row[i], n};
    for (uint32_t k = 0, m; k < rows_before->n && rc == SQLITE_OK; k += m) {
      m = case_length(rows_before, k);
      if (!bench_row_same_case(&rows_before->row[k], b.first)) continue;
      const group a = {before, &rows_before->row[k + m - 1], &rows_before->row[k], m};
      rc = compare_groups(&a, &b, out);
    }
  }
  return finish(after, rc, out, message, size);
}

bool bench_shifts_of_builds(const bench_db *db, const bench_rows *rows, bench_shifts *out,
                            char *message, uint32_t size) {
  int rc = SQLITE_OK;
  *out = (bench_shifts){0};
  for (uint32_t i = 0, n; i < rows->n && rc == SQLITE_OK; i += n) {
    n = case_length(rows, i);
    const group b = {db, &rows->row[i + n - 1], &rows->row[i], n};
    group a = b;
    if (*b.newest->text[ROW_WHERE]) continue; /* another machine's */
    while (a.newest > a.first && !strcmp(a.newest->text[ROW_BUILD], b.newest->text[ROW_BUILD]))
      --a.newest;
    if (strcmp(a.newest->text[ROW_BUILD], b.newest->text[ROW_BUILD]) != 0)
      rc = compare_groups(&a, &b, out);
  }
  return finish(db, rc, out, message, size);
}

void bench_shifts_free(bench_shifts *shifts) {
  free(shifts->item);
  *shifts = (bench_shifts){0};
}
