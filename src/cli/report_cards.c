/* report_cards.c - cards of bars: what models reach on devices at precisions, and what they take. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report.h"
#include "tool/tool_markup.h"

enum { MOST_BARS = 12 };

void report_card(report *r, const char *title, const char *says) {
  fputs("<div class=\"card\">\n<h4>", r->to);
  tool_markup_text(r->to, title);
  fputs("</h4>\n<p>", r->to);
  tool_markup_text(r->to, says);
  fputs("</p>\n", r->to);
}

void report_legend(report *r, const tool_series *series, uint32_t n) {
  fputs("<ul class=\"legend\">\n", r->to);
  for (uint32_t i = 0; i < n; ++i) {
    if (series[i].colour < 0) continue;
    fprintf(r->to, "<li class=\"c%d\">", series[i].colour % TOOL_COLOURS);
    tool_markup_text(r->to, series[i].name);
    fputs("</li>\n", r->to);
  }
  fputs("</ul>\n", r->to);
}

/* May rows stand beside each other in a card?  All but device, precision and machine is the same. */
static bool same_work(const bench_row *a, const bench_row *b) {
  static const bench_row_text texts[] = {ROW_MODEL,  ROW_TASK,    ROW_SCENARIO,
                                         ROW_OUTPUT, ROW_LENGTHS, ROW_WEIGHTS};
  bool same = a->number[ROW_NEW_TOKENS] == b->number[ROW_NEW_TOKENS] &&
              a->number[ROW_BATCH] == b->number[ROW_BATCH];
  for (size_t i = 0; same && i < sizeof texts / sizeof *texts; ++i)
    same = !strcmp(a->text[texts[i]], b->text[texts[i]]);
  return same;
}

/* The row whose work most rows of its model and task share, from row `begin` on; *end: behind the
 * rows of that model and task. */
static const bench_row *most_shared(const report *r, uint32_t begin, uint32_t *end) {
  const bench_row *best = NULL;
  uint32_t most = 0;
  for (*end = begin; *end < r->n_newest; ++*end)
    if (strcmp(r->newest[*end]->text[ROW_MODEL], r->newest[begin]->text[ROW_MODEL]) != 0 ||
        strcmp(r->newest[*end]->text[ROW_TASK], r->newest[begin]->text[ROW_TASK]) != 0)
      break;
  for (uint32_t i = begin; i < *end; ++i) {
    uint32_t n = 0;
    if (!report_counts(r, r->newest[i])) continue;
    for (uint32_t k = begin; k < *end; ++k) n += same_work(r->newest[i], r->newest[k]);
    if (n < most || (n == most && best &&
                     report_scenario_rank(r, r->newest[i]) >= report_scenario_rank(r, best)))
      continue;
    most = n;
    best = r->newest[i];
  }
  return best;
}

static int by_length(const void *a, const void *b) {
  const tool_bar *x = a, *y = b;
  return (x->length < y->length) - (x->length > y->length);
}

static void make_bar(const report *r, const bench_row *row, double value, const char *unit,
                     tool_bar *bar) {
  char number[32], of[160], device[160];
  report_device(row, true, device);
  report_number(value, number);
  report_case(row, of);
  *bar = (tool_bar){
      .length = value, .colour = report_colour(r, row), .pale = *row->text[ROW_WHERE] != 0};
  snprintf(bar->label, sizeof bar->label, "%s", device);
  snprintf(bar->value, sizeof bar->value, "%s %.15s", number, unit);
  snprintf(bar->tip, sizeof bar->tip, "%.90s: %s %.15s; %.80s; build %.30s, %.10s", device, number,
           unit, of, row->text[ROW_BUILD], row->text[ROW_TIME]);
}

