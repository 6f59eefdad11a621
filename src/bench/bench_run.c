/* bench_run.c - the timed loop: seeded inputs through the encoder of a model, or a generation from
 * them, the same work that its peers are given. */
#include "bench/bench.h"
#include "bench/bench_collect.h"
#include "bench/bench_conditions.h"
#include "bench/bench_images.h"
#include "bench/bench_machine.h"
#include "bench/bench_speech.h"
#include "bench/bench_streaming.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

double bench_now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

/* ---- the loop ---- */

/* What is timed: an entry run on tensors, or a generation from ids. */
typedef struct work {
  accel_endpoint *endpoint;
  bench_inputs inputs;
  const char *output;
  uint32_t new_tokens; /* 0: no generation */
  uint32_t batch;
  int32_t **ids; /* [batch] */
  const uint32_t *lengths;
  bench_collector *collector; /* while profiling */
  bool transcribes;
  bench_speech speech;
  const bench_params *paints; /* a pipeline that makes pictures; else NULL */
  bench_result *result;       /* where their sides are noted */
} work;

/* The first token of every prompt is the prefill's. */
static int token_told(void *user, const accel_token_event *event) {
  bench_collector *c = user;
  (void)event;
  if (c->tokens_before) c->tokens_before--;
  return 0;
}

/* Greedy, and never ended early.  token_ms: where the times between tokens go; may be NULL. */
static accel_status generate(const work *w, double *prefill_ms, double *decode_ms,
                             double *token_ms) {
  accel_generate_params how = accel_generate_params_default();
  accel_generations *found;
  how.max_new_tokens = (int32_t)w->new_tokens;
  how.do_sample = 0;
  how.num_beams = 1;
  how.ignore_eos = 1;
  if (w->collector && w->new_tokens > 1) {
    w->collector->tokens_before = w->batch;
    how.on_token = token_told;
    how.on_token_user = w->collector;
  }
  accel_status status = accel_generate_ids(w->endpoint, (const int32_t *const *)w->ids, w->lengths,
                                           w->batch, &how, &found);
  if (status != ACCEL_OK) return status;
  *prefill_ms = found->prefill_ms;
  *decode_ms = found->decode_ms;
  for (uint32_t i = 1; token_ms && i < found->item[0].n; ++i)
    token_ms[i - 1] = found->item[0].token_ms[i] - found->item[0].token_ms[i - 1];
  accel_generations_free(&found);
  return ACCEL_OK;
}

