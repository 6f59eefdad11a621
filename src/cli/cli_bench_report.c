/* cli_bench_report.c - profile and comparison of accel bench, as tables and as JSON. */
#include "cli/cmd_bench.h"

#include <math.h>
#include <stdlib.h>

enum { LONGEST = 15 };

/* ---- profile ---- */

/* Time of one run, and the rates that follow from it. */
typedef struct cost {
  const bench_profile *profile;
  uint32_t calls;
  double us, flop, bytes, limit_us; /* limit_us 0: not known */
} cost;

static double gflops(const cost *c) { return c->us > 0 ? 1e-3 * c->flop / c->us : 0; }
static double gbytes(const cost *c) { return c->us > 0 ? 1e-3 * c->bytes / c->us : 0; }
static double percent(double part, double whole) {
  return whole > 0 ? 100 * part / whole : (double)NAN;
}

static double bound_share(const cost *c) {
  return c->limit_us > 0 ? percent(c->limit_us, c->us) : (double)NAN;
}

static void cost_json(cli_json *json, const cost *c) {
  const bench_profile *p = c->profile;
  cli_json_double(json, "calls", (double)c->calls / p->runs);
  cli_json_double(json, "ms", 1e-3 * c->us);
  cli_json_double(json, "share_of_run", c->us / p->wall_us);
  cli_json_double(json, "flop", c->flop);
  cli_json_double(json, "bytes", c->bytes);
  cli_json_double(json, "gflops", gflops(c));
  cli_json_double(json, "gbytes_per_s", gbytes(c));
  cli_json_double(json, "share_of_peak_gflops", 1e-2 * percent(gflops(c), p->peak_gflops));
  cli_json_double(json, "share_of_peak_gbytes_per_s",
                  1e-2 * percent(gbytes(c), p->peak_gbytes_per_s));
  cli_json_double(json, "bound_ms", c->limit_us > 0 ? 1e-3 * c->limit_us : (double)NAN);
  cli_json_double(json, "share_of_bound", 1e-2 * bound_share(c));
}

static cost cost_of_group(const bench_profile *p, const bench_group *g) {
  return (cost){.profile = p,
                .calls = g->calls,
                .us = g->us,
                .flop = g->flop,
                .bytes = g->bytes,
                .limit_us = g->limit_unknown ? 0 : g->limit_us};
}
static cost cost_of_step(const bench_profile *p, const bench_step *s) {
  return (cost){.profile = p,
                .calls = s->calls,
                .us = s->us,
                .flop = s->flop,
                .bytes = s->bytes,
                .limit_us = bench_limit_us(p, s)};
}

static void groups_json(cli_json *json, const bench_profile *p, bool by_op) {
  bench_group *groups;
  uint32_t n = bench_group_steps(p, by_op, &groups);
  cli_json_open(json, by_op ? "by_op" : "by_layer", '[');
  for (uint32_t i = 0; i < n; ++i) {
    cost c = cost_of_group(p, &groups[i]);
    cli_json_open(json, NULL, '{');
    if (by_op)
      cli_json_text(json, "op", groups[i].name);
    else
      cli_json_int(json, "layer", groups[i].stage);
    cost_json(json, &c);
    cli_json_close(json, '}');
  }
  cli_json_close(json, ']');
  free(groups);
}

static double steps_us(const bench_profile *p) {
  double us = 0;
  for (uint32_t i = 0; i < p->n; ++i) us += p->step[i].us;
  return us;
}

static double steps_bytes(const bench_profile *p) {
  double bytes = 0;
  for (uint32_t i = 0; i < p->n; ++i) bytes += p->step[i].bytes;
  return bytes;
}

