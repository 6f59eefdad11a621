/* report_tables.c - the sections of a report, and the rows of their tables. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli_verified.h"
#include "cli/report.h"

/* "2026-11-25", and who measured where that was another machine */
static const char *day(const bench_row *row, char into[32]) {
  snprintf(into, 32, "%.10s", row->text[ROW_TIME]);
  return into;
}

/* ---- changes ---- */

static void add_shift(cli_table *table, const bench_shift *s) {
  char model[96], device[160], work[160], cell[6][64], n[5][32];
  snprintf(cell[0], 64, "%s ms", report_number(s->ms_before, n[0]));
  snprintf(cell[1], 64, "%s ms", report_number(s->ms_after, n[1]));
  snprintf(cell[2], 64, "-");
  if (isfinite(s->ratio)) snprintf(cell[2], 64, "%.3f (%.3f to %.3f)", s->ratio, s->low, s->high);
  snprintf(cell[3], 64, isfinite(s->alarms) ? "%.2g" : "-", s->alarms);
  snprintf(cell[4], 64, "%u, %u", s->n_before, s->n_after);
  snprintf(cell[5], 64, "%.24s, %.24s", s->before->text[ROW_BUILD], s->after->text[ROW_BUILD]);
  const char *cells[] = {bench_shift_word(s->verdict),
                         report_model(s->after, model),
                         report_device(s->after, true, device),
                         report_case(s->after, work),
                         s->what,
                         cell[0],
                         cell[1],
                         cell[2],
                         cell[3],
                         cell[4],
                         cell[5]};
  cli_table_row(table, 11, cells);
}

static void add_regression(cli_table *table, const bench_regression *g) {
  char device[160], reason[512], builds[128];
  snprintf(device, sizeof device, "%s, %s", g->device, g->precision);
  snprintf(reason, sizeof reason, "golden %s: %s", g->golden, g->reason);
  snprintf(builds, sizeof builds, "%.50s, %.50s", g->passed, g->build);
  const char *cells[] = {"fail", g->model, device, reason, "golden", "pass",
                         "fail", "",       "",     "",     builds};
  cli_table_row(table, 11, cells);
}

static const char *const changes_head[] = {"verdict",
                                           "model",
                                           "device",
                                           "case",
                                           "of",
                                           "before",
                                           "now",
                                           "times as long (95 %)",
                                           "share of false alarms",
                                           "rounds",
                                           "builds"};

/* Those with the first n of the verdicts, slower ones first. */
static void add_shifts(const bench_shifts *shifts, int n, cli_table *table) {
  static const bench_shift_verdict order[] = {BENCH_SLOWER, BENCH_FASTER, BENCH_SAME,
                                              BENCH_TOO_FEW};
  if (!table->rows) cli_table_row(table, 11, changes_head);
  for (int k = 0; k < n; ++k)
    for (uint32_t i = 0; i < shifts->n; ++i)
      if (shifts->item[i].verdict == order[k]) add_shift(table, &shifts->item[i]);
}

void report_add_shifts(const bench_shifts *shifts, cli_table *table) {
  add_shifts(shifts, 4, table);
}

static void fill_regressions(const report *r, cli_table *table) {
  cli_table_row(table, 11, changes_head);
  for (uint32_t i = 0; i < r->regressions.n; ++i) add_regression(table, &r->regressions.item[i]);
}

static void fill_changes(report *r, cli_table *table) {
  fill_regressions(r, table);
  add_shifts(&r->shifts, 4, table);
}

/* What changed is seen without unfolding the table of all. */
static void show_changes(report *r) {
  cli_table table = {0};
  fill_regressions(r, &table);
  add_shifts(&r->shifts, 2, &table);
  if (table.rows > 1) {
    report_cut(&table);
    cli_table_html(r->to, &table, REPORT_SHIFTS_ALIGN);
  } else {
    cli_table_empty(&table);
    uint32_t few = 0;
    for (uint32_t i = 0; i < r->shifts.n; ++i) few += r->shifts.item[i].verdict == BENCH_TOO_FEW;
    fprintf(
        r->to,
        "<p>No figure changed beyond noise, and no golden failed; %u of %u figures have too few "
        "rounds to tell.</p>\n",
        (unsigned)few, (unsigned)r->shifts.n);
  }
}

/* ---- runs ---- */

