/* bench_rows.h - the runs of the database as rows of plain numbers and texts, for reports and
 * comparisons; and what changed between two builds. */
#ifndef ACCEL_BENCH_ROWS_H
#define ACCEL_BENCH_ROWS_H

#include "bench/bench_db.h"

/* Columns: name and where SQL has them.  r: run, m: machine, d: device, b: build; ?1: this machine. */
#define BENCH_ROW_TEXT_COLUMNS(X)                                  \
  X(TIME, "time", "r.time")                                        \
  X(WHERE, "where", "CASE WHEN m.id = ?1 THEN '' ELSE m.host END") \
  X(HOST, "host", "m.host")                                        \
  X(CPU, "cpu", "m.cpu")                                           \
  X(MACHINE, "machine", "m.hash")                                  \
  X(VERSION, "version", "b.version")                               \
  X(BUILD, "build", "b.build_id")                                  \
  X(MODEL, "model", "r.model")                                     \
  X(WEIGHTS, "weights", "r.weights")                               \
  X(TASK, "task", "r.task")                                        \
  X(SCENARIO, "scenario", "r.scenario")                            \
  X(OUTPUT, "output", "r.output")                                  \
  X(LENGTHS, "lengths", "r.lengths")                               \
  X(DEVICE, "device", "r.device")                                  \
  X(HARDWARE, "hardware", "d.hardware")                            \
  X(TYPE, "device_type", "d.type")                                 \
  X(DRIVER, "driver", "r.driver")                                  \
  X(DEVICE_ID, "device_id", "r.device_id")                         \
  X(DESCRIPTION, "description", "d.description")                   \
  X(PRECISION, "precision", "r.precision")
#define BENCH_ROW_NUMBER_COLUMNS(X)                                                           \
  X(ID, "id", "r.id")                                                                         \
  X(THREADS, "threads", "r.threads")                                                          \
  X(BATCH, "batch", "r.batch")                                                                \
  X(TOKENS, "tokens", "r.tokens")                                                             \
  X(NEW_TOKENS, "new_tokens", "r.new_tokens")                                                 \
  X(ROUNDS, "rounds", "r.rounds")                                                             \
  X(ITERS, "iters", "r.iters")                                                                \
  X(LOAD_MS, "load_ms", "r.load_ms")                                                          \
  X(FIRST_MS, "first_ms", "(SELECT avg(ms) FROM sample WHERE run = r.id AND what = 'first')") \
  X(MEDIAN_MS, "median_ms", "r.median_ms")                                                    \
  X(MIN_MS, "min_ms", "r.min_ms")                                                             \
  X(P90_MS, "p90_ms", "r.p90_ms")                                                             \
  X(P99_MS, "p99_ms", "r.p99_ms")                                                             \
  X(P99_BOUND_MS, "p99_bound_ms", "r.p99_bound_ms")                                           \
  X(OFFERED_PER_S, "offered_per_s", "r.offered_per_s")                                        \
  X(ITEMS_PER_S, "items_per_s", "r.items_per_s")                                              \
  X(PREFILL_PER_S, "prefill_tokens_per_s", "r.prefill_tokens_per_s")                          \
  X(DECODE_PER_S, "decode_tokens_per_s", "r.decode_tokens_per_s")                             \
  X(MS_PER_TOKEN, "decoder_ms_per_token", "r.decoder_ms_per_token")                           \
  X(ENCODER_MS, "encoder_ms", "r.encoder_ms")                                                 \
  X(PEAK_RSS, "peak_rss_bytes", "r.peak_rss_bytes")                                           \
  X(DEVICE_PEAK, "device_peak_bytes", "r.device_peak_bytes")                                  \
  X(ENERGY_J, "energy_j", "r.energy_j")                                                       \
  X(PEAK_GFLOPS, "peak_gflops", "r.peak_gflops")                                              \
  X(PEAK_GBYTES, "peak_gbytes_per_s", "r.peak_gbytes_per_s")                                  \
  X(STEPS, "steps", "(SELECT nullif(count(*), 0) FROM step WHERE run = r.id)")