void cli_profile_json(cli_json *json, const bench_profile *p) {
  cli_json_open(json, "profile", '{');
  cli_json_int(json, "runs", p->runs);
  cli_json_double(json, "run_ms", 1e-3 * p->wall_us);
  cli_json_double(json, "steps_ms", 1e-3 * steps_us(p));
  cli_json_double(json, "bytes", steps_bytes(p));
  cli_json_bool(json, "decoding", p->decoding);
  cli_json_text(json, "clock", p->device_clock ? "device" : "host");
  cli_json_double(json, "peak_gflops", p->peak_gflops > 0 ? p->peak_gflops : (double)NAN);
  cli_json_double(json, "peak_gbytes_per_s",
                  p->peak_gbytes_per_s > 0 ? p->peak_gbytes_per_s : (double)NAN);
  groups_json(json, p, true);
  groups_json(json, p, false);
  cli_json_open(json, "steps", '[');
  for (uint32_t i = 0; i < p->n; ++i) {
    cost c = cost_of_step(p, &p->step[i]);
    cli_json_open(json, NULL, '{');
    cli_json_int(json, "node", p->step[i].index);
    cli_json_text(json, "name", p->step[i].node);
    cli_json_text(json, "op", p->step[i].op);
    cli_json_int(json, "layer", p->step[i].stage);
    cost_json(json, &c);
    cli_json_double(json, "min_ms", 1e-3 * p->step[i].min_us);
    cli_json_close(json, '}');
  }
  cli_json_close(json, ']');
  cli_json_close(json, '}');
}

static void cost_row(cli_table *table, const char *name, const cost *c) {
  char cell[9][32];
  const double value[9] = {(double)c->calls / c->profile->runs,
                           1e-3 * c->us,
                           percent(c->us, c->profile->wall_us),
                           gflops(c),
                           percent(gflops(c), c->profile->peak_gflops),
                           gbytes(c),
                           percent(gbytes(c), c->profile->peak_gbytes_per_s),
                           c->limit_us > 0 ? 1e-3 * c->limit_us : (double)NAN,
                           bound_share(c)};
  static const int digits[9] = {0, 3, 1, 1, 0, 1, 0, 3, 0};
  for (int i = 0; i < 9; ++i) {
    if (isnan(value[i]))
      snprintf(cell[i], sizeof cell[i], "-");
    else
      snprintf(cell[i], sizeof cell[i], "%.*f", digits[i], value[i]);
  }
  const char *row[] = {cell[0], cell[1], cell[2], cell[3], cell[4],
                       cell[5], cell[6], cell[7], cell[8], name};
  cli_table_row(table, 10, row);
}

static void print(cli_table *table, const char *align, bool markdown) {
  putchar('\n');
  if (markdown)
    cli_table_markdown(stdout, table, align);
  else
    cli_table_print(table, align);
}

static void head(cli_table *table, const char *what) {
  const char *const row[] = {"calls", "ms",        "% of run", "GFLOP/s",    "% of peak",
                             "GB/s",  "% of peak", "bound ms", "% of bound", what};
  cli_table_row(table, 10, row);
}

static void print_groups(const bench_profile *p, bool by_op, bool markdown) {
  cli_table table = {0};
  bench_group *groups;
  uint32_t n = bench_group_steps(p, by_op, &groups);
  head(&table, by_op ? "op" : "layer");
  for (uint32_t i = 0; i < n; ++i) {
    char layer[32];
    cost c = cost_of_group(p, &groups[i]);
    snprintf(layer, sizeof layer, "%u (%u steps)", groups[i].stage, groups[i].nodes);
    cost_row(&table, by_op ? groups[i].name : layer, &c);
  }
  if (by_op && n) {
    cost outside = {.profile = p, .us = p->wall_us - steps_us(p)};
    cost_row(&table, "(outside the steps)", &outside);
  }
  print(&table, "rrrrrrrrrl", markdown);
  free(groups);
}

static int by_time(const void *a, const void *b) {
  const bench_step *x = *(const bench_step *const *)a, *y = *(const bench_step *const *)b;
  return (x->us < y->us) - (x->us > y->us);
}