static void fill_families(report *r, cli_table *table) {
  static const char *const head[] = {"family",   "model",   "device",  "case",     "median ms",
                                     "90 % ms",  "99 % ms", "items/s", "tokens/s", "new tokens/s",
                                     "energy J", "runs",    "weights", "build",    "day"};
  cli_table_row(table, 15, head);
  for (uint32_t i = 0; i < r->n_newest; ++i) {
    const bench_row *row = r->newest[i];
    const double *n = row->number;
    char model[96], device[160], work[160], cell[8][32], when[32];
    const double tokens = n[ROW_TOKENS] > 0 ? n[ROW_PREFILL_PER_S] : (double)NAN;
    char p99[80], bound[32];
    report_number(n[ROW_P99_MS], cell[2]);
    snprintf(p99, sizeof p99, "%s", cell[2]);
    if (n[ROW_P99_BOUND_MS] > 0)
      snprintf(p99, sizeof p99, "%s (bound %s: %s)", cell[2],
               report_number(n[ROW_P99_BOUND_MS], bound),
               n[ROW_P99_MS] <= n[ROW_P99_BOUND_MS] ? "kept" : "broken");
    snprintf(cell[7], 32, "%.0f x %.0f", n[ROW_ROUNDS], n[ROW_ITERS]);
    const char *cells[] = {report_family_title(row->family),
                           report_model(row, model),
                           report_device(row, true, device),
                           report_case(row, work),
                           report_number(n[ROW_MEDIAN_MS], cell[0]),
                           report_number(n[ROW_P90_MS], cell[1]),
                           p99,
                           report_number(n[ROW_ITEMS_PER_S], cell[3]),
                           report_number(tokens, cell[4]),
                           report_number(n[ROW_DECODE_PER_S], cell[5]),
                           report_number(n[ROW_ENERGY_J], cell[6]),
                           cell[7],
                           row->text[ROW_WEIGHTS],
                           row->text[ROW_BUILD],
                           day(row, when)};
    cli_table_row(table, 15, cells);
  }
}

static void fill_memory(report *r, cli_table *table) {
  static const char *const head[] = {
      "model",   "device",       "case", "peak memory MiB", "of the device MiB",
      "load ms", "first run ms", "day"};
  cli_table_row(table, 8, head);
  for (uint32_t i = 0; i < r->n_newest; ++i) {
    const bench_row *row = r->newest[i];
    const double *n = row->number;
    char model[96], device[160], work[160], cell[4][32], when[32];
    const char *cells[] = {report_model(row, model),
                           report_device(row, true, device),
                           report_case(row, work),
                           report_number(n[ROW_PEAK_RSS] / (1 << 20), cell[0]),
                           report_number(n[ROW_DEVICE_PEAK] / (1 << 20), cell[1]),
                           report_number(n[ROW_LOAD_MS], cell[2]),
                           report_number(n[ROW_FIRST_MS], cell[3]),
                           day(row, when)};
    cli_table_row(table, 8, cells);
  }
}

static void fill_starts(report *r, cli_table *table) {
  static const char *const head[] = {"model",        "device", "start",   "load ms",
                                     "first run ms", "rounds", "weights", "day"};
  cli_table_row(table, 8, head);
  for (uint32_t i = 0; i < r->n_newest; ++i) {
    const bench_row *row = r->newest[i];
    char model[96], device[160], cell[3][32], when[32];
    if (!report_is_start(row)) continue;
    snprintf(cell[2], 32, "%.0f", row->number[ROW_ROUNDS]);
    const char *cells[] = {report_model(row, model),
                           report_device(row, true, device),
                           row->text[ROW_SCENARIO],
                           report_number(row->number[ROW_LOAD_MS], cell[0]),
                           report_number(row->number[ROW_FIRST_MS], cell[1]),
                           cell[2],
                           row->text[ROW_WEIGHTS],
                           day(row, when)};
    cli_table_row(table, 8, cells);
  }
}

static void fill_curves(report *r, cli_table *table) {
  static const char *const head[] = {"model",  "device",    "threads", "batch",
                                     "length", "median ms", "items/s"};
  cli_table_row(table, 7, head);
  for (uint32_t i = 0; i < r->n_newest; ++i) {
    const bench_row *row = r->newest[i];
    char model[96], device[160], cell[5][32];
    if (!report_in_curve(r, i, true) && !report_in_curve(r, i, false)) continue;
    snprintf(cell[0], 32, "%.0f", row->number[ROW_THREADS]);
    snprintf(cell[1], 32, "%.0f", row->number[ROW_BATCH]);
    snprintf(cell[2], 32, "%u", report_length(row));
    const char *cells[] = {report_model(row, model),
                           report_device(row, true, device),
                           cell[0],
                           cell[1],
                           cell[2],
                           report_number(row->number[ROW_MEDIAN_MS], cell[3]),
                           report_number(row->number[ROW_ITEMS_PER_S], cell[4])};
    cli_table_row(table, 7, cells);
  }
}

