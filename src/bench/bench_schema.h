/* bench_schema.h - the SQLite schema of benchmark results.  user_version is BENCH_SCHEMA_VERSION;
 * older files are brought forward step by step.  Version 2 added peaks and the steps of profiled
 * runs.  Version 3 keeps every sample (prefill, decode, first run and load beside the latencies),
 * what was computed, the device's id and the build; and it refuses measured = 0: a row is a run
 * that happened on the named device, and estimates have no place here.  It also has who measured
 * (machine, device, build) and what goldens gave (verify).  Version 4 has models that are streamed:
 * the memory limit, times from token to token, and of reads alone. */
#ifndef ACCEL_BENCH_SCHEMA_H
#define ACCEL_BENCH_SCHEMA_H

#define BENCH_SCHEMA_VERSION 4

/* clang-format off */
#define BENCH_SCHEMA_TO_2                                                                \
  "ALTER TABLE run ADD COLUMN peak_gflops REAL;"        /* NULL: not profiled */         \
  "ALTER TABLE run ADD COLUMN peak_gbytes_per_s REAL;"                                   \
  "CREATE TABLE step ("                                                                  \
  "  run INTEGER NOT NULL REFERENCES run(id) ON DELETE CASCADE,"                         \
  "  node INTEGER NOT NULL,"               /* of the program, in its order */            \
  "  name TEXT NOT NULL,"                                                                \
  "  op TEXT NOT NULL,"                                                                  \
  "  layer INTEGER NOT NULL,"                                                            \
  "  calls INTEGER NOT NULL,"              /* in all profiled runs */                    \
  "  ms REAL NOT NULL,"                    /* of one run, mean */                        \
  "  min_ms REAL NOT NULL,"                                                              \
  "  flop REAL NOT NULL,"                                                                \
  "  bytes REAL NOT NULL,"                                                               \
  "  PRIMARY KEY (run, node)"                                                            \
  ") WITHOUT ROWID;"                                                                     \
  "PRAGMA user_version = 2;"
/* The table is made anew, because SQLite cannot change a CHECK.  Foreign keys must be off
 * meanwhile, or dropping the old table would empty those that refer to it. */
#define BENCH_SCHEMA_TO_3                                                                \
  "CREATE TABLE run_3 ("                                                                 \
  "  id INTEGER PRIMARY KEY,"                                                            \
  "  time TEXT NOT NULL,"                  /* UTC, ISO 8601 */                           \
  "  measured INTEGER NOT NULL CHECK (measured = 1),"                                    \
  "  library TEXT NOT NULL,"               /* version */                                 \
  "  host TEXT NOT NULL,"                                                                \
  "  cpu TEXT NOT NULL,"                                                                 \
  "  model TEXT NOT NULL,"                                                               \
  "  weights TEXT NOT NULL,"               /* local, or random with its seed */          \
  "  task TEXT NOT NULL,"                  /* encode, generate, transcribe */            \
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
  "  device_peak_bytes INTEGER,"           /* NULL: not known */                         \
  "  peak_gflops REAL,"                    /* NULL: not profiled */                      \
  "  peak_gbytes_per_s REAL,"                                                            \
  "  device_id TEXT NOT NULL,"             /* PCI address or UUID; '' not known */       \
  "  build TEXT NOT NULL,"                 /* of accel; '' not known */                  \
  "  output TEXT NOT NULL,"                /* tensor that was computed; '' not known */  \
  "  new_tokens INTEGER NOT NULL,"         /* of each sequence; 0: nothing is decoded */ \
  "  decode_tokens_per_s REAL,"            /* NULL: nothing is decoded, or not known */  \
  "  decoder_ms_per_token REAL,"                                                         \
  "  encoder_ms REAL"                      /* of a transcription */                      \
  ");"                                                                                   \
  "INSERT INTO run_3 SELECT *, '', '', '', 0, NULL, NULL, NULL FROM run;"                \
  "DROP TABLE run;"                                                                      \
  "ALTER TABLE run_3 RENAME TO run;"                                                     \
  "CREATE INDEX run_by_case ON run (model, device, precision, threads, batch);"          \
  "CREATE TABLE sample ("                                                                \
  "  run INTEGER NOT NULL REFERENCES run(id) ON DELETE CASCADE,"                         \
  "  what TEXT NOT NULL"                   /* load and first: one a round, iter 0 */     \
  "    CHECK (what IN ('latency', 'prefill', 'decode', 'first', 'load')),"               \
  "  round INTEGER NOT NULL,"                                                            \
  "  iter INTEGER NOT NULL,"                                                             \
  "  ms REAL NOT NULL,"                                                                  \
  "  PRIMARY KEY (run, what, round, iter)"                                               \
  ") WITHOUT ROWID;"                                                                     \
  "INSERT INTO sample SELECT run, 'latency', round, iter, ms FROM latency;"              \
  "DROP TABLE latency;"                                                                  \
  "CREATE VIEW latency AS"                 /* as versions 1 and 2 had it */              \
  "  SELECT run, round, iter, ms FROM sample WHERE what = 'latency';"                    \
  "PRAGMA user_version = 3;"
