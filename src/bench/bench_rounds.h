/* bench_rounds.h - the medians of the rounds of runs: the values that are compared, and what is
 * known of a cell of a suite. */
#ifndef ACCEL_BENCH_ROUNDS_H
#define ACCEL_BENCH_ROUNDS_H

#include "bench/bench_db.h"

typedef struct bench_values {
  double *item; /* free() */
  uint32_t n, capacity;
} bench_values;

/* Adds the medians, in ms, of the rounds of a run's samples of a kind.  A code of SQLite. */
int bench_rounds_read(const bench_db *db, double run, const char *what, bench_values *to);

/* What this build has measured of a cell of a suite on this machine. */
typedef struct bench_known {
  uint32_t runs, rounds;
  double median_ms, error; /* of the rounds; standard error of the median, as a part of it: INFINITY
                              below three rounds */
} bench_known;
int bench_known_read(const bench_db *db, const char *cell, const char *what, bench_known *out);

#endif
