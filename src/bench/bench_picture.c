/* bench_picture.c - a profile as a self-contained SVG: the run on a line of time, its layers and
 * their steps below; then the ops and the longest steps as bars.  Every shape has its figures as a
 * tooltip (<title>). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "tool/tool_svg.h"

enum { WIDTH = 1200, LEFT = 24, LINE = 1152, ROW = 26, LABEL = 330, BAR = 300, TOP_STEPS = 20 };

static const char *const colours[] = {"#a6cee3", "#fdbf6f", "#b2df8a", "#fb9a99",
                                      "#cab2d6", "#ffff99", "#8dd3c7", "#bebada",
                                      "#fccde5", "#d9d9d9", "#ccebc5", "#ffed6f"};

typedef struct picture {
  FILE *to;
  const bench_result *result;
  const bench_profile *profile;
  bench_group *ops;
  uint32_t n_ops;
} picture;

static const char *colour_of(const picture *p, const char *op) {
  for (uint32_t i = 0; i < p->n_ops; ++i)
    if (strcmp(p->ops[i].name, op) == 0) return colours[i % (sizeof colours / sizeof *colours)];
  return "#eeeeee";
}

static void text_at(const picture *p, double x, double y, int size, const char *anchor,
                    const char *text) {
  char attributes[24];
  snprintf(attributes, sizeof attributes, " font-size=\"%d\"", size);
  tool_svg_text(p->to, x, y, anchor, attributes, text);
}

/* "1.234 ms, 12.3 % of the run, 456 GFLOP/s (78 % of peak), 9.8 GB/s (45 % of peak)" */
static void figures(const picture *p, double us, double flop, double bytes, char *into,
                    size_t size) {
  const bench_profile *f = p->profile;
  double gflops = us > 0 ? 1e-3 * flop / us : 0, gbytes = us > 0 ? 1e-3 * bytes / us : 0;
  int at = snprintf(into, size, "%.3f ms, %.1f %% of the run, %.1f GFLOP/s", 1e-3 * us,
                    100 * us / f->wall_us, gflops);
  if (f->peak_gflops > 0)
    at +=
        snprintf(into + at, size - (size_t)at, " (%.0f %% of peak)", 100 * gflops / f->peak_gflops);
  at += snprintf(into + at, size - (size_t)at, ", %.1f GB/s", gbytes);
  if (f->peak_gbytes_per_s > 0)
    snprintf(into + at, size - (size_t)at, " (%.0f %% of peak)",
             100 * gbytes / f->peak_gbytes_per_s);
}

/* The last part of a path, with the number that tells it from its likes: "linear.5" of
 * "encoder.layer.3.linear.5". */
static const char *last_part(const char *path) {
  const char *at = path + strlen(path);
  while (at > path && !(at[-1] == '.' && (*at < '0' || *at > '9'))) --at;
  return at;
}

/* A box on the line of time, with as much of its text as there is room for; `label` begins the
 * tooltip. */
static void box(const picture *p, double from_us, double us, double y, const char *fill,
                const char *label, const char *text, const char *told) {
  double scale = LINE / p->profile->wall_us, x = LEFT + from_us * scale, width = us * scale;
  char attributes[96];
  tool_svg_begin(p->to, label, told);
  snprintf(attributes, sizeof attributes, " fill=\"%s\" stroke=\"#ffffff\" stroke-width=\"%s\"",
           fill, width > 3 ? "0.6" : "0.15");
  tool_svg_rect(p->to, x, y, width > 0.2 ? width : 0.2, ROW - 2, attributes);
  int fits = (int)((width - 6) / 6.8), n = (int)strlen(text);
  if (fits >= 3) {
    char cut[160];
    snprintf(cut, sizeof cut, "%.*s%s", n <= fits ? n : fits - 1, text,
             n <= fits ? "" : "\xe2\x80\xa6");
    text_at(p, x + 4, y + 16, 11, "start", cut);
  }
  tool_svg_end(p->to);
}

/* The run, its layers, their steps; returns the y below. */
static double draw_time(const picture *p, double y) {
  const bench_profile *f = p->profile;
  char told[200], name[64];
  double at = 0, layer_from = 0, layer_flop = 0, layer_bytes = 0, flop = 0, bytes = 0;
  for (uint32_t i = 0; i < f->n; ++i) flop += f->step[i].flop, bytes += f->step[i].bytes;
  figures(p, f->wall_us, flop, bytes, told, sizeof told);
  box(p, 0, f->wall_us, y, "#e6e6e6", "one run", "one run", told);
  for (uint32_t i = 0; i < f->n; ++i) {
    const bench_step *s = &f->step[i];
    char whole[256];
    snprintf(whole, sizeof whole, "%s (%s)", s->node, s->op);
    figures(p, s->us, s->flop, s->bytes, told, sizeof told);
    box(p, at, s->us, y + 2 * ROW, colour_of(p, s->op), whole, last_part(s->node), told);
    at += s->us;
    layer_flop += s->flop;
    layer_bytes += s->bytes;
    if (i + 1 < f->n && f->step[i + 1].stage == s->stage) continue;
    snprintf(name, sizeof name, "layer %u", s->stage);
    figures(p, at - layer_from, layer_flop, layer_bytes, told, sizeof told);
    box(p, layer_from, at - layer_from, y + ROW, s->stage % 2 ? "#d4dfe8" : "#e3ebf1", name, name,
        told);
    layer_from = at;
    layer_flop = layer_bytes = 0;
  }
  if (f->wall_us > at) {
    snprintf(told, sizeof told,
             "%.3f ms, %.1f %% of the run: binding shapes, packing inputs, unpacking results",
             1e-3 * (f->wall_us - at), 100 * (f->wall_us - at) / f->wall_us);
    box(p, at, f->wall_us - at, y + ROW, "#f2f2f2", "outside the steps", "outside", told);
  }
  return y + 3 * ROW;
}

