/* report_curves.c - cards of lines: by the batch, by the length of inputs, and over builds. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report.h"

enum { MOST_POINTS = 24, MOST_LINES = TOOL_COLOURS, MOST_BUILDS = 8 };

/* ---- which rows make a line, and which lines a card ---- */

typedef enum curve { OF_BATCH, OF_LENGTH, OF_BUILDS } curve;

static bool same_texts(const bench_row *a, const bench_row *b, const bench_row_text *texts,
                       size_t n) {
  bool same = true;
  for (size_t i = 0; same && i < n; ++i) same = !strcmp(a->text[texts[i]], b->text[texts[i]]);
  return same;
}

static bool same_card(const bench_row *a, const bench_row *b, curve of) {
  static const bench_row_text texts[] = {ROW_MODEL, ROW_TASK, ROW_OUTPUT, ROW_WEIGHTS};
  if (!same_texts(a, b, texts, sizeof texts / sizeof *texts) ||
      a->number[ROW_NEW_TOKENS] != b->number[ROW_NEW_TOKENS])
    return false;
  if (of == OF_BATCH) return report_length(a) == report_length(b);
  if (of == OF_LENGTH) return a->number[ROW_BATCH] == b->number[ROW_BATCH];
  return !strcmp(a->text[ROW_SCENARIO], b->text[ROW_SCENARIO]) &&
         !strcmp(a->text[ROW_LENGTHS], b->text[ROW_LENGTHS]) &&
         a->number[ROW_BATCH] == b->number[ROW_BATCH];
}

static bool same_line(const bench_row *a, const bench_row *b, curve of) {
  static const bench_row_text texts[] = {ROW_DEVICE, ROW_PRECISION, ROW_MACHINE};
  return same_card(a, b, of) && same_texts(a, b, texts, sizeof texts / sizeof *texts) &&
         a->number[ROW_THREADS] == b->number[ROW_THREADS];
}

static bool may_show(const bench_row *row, curve of) {
  return report_is_steady(row) && isfinite(row->number[ROW_MEDIAN_MS]) &&
         (of == OF_BUILDS || report_length(row) > 0);
}

static double x_of(const bench_row *row, curve of) {
  return of == OF_BATCH ? row->number[ROW_BATCH] : report_length(row);
}

bool report_in_curve(const report *r, uint32_t i, bool of_batch) {
  const bench_row *row = r->newest[i];
  const curve of = of_batch ? OF_BATCH : OF_LENGTH;
  uint32_t begin, end;
  if (!may_show(row, of)) return false;
  report_model_range(r, i, &begin, &end);
  for (uint32_t k = begin; k < end; ++k)
    if (may_show(r->newest[k], of) && same_line(row, r->newest[k], of) &&
        x_of(r->newest[k], of) != x_of(row, of))
      return true;
  return false;
}

/* ---- a card ---- */

typedef struct card {
  tool_series series[MOST_LINES];
  char name[MOST_LINES][160];
  tool_point point[MOST_LINES][MOST_POINTS];
  double run[MOST_LINES][MOST_POINTS]; /* whose number that is, as long as the card is filled */
  const bench_row *first[MOST_LINES];  /* of each line */
  uint32_t n, left;                    /* lines that had no room */
  const char *builds[MOST_BUILDS];     /* of OF_BUILDS: the newest, oldest first */
  uint32_t n_builds;
} card;

static int by_x(const void *a, const void *b) {
  const tool_point *x = a, *y = b;
  return (x->x > y->x) - (x->x < y->x);
}

/* The row's line in the card, made when absent; NULL: there is no room. */
static tool_series *line_of(card *c, const bench_row *row, curve of) {
  uint32_t i = 0;
  while (i < c->n && !same_line(c->first[i], row, of)) ++i;
  if (i == MOST_LINES) {
    c->left++;
    return NULL;
  }
  if (i == c->n) {
    char device[160];
    c->n++;
    c->first[i] = row;
    snprintf(c->name[i], sizeof c->name[i], "%.120s, %.0f thread%s",
             report_device(row, true, device), row->number[ROW_THREADS],
             row->number[ROW_THREADS] == 1 ? "" : "s");
    c->series[i] = (tool_series){
        .name = c->name[i], .point = c->point[i], .colour = (int)i, .line = true, .dots = true};
  }
  return &c->series[i];
}

