/* bench_candidates.c - see bench_candidates.h. */
#include "bench/bench_candidates.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench_machine.h"
#include "bench/bench_rounds.h"
#include "bench/bench_rows.h"
#include "bench/bench_stats.h"
#include "shared/hash.h"

const char *const bench_metric_names[BENCH_METRICS] = {"latency", "throughput", "memory", "energy"};

/* ---- candidates ---- */

static bool is_candidate(const bench_candidate *c, const char *device, const char *driver,
                         const char *id, const char *precision) {
  return !strcmp(c->device, device) && !strcmp(c->driver, driver) && !strcmp(c->id, id) &&
         !strcmp(c->precision, precision);
}

static uint32_t number_of(bench_candidates *to, const char *device, const char *driver,
                          const char *id, const char *precision) {
  const bench_interval none = {(double)NAN, (double)NAN, (double)NAN, false};
  for (uint32_t i = 0; i < to->n; ++i)
    if (is_candidate(&to->item[i], device, driver, id, precision)) return i;
  bench_candidate *grown = realloc(to->item, (to->n + (size_t)1) * sizeof *grown);
  if (!grown) return UINT32_MAX;
  to->item = grown;
  bench_candidate *c = &grown[to->n];
  *c = (bench_candidate){.cosine = (double)NAN};
  snprintf(c->device, sizeof c->device, "%s", device);
  snprintf(c->driver, sizeof c->driver, "%s", driver);
  snprintf(c->id, sizeof c->id, "%s", id);
  snprintf(c->precision, sizeof c->precision, "%s", precision);
  for (int m = 0; m < BENCH_METRICS; ++m) c->figure[m] = none;
  return to->n++;
}

bench_candidate *bench_candidate_of(bench_candidates *to, const char *device, const char *driver,
                                    const char *id, const char *precision) {
  const uint32_t at = number_of(to, device, driver, id, precision);
  return at == UINT32_MAX ? NULL : &to->item[at];
}

void bench_candidates_free(bench_candidates *candidates) {
  free(candidates->item);
  *candidates = (bench_candidates){0};
}

/* ---- runs ---- */

typedef struct run {
  int64_t id;
  bench_case of;
  uint64_t lengths; /* a hash of them all */
  uint32_t candidate;
  double rounds, median_ms, min_ms, p90_ms, rss, energy;
} run;

typedef struct reading {
  const bench_db *db;
  const bench_wanted *wanted;
  bench_candidates *out;
  uint32_t n;
  run *run; /* that count, oldest first */
} reading;

static const char *text_at(sqlite3_stmt *query, int column) {
  const char *text = (const char *)sqlite3_column_text(query, column);
  return text ? text : "";
}
static double number_at(sqlite3_stmt *query, int column) {
  return sqlite3_column_type(query, column) == SQLITE_NULL ? (double)NAN
                                                           : sqlite3_column_double(query, column);
}

static void take_case(sqlite3_stmt *query, run *to) {
  const char *lengths = text_at(query, 7);
  char first[16];
  const size_t n = strcspn(lengths, ",");
  snprintf(first, sizeof first, "%.*s", (int)(n < 15 ? n : 15), lengths);
  snprintf(to->of.task, sizeof to->of.task, "%s", text_at(query, 5));
  snprintf(to->of.output, sizeof to->of.output, "%s", text_at(query, 8));
  to->of.batch = (uint32_t)sqlite3_column_int(query, 6);
  to->of.new_tokens = (uint32_t)sqlite3_column_int(query, 9);
  to->of.length = (uint32_t)strtoul(first, NULL, 10);
  for (const char *at = strchr(lengths, ','); at; at = strchr(at + 1, ','))
    to->of.ragged |= strtoul(at + 1, NULL, 10) != to->of.length;
  to->lengths = accel_hash_text(ACCEL_HASH_SEED, lengths);
}

static bool take_run(sqlite3_stmt *query, void *into) {
  reading *r = into;
  if (!sqlite3_column_int(query, 17)) return ++r->out->elsewhere;
  if (!sqlite3_column_int(query, 18)) return ++r->out->stale;
  run *grown = realloc(r->run, (r->n + (size_t)1) * sizeof *grown);
  if (!grown) return false;
  r->run = grown;
  run *to = &grown[r->n++];
  const char *type = text_at(query, 16);
  const bool in_process = !strcmp(type, "cpu") || !strcmp(type, "software");
  *to = (run){.id = sqlite3_column_int64(query, 0),
              .rounds = number_at(query, 10),
              .median_ms = number_at(query, 11),
              .min_ms = number_at(query, 12),
              .p90_ms = number_at(query, 13),
              .rss = in_process ? number_at(query, 14) : (double)NAN,
              .energy = number_at(query, 15)};
  take_case(query, to);
  to->candidate =
      number_of(r->out, text_at(query, 1), text_at(query, 2), text_at(query, 3), text_at(query, 4));
  return to->candidate != UINT32_MAX;
}