#define BENCH_SCHEMA_TO_4                                                                \
  "DROP VIEW latency;"                                                                   \
  "CREATE TABLE sample_4 ("                                                              \
  "  run INTEGER NOT NULL REFERENCES run(id) ON DELETE CASCADE,"                         \
  "  what TEXT NOT NULL"                   /* load and first: one a round, iter 0 */     \
  "    CHECK (what IN ('latency', 'prefill', 'decode', 'first', 'load', 'token', 'raw'))," \
  "  round INTEGER NOT NULL,"                                                            \
  "  iter INTEGER NOT NULL,"                                                             \
  "  ms REAL NOT NULL,"                                                                  \
  "  PRIMARY KEY (run, what, round, iter)"                                               \
  ") WITHOUT ROWID;"                                                                     \
  "INSERT INTO sample_4 SELECT run, what, round, iter, ms FROM sample;"                  \
  "DROP TABLE sample;"                                                                   \
  "ALTER TABLE sample_4 RENAME TO sample;"                                               \
  "CREATE VIEW latency AS"                                                               \
  "  SELECT run, round, iter, ms FROM sample WHERE what = 'latency';"                    \
  "ALTER TABLE run ADD COLUMN memory_limit INTEGER;"  /* NULL: none, or not known */     \
  "ALTER TABLE run ADD COLUMN stream_resident_bytes INTEGER;" /* NULL: not streamed */   \
  "ALTER TABLE run ADD COLUMN stream_staging_bytes INTEGER;"                             \
  "ALTER TABLE run ADD COLUMN stream_read_bytes INTEGER;"     /* by a token */           \
  "ALTER TABLE run ADD COLUMN token_p50_ms REAL;"                                        \
  "ALTER TABLE run ADD COLUMN token_p95_ms REAL;"                                        \
  "ALTER TABLE run ADD COLUMN stream_gbytes_per_s REAL;"                                 \
  "ALTER TABLE run ADD COLUMN raw_gbytes_per_s REAL;"         /* reads alone */          \
  "ALTER TABLE run ADD COLUMN stream_raw_share REAL;"                                    \
  "ALTER TABLE run ADD COLUMN stream_wait_share REAL;"                                   \
  "PRAGMA user_version = 4;"
#define BENCH_SCHEMA_1                                                                     \
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
/* What version 3 has beside its runs: the machine, its devices and builds that rows refer to, and
 * verdicts of goldens.  Version 3 was never released without them; a file that lacks them gets them
 * (there is no table machine). */
