/* bench_rounds.c - see bench_rounds.h. */
#include "bench/bench_rounds.h"

#include <math.h>
#include <stdlib.h>

#include "bench/bench_machine.h"
#include "bench/bench_stats.h"

static bool add(bench_values *to, double value) {
  if (to->n == to->capacity) {
    const uint32_t more = to->capacity ? 2 * to->capacity : 64;
    double *grown = realloc(to->item, more * sizeof *grown);
    if (!grown) return false;
    to->item = grown;
    to->capacity = more;
  }
  to->item[to->n++] = value;
  return true;
}

int bench_rounds_read(const bench_db *db, double run, const char *what, bench_values *to) {
  bench_values round = {0};
  bench_binder b;
  int rc, last = -1;
  bool whole = true;
  if (!bench_prepare(db, "SELECT round, ms FROM sample WHERE run = ? AND what = ? ORDER BY round",
                     &b, &rc))
    return rc;
  bench_bind_int(&b, (int64_t)run);
  bench_bind_text(&b, what);
  while (whole && (rc = sqlite3_step(b.query)) == SQLITE_ROW) {
    const int now = sqlite3_column_int(b.query, 0);
    if (now != last && round.n) whole = add(to, bench_median(round.item, round.n));
    if (now != last) round.n = 0;
    last = now;
    whole = whole && add(&round, sqlite3_column_double(b.query, 1));
  }
  if (whole && round.n) whole = add(to, bench_median(round.item, round.n));
  free(round.item);
  sqlite3_finalize(b.query);
  return !whole ? SQLITE_NOMEM : rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* sigma of the median: 1.2533 sigma / sqrt n, sigma from the median of the distances to it. */
static double error_of(double *values, uint32_t n, double median) {
  if (n < 3 || !(median > 0)) return (double)INFINITY;
  for (uint32_t i = 0; i < n; ++i) values[i] = fabs(values[i] - median);
  return 1.2533 * 1.4826 * bench_median(values, n) / sqrt((double)n) / median;
}

int bench_known_read(const bench_db *db, const char *cell, const char *what, bench_known *out) {
  bench_values values = {0};
  bench_binder b;
  int rc, read = SQLITE_OK;
  *out = (bench_known){.median_ms = (double)NAN, .error = (double)INFINITY};
  if (!bench_prepare(db,
                     "SELECT r.id FROM run r JOIN build b ON b.id = r.build_ref WHERE r.cell = ? "
                     "AND r.machine_ref = ? AND b.build_id = ? AND b.compiler = ?",
                     &b, &rc))
    return rc;
  bench_bind_text(&b, cell), bench_bind_int(&b, bench_this_machine(db));
  bench_bind_text(&b, bench_build_id()), bench_bind_text(&b, bench_compiler());
  while (read == SQLITE_OK && (rc = sqlite3_step(b.query)) == SQLITE_ROW) {
    out->runs++;
    read = bench_rounds_read(db, sqlite3_column_double(b.query, 0), what, &values);
  }
  sqlite3_finalize(b.query);
  out->rounds = values.n;
  out->median_ms = bench_median(values.item, values.n);
  out->error = error_of(values.item, values.n, out->median_ms);
  free(values.item);
  return read != SQLITE_OK ? read : rc == SQLITE_DONE ? SQLITE_OK : rc;
}
