/* bench_compare.c - a result beside an earlier one: what changed, and whether that is more than
 * noise. */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"

/* ---- noise ---- */

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double middle(double *values, uint32_t n) {
  qsort(values, n, sizeof *values, by_size);
  return n % 2 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
}

/* Standard error of the median of n values, as a part of it: 1.2533 sigma / sqrt n, sigma from the
 * median of the distances to the median.  `values` is sorted and then overwritten. */
static double noise_of(double *values, uint32_t n) {
  if (n < 3) return 0.0;
  double m = middle(values, n);
  for (uint32_t i = 0; i < n; ++i) values[i] = fabs(values[i] - m);
  return m > 0 ? 1.2533 * 1.4826 * middle(values, n) / sqrt((double)n) / m : 0.0;
}

/* The same of the rounds' medians, where there are several: what differs from load to load.  The
 * larger of both counts. */
static double noise_of_rounds(const double *values, uint32_t n, uint32_t iters) {
  double medians[64], inner = 0.0, *copy = malloc(((size_t)n + 1) * sizeof *copy);
  uint32_t rounds = iters ? n / iters : 0;
  if (rounds > 64) rounds = 64;
  for (uint32_t k = 0; copy && k < rounds; ++k) {
    memcpy(copy, values + (size_t)k * iters, iters * sizeof *copy);
    medians[k] = middle(copy, iters);
  }
  if (copy) {
    memcpy(copy, values, n * sizeof *copy);
    inner = noise_of(copy, n);
    if (rounds >= 3) inner = fmax(inner, noise_of(medians, rounds));
  }
  free(copy);
  return inner;
}

/* at: of a list of samples in bench_round. */
static double noise_now(const bench_result *r, size_t at) {
  uint32_t n = r->rounds * r->iters;
  double *all = malloc(((size_t)n + 1) * sizeof *all);
  for (uint32_t k = 0; all && k < r->rounds; ++k)
    memcpy(all + (size_t)k * r->iters, *(double *const *)((const char *)&r->round[k] + at),
           r->iters * sizeof *all);
  double noise = all ? noise_of_rounds(all, n, r->iters) : 0.0;
  free(all);
  return noise;
}

static double noise_before(const cJSON *old, const char *samples) {
  const cJSON *list = cJSON_GetObjectItemCaseSensitive(old, samples), *item;
  int n = cJSON_GetArraySize(list), at = 0;
  double *all = n > 0 ? malloc((size_t)n * sizeof *all) : NULL;
  if (!all) return 0.0;
  cJSON_ArrayForEach(item, list) if (cJSON_IsNumber(item)) all[at++] = item->valuedouble;
  const cJSON *iters = cJSON_GetObjectItemCaseSensitive(old, "iters");
  double noise =
      noise_of_rounds(all, (uint32_t)at,
                      cJSON_IsNumber(iters) && iters->valueint > 0 ? (uint32_t)iters->valueint : 0);
  free(all);
  return noise;
}

/* ---- changes ---- */

static double number(const cJSON *object, const char *key) {
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
  return cJSON_IsNumber(item) ? item->valuedouble : (double)NAN;
}

static void add(bench_comparison *c, const char *what, double before, double after,
                bool more_is_better, double noise) {
  bench_change *list = realloc(c->change, (c->n + 1) * sizeof *list);
  if (!list) return;
  c->change = list;
  bench_change *x = &list[c->n++];
  *x = (bench_change){.before = before, .after = after, .noise = noise, .verdict = 2};
  snprintf(x->what, sizeof x->what, "%s", what);
  x->times = more_is_better ? after / before : before / after;
  if (!(before > 0) || !(after > 0)) {
    x->times = (double)NAN;
    return;
  }
  if (noise <= 0) return;
  /* two standard errors; below that machines drift from run to run */
  double least = 2 * noise > 0.02 ? 2 * noise : 0.02;
  x->noise = noise * x->times;
  x->verdict = x->times > 1 + least ? 1 : x->times < 1 - least ? -1 : 0;
}

static void add_ops(bench_comparison *c, const cJSON *old, const bench_result *now) {
  const cJSON *list = cJSON_GetObjectItemCaseSensitive(
                  cJSON_GetObjectItemCaseSensitive(old, "profile"), "by_op"),
              *item;
  bench_group *ops;
  uint32_t n = bench_group_steps(&now->profile, true, &ops);
  for (uint32_t i = 0; i < n; ++i) {
    cJSON_ArrayForEach(item, list) {
      const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "op"));
      char what[64];
      if (!name || strcmp(name, ops[i].name) != 0) continue;
      snprintf(what, sizeof what, "%s_ms", name);
      add(c, what, number(item, "ms"), 1e-3 * ops[i].us, false, 0.0);
    }
  }
  free(ops);
}

static void unlike(bench_comparison *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void unlike(bench_comparison *c, const char *format, ...) {
  size_t at = strlen(c->unlike);
  if (at + 3 > sizeof c->unlike) return;
  if (at) at += (size_t)snprintf(c->unlike + at, sizeof c->unlike - at, "; ");
  va_list args;
  va_start(args, format);
  vsnprintf(c->unlike + at, sizeof c->unlike - at, format, args);
  va_end(args);
}

static void same_text(bench_comparison *c, const cJSON *old, const char *key, const char *now) {
  const char *before = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(old, key));
  if (!before || strcmp(before, now) != 0)
    unlike(c, "%s %s, %s", key, before ? before : "unknown", now);
}