static void fill_history(report *r, cli_table *table) {
  static const char *const head[] = {"model", "device",    "case",       "build",  "time",
                                     "runs",  "median ms", "fastest ms", "90 % ms"};
  cli_table_row(table, 9, head);
  for (uint32_t i = 0; i < r->n_newest; ++i) {
    if (!report_has_history(r, r->newest[i])) continue;
    for (const bench_row *row = report_first_of_case(r, r->newest[i]); row <= r->newest[i]; ++row) {
      char model[96], device[160], work[160], cell[4][32];
      snprintf(cell[0], 32, "%.0f x %.0f", row->number[ROW_ROUNDS], row->number[ROW_ITERS]);
      const char *cells[] = {report_model(row, model),
                             report_device(row, true, device),
                             report_case(row, work),
                             row->text[ROW_BUILD],
                             row->text[ROW_TIME],
                             cell[0],
                             report_number(row->number[ROW_MEDIAN_MS], cell[1]),
                             report_number(row->number[ROW_MIN_MS], cell[2]),
                             report_number(row->number[ROW_P90_MS], cell[3])};
      cli_table_row(table, 9, cells);
    }
  }
}

/* ---- devices side by side ---- */

enum { MOST_DEVICES = 10, DEVICE_COLUMNS = MOST_DEVICES + 4 };

/* What a row and another one share that stand in one line. */
static bool same_line(const bench_row *a, const bench_row *b) {
  static const bench_row_text texts[] = {ROW_MODEL,   ROW_TASK,    ROW_SCENARIO, ROW_OUTPUT,
                                         ROW_LENGTHS, ROW_WEIGHTS, ROW_PRECISION};
  bool same = a->number[ROW_NEW_TOKENS] == b->number[ROW_NEW_TOKENS] &&
              a->number[ROW_BATCH] == b->number[ROW_BATCH] &&
              a->number[ROW_THREADS] == b->number[ROW_THREADS];
  for (size_t i = 0; same && i < sizeof texts / sizeof *texts; ++i)
    same = !strcmp(a->text[texts[i]], b->text[texts[i]]);
  return same;
}

static int column_of(char (*names)[160], int *n, const char *device) {
  int c = 0;
  while (c < *n && strcmp(names[c], device) != 0) ++c;
  if (c == *n && *n < MOST_DEVICES) snprintf(names[(*n)++], 160, "%s", device);
  return c;
}

static void add_device_row(report *r, uint32_t i, char (*names)[160], int n, cli_table *table) {
  const bench_row *row = r->newest[i];
  char model[96], work[160], device[160], cell[MOST_DEVICES][48];
  const char *cells[DEVICE_COLUMNS] = {report_model(row, model), report_case(row, work),
                                       row->text[ROW_PRECISION]},
             *unit = "";
  double best = (double)NAN, value[MOST_DEVICES];
  for (int c = 0; c < MOST_DEVICES; ++c) value[c] = (double)NAN;
  uint32_t begin, end;
  report_model_range(r, i, &begin, &end);
  for (uint32_t k = i; k < end; ++k) {
    if (!same_line(row, r->newest[k])) continue;
    const int c = column_of(names, &n, report_device(r->newest[k], false, device));
    if (c < MOST_DEVICES) value[c] = report_metric(r, r->newest[k], &unit);
  }
  int known = 0;
  for (int c = 0; c < n; ++c) known += isfinite(value[c]);
  for (int c = 0; c < n; ++c)
    if (isfinite(value[c]) &&
        (!isfinite(best) || (report_less_is_better(r) ? value[c] < best : value[c] > best)))
      best = value[c];
  cells[3] = unit;
  for (int c = 0; c < n; ++c) {
    char number[32];
    snprintf(cell[c], sizeof cell[c], "%s%s", report_number(value[c], number),
             known > 1 && value[c] == best ? " *" : "");
    cells[4 + c] = cell[c];
  }
  cli_table_row(table, 4 + (uint32_t)n, cells);
}