/* Of two rows with the same x the newer one stays. */
static void put(card *c, const bench_row *row, curve of, double x, double y) {
  tool_series *s = line_of(c, row, of);
  char number[32];
  uint32_t i = 0;
  if (!s) return;
  while (i < s->n && s->point[i].x != x) ++i;
  if (i == MOST_POINTS) return;
  double *const run = &c->run[s->colour][i];
  if (i<s->n && * run> row->number[ROW_ID]) return;
  if (i == s->n) s->n++;
  *run = row->number[ROW_ID];
  s->point[i] = (tool_point){.x = x, .y = y};
  if (of == OF_BATCH)
    snprintf(s->point[i].tip, sizeof s->point[i].tip, "batch %.0f, %s items/s", x,
             report_number(y, number));
  else
    snprintf(s->point[i].tip, sizeof s->point[i].tip, "%s %.40s, %s ms",
             of == OF_LENGTH ? "length" : "build", of == OF_LENGTH ? "" : row->text[ROW_BUILD],
             report_number(y, number));
  if (of == OF_LENGTH)
    snprintf(s->point[i].tip, sizeof s->point[i].tip, "length %.0f, %s ms", x, number);
}

static void draw_card(report *r, card *c, curve of) {
  static const char *const titles[] = {"items a second, by batch", "median, by length of an input",
                                       "median of runs, by build"};
  char model[96], says[256], work[160], label[280];
  for (uint32_t i = 0; i < c->n; ++i)
    qsort(c->series[i].point, c->series[i].n, sizeof *c->series[i].point, by_x);
  const bench_row *first = c->first[0];
  if (of == OF_BUILDS)
    snprintf(says, sizeof says, "%s; %s", titles[of], report_case(first, work));
  else
    snprintf(says, sizeof says, "%s; %s, %s %.0f", titles[of], first->text[ROW_TASK],
             of == OF_BATCH ? "length" : "batch",
             of == OF_BATCH ? report_length(first) : first->number[ROW_BATCH]);
  report_card(r, report_model(first, model), says);
  snprintf(label, sizeof label, "%s: %s", model, titles[of]);
  tool_chart_draw(r->to, &(tool_chart){.label = label,
                                       .x_label = of == OF_BATCH    ? "batch"
                                                  : of == OF_LENGTH ? "length"
                                                                    : "build",
                                       .y_label = of == OF_BATCH ? "items/s" : "ms",
                                       .log_x = of == OF_BATCH,
                                       .x_names = of == OF_BUILDS ? c->builds : NULL,
                                       .n_names = c->n_builds,
                                       .n = c->n,
                                       .series = c->series});
  report_legend(r, c->series, c->n);
  if (c->left) fputs("<p>More are in the table.</p>\n", r->to);
  fputs("</div>\n", r->to);
}

/* ---- by batch and by length ---- */

/* in[i]: row i is in a curve.  Is it the first of its card? */
static bool is_first_of_card(const report *r, const bool *in, uint32_t i, curve of) {
  uint32_t begin, end;
  report_model_range(r, i, &begin, &end);
  for (uint32_t k = begin; k < i; ++k)
    if (in[k] && same_card(r->newest[k], r->newest[i], of)) return false;
  return in[i];
}

static void draw_curves(report *r, card *c, curve of, uint32_t *cards) {
  bool *in = calloc(r->n_newest + (size_t)1, sizeof *in);
  for (uint32_t i = 0; in && i < r->n_newest; ++i) in[i] = report_in_curve(r, i, of == OF_BATCH);
  for (uint32_t i = 0; in && i < r->n_newest && *cards < REPORT_MOST_CARDS; ++i) {
    if (!is_first_of_card(r, in, i, of)) continue;
    *c = (card){0};
    for (uint32_t k = i; k < r->n_newest; ++k) {
      const bench_row *row = r->newest[k];
      if (in[k] && same_card(r->newest[i], row, of))
        put(c, row, of, x_of(row, of),
            row->number[of == OF_BATCH ? ROW_ITEMS_PER_S : ROW_MEDIAN_MS]);
    }
    if (!(*cards)++) fputs("<div class=\"cards\">\n", r->to);
    draw_card(r, c, of);
  }
  free(in);
}