static void same_number(bench_comparison *c, const cJSON *old, const char *key, double now) {
  double before = number(old, key);
  if (before != now) unlike(c, "%s %g, %g", key, before, now);
}

/* Of a figure that was taken from these samples, then and now; 0: not known. */
static double noise_of_both(const cJSON *old, const char *samples, const bench_result *r,
                            size_t at) {
  const double a = noise_before(old, samples), b = noise_now(r, at);
  return a > 0 && b > 0 ? sqrt(a * a + b * b) : 0.0;
}

/* Mean of the first runs of the rounds: from "rounds" of a result, or from a store's samples. */
static double first_before(const cJSON *old) {
  const cJSON *samples = cJSON_GetObjectItemCaseSensitive(old, "first_samples_ms"),
              *list = samples ? samples : cJSON_GetObjectItemCaseSensitive(old, "rounds"), *item;
  double sum = 0;
  int n = 0;
  cJSON_ArrayForEach(item, list) {
    sum += samples ? item->valuedouble : number(item, "first_ms");
    ++n;
  }
  return n ? sum / n : (double)NAN;
}

static double first_now(const bench_result *r) {
  double sum = 0;
  for (uint32_t k = 0; k < r->rounds; ++k) sum += r->round[k].first_ms / r->rounds;
  return sum;
}

static void compare_streaming(const cJSON *old, const bench_result *r, bench_comparison *c) {
  const bench_stream *s = &r->stream;
  const double noise = noise_of_both(old, "decode_samples_ms", r, offsetof(bench_round, decode_ms));
  same_number(c, old, "memory_limit", (double)r->memory_limit);
  add(c, "token_p50_ms", number(old, "token_p50_ms"), s->token_p50_ms, false, noise);
  add(c, "token_p95_ms", number(old, "token_p95_ms"), s->token_p95_ms, false, 0.0);
  add(c, "stream_read_bytes", number(old, "stream_read_bytes"), (double)s->read, false, 0.0);
  add(c, "stream_gbytes_per_s", number(old, "stream_gbytes_per_s"), s->gbytes_per_s, true, noise);
  add(c, "raw_gbytes_per_s", number(old, "raw_gbytes_per_s"), s->raw_gbytes_per_s, true, 0.0);
  add(c, "stream_raw_share", number(old, "stream_raw_share"), s->raw_share, true, 0.0);
}

static void compare(const cJSON *old, const bench_result *r, bench_comparison *c) {
  const double noise = noise_of_both(old, "latency_ms", r, offsetof(bench_round, latency_ms));
  double prefill_noise = noise;
  if (r->new_tokens)
    prefill_noise = noise_of_both(old, "prefill_samples_ms", r, offsetof(bench_round, prefill_ms));
  same_text(c, old, "model", r->model);
  same_text(c, old, "output", r->output);
  same_text(c, old, "device", r->device);
  if (cJSON_HasObjectItem(old, "device_id")) same_text(c, old, "device_id", r->device_id);
  same_text(c, old, "precision", r->precision);
  same_text(c, old, "cpu", r->cpu);
  same_number(c, old, "threads", r->threads);
  same_number(c, old, "batch", r->batch);
  same_number(c, old, "tokens", (double)r->tokens);
  add(c, "median_ms", number(old, "median_ms"), r->median_ms, false, noise);
  add(c, "min_ms", number(old, "min_ms"), r->min_ms, false, 0.0);
  add(c, "p90_ms", number(old, "p90_ms"), r->p90_ms, false, 0.0);
  add(c, "prefill_tokens_per_s", number(old, "prefill_tokens_per_s"), r->prefill_tokens_per_s, true,
      prefill_noise);
  if (r->new_tokens)
    add(c, "decode_tokens_per_s", number(old, "decode_tokens_per_s"), r->decode_tokens_per_s, true,
        noise_of_both(old, "decode_samples_ms", r, offsetof(bench_round, decode_ms)));
  add(c, "first_ms", first_before(old), first_now(r), false, 0.0);
  add(c, "load_ms", number(old, "load_ms"), r->load_ms, false, 0.0);
  add(c, "peak_rss_bytes", number(old, "peak_rss_bytes"), (double)r->peak_rss_bytes, false, 0.0);
  if (r->streams) compare_streaming(old, r, c);
  if (r->profile.n) add_ops(c, old, r);
}

bool bench_compare(const char *old_json, const bench_result *now, bench_comparison *out,
                   char *message, uint32_t size) {
  *out = (bench_comparison){0};
  cJSON *old = cJSON_Parse(old_json);
  const char *schema = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(old, "schema"));
  bool good = schema && strcmp(schema, "accel.bench/1") == 0;
  if (good)
    compare(old, now, out);
  else
    snprintf(message, size,
             old ? "no result of accel bench (its schema is not accel.bench/1)" : "no JSON");
  cJSON_Delete(old);
  return good;
}

void bench_comparison_free(bench_comparison *c) {
  free(c->change);
  *c = (bench_comparison){0};
}
