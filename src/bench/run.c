/* run.c - the timed loop: seeded ids through the encoder of a model, the same work that its peers are given. */
#include "bench/bench.h"
#include "bench/collect.h"

#include <cjson/cJSON.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static uint64_t next_random(uint64_t *state) { /* splitmix64 */
  uint64_t z = *state += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

/* ---- inputs ---- */

/* config.json's vocab_size; 0 when it cannot be read (a model of the registry without files). */
static int64_t config_vocab_size(accel *ctx, const char *model) {
  char *directory, path[4096], text[65536];
  if (accel_find_model(ctx, model, &directory) != ACCEL_OK) return 0;
  snprintf(path, sizeof path, "%s/config.json", directory);
  accel_string_free(&directory);
  FILE *file = fopen(path, "rb");
  if (!file) return 0;
  size_t n = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[n] = 0;
  cJSON *root = cJSON_Parse(text);
  const cJSON *size = cJSON_GetObjectItemCaseSensitive(root, "vocab_size");
  int64_t vocab = cJSON_IsNumber(size) ? (int64_t)size->valuedouble : 0;
  cJSON_Delete(root);
  return vocab;
}

/* Ids that are ordinary words in every vocabulary: neither special tokens, which stand first, nor beyond the table. */
static void id_range(accel *ctx, const char *model, const accel_endpoint *endpoint, int64_t *low, int64_t *high) {
  int64_t tokenizer = accel_processor_of(endpoint)->vocab_size, config = config_vocab_size(ctx, model);
  int64_t vocab = config && (!tokenizer || config < tokenizer) ? config : tokenizer;
  if (!vocab) vocab = 1000;
  *low = vocab > 4000 ? 1000 : vocab / 4;
  *high = vocab < 30000 ? vocab : 30000;
}