static void fill_hardware(report *r, cli_table *table) {
  char names[MOST_DEVICES][160], device[160];
  const char *head[DEVICE_COLUMNS] = {"model", "case", "precision", "unit"}, *unit;
  int n = 0;
  for (uint32_t i = 0; i < r->n_newest; ++i)
    column_of(names, &n, report_device(r->newest[i], false, device));
  for (int c = 0; c < n; ++c) head[4 + c] = names[c];
  cli_table_row(table, 4 + (uint32_t)n, head);
  for (uint32_t i = 0; i < r->n_newest; ++i) {
    bool first = report_counts(r, r->newest[i]), some = false;
    uint32_t begin, end;
    report_model_range(r, i, &begin, &end);
    for (uint32_t k = begin; first && k < end; ++k) {
      if (!same_line(r->newest[k], r->newest[i])) continue;
      first &= k >= i;
      some |= isfinite(report_metric(r, r->newest[k], &unit));
    }
    if (first && some) add_device_row(r, i, names, n, table);
  }
}

/* ---- the matrix ---- */

/* Was a class of models verified on that hardware, here or elsewhere? */
static bool is_tested(const cJSON *matrix, const char *hardware) {
  const cJSON *row;
  cJSON_ArrayForEach(row, cJSON_GetObjectItemCaseSensitive(matrix, "rows")) {
    const cJSON *cells = cJSON_GetObjectItemCaseSensitive(row, "cells");
    if (*cli_json_word(cJSON_GetObjectItemCaseSensitive(cells, hardware), "device")) return true;
  }
  return false;
}

static void fill_matrix(report *r, cli_table *table) {
  const cJSON *column;
  cJSON *shown = cJSON_CreateObject(), *columns = cJSON_AddArrayToObject(shown, "columns");
  cJSON_AddStringToObject(shown, "view", "classes");
  cJSON_AddItemReferenceToObject(shown, "rows", cJSON_GetObjectItem(r->matrix, "rows"));
  cJSON_ArrayForEach(column, cJSON_GetObjectItem(r->matrix, "columns")) {
    if (is_tested(r->matrix, column->valuestring))
      cJSON_AddItemToArray(columns, cJSON_CreateString(column->valuestring));
  }
  if (cJSON_GetArraySize(columns))
    verified_view_table(shown, false, table);
  else
    cli_table_row(table, 1, (const char *const[]){"class"});
  cJSON_Delete(shown);
}

const report_section report_sections[] = {
    {"changes", "Changes since the build before",
     "Each case of this machine that two builds ran: the newest build beside the one before it. "
     "Slower or faster is what a rank test over the rounds and the interval of the ratio agree on, "
     "corrected for the number of figures. Fewer than five rounds on a side give no verdict. "
     "Goldens that passed before and do not pass now come first.",
     show_changes, fill_changes, REPORT_SHIFTS_ALIGN, false},
    {"families", "Models, family by family",
     "The newest run of each case. A card shows the work that most devices and precisions were "
     "given; the table has every case.",
     report_family_cards, fill_families, "llllrrrrrrrrlll", false},
    {"hardware", "Devices side by side",
     "The same work on each device; * is the best of a line. Rows of other machines are in columns "
     "of their own.",
     NULL, fill_hardware, "lllrrrrrrrrrrr", true},
    {"curves", "Batch and length",
     "Lines join what was measured; nothing is drawn where nothing was run.", report_curve_cards,
     fill_curves, "llrrrrr", false},
    {"memory", "Memory",
     "Peak memory of the process that ran the model: weights, states, scratch, and the tool "
     "itself.",
     report_memory_cards, fill_memory, "lllrrrrl", false},
    {"starts", "Starts",
     "How long a load takes: cold with the model's files in no cache of this machine and without "
     "packed weights, warm behind another load.",
     report_start_cards, fill_starts, "lllrrrll", false},
    {"roofline", "Roofline",
     "Ops of profiled runs: what they compute for each byte they move, and how fast they were. "
     "Larger dots took more of the time. The line is what the processor was measured to do; ops "
     "whose "
     "data stay in its caches may be above its slope.",
     report_roofline_cards, report_fill_roofline, "llllrrrrrr", false},
    {"history", "History", "Cases that several builds ran on this machine, oldest build first.",
     report_history_cards, fill_history, "lllllrrrr", false},
    {"matrix", "Verified classes of models",
     "What goldens gave, by hardware (accel matrix --view classes). Hardware that is in no column "
     "was not tested.",
     NULL, fill_matrix, "", true}};
const size_t report_section_count = sizeof report_sections / sizeof *report_sections;
