/* cli_verified.h - what goldens gave, summed up to the cells of a table.
 *
 * A cell is a JSON object: "state" (pass, fail, unsupported, stale, untested), "goldens" and how
 * many "passed" and "failed", how many more are "stale", "precisions" at which all passed, "error"
 * (largest difference at fp32) and "cosine" (least) of those that passed, "reason" of the first
 * that did not; and of the newest: "device", "driver", "type", "time", "build", and "where" when
 * another machine ran it.  "rating" and "share": see verified_rate. */
#ifndef ACCEL_CLI_VERIFIED_H
#define ACCEL_CLI_VERIFIED_H

#include <cjson/cJSON.h>

#include "bench/bench_ratings.h"
#include "bench/bench_verdicts.h"
#include "cli/cli_print.h"

enum { VERIFIED_CELL = 2048 }; /* bytes that a cell's text has room in */

/* The rows of the database, where there is one, and of the evidence file of --with.  0 or an exit
 * code. */
int verified_rows_read(cli_run *run, bench_verdict_rows *out);

/* Rows that belong together; a list of pointers into bench_verdict_rows. */
typedef struct verified_set {
  uint32_t n;
  const bench_verdict_row **row; /* [n], free() */
} verified_set;
typedef bool verified_filter(const bench_verdict_row *row, const void *what);
/* The rows of `from` for which `filter` holds; empty without memory. */
verified_set verified_choose(const bench_verdict_rows *from, verified_filter *filter,
                             const void *what);

/* Sums up: rows of this machine where there are some, else those of others; of hardware where there
 * are some, else of software devices, whose "rating" is "software"; of this build where there are
 * some. */
cJSON *verified_cell(const verified_set *rows);
/* "pass(3.1e-06)", "fail(2 of 9: reason)", "unsupported(reason)", "stale(build)", "untested";
 * `brief` leaves reasons out.  Returns `into`. */
const char *verified_text(const cJSON *cell, bool brief, char *into, size_t size);
/* The same with the precisions, device, rating, place and day. */
const char *verified_long_text(const cJSON *cell, char *into, size_t size);

/* The ratings in the database, where there is one.  0 or an exit code. */
int verified_ratings_read(cli_run *run, bench_ratings *out);
/* Adds "share" and "rating" (poor, fair, good, excellent) to an object; a software device has the
 * rating "software" alone. */
void verified_rate(cJSON *to, const bench_rating *rating);

/* accel matrix --view classes, tasks: {"view", "columns": [hardware], "rows": [{"name", "cells":
 * {hardware: cell}}]} (cli_matrix_views.c).  0 or an exit code. */
int verified_view(cli_run *run, const char *view, cJSON *root);
/* Such a view as the rows of a table; `brief`: verdicts alone, without device, day and rating. */
void verified_view_table(const cJSON *root, bool brief, cli_table *to);

#endif