#define BENCH_SCHEMA_TABLES \
  "CREATE TABLE machine (" \
  "  id INTEGER PRIMARY KEY," \
  "  hash TEXT NOT NULL UNIQUE," /* of machine-id (else host), cpu, cores, memory */ \
  "  host TEXT NOT NULL, cpu TEXT NOT NULL," \
  "  cores INTEGER, memory INTEGER," /* online; bytes */ \
  "  kernel TEXT, os TEXT, governor TEXT, smt TEXT, cgroup_quota TEXT" /* as last seen */ \
  ");" \
  "CREATE TABLE device (" \
  "  id INTEGER PRIMARY KEY," \
  "  machine INTEGER NOT NULL REFERENCES machine(id)," \
  "  name TEXT NOT NULL," /* cpu, rocm:0 */ \
  "  driver TEXT NOT NULL," \
  "  uid TEXT NOT NULL," /* PCI address or UUID */ \
  "  hardware TEXT NOT NULL DEFAULT '', plugin TEXT NOT NULL DEFAULT ''," \
  "  implementation_type TEXT NOT NULL DEFAULT '', type TEXT NOT NULL DEFAULT ''," \
  "  description TEXT NOT NULL DEFAULT '', arch TEXT NOT NULL DEFAULT ''," \
  "  UNIQUE (machine, name, driver, uid)" \
  ");" \
  "CREATE TABLE build (" \
  "  id INTEGER PRIMARY KEY," \
  "  version TEXT NOT NULL, build_id TEXT NOT NULL, compiler TEXT NOT NULL," \
  "  UNIQUE (version, build_id, compiler)" \
  ");" \
  "ALTER TABLE run ADD COLUMN uid TEXT;" /* of one row in all files that hold it */ \
  "ALTER TABLE run ADD COLUMN machine_ref INTEGER REFERENCES machine(id);" \
  "ALTER TABLE run ADD COLUMN device_ref INTEGER REFERENCES device(id);" \
  "ALTER TABLE run ADD COLUMN build_ref INTEGER REFERENCES build(id);" \
  "ALTER TABLE step ADD COLUMN bound_ms REAL;" /* least time; NULL: not known */ \
  "UPDATE run SET uid = printf('%s|%s|%d|%.17g', time, host, id, median_ms);" \
  "INSERT INTO machine (hash, host, cpu)" /* told apart by no more than these two */ \
  "  SELECT DISTINCT 'host:' || host || '|' || cpu, host, cpu FROM run;" \
  "UPDATE run SET machine_ref = (SELECT m.id FROM machine m" \
  "  WHERE m.host = run.host AND m.cpu = run.cpu);" \
  "INSERT INTO device (machine, name, driver, uid, implementation_type)" \
  "  SELECT DISTINCT machine_ref, device, driver, device_id, max(implementation_type)" \
  "  FROM run GROUP BY machine_ref, device, driver, device_id;" \
  "UPDATE run SET device_ref = (SELECT d.id FROM device d WHERE d.machine = run.machine_ref" \
  "  AND d.name = run.device AND d.driver = run.driver AND d.uid = run.device_id);" \
  "INSERT INTO build (version, build_id, compiler)" \
  "  SELECT DISTINCT library, build, '' FROM run;" \
  "UPDATE run SET build_ref = (SELECT b.id FROM build b" \
  "  WHERE b.version = run.library AND b.build_id = run.build);" \
  "CREATE UNIQUE INDEX run_by_uid ON run (uid);" \
  "CREATE TABLE verify_run (" /* one accel verify --all */ \
  "  id INTEGER PRIMARY KEY," \
  "  time TEXT NOT NULL," \
  "  plan_hash TEXT NOT NULL," \
  "  build INTEGER NOT NULL REFERENCES build(id)," \
  "  machine INTEGER NOT NULL REFERENCES machine(id)," \
  "  cells INTEGER NOT NULL," \
  "  state TEXT NOT NULL CHECK (state IN ('begun', 'done'))" \
  ");" \
  "CREATE TABLE verify (" /* the verdict of one cell */ \
  "  id INTEGER PRIMARY KEY," \
  "  uid TEXT NOT NULL UNIQUE," \
  "  time TEXT NOT NULL," \
  "  run INTEGER REFERENCES verify_run(id)," /* NULL: imported */ \
  "  build INTEGER NOT NULL REFERENCES build(id)," \
  "  device INTEGER NOT NULL REFERENCES device(id)," \
  "  model TEXT NOT NULL, model_type TEXT NOT NULL, model_hash TEXT NOT NULL," \
  "  architecture TEXT NOT NULL," /* '': the model's own */ \
  "  golden TEXT NOT NULL, golden_hash TEXT NOT NULL," \
  "  precision TEXT NOT NULL," \
  "  state TEXT NOT NULL CHECK (state IN ('pass', 'fail', 'unsupported'))," \
  "  reason TEXT NOT NULL," \
  "  output TEXT NOT NULL," /* the one that decided */ \
  "  max_abs REAL, cosine REAL, bound REAL," \
  "  cpu_max_abs REAL, cpu_cosine REAL," /* beside the CPU's outputs at fp32 */ \
  "  wall_ms REAL NOT NULL" \
  ");" \
  "CREATE INDEX verify_by_cell ON verify (golden_hash, precision, model_hash);" \
  "CREATE INDEX verify_by_device ON verify (device, build);"
/* What suites add to a run; a file that lacks it gets it (run has no column scenario). */
#define BENCH_SCHEMA_SCENARIOS \
  "ALTER TABLE run ADD COLUMN scenario TEXT NOT NULL DEFAULT '';" /* single-stream ...; '' none */ \
  "ALTER TABLE run ADD COLUMN p99_ms REAL;" /* NULL: fewer than 100 latencies */ \
  "ALTER TABLE run ADD COLUMN p99_bound_ms REAL;" /* of a server: what p99_ms had to keep */ \
  "ALTER TABLE run ADD COLUMN offered_per_s REAL;" /* arrivals of a server, mean */ \
  "ALTER TABLE run ADD COLUMN energy_j REAL;" /* of one run, all of the processor; NULL: not told */ \
  "ALTER TABLE run ADD COLUMN cell TEXT;" /* of a suite: what was asked for; NULL: none */ \
  "CREATE INDEX run_by_cell ON run (cell);"
/* Of what a step's bytes are; a file that lacks it gets it (step has no column result_bytes). */
#define BENCH_SCHEMA_STEPS \
  "ALTER TABLE step ADD COLUMN weight_bytes REAL;" /* NULL: not known */ \
  "ALTER TABLE step ADD COLUMN result_bytes REAL;"
/* clang-format on */

#endif