static void draw_bar(const picture *p, double y, double longest, const char *fill,
                     const char *label, double us, double flop, double bytes) {
  char told[200], cut[80];
  int n = (int)strlen(label);
  figures(p, us, flop, bytes, told, sizeof told);
  snprintf(cut, sizeof cut, "%s%.*s", n > 50 ? "\xe2\x80\xa6" : "", 50,
           n > 50 ? label + n - 49 : label);
  tool_svg_begin(p->to, label, told);
  text_at(p, LEFT + LABEL - 8, y + 15, 11, "end", cut);
  double width = longest > 0 ? us / longest * BAR : 0;
  char attributes[96];
  snprintf(attributes, sizeof attributes, " fill=\"%s\" stroke=\"#777777\" stroke-width=\"0.5\"",
           fill);
  tool_svg_rect(p->to, LEFT + LABEL, y, width > 0.5 ? width : 0.5, ROW - 6, attributes);
  text_at(p, LEFT + LABEL + width + 6, y + 15, 11, "start", told);
  tool_svg_end(p->to);
}

static int by_time(const void *a, const void *b) {
  const bench_step *x = *(const bench_step *const *)a, *y = *(const bench_step *const *)b;
  return (x->us < y->us) - (x->us > y->us);
}

static void draw_longest(const picture *p, const bench_step **sorted, uint32_t n, double y) {
  for (uint32_t i = 0; i < n; ++i)
    draw_bar(p, y + i * ROW, sorted[0]->us, colour_of(p, sorted[i]->op), sorted[i]->node,
             sorted[i]->us, sorted[i]->flop, sorted[i]->bytes);
}

static void draw(const picture *p, const bench_step **sorted) {
  const bench_result *r = p->result;
  uint32_t longest = p->profile->n < TOP_STEPS ? p->profile->n : TOP_STEPS;
  int height = 150 + 3 * ROW + (int)(p->n_ops + longest) * ROW + 90;
  char line[768];
  fprintf(
      p->to,
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
      "font-family=\"DejaVu Sans, Verdana, Arial, sans-serif\" fill=\"#1a1a1a\">\n<rect "
      "width=\"100%%\" height=\"100%%\" "
      "fill=\"#ffffff\"/>\n",
      WIDTH, height, WIDTH, height);
  snprintf(line, sizeof line, "%s on %s, %s", r->model, r->device, r->precision);
  text_at(p, LEFT, 34, 18, "start", line);
  snprintf(line, sizeof line,
           "%u thread%s, batch of %u, %llu tokens; %.3f ms a run, mean of %u; %s", r->threads,
           r->threads == 1 ? "" : "s", r->batch, (unsigned long long)r->tokens,
           1e-3 * p->profile->wall_us, p->profile->runs, r->cpu);
  text_at(p, LEFT, 56, 12, "start", line);
  if (p->profile->peak_gflops > 0) {
    snprintf(line, sizeof line,
             "peak, measured with as many threads: %.0f GFLOP/s of fp32 multiply-adds in "
             "registers, %.1f GB/s read from memory",
             p->profile->peak_gflops, p->profile->peak_gbytes_per_s);
    text_at(p, LEFT, 74, 12, "start", line);
  }
  text_at(p, LEFT, 108, 14, "start", "One run: layers, and their steps");
  double y = draw_time(p, 118) + 34;
  text_at(p, LEFT, y - 8, 14, "start", "By op");
  for (uint32_t i = 0; i < p->n_ops; ++i)
    draw_bar(p, y + i * ROW, p->ops[0].us, colour_of(p, p->ops[i].name), p->ops[i].name,
             p->ops[i].us, p->ops[i].flop, p->ops[i].bytes);
  y += p->n_ops * ROW + 34;
  text_at(p, LEFT, y - 8, 14, "start", "The longest steps");
  draw_longest(p, sorted, longest, y);
  fputs("</svg>\n", p->to);
}

bool bench_picture(const char *path, const bench_result *result, char *message, uint32_t size) {
  picture p = {.result = result, .profile = &result->profile};
  const bench_step **sorted = calloc(p.profile->n + 1, sizeof *sorted);
  p.n_ops = bench_group_steps(p.profile, true, &p.ops);
  bool good = sorted && p.ops;
  if (!good) snprintf(message, size, "out of memory");
  for (uint32_t i = 0; good && i < p.profile->n; ++i) sorted[i] = &p.profile->step[i];
  if (good && p.profile->n) qsort(sorted, p.profile->n, sizeof *sorted, by_time);
  p.to = good ? fopen(path, "wb") : NULL;
  if (good && !p.to) snprintf(message, size, "%s: cannot be written", path);
  if (p.to) {
    draw(&p, sorted);
    bool failed = ferror(p.to) != 0;
    if (fclose(p.to) || failed) snprintf(message, size, "%s: writing failed", path), good = false;
  } else {
    good = false;
  }
  free(sorted);
  free(p.ops);
  return good;
}
