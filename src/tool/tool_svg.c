/* tool_svg.c - see tool_svg.h. */
#include "tool/tool_svg.h"

#include <math.h>
#include <string.h>

#include "tool/tool_markup.h"

/* ---- shapes ---- */

void tool_svg_text(FILE *to, double x, double y, const char *anchor, const char *attributes,
                   const char *text) {
  fprintf(to, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\"%s>", x, y, anchor, attributes);
  tool_markup_text(to, text);
  fputs("</text>\n", to);
}

void tool_svg_begin(FILE *to, const char *label, const char *text) {
  fputs("<g><title>", to);
  if (label) tool_markup_text(to, label);
  if (label) fputs(": ", to);
  tool_markup_text(to, text);
  fputs("</title>", to);
}

void tool_svg_end(FILE *to) { fputs("</g>\n", to); }

void tool_svg_rect(FILE *to, double x, double y, double width, double height,
                   const char *attributes) {
  fprintf(to, "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.4g\"%s/>", x, y, width, height,
          attributes);
}

/* ---- axes ---- */

enum { WIDTH = TOOL_CHART_WIDTH, HEIGHT = 230, LEFT = 46, RIGHT = 10, TOP = 22, BOTTOM = 40 };

typedef struct axis {
  double low, high; /* logarithms where `log` */
  bool log;
  double from, to; /* where these lie in the picture */
} axis;

static double place(const axis *a, double value) {
  const double v = a->log ? log10(value) : value;
  return a->from + (v - a->low) / (a->high - a->low) * (a->to - a->from);
}

/* A round step of which about four make `range`. */
static double round_step(double range) {
  const double size = pow(10, floor(log10(range / 4))), many = range / 4 / size;
  return size * (many < 1.5 ? 1 : many < 3.5 ? 2 : many < 7.5 ? 5 : 10);
}

static void span(axis *a, double low, double high, bool log, bool from_zero) {
  a->log = log;
  if (log) {
    a->low = floor(log10(low) * 3 - 0.1) / 3;
    a->high = ceil(log10(high) * 3 + 0.1) / 3;
    if (a->high - a->low < 1) a->high = a->low + 1;
    return;
  }
  if (from_zero) low = 0;
  if (high <= low) high = low + (low > 0 ? low : 1);
  const double step = round_step(high - low);
  a->low = from_zero ? 0 : low;
  a->high = from_zero ? ceil(high / step - 1e-9) * step : high;
}

/* "1.5k", "0.02" */
static const char *brief(double value, char into[24]) {
  static const char *const units[] = {"", "k", "M", "G", "T"};
  int u = 0;
  double v = value;
  for (; fabs(v) >= 1000 && u < 4; ++u) v /= 1000;
  snprintf(into, 24, "%.3g%s", v, units[u]);
  return into;
}

static void draw_tick(FILE *to, const axis *x, const axis *y, bool of_x, double value,
                      const char *text) {
  const double at = place(of_x ? x : y, value);
  if (of_x) {
    tool_svg_text(to, at, y->from + 14, "middle", " class=\"tick\"", text);
    return;
  }
  fprintf(to, "<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/>", x->from, at, x->to);
  tool_svg_text(to, x->from - 5, at + 3.5, "end", " class=\"tick\"", text);
}

static void draw_ticks(FILE *to, const axis *x, const axis *y, bool of_x) {
  const axis *a = of_x ? x : y;
  char text[24];
  if (a->log) {
    const double decades = a->high - a->low;
    for (int d = (int)floor(a->low); d <= (int)ceil(a->high); ++d)
      for (int k = 0; k < (decades > 3 ? 1 : 3); ++k) {
        const double value = pow(10, d) * (k == 0 ? 1 : k == 1 ? 2 : 5), at = log10(value);
        if (at < a->low - 1e-9 || at > a->high + 1e-9) continue;
        draw_tick(to, x, y, of_x, value, brief(value, text));
      }
    return;
  }
  const double step = round_step(a->high - a->low);
  for (int k = (int)ceil(a->low / step); k <= (int)floor(a->high / step + 1e-9); ++k)
    draw_tick(to, x, y, of_x, k * step, brief(k * step, text));
}

/* The x of points where there are few of them: batches are 1, 2, 4 ...  0: too many. */
enum { MOST_MARKS = 8 };
static int marks_of(const tool_chart *c, double marks[MOST_MARKS]) {
  int n = 0;
  for (uint32_t s = 0; s < c->n; ++s)
    for (uint32_t i = 0; i < c->series[s].n; ++i) {
      int at = 0;
      while (at < n && marks[at] != c->series[s].point[i].x) ++at;
      if (at == MOST_MARKS || !c->series[s].line || c->series[s].colour < 0) return 0;
      if (at == n) marks[n++] = c->series[s].point[i].x;
    }
  return n;
}