/* input_ids and attention_mask [batch, longest], right padded. */
static accel_status make_inputs(const bench_params *params, const bench_result *result, int64_t low, int64_t high,
                                accel_tensor items[2]) {
  int64_t longest = 0;
  for (uint32_t b = 0; b < result->batch; ++b) longest = result->lengths[b] > longest ? result->lengths[b] : longest;
  size_t n = (size_t)result->batch * (size_t)longest;
  int64_t *ids = calloc(n, sizeof *ids), *mask = calloc(n, sizeof *mask);
  uint64_t state = params->seed;
  for (uint32_t b = 0; ids && mask && b < result->batch; ++b) {
    for (uint32_t s = 0; s < result->lengths[b]; ++s) {
      ids[(size_t)b * (size_t)longest + s] = low + (int64_t)(next_random(&state) % (uint64_t)(high - low));
      mask[(size_t)b * (size_t)longest + s] = 1;
    }
  }
  items[0] =
      (accel_tensor){.name = "input_ids", .dtype = ACCEL_I64, .rank = 2, .dim = {result->batch, longest}, .data = ids};
  items[1] =
      (accel_tensor){.name = "attention_mask", .dtype = ACCEL_I64, .rank = 2, .dim = {result->batch, longest}, .data = mask};
  return ids && mask ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

static accel_status make_lengths(const bench_params *params, int64_t longest, bench_result *result) {
  result->batch = params->batch;
  result->lengths = calloc(params->batch, sizeof *result->lengths);
  if (!result->lengths) return ACCEL_ERROR_OUT_OF_MEMORY;
  uint64_t state = params->ragged_seed;
  uint32_t seq = params->seq                    ? params->seq
                 : longest > 0 && longest < 128 ? (uint32_t)longest
                                                : 128,
           least = seq < 5 ? seq : 5;
  for (uint32_t b = 0; b < params->batch; ++b) {
    uint32_t drawn = least + (uint32_t)(next_random(&state) % (seq - least + 1));
    result->lengths[b] = params->lengths ? params->lengths[b] : params->ragged ? drawn : seq;
    result->tokens += result->lengths[b];
  }
  return ACCEL_OK;
}

/* How much an output stands for the encoder's work: last_hidden_state, as the peers compute it, else the highest
 * hidden_states.N (a class with a head), else whatever the model gives. */
static long rank_output(const char *name) {
  if (strcmp(name, "last_hidden_state") == 0) return LONG_MAX;
  return strncmp(name, "hidden_states.", 14) == 0 ? 1 + strtol(name + 14, NULL, 10) : 0;
}

static accel_status choose_output(const bench_params *params, accel_endpoint *endpoint, char *name, size_t size) {
  accel_strings *inputs = NULL, *outputs = NULL;
  accel_status status = accel_endpoint_io(endpoint, &inputs, &outputs);
  if (status != ACCEL_OK) return status;
  uint32_t best = 0;
  for (uint32_t i = 1; i < outputs->n; ++i) {
    if (rank_output(outputs->item[i]) > rank_output(outputs->item[best])) best = i;
  }
  snprintf(name, size, "%s", params->output ? params->output : outputs->n ? outputs->item[best] : "");
  accel_strings_free(&inputs);
  accel_strings_free(&outputs);
  return ACCEL_OK;
}

/* ---- the loop ---- */

static accel_status timed_run(accel_endpoint *endpoint, const accel_tensors *inputs, const char *output, double *ms) {
  accel_tensors *found;
  double begin = now_ms();
  accel_status status = accel_run_named(endpoint, inputs, &output, 1, &found);
  if (status != ACCEL_OK) return status;
  accel_tensors_free(&found);
  *ms = now_ms() - begin;
  return ACCEL_OK;
}

static void note_placement(accel *ctx, accel_endpoint *endpoint, bench_result *out) {
  const accel_placement_report *p = accel_placement(endpoint);
  snprintf(out->device, sizeof out->device, "%s", p->device);
  snprintf(out->precision, sizeof out->precision, "%s", p->precision);
  snprintf(out->implementation_type, sizeof out->implementation_type, "%s", p->implementation_type);
  snprintf(out->weights, sizeof out->weights, "%s", p->weights);
  snprintf(out->model, sizeof out->model, "%s", p->model);
  out->is_amd = p->is_amd;
  out->listed = p->listed;
  out->threads = accel_thread_count(ctx);
}

static accel_status time_endpoint(const bench_params *params, accel_endpoint *endpoint, const accel_tensors *inputs,
                                  const char *output, bench_round *round) {
  accel_status status = timed_run(endpoint, inputs, output, &round->first_ms);
  double unused;
  for (uint32_t i = 1; i < params->warmup && status == ACCEL_OK; ++i) status = timed_run(endpoint, inputs, output, &unused);
  for (uint32_t i = 0; i < params->iters && status == ACCEL_OK; ++i)
    status = timed_run(endpoint, inputs, output, &round->latency_ms[i]);
  return status;
}

/* As many runs again, now with their steps; the timed ones are left alone by the watching. */
static accel_status profile_endpoint(const bench_params *params, accel_endpoint *endpoint, const accel_tensors *inputs,
                                     const char *output, bench_profile *out) {
  bench_collector collector = {.profile = out};
  double wall = 0.0, ms = 0.0;
  accel_status status = accel_set_profile(endpoint, bench_collect, &collector);
  for (uint32_t i = 0; i < params->iters && status == ACCEL_OK; ++i) {
    status = timed_run(endpoint, inputs, output, &ms);
    wall += 1e3 * ms;
  }
  accel_set_profile(endpoint, NULL, NULL);
  bench_collected(&collector, params->iters, wall);
  return status == ACCEL_OK && collector.failed ? ACCEL_ERROR_OUT_OF_MEMORY : status;
}

static accel_status one_round(accel *ctx, const bench_params *params, bench_placed placed, void *user, bench_result *out,
                              bench_round *round) {
  accel_endpoint *endpoint;
  double begin = now_ms();
  accel_status status = accel_init(ctx, params->model, params->how, &endpoint);
  if (status != ACCEL_OK) return status;
  round->load_ms = now_ms() - begin;
  if (placed) placed(user, accel_placement(endpoint));
  note_placement(ctx, endpoint, out);
  int64_t low, high;
  accel_tensor items[2] = {0};
  id_range(ctx, params->model, endpoint, &low, &high);
  if (!out->lengths) status = make_lengths(params, accel_processor_of(endpoint)->max_length, out);
  if (status == ACCEL_OK) status = make_inputs(params, out, low, high, items);
  if (status == ACCEL_OK) status = choose_output(params, endpoint, out->output, sizeof out->output);
  if (status == ACCEL_OK)
    status = time_endpoint(params, endpoint, &(accel_tensors){.n = 2, .item = items}, out->output, round);
  if (status == ACCEL_OK && params->profile && round == &out->round[params->rounds - 1])
    status = profile_endpoint(params, endpoint, &(accel_tensors){.n = 2, .item = items}, out->output, &out->profile);
  free(items[0].data);
  free(items[1].data);
  accel_cleanup(&endpoint);
  return status;
}

/* ---- figures ---- */

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *sorted, uint32_t n) {
  return n % 2 ? sorted[n / 2] : 0.5 * (sorted[n / 2 - 1] + sorted[n / 2]);
}

