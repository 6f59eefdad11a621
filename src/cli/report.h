/* report.h - what the parts of accel report share: the rows it is made of, and its sections. */
#ifndef ACCEL_CLI_REPORT_H
#define ACCEL_CLI_REPORT_H

#include <cjson/cJSON.h>

#include "bench/bench_rows.h"
#include "cli/cli_database.h"
#include "cli/cli_print.h"
#include "tool/tool_svg.h"

enum { REPORT_MOST_ROWS = 250, REPORT_MOST_CARDS = 36 }; /* of a page; csv has all */

typedef struct report {
  cli_run *run;
  FILE *to;
  char path[CLI_PATH]; /* of the database; "" none */
  bool open;
  bench_db db;
  bench_rows rows; /* that pass the filters */
  uint32_t n_all, n_newest;
  const bench_row **newest; /* of each case, by family and model; [n_newest] */
  const char *metric;
  bench_shifts shifts;
  bench_regressions regressions;
  uint32_t n_verdicts, n_passed;
  cJSON *matrix; /* accel matrix --view classes; NULL: not asked for */
} report;

/* A part of the report.  Charts are HTML's alone; the table is every format's. */
typedef struct report_section {
  const char *name, *title, *says; /* as VIEW; heading; what is seen, one or two sentences */
  void (*charts)(report *r);       /* NULL: none */
  void (*fill)(report *r, cli_table *table); /* leaves a table of one row when there is nothing */
  const char *align;                         /* of its columns */
  bool unfolded;                             /* the table is always seen */
} report_section;
extern const report_section report_sections[];
extern const size_t report_section_count;

/* ---- rows (report_rows.c) ---- */

/* The rows of a model in `newest`, which are neighbours, from *begin up to *end, around row i. */
void report_model_range(const report *r, uint32_t i, uint32_t *begin, uint32_t *end);
/* The oldest row of the case of `row`; up to it the rows between are of the case, oldest first. */
const bench_row *report_first_of_case(const report *r, const bench_row *row);
/* Kinds of models, in the order of a report; "other" is the last. */
const char *report_family_title(const char *family);
/* Gives every row its family, takes out those that options do not want, and finds the newest of
 * each case.  0 or an exit code. */
int report_select(report *r);
/* The end of a path, and other names as they are; in `into`, which it returns. */
const char *report_model(const bench_row *row, char into[96]);
/* "encode, batch 8 of 128, 2 threads" */
const char *report_case(const bench_row *row, char into[160]);
/* "cpu, int8", with what is to be said of the device: software, measured elsewhere (HOST) */
const char *report_device(const bench_row *row, bool precision, char into[160]);
/* The length of every input of the batch; 0 when they differ. */
uint32_t report_length(const bench_row *row);
/* The figure that --metric asks for; NaN: was not measured.  *unit: "tokens/s" ... */
double report_metric(const report *r, const bench_row *row, const char **unit);
/* Is less of it better? */
bool report_less_is_better(const report *r);
/* "12.3", "-" when not known; in `into`, which it returns */
const char *report_number(double value, char into[32]);
/* A colour that is the same for a device in the whole report. */
int report_colour(const report *r, const bench_row *row);
/* Rows that steady runs are shown by: not starts, not servers. */
bool report_is_steady(const bench_row *row);
bool report_is_start(const bench_row *row); /* cold or warm */
/* Does the row's figure of --metric tell something?  Speeds of starts and servers do not. */
bool report_counts(const report *r, const bench_row *row);
/* Of two kinds of work that are as good for a card, the lower one is shown. */
int report_scenario_rank(const report *r, const bench_row *row);

/* ---- sections ---- */

void report_family_cards(report *r); /* report_cards.c */
void report_memory_cards(report *r);
void report_start_cards(report *r);
void report_curve_cards(report *r); /* report_curves.c */
void report_history_cards(report *r);
void report_roofline_cards(report *r); /* report_roofline.c */
void report_fill_roofline(report *r, cli_table *table);
/* Is there another row of the same line, with another batch or length? */
bool report_in_curve(const report *r, uint32_t i, bool of_batch);
/* Was the case run by several builds on this machine? */
bool report_has_history(const report *r, const bench_row *row);
/* The beginning of a card: heading, and a line below it; "</div>" ends it. */
void report_card(report *r, const char *title, const char *says);
/* The names of series with their colours. */
void report_legend(report *r, const tool_series *series, uint32_t n);

/* ---- formats (report_formats.c) ---- */

/* Cuts a table to what a page holds; returns how many rows were left out. */
uint32_t report_cut(cli_table *table);
int report_html(report *r, const char *view);
int report_markdown(report *r, const char *view);
int report_plain(report *r, const char *view);
int report_json(report *r);
int report_csv(report *r);
/* A heading where there is none yet, and a row for each figure: slower ones first
 * (report_tables.c). */
void report_add_shifts(const bench_shifts *shifts, cli_table *table);
#define REPORT_SHIFTS_ALIGN "lllllrrrrrl"
/* Member "changes": [...]. */
void report_shifts_json(cli_json *json, const bench_shifts *shifts);

#endif