void report_curve_cards(report *r) {
  card *c = malloc(sizeof *c);
  uint32_t cards = 0;
  if (c) draw_curves(r, c, OF_BATCH, &cards);
  if (c) draw_curves(r, c, OF_LENGTH, &cards);
  if (cards) fputs("</div>\n", r->to);
  free(c);
}

/* ---- over builds ---- */

/* The x of a build: the order in which builds came, the newest MOST_BUILDS of them. */
static double place_of_build(card *c, const char *build) {
  uint32_t i = 0;
  while (i < c->n_builds && strcmp(c->builds[i], build) != 0) ++i;
  if (i < c->n_builds) return i;
  if (c->n_builds == MOST_BUILDS) return -1;
  c->builds[c->n_builds] = build;
  return c->n_builds++;
}

bool report_has_history(const report *r, const bench_row *row) {
  if (*row->text[ROW_WHERE] || !may_show(row, OF_BUILDS)) return false;
  for (const bench_row *k = report_first_of_case(r, row); k < row; ++k)
    if (strcmp(k->text[ROW_BUILD], row->text[ROW_BUILD]) != 0) return true;
  return false;
}

static int by_id(const void *a, const void *b) {
  const double x = (*(const bench_row *const *)a)->number[ROW_ID],
               y = (*(const bench_row *const *)b)->number[ROW_ID];
  return (x > y) - (x < y);
}

/* All rows of the card of `of`, oldest first; *n of them.  To be freed; NULL: no memory. */
static const bench_row **rows_of_card(const report *r, const bench_row *of, uint32_t *n) {
  const bench_row **list = malloc((r->rows.n + (size_t)1) * sizeof *list);
  *n = 0;
  for (uint32_t i = 0; list && i < r->rows.n; ++i) {
    const bench_row *row = &r->rows.row[i];
    if (!*row->text[ROW_WHERE] && may_show(row, OF_BUILDS) && same_card(of, row, OF_BUILDS))
      list[(*n)++] = row;
  }
  if (list && *n) qsort((void *)list, *n, sizeof *list, by_id);
  return list;
}

static bool is_new_build(const bench_row *const *list, uint32_t i) {
  for (uint32_t k = 0; k < i; ++k)
    if (!strcmp(list[k]->text[ROW_BUILD], list[i]->text[ROW_BUILD])) return false;
  return true;
}

static void draw_history(report *r, card *c, const bench_row *of) {
  uint32_t n, builds = 0;
  const bench_row **list = rows_of_card(r, of, &n);
  *c = (card){0};
  for (uint32_t i = 0; i < n; ++i) builds += is_new_build(list, i);
  for (uint32_t i = 0, seen = 0; i < n; ++i) { /* the oldest are left out */
    seen += is_new_build(list, i);
    if (builds > MOST_BUILDS && seen <= builds - MOST_BUILDS) continue;
    const double x = place_of_build(c, list[i]->text[ROW_BUILD]);
    if (x >= 0) put(c, list[i], OF_BUILDS, x, list[i]->number[ROW_MEDIAN_MS]);
  }
  if (c->n) draw_card(r, c, OF_BUILDS);
  free((void *)list);
}

void report_history_cards(report *r) {
  card *c = malloc(sizeof *c);
  bool *in = calloc(r->n_newest + (size_t)1, sizeof *in);
  uint32_t cards = 0;
  for (uint32_t i = 0; in && i < r->n_newest; ++i) in[i] = report_has_history(r, r->newest[i]);
  for (uint32_t i = 0; c && in && i < r->n_newest && cards < REPORT_MOST_CARDS; ++i) {
    if (!is_first_of_card(r, in, i, OF_BUILDS)) continue;
    if (!cards++) fputs("<div class=\"cards\">\n", r->to);
    draw_history(r, c, r->newest[i]);
  }
  if (cards) fputs("</div>\n", r->to);
  free(in);
  free(c);
}