/* Bars of the rows that do the work of `of`; false: none has the figure. */
static bool draw_bars(report *r, const bench_row *of, uint32_t begin, uint32_t end) {
  tool_bar bars[64];
  char model[96], label[160];
  const char *unit = "";
  uint32_t n = 0;
  for (uint32_t i = begin; i < end && n < 64; ++i) {
    const double value = report_metric(r, r->newest[i], &unit);
    if (same_work(of, r->newest[i]) && isfinite(value))
      make_bar(r, r->newest[i], value, unit, &bars[n++]);
  }
  if (!n) return false;
  qsort(bars, n, sizeof *bars, by_length);
  if (report_less_is_better(r)) /* best first */
    for (uint32_t i = 0; i < n / 2; ++i) {
      const tool_bar one = bars[i];
      bars[i] = bars[n - 1 - i];
      bars[n - 1 - i] = one;
    }
  char says[256], work[160];
  snprintf(says, sizeof says, "%s (%s); %s", r->metric, unit, report_case(of, work));
  if (strncmp(of->text[ROW_WEIGHTS], "random", 6) == 0)
    snprintf(says + strlen(says), sizeof says - strlen(says), "; weights %.40s",
             of->text[ROW_WEIGHTS]);
  report_card(r, report_model(of, model), says);
  snprintf(label, sizeof label, "%s of %s by device and precision", r->metric, model);
  tool_bars_draw(r->to, label, bars, n < MOST_BARS ? n : MOST_BARS);
  if (n > MOST_BARS)
    fprintf(r->to, "<p>%u more are in the table.</p>\n", (unsigned)(n - MOST_BARS));
  fputs("</div>\n", r->to);
  return true;
}

static void draw_cards(report *r, bool by_family) {
  const char *family = NULL;
  uint32_t cards = 0, left = 0;
  for (uint32_t i = 0, end; i < r->n_newest; i = end) {
    const bench_row *of = most_shared(r, i, &end);
    const char *unit;
    bool some = false;
    for (uint32_t k = i; of && k < end; ++k)
      some |= same_work(of, r->newest[k]) && isfinite(report_metric(r, r->newest[k], &unit));
    if (!some) continue;
    if (cards == REPORT_MOST_CARDS) {
      ++left;
      continue;
    }
    if (!family || (by_family && strcmp(family, of->family) != 0)) {
      if (family) fputs("</div>\n", r->to);
      family = of->family;
      if (by_family) fprintf(r->to, "<h3>%s</h3>\n", report_family_title(family));
      fputs("<div class=\"cards\">\n", r->to);
    }
    cards += draw_bars(r, of, i, end);
  }
  if (family) fputs("</div>\n", r->to);
  if (left) fprintf(r->to, "<p>%u more models are in the table.</p>\n", (unsigned)left);
}

void report_family_cards(report *r) { draw_cards(r, true); }

void report_memory_cards(report *r) {
  const char *metric = r->metric;
  r->metric = "memory";
  draw_cards(r, false);
  r->metric = metric;
}

/* The cold and warm starts of a model, from row `begin` up to row `end`. */
static void draw_starts(report *r, uint32_t begin, uint32_t end) {
  tool_bar bars[MOST_BARS];
  char model[96], label[160];
  uint32_t n = 0;
  for (uint32_t i = begin; i < end && n < MOST_BARS; ++i) {
    const bench_row *row = r->newest[i];
    if (!report_is_start(row)) continue;
    make_bar(r, row, row->number[ROW_LOAD_MS], "ms", &bars[n]);
    char device[160];
    snprintf(bars[n++].label, sizeof bars->label, "%.12s: %.140s", row->text[ROW_SCENARIO],
             report_device(row, true, device));
  }
  qsort(bars, n, sizeof *bars, by_length);
  report_card(r, report_model(r->newest[begin], model), "load (ms)");
  snprintf(label, sizeof label, "loads of %s", model);
  tool_bars_draw(r->to, label, bars, n);
  fputs("</div>\n", r->to);
}

void report_start_cards(report *r) {
  uint32_t cards = 0, begin, end;
  for (uint32_t i = 0; i < r->n_newest && cards < REPORT_MOST_CARDS; i = end) {
    bool some = false;
    report_model_range(r, i, &begin, &end);
    for (uint32_t k = begin; k < end; ++k) some |= report_is_start(r->newest[k]);
    if (!some) continue;
    if (!cards++) fputs("<div class=\"cards\">\n", r->to);
    draw_starts(r, begin, end);
  }
  if (cards) fputs("</div>\n", r->to);
}