/* ---- lines ---- */

static bool find_range(const tool_chart *c, double range[4]) {
  uint32_t n = 0;
  for (uint32_t s = 0; s < c->n; ++s)
    for (uint32_t i = 0; i < c->series[s].n; ++i, ++n) {
      const tool_point *p = &c->series[s].point[i];
      range[0] = n ? fmin(range[0], p->x) : p->x;
      range[1] = n ? fmax(range[1], p->x) : p->x;
      range[2] = n ? fmin(range[2], p->y) : p->y;
      range[3] = n ? fmax(range[3], p->y) : p->y;
    }
  return n > 0;
}

static void draw_series(FILE *to, const tool_series *s, const axis *x, const axis *y) {
  char colour[16] = "roof";
  if (s->colour >= 0) snprintf(colour, sizeof colour, "c%d", s->colour % TOOL_COLOURS);
  if (s->line && s->n > 1) {
    fprintf(to, "<path class=\"line %s\" d=\"", colour);
    for (uint32_t i = 0; i < s->n; ++i)
      fprintf(to, "%c%.1f %.1f", i ? 'L' : 'M', place(x, s->point[i].x), place(y, s->point[i].y));
    fputs("\"/>\n", to);
  }
  for (uint32_t i = 0; s->dots && i < s->n; ++i) {
    const tool_point *p = &s->point[i];
    tool_svg_begin(to, s->name, p->tip);
    fprintf(to, "<circle class=\"dot %s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"/>", colour,
            place(x, p->x), place(y, p->y), p->radius > 0 ? p->radius : 3.5);
    tool_svg_end(to);
  }
}

static void begin(FILE *to, int height, const char *label) {
  fprintf(to, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", WIDTH, height);
  tool_markup_text(to, label);
  fputs("\">\n", to);
}

void tool_chart_draw(FILE *to, const tool_chart *c) {
  double range[4];
  axis x = {.from = LEFT, .to = WIDTH - RIGHT}, y = {.from = HEIGHT - BOTTOM, .to = TOP};
  if (!find_range(c, range)) return;
  if (c->x_names) {
    x.low = -0.5, x.high = c->n_names - 0.5;
  } else {
    span(&x, range[0], range[1], c->log_x, true);
  }
  span(&y, range[2], range[3], c->log_y, true);
  begin(to, HEIGHT, c->label);
  draw_ticks(to, &x, &y, false);
  for (uint32_t i = 0; c->x_names && i < c->n_names; ++i)
    draw_tick(to, &x, &y, true, i, c->x_names[i]);
  double marks[MOST_MARKS];
  const int n_marks = c->log_x ? marks_of(c, marks) : 0;
  char text[24];
  for (int i = 0; i < n_marks; ++i) draw_tick(to, &x, &y, true, marks[i], brief(marks[i], text));
  if (!c->x_names && !n_marks) draw_ticks(to, &x, &y, true);
  fprintf(to, "<path class=\"axis\" d=\"M%.1f %.1fH%.1f\"/>\n", x.from, y.from, x.to);
  tool_svg_text(to, 4, 12, "start", " class=\"tick\"", c->y_label);
  tool_svg_text(to, x.to, HEIGHT - 8, "end", " class=\"tick\"", c->x_label);
  for (uint32_t s = 0; s < c->n; ++s) draw_series(to, &c->series[s], &x, &y);
  fputs("</svg>\n", to);
}

/* ---- bars ---- */

void tool_bars_draw(FILE *to, const char *label, const tool_bar *bars, uint32_t n) {
  enum { ROW = 34, BAR = 10 };
  double longest = 0;
  for (uint32_t i = 0; i < n; ++i) longest = fmax(longest, bars[i].length);
  begin(to, (int)n * ROW + 2, label);
  for (uint32_t i = 0; i < n; ++i) {
    const double y = i * ROW, width = longest > 0 ? bars[i].length / longest * (WIDTH - 2) : 0;
    char attributes[48];
    tool_svg_begin(to, NULL, bars[i].tip);
    tool_svg_text(to, 1, y + 12, "start", "", bars[i].label);
    tool_svg_text(to, WIDTH - 1, y + 12, "end", " class=\"value\"", bars[i].value);
    snprintf(attributes, sizeof attributes, " rx=\"2\" class=\"bar c%d%s\"",
             bars[i].colour % TOOL_COLOURS, bars[i].pale ? " pale" : "");
    tool_svg_rect(to, 1, y + 18, width > 1 ? width : 1, BAR, attributes);
    tool_svg_end(to);
  }
  fputs("</svg>\n", to);
}