static accel_status summarise(bench_result *r) {
  uint32_t n = r->rounds * r->iters;
  double *all = malloc(((size_t)n + 2 * r->rounds) * sizeof *all);
  if (!all) return ACCEL_ERROR_OUT_OF_MEMORY;
  double *medians = all + n, *loads = medians + r->rounds;
  for (uint32_t k = 0; k < r->rounds; ++k) {
    double *part = all + (size_t)k * r->iters;
    memcpy(part, r->round[k].latency_ms, r->iters * sizeof *part);
    qsort(part, r->iters, sizeof *part, by_size);
    medians[k] = median(part, r->iters);
    loads[k] = r->round[k].load_ms;
  }
  qsort(all, n, sizeof *all, by_size);
  qsort(medians, r->rounds, sizeof *medians, by_size);
  qsort(loads, r->rounds, sizeof *loads, by_size);
  for (uint32_t i = 0; i < n; ++i) r->mean_ms += all[i] / n;
  r->min_ms = all[0];
  r->max_ms = all[n - 1];
  r->p90_ms = all[(size_t)n * 9 / 10];
  r->median_ms = median(medians, r->rounds);
  r->load_ms = median(loads, r->rounds);
  r->items_per_s = 1e3 * r->batch / r->median_ms;
  r->prefill_tokens_per_s = 1e3 * (double)r->tokens / r->median_ms;
  free(all);
  return ACCEL_OK;
}

static void note_machine(accel *ctx, bench_result *out) {
  struct rusage usage;
  if (getrusage(RUSAGE_SELF, &usage) == 0) out->peak_rss_bytes = (uint64_t)usage.ru_maxrss * 1024;
  char line[256];
  FILE *info = fopen("/proc/cpuinfo", "r");
  while (info && fgets(line, sizeof line, info)) {
    if (strncmp(line, "model name", 10) != 0 || !strchr(line, ':')) continue;
    const char *name = strchr(line, ':') + 1;
    name += strspn(name, " ");
    snprintf(out->cpu, sizeof out->cpu, "%.*s", (int)strcspn(name, "\n"), name);
    break;
  }
  if (info) fclose(info);
  /* Detection starts helper processes; for the CPU, whose driver is the library itself, there is nothing to learn from it.
   */
  if (strcmp(out->implementation_type, "CPU") == 0 || strcmp(out->implementation_type, "REFERENCE") == 0) {
    snprintf(out->driver, sizeof out->driver, "libaccel %s", accel_version());
    return;
  }
  accel_devices *devices;
  if (accel_detect(ctx, 0, &devices) != ACCEL_OK) return;
  for (uint32_t i = 0; i < devices->n; ++i) {
    if (strcmp(devices->item[i].name, out->device) == 0)
      snprintf(out->driver, sizeof out->driver, "%s", devices->item[i].driver);
  }
  accel_devices_free(&devices);
}

accel_status bench_run(accel *ctx, const bench_params *params, bench_placed placed, void *user, bench_result *out) {
  *out = (bench_result){.rounds = params->rounds, .iters = params->iters};
  out->round = calloc(params->rounds, sizeof *out->round);
  if (!out->round) return ACCEL_ERROR_OUT_OF_MEMORY;
  accel_status status = ACCEL_OK;
  for (uint32_t k = 0; k < params->rounds && status == ACCEL_OK; ++k) {
    out->round[k].latency_ms = calloc(params->iters, sizeof(double));
    if (!out->round[k].latency_ms) return ACCEL_ERROR_OUT_OF_MEMORY;
    status = one_round(ctx, params, k ? NULL : placed, user, out, &out->round[k]);
  }
  if (status == ACCEL_OK) status = summarise(out);
  if (status == ACCEL_OK) note_machine(ctx, out);
  if (status == ACCEL_OK && out->profile.n && strcmp(out->implementation_type, "CPU") == 0) {
    out->profile.peak_gflops = bench_peak_gflops(out->threads);
    out->profile.peak_gbytes_per_s = bench_peak_gbytes_per_s(out->threads);
  }
  return status;
}

void bench_result_free(bench_result *result) {
  for (uint32_t k = 0; result->round && k < result->rounds; ++k) free(result->round[k].latency_ms);
  free(result->round);
  bench_profile_free(&result->profile);
  free(result->lengths);
  *result = (bench_result){0};
}