static accel_status timed_run(const work *w, double *ms, double *prefill_ms, double *decode_ms,
                              double *token_ms) {
  accel_tensors *found;
  double begin = bench_now_ms();
  accel_status status = ACCEL_OK;
  if (w->paints)
    return bench_images_run(w->endpoint, w->paints, w->result, ms, prefill_ms, decode_ms);
  if (w->transcribes)
    return bench_speech_run(w->endpoint, &w->speech, w->new_tokens, w->collector, prefill_ms, ms,
                            decode_ms);
  if (w->new_tokens) {
    status = generate(w, prefill_ms, decode_ms, token_ms);
  } else {
    status = accel_run_named(
        w->endpoint, &(accel_tensors){.n = w->inputs.n, .item = (accel_tensor *)w->inputs.item},
        &w->output, 1, &found);
    if (status == ACCEL_OK) accel_tensors_free(&found);
  }
  *ms = bench_now_ms() - begin;
  return status;
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

/* Requests come at times drawn beforehand, whether the ones before are answered or not. */
static accel_status serve(const bench_params *params, const work *w, double rate_per_ms,
                          bench_round *round) {
  uint64_t chance = params->seed + (uint64_t)(1e6 * round->load_ms);
  double arrival = bench_now_ms(), now = arrival, unused;
  const double begin = arrival;
  accel_status status = ACCEL_OK;
  for (uint32_t i = 0; i < params->iters && status == ACCEL_OK; ++i) {
    const double u = ((double)(bench_random(&chance) >> 11) + 0.5) / 9007199254740992.0;
    arrival -= log(u) / rate_per_ms;
    bench_wait_until(arrival);
    status = timed_run(w, &unused, &round->prefill_ms[i], &round->decode_ms[i], NULL);
    now = bench_now_ms();
    round->latency_ms[i] = now - arrival;
  }
  round->offered_per_s = 1e3 * rate_per_ms;
  round->answered_per_s = 1e3 * params->iters / (now - begin);
  return status;
}

/* Generations and reads of what a token reads, in turn, each first every other time. */
static accel_status time_streaming(const bench_params *params, const work *w, bench_round *round,
                                   bench_result *result) {
  accel_status status = bench_stream_begin(w->endpoint, result);
  for (uint32_t i = 0; i < 2 * params->iters && status == ACCEL_OK; ++i) {
    const uint32_t k = i / 2;
    if ((i + k) % 2)
      status = bench_stream_raw(w->endpoint, &round->raw_ms[k], result);
    else
      status = timed_run(w, &round->latency_ms[k], &round->prefill_ms[k], &round->decode_ms[k],
                         round->token_ms + (size_t)k * (params->new_tokens - 1));
  }
  if (status == ACCEL_OK) status = bench_stream_end(w->endpoint, result);
  return status;
}

static accel_status time_endpoint(const bench_params *params, const work *w, bench_round *round,
                                  bench_result *result) {
  double unused[3], sum = 0;
  bench_energy energy;
  accel_status status = timed_run(w, &round->first_ms, &unused[1], &unused[2], NULL);
  for (uint32_t i = 1; i < params->warmup && status == ACCEL_OK; ++i) {
    status = timed_run(w, &unused[0], &unused[1], &unused[2], NULL);
    sum += unused[0];
  }
  round->energy_j = (double)NAN;
  if (params->streams && status == ACCEL_OK) return time_streaming(params, w, round, result);
  bench_energy_begin(&energy, BENCH_POWERCAP);
  if (params->load > 0 && status == ACCEL_OK)
    status = serve(params, w, params->load * (params->warmup - 1) / sum, round);
  for (uint32_t i = 0; i < params->iters && status == ACCEL_OK && !(params->load > 0); ++i)
    status =
        timed_run(w, &round->latency_ms[i], &round->prefill_ms[i], &round->decode_ms[i],
                  round->token_ms ? round->token_ms + (size_t)i * (params->new_tokens - 1) : NULL);
  round->energy_j = bench_energy_end(&energy, BENCH_POWERCAP);
  return status;
}

/* As many runs again, now with their steps; the timed ones are left alone by the watching.  Of a
 * generation of more than one token the steps of decoding, each of them a run of the profile. */
static accel_status profile_endpoint(const bench_params *params, work *w, bench_profile *out) {
  bench_collector collector = {.profile = out};
  double wall = 0.0, ms = 0.0, prefill_ms = 0.0, decode_ms = 0.0;
  const uint32_t steps = w->new_tokens > 1 ? w->new_tokens - 1 : 1,
                 runs = params->brief_profile ? params->brief_profile : params->iters;
  out->decoding = w->new_tokens > 1;
  w->collector = &collector;
  accel_status status = accel_set_profile(w->endpoint, bench_collect, &collector);
  collector.paused = true; /* the plugin measures what its instructions allow meanwhile */
  if (out->decoding && status == ACCEL_OK)
    status = timed_run(w, &ms, &prefill_ms, &decode_ms, NULL);
  collector.paused = false;
  for (uint32_t i = 0; i < runs && status == ACCEL_OK; ++i) {
    status = timed_run(w, &ms, &prefill_ms, &decode_ms, NULL);
    wall += 1e3 * (out->decoding ? decode_ms : ms);
  }
  w->collector = NULL;
  accel_set_profile(w->endpoint, NULL, NULL);
  bench_collect_finish(&collector, runs * steps, wall);
  return status == ACCEL_OK && collector.failed ? ACCEL_ERROR_OUT_OF_MEMORY : status;
}

/* The rows of input_ids without their padding. */
static accel_status make_prompts(const bench_params *params, const bench_result *result, work *w) {
  w->new_tokens = params->new_tokens;
  w->batch = result->batch;
  w->lengths = result->lengths;
  if (!params->new_tokens) return ACCEL_OK;
  w->ids = calloc(w->batch, sizeof *w->ids);
  if (!w->ids) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t b = 0; b < w->batch; ++b) {
    const int64_t *row =
        (const int64_t *)w->inputs.item[0].data + (size_t)b * (size_t)w->inputs.item[0].dim[1];
    w->ids[b] = malloc(w->lengths[b] * sizeof **w->ids);
    if (!w->ids[b]) return ACCEL_ERROR_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < w->lengths[b]; ++i) w->ids[b][i] = (int32_t)row[i];
  }
  return ACCEL_OK;
}

static void free_work(work *w) {
  for (uint32_t b = 0; w->ids && b < w->batch; ++b) free(w->ids[b]);
  free(w->ids);
  bench_inputs_free(&w->inputs);
  bench_speech_free(&w->speech);
}

