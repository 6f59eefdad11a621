/* bench_profile.c - collecting the steps of profiled runs, and summing them up. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench_collect.h"

static char *lower(const char *text) {
  char *copy = strdup(text);
  for (char *c = copy; c && *c; ++c) *c = (char)tolower((unsigned char)*c);
  return copy;
}

/* The step's row: as a rule the one after the last. */
static bench_step *row_of(bench_collector *c, const accel_profile_step *told) {
  for (uint32_t i = 0; i < c->profile->n; ++i) {
    uint32_t at = (c->next + i) % c->profile->n;
    if (c->profile->step[at].index != told->index) continue;
    c->next = at + 1;
    return &c->profile->step[at];
  }
  bench_step *step = realloc(c->profile->step, (c->profile->n + 1) * sizeof *step);
  if (!step) return NULL;
  c->profile->step = step;
  step += c->profile->n++;
  *step = (bench_step){.index = told->index,
                       .stage = told->stage,
                       .node = strdup(told->node),
                       .op = lower(told->op),
                       .min_us = 1e300};
  c->next = c->profile->n;
  return step;
}

void bench_collect(void *user, const accel_profile_step *told) {
  bench_collector *c = user;
  if (c->tokens_before || c->paused) return;
  bench_step *step = row_of(c, told);
  if (!step || !step->node || !step->op) {
    c->failed = true;
    return;
  }
  double us = told->end_us - told->begin_us;
  if (told->device_clock) c->profile->device_clock = true;
  step->calls++;
  step->us += us;
  step->flop += told->flop;
  step->bytes += told->bytes;
  step->weight_bytes += told->weight_bytes;
  step->result_bytes += told->result_bytes;
  step->limit_us += told->limit_us;
  if (told->limit_us <= 0) step->limit_unknown = true;
  if (us < step->min_us) step->min_us = us;
}

static int by_index(const void *a, const void *b) {
  const bench_step *x = a, *y = b;
  return (x->index > y->index) - (x->index < y->index);
}

void bench_collect_finish(bench_collector *c, uint32_t runs, double wall_us) {
  bench_profile *p = c->profile;
  p->runs = runs;
  p->wall_us = wall_us / runs;
  for (uint32_t i = 0; i < p->n; ++i) {
    p->step[i].us /= runs;
    p->step[i].flop /= runs;
    p->step[i].bytes /= runs;
    p->step[i].weight_bytes /= runs;
    p->step[i].result_bytes /= runs;
    p->step[i].limit_us /= runs;
  }
  if (p->n) qsort(p->step, p->n, sizeof *p->step, by_index);
}

void bench_profile_free(bench_profile *p) {
  for (uint32_t i = 0; i < p->n; ++i) {
    free(p->step[i].node);
    free(p->step[i].op);
  }
  free(p->step);
  *p = (bench_profile){0};
}

/* ---- groups ---- */

double bench_limit_us(const bench_profile *p, const bench_step *s) {
  if (s->limit_unknown || p->peak_gbytes_per_s <= 0) return 0;
  return fmax(s->limit_us, 1e-3 * s->bytes / p->peak_gbytes_per_s);
}

static int by_time(const void *a, const void *b) {
  const bench_group *x = a, *y = b;
  return (x->us < y->us) - (x->us > y->us);
}

static int by_stage(const void *a, const void *b) {
  const bench_group *x = a, *y = b;
  return (x->stage > y->stage) - (x->stage < y->stage);
}

uint32_t bench_group_steps(const bench_profile *p, bool by_op, bench_group **groups) {
  bench_group *list = calloc(p->n + 1, sizeof *list);
  uint32_t n = 0;
  *groups = list;
  for (uint32_t i = 0; list && i < p->n; ++i) {
    const bench_step *s = &p->step[i];
    uint32_t at = 0;
    while (at < n && (by_op ? strcmp(list[at].name, s->op) != 0 : list[at].stage != s->stage)) ++at;
    if (at == n) list[n++] = (bench_group){.name = by_op ? s->op : NULL, .stage = s->stage};
    list[at].nodes++;
    list[at].calls += s->calls;
    list[at].us += s->us;
    list[at].flop += s->flop;
    list[at].bytes += s->bytes;
    list[at].limit_us += bench_limit_us(p, s);
    list[at].limit_unknown |= bench_limit_us(p, s) <= 0;
  }
  if (n) qsort(list, n, sizeof *list, by_op ? by_time : by_stage);
  return n;
}
