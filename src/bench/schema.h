/* schema.h - the SQLite schema of benchmark results.  user_version is BENCH_SCHEMA_VERSION; older files are brought forward
 * step by step (there is one version so far).  measured = 1: the figures come from a run on the named device; libaccel
 * stores nothing else. */
#ifndef ACCEL_BENCH_SCHEMA_H
#define ACCEL_BENCH_SCHEMA_H

#define BENCH_SCHEMA_VERSION 1

/* clang-format off */
#define BENCH_SCHEMA                                                                     \
  "CREATE TABLE run ("                                                                   \
  "  id INTEGER PRIMARY KEY,"                                                            \
  "  time TEXT NOT NULL,"                  /* UTC, ISO 8601 */                           \
  "  measured INTEGER NOT NULL CHECK (measured IN (0, 1)),"                              \
  "  library TEXT NOT NULL,"               /* version */                                 \
  "  host TEXT NOT NULL,"                                                                \
  "  cpu TEXT NOT NULL,"                                                                 \
  "  model TEXT NOT NULL,"                                                               \
  "  weights TEXT NOT NULL,"               /* local, or random with its seed */          \
  "  task TEXT NOT NULL,"                                                                \
  "  device TEXT NOT NULL,"                                                              \
  "  implementation_type TEXT NOT NULL,"                                                 \
  "  driver TEXT NOT NULL,"                                                              \
  "  precision TEXT NOT NULL,"                                                           \
  "  listed INTEGER NOT NULL,"                                                           \
  "  threads INTEGER NOT NULL,"                                                          \
  "  batch INTEGER NOT NULL,"                                                            \
  "  lengths TEXT NOT NULL,"               /* tokens of each sequence, comma-separated */ \
  "  tokens INTEGER NOT NULL,"             /* of one run */                              \
  "  iters INTEGER NOT NULL,"              /* in a round */                              \
  "  rounds INTEGER NOT NULL,"                                                           \
  "  load_ms REAL NOT NULL,"                                                             \
  "  median_ms REAL NOT NULL,"                                                           \
  "  min_ms REAL NOT NULL,"                                                              \
  "  p90_ms REAL NOT NULL,"                                                              \
  "  items_per_s REAL NOT NULL,"                                                         \
  "  prefill_tokens_per_s REAL NOT NULL,"                                                \
  "  peak_rss_bytes INTEGER NOT NULL,"                                                   \
  "  device_peak_bytes INTEGER"            /* NULL: not known */                         \
  ");"                                                                                   \
  "CREATE TABLE latency ("                                                               \
  "  run INTEGER NOT NULL REFERENCES run(id) ON DELETE CASCADE,"                         \
  "  round INTEGER NOT NULL,"                                                            \
  "  iter INTEGER NOT NULL,"                                                             \
  "  ms REAL NOT NULL,"                                                                  \
  "  PRIMARY KEY (run, round, iter)"                                                     \
  ") WITHOUT ROWID;"                                                                     \
  "CREATE INDEX run_by_case ON run (model, device, precision, threads, batch);"          \
  "PRAGMA user_version = 1;"
/* clang-format on */

#endif