static int read_runs(reading *r) {
  static const char sql[] =
      "SELECT r.id, r.device, r.driver, r.device_id, r.precision, r.task, r.batch, r.lengths, "
      "r.output, r.new_tokens, r.rounds, r.median_ms, r.min_ms, r.p90_ms, r.peak_rss_bytes, "
      "r.energy_j, d.type, r.machine_ref = ?, b.build_id = ? AND b.compiler = ? "
      "FROM run r JOIN device d ON d.id = r.device_ref JOIN build b ON b.id = r.build_ref "
      "WHERE r.model = ? AND r.weights = ? AND r.threads = ? AND r.memory_limit IS NULL AND "
      "r.task != 'stream' AND r.scenario NOT IN ('server', 'cold-start', 'warm-start') "
      "ORDER BY r.id";
  bench_binder b;
  int rc;
  if (!bench_prepare(r->db, sql, &b, &rc)) return rc;
  bench_bind_int(&b, bench_this_machine(r->db));
  bench_bind_text(&b, bench_build_id()), bench_bind_text(&b, bench_compiler());
  bench_bind_text(&b, r->wanted->model), bench_bind_text(&b, r->wanted->weights);
  bench_bind_int(&b, r->wanted->threads);
  return bench_take_rows(&b, take_run, r);
}

/* ---- verdicts ---- */

static bool take_verdict(sqlite3_stmt *query, void *into) {
  const double cosine = number_at(query, 5);
  const bool fails = !strcmp(text_at(query, 4), "fail");
  bench_candidate *c = bench_candidate_of(into, text_at(query, 0), text_at(query, 1),
                                          text_at(query, 2), text_at(query, 3));
  if (!c) return false;
  if (fails || c->golden < 0)
    c->golden = -1;
  else if (!c->golden || isnan(cosine)) /* one that is not known makes the least unknown */
    c->cosine = cosine, c->golden = 1;
  else
    c->cosine = isnan(c->cosine) ? c->cosine : fmin(c->cosine, cosine);
  return true;
}

/* The newest of each cell: max() takes the others' columns along. */
static int read_verdicts(const reading *r) {
  static const char sql[] =
      "SELECT name, driver, uid, precision, state, cosine FROM (SELECT d.name, d.driver, d.uid, "
      "v.precision, v.state, v.cosine, max(v.id) FROM verify v JOIN device d ON d.id = v.device "
      "JOIN build b ON b.id = v.build WHERE v.model_hash = ? AND d.machine = ? AND b.build_id = ? "
      "AND b.compiler = ? GROUP BY d.id, v.golden_hash, v.architecture, v.precision) "
      "WHERE state != 'unsupported'";
  bench_binder b;
  int rc;
  if (!bench_prepare(r->db, sql, &b, &rc)) return rc;
  bench_bind_text(&b, r->wanted->model_hash), bench_bind_int(&b, bench_this_machine(r->db));
  bench_bind_text(&b, bench_build_id()), bench_bind_text(&b, bench_compiler());
  return bench_take_rows(&b, take_verdict, r->out);
}

/* ---- one case ---- */

static bool same_case(const run *a, const run *b) {
  return !strcmp(a->of.task, b->of.task) && !strcmp(a->of.output, b->of.output) &&
         a->of.batch == b->of.batch && a->lengths == b->lengths &&
         a->of.new_tokens == b->of.new_tokens;
}

static bool has_metric(const run *r, bench_metric metric) {
  return metric == BENCH_MEMORY   ? r->rss > 0
         : metric == BENCH_ENERGY ? r->energy > 0
                                  : r->median_ms > 0;
}

/* Candidates of the case that have the metric. */
static uint32_t coverage(const reading *r, const run *of, bench_metric metric) {
  uint32_t n = 0;
  for (uint32_t c = 0; c < r->out->n; ++c) {
    bool has = false;
    for (uint32_t i = 0; i < r->n && !has; ++i)
      has = r->run[i].candidate == c && same_case(&r->run[i], of) && has_metric(&r->run[i], metric);
    n += has;
  }
  return n;
}

/* Is a the better case?  b was measured earlier. */
static bool is_better_case(const reading *r, const run *a, const run *b, bench_metric metric) {
  const bench_wanted *w = r->wanted;
  const bool wanted_a = w->batch && a->of.batch == w->batch,
             wanted_b = w->batch && b->of.batch == w->batch;
  if (wanted_a != wanted_b) return wanted_a;
  const bool long_a = w->seq && a->of.length == w->seq, long_b = w->seq && b->of.length == w->seq;
  if (long_a != long_b) return long_a;
  const uint32_t n = coverage(r, a, metric), m = coverage(r, b, metric);
  if (n != m) return n > m;
  if (a->of.batch == b->of.batch) return true;
  return (a->of.batch > b->of.batch) == (metric == BENCH_THROUGHPUT);
}