static accel_status make_painting(const bench_params *params, bench_result *out, work *w) {
  w->paints = params;
  w->result = out;
  out->kind = BENCH_PICTURES;
  out->batch = params->batch;
  if (!out->lengths) out->lengths = calloc(params->batch, sizeof *out->lengths);
  return out->lengths ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

/* One sound of noise. */
static accel_status make_speech(accel *ctx, const bench_params *params, bench_result *out,
                                work *w) {
  const uint32_t samples = params->seq ? params->seq : BENCH_MAX_SAMPLES;
  w->transcribes = true;
  w->new_tokens = params->new_tokens;
  out->kind = BENCH_SAMPLES;
  out->batch = 1;
  snprintf(out->output, sizeof out->output, "sequences");
  if (!out->lengths) out->lengths = calloc(1, sizeof *out->lengths);
  if (!out->lengths) return ACCEL_ERROR_OUT_OF_MEMORY;
  out->lengths[0] = samples;
  return bench_speech_make(ctx, params->model, samples, params->seed, &w->speech);
}

static accel_status one_round(accel *ctx, const bench_params *params, bench_placed placed,
                              void *user, bench_result *out, bench_round *round) {
  work w = {.output = out->output};
  if (params->drops_pages) bench_drop_pages(ctx, params->model);
  double begin = bench_now_ms();
  accel_status status = accel_init(ctx, params->model, params->how, &w.endpoint);
  if (status != ACCEL_OK) return status;
  round->load_ms = bench_now_ms() - begin;
  if (placed) placed(user, accel_placement(w.endpoint));
  note_placement(ctx, w.endpoint, out);
  if (params->paints)
    status = make_painting(params, out, &w);
  else if (params->transcribes)
    status = make_speech(ctx, params, out, &w);
  else
    status = bench_inputs_make(ctx, params, w.endpoint, out, &w.inputs);
  if (status == ACCEL_OK && !params->transcribes && !params->paints)
    status = make_prompts(params, out, &w);
  if (status == ACCEL_OK) status = time_endpoint(params, &w, round, out);
  if (status == ACCEL_OK && params->profile && round == &out->round[params->rounds - 1])
    status = profile_endpoint(params, &w, &out->profile);
  free_work(&w);
  accel_cleanup(&w.endpoint);
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

/* Of one list of the rounds (bench_round), at offset `at`; sorted: memory for all of its samples. */
static double median_of(const bench_result *r, size_t at, double *sorted) {
  for (uint32_t k = 0; k < r->rounds; ++k)
    memcpy(sorted + (size_t)k * r->iters, *(double *const *)((const char *)&r->round[k] + at),
           r->iters * sizeof *sorted);
  qsort(sorted, r->rounds * r->iters, sizeof *sorted, by_size);
  return median(sorted, r->rounds * r->iters);
}

/* Rates of a generation, at the medians over all rounds; sorted: memory for all samples of a kind.
 */
static void summarise_generation(bench_result *r, double *sorted) {
  double steps = r->new_tokens > 1 ? r->new_tokens - 1 : 0; /* the first token is the prefill's */
  for (int decode = 0; decode < 2; ++decode) {
    const size_t at = decode ? offsetof(bench_round, decode_ms) : offsetof(bench_round, prefill_ms);
    const double ms = median_of(r, at, sorted);
    if (!decode && r->transcribes) r->encoder_ms = ms;
    if (!decode) r->prefill_tokens_per_s = 1e3 * (double)r->tokens / ms;
    if (decode && steps > 0)
      r->decoder_ms_per_token = ms / steps, r->decode_tokens_per_s = 1e3 * steps * r->batch / ms;
  }
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
  r->p99_ms = n >= 100 ? all[(size_t)n * 99 / 100] : (double)NAN;
  if (r->new_tokens) summarise_generation(r, all);
  if (r->paints) r->step_ms = median_of(r, offsetof(bench_round, prefill_ms), all);
  if (r->paints) r->decode_ms = median_of(r, offsetof(bench_round, decode_ms), all);
  if (r->streams && !bench_stream_summarise(r)) {
    free(all);
    return ACCEL_ERROR_OUT_OF_MEMORY;
  }
  free(all);
  return ACCEL_OK;
}

/* What rounds have beside their latencies. */
static void sum_rounds(const bench_params *params, bench_result *r) {
  double answered = 0;
  const bool serves = params->load > 0;
  r->p99_bound_ms = serves && params->p99_bound_ms > 0 ? params->p99_bound_ms : (double)NAN;
  r->offered_per_s = serves ? 0 : (double)NAN;
  for (uint32_t k = 0; k < r->rounds; ++k) {
    r->energy_j += r->round[k].energy_j / ((double)r->rounds * r->iters);
    if (serves) r->offered_per_s += r->round[k].offered_per_s / r->rounds;
    answered += r->round[k].answered_per_s / r->rounds;
  }
  if (serves) r->items_per_s = answered * r->batch;
  if (serves) r->prefill_tokens_per_s = answered * (double)r->tokens;
  snprintf(r->scenario, sizeof r->scenario, "%s", params->scenario ? params->scenario : "");
  snprintf(r->cell, sizeof r->cell, "%s", params->cell ? params->cell : "");
}

/* A load that leaves caches full. */
static accel_status load_once(accel *ctx, const bench_params *params) {
  accel_endpoint *endpoint = NULL;
  const accel_status status = accel_init(ctx, params->model, params->how, &endpoint);
  if (status == ACCEL_OK) accel_cleanup(&endpoint);
  return status;
}

static void note_machine(accel *ctx, bench_result *out) {
  struct rusage usage;
  if (!out->streams && getrusage(RUSAGE_SELF, &usage) == 0)
    out->peak_rss_bytes = (uint64_t)usage.ru_maxrss * 1024;
  snprintf(out->build, sizeof out->build, "%s", bench_build_id());
  bench_machine machine;
  bench_machine_read(&machine);
  snprintf(out->cpu, sizeof out->cpu, "%s", machine.cpu);
  /* Detection starts helper processes; for the CPU, whose driver is the library itself, there is
   * nothing to learn from it.
   */
  if (strcmp(out->implementation_type, "CPU") == 0 ||
      strcmp(out->implementation_type, "REFERENCE") == 0) {
    snprintf(out->driver, sizeof out->driver, "libaccel %s", accel_version());
    snprintf(out->device_id, sizeof out->device_id, "%s", out->device);
    snprintf(out->hardware, sizeof out->hardware, "%.31s", out->device);
    snprintf(out->plugin, sizeof out->plugin, "%.31s", out->device);
    snprintf(out->device_type, sizeof out->device_type, "%s",
             strcmp(out->implementation_type, "CPU") == 0 ? "cpu" : "software");
    return;
  }
  accel_devices *devices;
  if (accel_detect(ctx, 0, &devices) != ACCEL_OK) return;
  for (uint32_t i = 0; i < devices->n; ++i) {
    if (strcmp(devices->item[i].name, out->device) != 0) continue;
    snprintf(out->driver, sizeof out->driver, "%s", devices->item[i].driver);
    snprintf(out->device_id, sizeof out->device_id, "%s", devices->item[i].id);
    snprintf(out->hardware, sizeof out->hardware, "%s", devices->item[i].hardware);
    snprintf(out->plugin, sizeof out->plugin, "%s", devices->item[i].plugin);
    snprintf(out->device_type, sizeof out->device_type, "%s", devices->item[i].type);
    snprintf(out->arch, sizeof out->arch, "%s", devices->item[i].arch);
    snprintf(out->description, sizeof out->description, "%s", devices->item[i].description);
  }
  accel_devices_free(&devices);
}

/* Streams are measured by their tokens; beside the steps of a profile a token is a run. */
static bool keeps_tokens(const bench_params *params) {
  return params->streams ||
         (params->profile && params->new_tokens > 1 && !params->transcribes && !(params->load > 0));
}

accel_status bench_run(accel *ctx, const bench_params *params, bench_placed placed, void *user,
                       bench_result *out) {
  *out = (bench_result){.rounds = params->rounds,
                        .iters = params->iters,
                        .new_tokens = params->new_tokens,
                        .transcribes = params->transcribes,
                        .paints = params->paints,
                        .streams = params->streams,
                        .memory_limit = params->memory_limit};
  const size_t tokens = keeps_tokens(params) ? (size_t)params->iters * (params->new_tokens - 1) : 0;
  out->round = calloc(params->rounds, sizeof *out->round);
  if (!out->round) return ACCEL_ERROR_OUT_OF_MEMORY;
  accel_status status = params->loads_first ? load_once(ctx, params) : ACCEL_OK;
  for (uint32_t k = 0; k < params->rounds && status == ACCEL_OK; ++k) {
    out->round[k].latency_ms = calloc(4 * (size_t)params->iters + tokens, sizeof(double));
    if (!out->round[k].latency_ms) return ACCEL_ERROR_OUT_OF_MEMORY;
    out->round[k].prefill_ms = out->round[k].latency_ms + params->iters;
    out->round[k].decode_ms = out->round[k].prefill_ms + params->iters;
    if (params->streams) out->round[k].raw_ms = out->round[k].decode_ms + params->iters;
    if (tokens) out->round[k].token_ms = out->round[k].latency_ms + 4 * (size_t)params->iters;
    status = one_round(ctx, params, k ? NULL : placed, user, out, &out->round[k]);
  }
  if (status == ACCEL_OK) status = summarise(out);
  if (status == ACCEL_OK) sum_rounds(params, out);
  if (status == ACCEL_OK) note_machine(ctx, out);
  if (status == ACCEL_OK && out->profile.n && !params->brief_profile &&
      strcmp(out->implementation_type, "CPU") == 0) {
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
