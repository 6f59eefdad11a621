/* tool_svg.h - pictures in SVG: the shapes that profiles and charts are made of, and charts whose
 * colours are the page's (classes c0 to c7; axis, grid and text by the page's style). */
#ifndef ACCEL_TOOL_SVG_H
#define ACCEL_TOOL_SVG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* "<text ...>TEXT</text>" at x, y; anchor: start, middle, end; `attributes` as they are to stand
 * there, with a blank in front; may be "". */
void tool_svg_text(FILE *to, double x, double y, const char *anchor, const char *attributes,
                   const char *text);
/* "<g><title>LABEL: TEXT</title>": what a pointer shows over the shapes that follow, up to
 * tool_svg_end.  label NULL: TEXT alone. */
void tool_svg_begin(FILE *to, const char *label, const char *text);
void tool_svg_end(FILE *to);
void tool_svg_rect(FILE *to, double x, double y, double width, double height,
                   const char *attributes);

/* ---- charts ---- */

enum { TOOL_COLOURS = 8, TOOL_CHART_WIDTH = 340 };

typedef struct tool_point {
  double x, y;
  double radius; /* 0: the usual one */
  char tip[160]; /* what a pointer shows */
} tool_point;
typedef struct tool_series {
  const char *name; /* the tips begin with it */
  uint32_t n;
  tool_point *point; /* [n] by x */
  int colour;        /* 0 to TOOL_COLOURS - 1; -1: that of text, thin */
  bool line, dots;
} tool_series;
typedef struct tool_chart {
  const char *label; /* for who cannot see it: what the chart shows */
  const char *x_label, *y_label;
  bool log_x, log_y;
  const char *const *x_names; /* NULL: numbers; else what stands at x = 0, 1 ... [n_names] */
  uint32_t n_names;
  uint32_t n;
  const tool_series *series; /* [n] */
} tool_chart;
/* An <svg> of 340 by 230; nothing when there is no point. */
void tool_chart_draw(FILE *to, const tool_chart *chart);

typedef struct tool_bar {
  char label[160], value[48], tip[320];
  double length; /* >= 0 */
  int colour;
  bool pale;
} tool_bar;
/* An <svg> of 340 in width: labels and values above their bars. */
void tool_bars_draw(FILE *to, const char *label, const tool_bar *bars, uint32_t n);

#endif