/* NULL: no run has the metric. */
static const run *best_case(const reading *r, bench_metric metric) {
  const char *task = r->wanted->task ? r->wanted->task : r->n ? r->run[r->n - 1].of.task : "";
  const run *best = NULL;
  for (uint32_t i = 0; i < r->n; ++i) {
    const run *a = &r->run[i];
    bool seen = strcmp(a->of.task, task) != 0 || !has_metric(a, metric);
    for (uint32_t k = 0; k < i && !seen; ++k)
      seen = same_case(a, &r->run[k]) && has_metric(&r->run[k], metric);
    if (!seen && (!best || is_better_case(r, a, best, metric))) best = a;
  }
  return best;
}

/* ---- figures ---- */

static bench_interval widened(double low, double value, double high) {
  const double times = 1 + BENCH_LEAST_CHANGE;
  return (bench_interval){value, fmin(low, value / times), fmax(high, value * times), false};
}

/* The interval in which the median of the values lies with about 95 %, from their order; five
 * values: all of them. */
static bench_interval interval_of(double *values, uint32_t n) {
  const double median = bench_median(values, n); /* sorts */
  const double below = 0.5 * n - 0.98 * sqrt((double)n);
  const uint32_t k = below > 0 ? (uint32_t)below : 0;
  return widened(values[k], median, values[n - 1 - k]);
}

/* Of the times of a candidate's runs of a case: over the medians of the rounds; of fewer than
 * BENCH_LEAST_ROUNDS from the least of all to what nine of ten took. */
static int latency_of(const reading *r, const run *of, uint32_t candidate, bench_interval *out) {
  bench_values rounds = {0};
  double low = (double)INFINITY, high = 0;
  int rc = SQLITE_OK;
  for (uint32_t i = 0; i < r->n && rc == SQLITE_OK; ++i) {
    const run *a = &r->run[i];
    if (a->candidate != candidate || !same_case(a, of) || !(a->median_ms > 0)) continue;
    low = fmin(low, a->min_ms);
    high = fmax(high, a->p90_ms);
    rc = bench_rounds_read(r->db, (double)a->id, "latency", &rounds);
  }
  if (rounds.n >= BENCH_LEAST_ROUNDS)
    *out = interval_of(rounds.item, rounds.n);
  else if (rounds.n)
    *out = widened(low, bench_median(rounds.item, rounds.n), high);
  free(rounds.item);
  return rc;
}

/* Of a number that each run has once. */
static void figure_of(const reading *r, const run *of, uint32_t candidate, bench_metric metric,
                      bench_interval *out) {
  double *values = malloc((r->n + (size_t)1) * sizeof *values);
  uint32_t n = 0;
  for (uint32_t i = 0; values && i < r->n; ++i) {
    const run *a = &r->run[i];
    if (a->candidate == candidate && same_case(a, of) && has_metric(a, metric))
      values[n++] = metric == BENCH_MEMORY ? a->rss : a->energy;
  }
  if (n) *out = interval_of(values, n);
  free(values);
}

static int read_metric(const reading *r, bench_metric metric) {
  const run *of = best_case(r, metric);
  int rc = SQLITE_OK;
  if (!of) return rc;
  r->out->of[metric] = of->of;
  for (uint32_t c = 0; c < r->out->n && rc == SQLITE_OK; ++c) {
    bench_interval *f = &r->out->item[c].figure[metric];
    if (metric == BENCH_MEMORY || metric == BENCH_ENERGY)
      figure_of(r, of, c, metric, f);
    else
      rc = latency_of(r, of, c, f);
    const double items = 1e3 * of->of.batch;
    if (metric == BENCH_THROUGHPUT && f->value > 0)
      *f = (bench_interval){items / f->value, items / f->high, items / f->low, false};
  }
  return rc;
}

bool bench_candidates_read(const bench_db *db, const bench_wanted *wanted, bench_candidates *out,
                           char *message, uint32_t size) {
  *out = (bench_candidates){0};
  reading r = {.db = db, .wanted = wanted, .out = out};
  int rc = read_runs(&r);
  if (rc == SQLITE_DONE && *wanted->model_hash) rc = read_verdicts(&r);
  if (rc == SQLITE_DONE) rc = SQLITE_OK;
  for (int m = 0; m < BENCH_METRICS && rc == SQLITE_OK; ++m) rc = read_metric(&r, (bench_metric)m);
  free(r.run);
  if (rc != SQLITE_OK) bench_db_error(db, rc, message, size);
  return rc == SQLITE_OK;
}
