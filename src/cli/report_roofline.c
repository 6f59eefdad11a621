/* report_roofline.c - ops of profiled runs beside what the processor's multiply-adds and memory
 * allow. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report.h"

/* The newest profiled run of each case, and its ops; the next one from *i on.  NULL: no more. */
static const bench_row *next_profiled(const report *r, uint32_t *i) {
  for (; *i < r->rows.n; ++*i) {
    const bench_row *row = &r->rows.row[*i];
    bool newest = row->number[ROW_STEPS] > 0;
    for (uint32_t k = *i + 1; newest && k < r->rows.n; ++k) {
      if (!bench_row_same_case(row, &r->rows.row[k])) break;
      newest = !(r->rows.row[k].number[ROW_STEPS] > 0);
    }
    if (newest) return &r->rows.row[(*i)++];
  }
  return NULL;
}

static double gflops(const bench_op *op) { return op->ms > 0 ? 1e-6 * op->flop / op->ms : 0; }
static double gbytes(const bench_op *op) { return op->ms > 0 ? 1e-6 * op->bytes / op->ms : 0; }

static uint32_t read_ops(report *r, const bench_row *row, bench_op **ops) {
  char message[512];
  uint32_t n;
  if (!bench_ops_read(&r->db, row->number[ROW_ID], ops, &n, message, sizeof message)) {
    cli_note(r->run, "%s", message);
    return 0;
  }
  return n;
}

/* ---- the chart ---- */

enum { MOST_OPS = TOOL_COLOURS };

typedef struct roof {
  tool_series series[MOST_OPS + 1];
  tool_point point[MOST_OPS], line[3];
  char name[MOST_OPS][64];
  uint32_t n;
  double least, most; /* FLOP a byte */
} roof;

static void add_op(roof *f, const bench_op *op, double all_ms) {
  char rate[32], memory[32];
  if (f->n == MOST_OPS || op->flop <= 0 || op->bytes <= 0 || op->ms <= 0) return;
  const double share = op->ms / all_ms, x = op->flop / op->bytes;
  tool_point *p = &f->point[f->n];
  *p = (tool_point){.x = x, .y = gflops(op), .radius = 3 + 7 * sqrt(share)};
  snprintf(p->tip, sizeof p->tip, "%s GFLOP/s, %s GB/s, %.0f %% of the time",
           report_number(p->y, rate), report_number(gbytes(op), memory), 100 * share);
  snprintf(f->name[f->n], sizeof f->name[f->n], "%s, %.0f %%", op->op, 100 * share);
  f->series[f->n] =
      (tool_series){.name = f->name[f->n], .n = 1, .point = p, .colour = (int)f->n, .dots = true};
  f->least = f->n ? fmin(f->least, x) : x;
  f->most = f->n ? fmax(f->most, x) : x;
  f->n++;
}

/* The line that no op gets above, where the run has the peaks of its processor. */
static uint32_t add_line(roof *f, const bench_row *row) {
  const double peak = row->number[ROW_PEAK_GFLOPS], rate = row->number[ROW_PEAK_GBYTES];
  if (!(peak > 0) || !(rate > 0)) return f->n;
  const double ridge = peak / rate, from = fmin(f->least, ridge / 4), to = fmax(f->most, ridge * 4);
  f->line[0] = (tool_point){.x = from, .y = rate * from};
  f->line[1] = (tool_point){.x = ridge, .y = peak};
  f->line[2] = (tool_point){.x = to, .y = peak};
  f->series[f->n] =
      (tool_series){.name = "peak", .n = 3, .point = f->line, .colour = -1, .line = true};
  return f->n + 1;
}

static void draw_roofline(report *r, const bench_row *row, const bench_op *ops, uint32_t n) {
  roof f = {0};
  double all = 0;
  char model[96], device[160], work[160], says[420], peak[32], rate[32], label[160];
  for (uint32_t i = 0; i < n; ++i) all += ops[i].ms;
  for (uint32_t i = 0; i < n; ++i) add_op(&f, &ops[i], all);
  if (!f.n) return;
  const uint32_t series = add_line(&f, row);
  snprintf(says, sizeof says, "%s; %s", report_device(row, true, device), report_case(row, work));
  if (series > f.n)
    snprintf(says + strlen(says), sizeof says - strlen(says),
             "; line: %s GFLOP/s of fp32 multiply-adds, %s GB/s read, both measured",
             report_number(row->number[ROW_PEAK_GFLOPS], peak),
             report_number(row->number[ROW_PEAK_GBYTES], rate));
  report_card(r, report_model(row, model), says);
  snprintf(label, sizeof label, "Roofline of %s", model);
  tool_chart_draw(r->to, &(tool_chart){.label = label,
                                       .x_label = "FLOP a byte",
                                       .y_label = "GFLOP/s",
                                       .log_x = true,
                                       .log_y = true,
                                       .n = series,
                                       .series = f.series});
  report_legend(r, f.series, f.n);
  fputs("</div>\n", r->to);
}

void report_roofline_cards(report *r) {
  uint32_t at = 0, cards = 0;
  const bench_row *row;
  while (cards < REPORT_MOST_CARDS && (row = next_profiled(r, &at)) != NULL) {
    bench_op *ops;
    const uint32_t n = read_ops(r, row, &ops);
    if (n && !cards++) fputs("<div class=\"cards\">\n", r->to);
    if (n) draw_roofline(r, row, ops, n);
    free(ops);
  }
  if (cards) fputs("</div>\n", r->to);
}

/* ---- the table ---- */

void report_fill_roofline(report *r, cli_table *table) {
  static const char *const head[] = {"model", "device",   "case",    "op",   "steps",
                                     "ms",    "% of all", "GFLOP/s", "GB/s", "% of the bound"};
  uint32_t at = 0;
  const bench_row *row;
  cli_table_row(table, 10, head);
  while ((row = next_profiled(r, &at)) != NULL) {
    bench_op *ops;
    double all = 0;
    const uint32_t n = read_ops(r, row, &ops);
    for (uint32_t i = 0; i < n; ++i) all += ops[i].ms;
    for (uint32_t i = 0; i < n; ++i) {
      char model[96], device[160], work[160], cell[6][32];
      snprintf(cell[0], 32, "%u", ops[i].steps);
      report_number(ops[i].ms, cell[1]);
      report_number(100 * ops[i].ms / all, cell[2]);
      report_number(gflops(&ops[i]), cell[3]);
      report_number(gbytes(&ops[i]), cell[4]);
      report_number(100 * ops[i].bound_ms / ops[i].ms, cell[5]);
      const char *cells[] = {report_model(row, model),
                             report_device(row, true, device),
                             report_case(row, work),
                             ops[i].op,
                             cell[0],
                             cell[1],
                             cell[2],
                             cell[3],
                             cell[4],
                             cell[5]};
      cli_table_row(table, 10, cells);
    }
    free(ops);
  }
}
