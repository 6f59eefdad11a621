/* bench_verdicts.h - what goldens gave, in the database: one row a cell that was run, a cell being
 * a golden of a model on a device at a precision. */
#ifndef ACCEL_BENCH_VERDICTS_H
#define ACCEL_BENCH_VERDICTS_H

#include "bench/bench_db.h"

/* What a cell is.  Hashes are of contents, so that a changed golden or checkpoint is another cell. */
typedef struct bench_cell {
  const char *model, *model_type, *model_hash; /* "bert" or "org/name"; config.json's; 16 digits */
  const char *architecture;                    /* ""; the first of config.json */
  const char *golden, *golden_hash;            /* the file's name */
  const char *precision;
  const accel_device_info *device;
} bench_cell;

typedef struct bench_verdict {
  const char *state; /* pass, fail, unsupported */
  const char *reason, *output;
  double max_abs, cosine, bound;  /* of that output; NaN: not known */
  double cpu_max_abs, cpu_cosine; /* beside the CPU's outputs at fp32; NaN: not compared */
  double wall_ms;
} bench_verdict;

/* Begins and ends a run of a plan; each is a transaction. */
bool bench_plan_begin(bench_db *db, const char *plan_hash, uint32_t cells, int64_t *run,
                      char *message, uint32_t size);
bool bench_plan_end(bench_db *db, int64_t run, char *message, uint32_t size);
/* One verdict, one transaction. */
bool bench_verdict_add(bench_db *db, int64_t run, const bench_cell *cell,
                       const bench_verdict *verdict, char *message, uint32_t size);
/* The newest verdict of the cell by this build, on this machine with the device's present driver,
 * as an object of columns that cJSON_Delete frees; NULL: none. */
cJSON *bench_verdict_find(const bench_db *db, const bench_cell *cell);
/* Did the cell pass with another build on this machine, whichever the driver?  Then the build that
 * did last goes to `build`. */
bool bench_verdict_passed_before(const bench_db *db, const bench_cell *cell, char *build,
                                 size_t size);

/* The newest verdict of every cell and machine, of this build where it has one, for tables.
 * `where` is "" for this machine, else the other's host. */
typedef struct bench_verdict_row {
  char *where, *device, *driver, *hardware, *type, *model, *model_type, *architecture, *golden,
      *precision, *state, *reason, *build, *time;
  double max_abs, cosine, bound, cpu_max_abs, cpu_cosine; /* NaN: not known */
  bool stale;                                             /* of another build */
} bench_verdict_row;
typedef struct bench_verdict_rows {
  uint32_t n, capacity;
  bench_verdict_row *row;
} bench_verdict_rows;
bool bench_verdict_rows_read(const bench_db *db, bench_verdict_rows *out, char *message,
                             uint32_t size);
/* Adds a row given as an object with members of these names (an evidence file's); false: one is
 * missing or no string.  Everything that comes so was verified elsewhere. */
bool bench_verdict_rows_add(bench_verdict_rows *to, const cJSON *object);
void bench_verdict_rows_free(bench_verdict_rows *rows);

#endif