static void print_longest(const bench_profile *p, bool markdown) {
  const bench_step **sorted = calloc(p->n + 1, sizeof *sorted);
  cli_table table = {0};
  if (!sorted) return;
  for (uint32_t i = 0; i < p->n; ++i) sorted[i] = &p->step[i];
  if (p->n) qsort(sorted, p->n, sizeof *sorted, by_time);
  head(&table, "longest steps");
  for (uint32_t i = 0; i < p->n && i < LONGEST; ++i) {
    char name[256];
    cost c = cost_of_step(p, sorted[i]);
    snprintf(name, sizeof name, "%s (%s)", sorted[i]->node, sorted[i]->op);
    cost_row(&table, name, &c);
  }
  print(&table, "rrrrrrrrrl", markdown);
  free(sorted);
}

void cli_profile_print(const bench_profile *p, bool markdown) {
  printf("\nprofile: %.3f ms a %s, mean of %u; %.3f ms of it in %u steps, which move %.3f MB\n",
         1e-3 * p->wall_us, p->decoding ? "step of decoding" : "run", p->runs, 1e-3 * steps_us(p),
         p->n, 1e-6 * steps_bytes(p));
  if (p->device_clock)
    printf("times of the steps: the device's own clock; of the run: this machine's\n");
  if (p->peak_gflops > 0)
    printf(
        "peak, measured with as many threads: %.0f GFLOP/s of fp32 multiply-adds, %.1f GB/s read\n",
        p->peak_gflops, p->peak_gbytes_per_s);
  print_groups(p, true, markdown);
  print_groups(p, false, markdown);
  print_longest(p, markdown);
}

/* ---- comparison ---- */

static const char *verdict(const bench_change *c) {
  static const char *const words[] = {"worse", "the same within noise", "better", ""};
  return words[c->verdict + 1];
}

void cli_comparison_json(cli_json *json, const char *old, const bench_comparison *comparison) {
  cli_json_open(json, "compare", '{');
  cli_json_text(json, "with", old);
  cli_json_text(json, "unlike", comparison->unlike);
  cli_json_open(json, "changes", '[');
  for (uint32_t i = 0; i < comparison->n; ++i) {
    const bench_change *c = &comparison->change[i];
    cli_json_open(json, NULL, '{');
    cli_json_text(json, "what", c->what);
    cli_json_double(json, "before", c->before);
    cli_json_double(json, "after", c->after);
    cli_json_double(json, "times", c->times);
    cli_json_double(json, "noise", c->noise > 0 ? c->noise : (double)NAN);
    cli_json_text(json, "verdict", *verdict(c) ? verdict(c) : NULL);
    cli_json_close(json, '}');
  }
  cli_json_close(json, ']');
  cli_json_close(json, '}');
}

void cli_comparison_print(const char *old, const bench_comparison *comparison, bool markdown) {
  static const char *const titles[] = {"figure",        "before", "now",
                                       "times as good", "noise",  "verdict"};
  cli_table table = {0};
  printf("\ncompared with %s\n", old);
  if (*comparison->unlike) printf("not the same work (before, now): %s\n", comparison->unlike);
  cli_table_row(&table, 6, titles);
  for (uint32_t i = 0; i < comparison->n; ++i) {
    const bench_change *c = &comparison->change[i];
    char before[32], after[32], times[32], noise[32] = "";
    snprintf(before, sizeof before, isnan(c->before) ? "-" : "%.6g", c->before);
    snprintf(after, sizeof after, isnan(c->after) ? "-" : "%.6g", c->after);
    snprintf(times, sizeof times, isnan(c->times) ? "-" : "%.3f", c->times);
    if (c->noise > 0) snprintf(noise, sizeof noise, "+-%.3f", c->noise);
    const char *row[] = {c->what, before, after, times, noise, verdict(c)};
    cli_table_row(&table, 6, row);
  }
  print(&table, "lrrrrl", markdown);
}