typedef enum bench_row_text {
#define X(id, name, sql) ROW_##id,
  BENCH_ROW_TEXT_COLUMNS(X)
#undef X
      BENCH_ROW_TEXTS
} bench_row_text;
typedef enum bench_row_number {
#define X(id, name, sql) ROW_##id,
  BENCH_ROW_NUMBER_COLUMNS(X)
#undef X
      BENCH_ROW_NUMBERS
} bench_row_number;
extern const char *const bench_row_text_names[BENCH_ROW_TEXTS],
    *const bench_row_number_names[BENCH_ROW_NUMBERS];

/* A run. */
typedef struct bench_row {
  char *text[BENCH_ROW_TEXTS]; /* "" not known; ROW_WHERE: "" this machine, else the other's host */
  double number[BENCH_ROW_NUMBERS]; /* NaN: not known */
  const char *family;               /* the reader's; NULL at first */
} bench_row;
typedef struct bench_rows {
  uint32_t n, capacity;
  bench_row *row; /* by case and machine, in the order they were stored */
} bench_rows;
/* false: `message` says why; free the result in any case. */
bool bench_rows_read(const bench_db *db, bench_rows *out, char *message, uint32_t size);
void bench_rows_free(bench_rows *rows);
/* Were both runs asked for the same, on the same device of the same machine?  Drivers and builds
 * may differ. */
bool bench_row_same_case(const bench_row *a, const bench_row *b);
/* Takes rows that `keep` does not want out. */
void bench_rows_keep(bench_rows *rows, bool (*keep)(const bench_row *row, const void *what),
                     const void *what);

/* An op of a profiled run: the sums of its steps. */
typedef struct bench_op {
  char op[48];
  double ms, flop, bytes, bound_ms; /* of one run; bound_ms NaN: not known of all its steps */
  uint32_t steps;
} bench_op;
/* Longest first; *ops is to be freed.  false: `message` says why. */
bool bench_ops_read(const bench_db *db, double run, bench_op **ops, uint32_t *n, char *message,
                    uint32_t size);

/* A golden that passed with an earlier build on this machine and does not with the newest. */
typedef struct bench_regression {
  char *model, *golden, *device, *precision, *reason, *build,
      *passed; /* passed: the build it did */
} bench_regression;
typedef struct bench_regressions {
  uint32_t n;
  bench_regression *item;
} bench_regressions;
bool bench_regressions_read(const bench_db *db, bench_regressions *out, char *message,
                            uint32_t size);
void bench_regressions_free(bench_regressions *list);

/* A figure of a case, before and after.  Values are medians of rounds, each of which loads the
 * model anew: runs of one round depend on each other. */
typedef enum bench_shift_verdict {
  BENCH_TOO_FEW, /* fewer than BENCH_LEAST_ROUNDS on a side */
  BENCH_SAME,
  BENCH_FASTER,
  BENCH_SLOWER
} bench_shift_verdict;
enum { BENCH_LEAST_ROUNDS = 5 };
/* Both conditions of a change: a share of false alarms below BENCH_ALARMS among all figures (rank
 * test), and an interval of the ratio that lies beyond BENCH_LEAST_CHANGE: machines drift by
 * less. */
#define BENCH_ALARMS       0.05
#define BENCH_LEAST_CHANGE 0.02
typedef struct bench_shift {
  const bench_row *before, *after; /* the newest of each; of the rows that were compared */
  const char *what;                /* latency, prefill, decode, first, load */
  uint32_t n_before, n_after;      /* rounds */
  double ms_before, ms_after;      /* medians */
  double ratio, low, high; /* of times, after / before, and its interval of 95 %; NaN: none */
  double p, alarms;        /* of the rank test; corrected for all figures.  NaN: none */
  bench_shift_verdict verdict;
} bench_shift;
typedef struct bench_shifts {
  uint32_t n;
  bench_shift *item;
} bench_shifts;
/* Of each case that both have, the newest build in `before` beside the newest in `after`.  Cases of
 * machines that are only in one are passed over. */
bool bench_shifts_of_databases(const bench_db *before, const bench_rows *rows_before,
                               const bench_db *after, const bench_rows *rows_after,
                               bench_shifts *out, char *message, uint32_t size);
/* Of each case by two builds or more on this machine, the newest beside the one before. */
bool bench_shifts_of_builds(const bench_db *db, const bench_rows *rows, bench_shifts *out,
                            char *message, uint32_t size);
void bench_shifts_free(bench_shifts *shifts);
const char *bench_shift_word(bench_shift_verdict verdict); /* "slower", "too few rounds" */

#endif
