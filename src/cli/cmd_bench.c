/* cmd_bench.c - accel bench: times a model. */
#include "cli/cmd_bench.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench_db.h"
#include "bench/bench_images.h"
#include "cli/cli_database.h"
#include "cli/cli_suite.h"

static void say_placement(void *user, const accel_placement_report *placement) {
  cli_say_placement(user, placement);
}

/* at: of the list in bench_round, of n a round; round after round. */
static void samples_json(cli_json *json, const char *name, const bench_result *r, size_t at,
                         uint32_t n) {
  cli_json_open(json, name, '[');
  for (uint32_t k = 0; k < r->rounds; ++k) {
    const double *ms = *(double *const *)((const char *)&r->round[k] + at);
    for (uint32_t i = 0; i < n; ++i) cli_json_double(json, NULL, ms[i]);
  }
  cli_json_close(json, ']');
}

static void stream_json(cli_json *json, const bench_result *r) {
  const bench_stream *s = &r->stream;
  cli_json_int(json, "memory_limit", (int64_t)r->memory_limit);
  cli_json_int(json, "stream_resident_bytes", (int64_t)s->resident);
  cli_json_int(json, "stream_staging_bytes", (int64_t)s->staging);
  cli_json_int(json, "stream_read_bytes", (int64_t)s->read);
  cli_json_double(json, "token_p50_ms", s->token_p50_ms);
  cli_json_double(json, "token_p95_ms", s->token_p95_ms);
  cli_json_double(json, "stream_gbytes_per_s", s->gbytes_per_s);
  cli_json_double(json, "raw_gbytes_per_s", s->raw_gbytes_per_s);
  cli_json_double(json, "stream_raw_share", s->raw_share);
  cli_json_double(json, "stream_wait_share", s->wait_share);
  samples_json(json, "token_samples_ms", r, offsetof(bench_round, token_ms),
               r->iters * (r->new_tokens - 1));
  samples_json(json, "raw_samples_ms", r, offsetof(bench_round, raw_ms), r->iters);
}

static int print_json(cli_run *run, const bench_params *params, const bench_result *r,
                      const bench_comparison *comparison) {
  cli_json json;
  int code = cli_json_begin(run, "accel.bench/1", &json);
  if (code) return code;
  cli_json_bool(&json, "measured", true);
  cli_json_text(&json, "task",
                r->streams       ? "stream"
                : r->paints      ? "text-to-image"
                : r->transcribes ? "transcribe"
                : r->new_tokens  ? "generate"
                                 : "encode");
  cli_json_text(&json, "model", r->model);
  cli_json_text(&json, "output", r->output);
  cli_json_text(&json, "device", r->device);
  cli_json_text(&json, "driver", r->driver);
  cli_json_text(&json, "implementation_type", r->implementation_type);
  cli_json_bool(&json, "is_amd", r->is_amd != 0);
  cli_json_text(&json, "precision", r->precision);
  cli_json_bool(&json, "listed", r->listed != 0);
  cli_json_text(&json, "weights", r->weights);
  cli_json_int(&json, "threads", r->threads);
  cli_json_text(&json, "cpu", r->cpu);
  cli_json_text(&json, "library", accel_version());
  cli_json_text(&json, "build", r->build);
  cli_json_text(&json, "device_id", r->device_id);
  cli_json_int(&json, "batch", r->batch);
  cli_json_open(&json, "lengths", '[');
  for (uint32_t b = 0; b < r->batch; ++b) cli_json_int(&json, NULL, r->lengths[b]);
  cli_json_close(&json, ']');
  cli_json_int(&json, "tokens", (int64_t)r->tokens);
  if (r->paints) {
    cli_json_int(&json, "width", r->width);
    cli_json_int(&json, "height", r->height);
    cli_json_int(&json, "steps", r->steps);
    cli_json_double(&json, "step_ms", r->step_ms);
    cli_json_double(&json, "decode_ms", r->decode_ms);
    samples_json(&json, "step_samples_ms", r, offsetof(bench_round, prefill_ms), r->iters);
    samples_json(&json, "decode_samples_ms", r, offsetof(bench_round, decode_ms), r->iters);
  }
  cli_json_int(&json, "iters", r->iters);
  cli_json_int(&json, "warmup", params->warmup);
  cli_json_double(&json, "load_ms", r->load_ms);
  samples_json(&json, "latency_ms", r, offsetof(bench_round, latency_ms), r->iters);
  if (r->new_tokens) {
    samples_json(&json, "prefill_samples_ms", r, offsetof(bench_round, prefill_ms), r->iters);
    samples_json(&json, "decode_samples_ms", r, offsetof(bench_round, decode_ms), r->iters);
  }
  cli_json_open(&json, "rounds", '[');
  for (uint32_t k = 0; k < r->rounds; ++k) {
    cli_json_open(&json, NULL, '{');
    cli_json_double(&json, "load_ms", r->round[k].load_ms);
    cli_json_double(&json, "first_ms", r->round[k].first_ms);
    cli_json_close(&json, '}');
  }
  cli_json_close(&json, ']');
  cli_json_double(&json, "median_ms", r->median_ms);
  cli_json_double(&json, "mean_ms", r->mean_ms);
  cli_json_double(&json, "min_ms", r->min_ms);
  cli_json_double(&json, "p90_ms", r->p90_ms);
  cli_json_double(&json, "max_ms", r->max_ms);
  cli_json_double(&json, "items_per_s", r->items_per_s);
  if (r->tokens)
    cli_json_double(&json, "prefill_tokens_per_s", r->prefill_tokens_per_s);
  else
    cli_json_null(&json, "prefill_tokens_per_s");
  if (r->new_tokens) {
    cli_json_int(&json, "new_tokens", r->new_tokens);
    cli_json_double(&json, "decode_tokens_per_s", r->decode_tokens_per_s);
    cli_json_double(&json, "encoder_ms", r->transcribes ? r->encoder_ms : (double)NAN);
    cli_json_double(&json, "decoder_ms_per_token", r->decoder_ms_per_token);
  } else {
    cli_json_null(&json, "decode_tokens_per_s"); /* nothing is decoded by an encoder */
    cli_json_double(&json, "encoder_ms", r->median_ms);
    cli_json_null(&json, "decoder_ms_per_token");
  }
  cli_json_int(&json, "peak_rss_bytes", (int64_t)r->peak_rss_bytes);
  if (r->streams) stream_json(&json, r);
  cli_json_null(&json, "device_peak_bytes"); /* the public interface does not tell yet */
  if (r->profile.n) cli_profile_json(&json, &r->profile);
  if (comparison) cli_comparison_json(&json, run->value[OPT_COMPARE], comparison);
  return cli_json_end(run, &json);
}

static void print_stream(const bench_result *r) {
  const bench_stream *s = &r->stream;
  char bytes[32];
  printf("%-16s%12.3f ms\n%-16s%12.3f ms\n", "token, half of", s->token_p50_ms, "95 % of",
         s->token_p95_ms);
  printf("%-16s%12s\n", "read a token", cli_bytes(s->read, bytes, sizeof bytes));
  printf("%-16s%12s\n", "in memory", cli_bytes(s->resident, bytes, sizeof bytes));
  printf("%-16s%12s\n", "staging", cli_bytes(s->staging, bytes, sizeof bytes));
  printf("%-16s%12.2f GB/s\n", "streamed", s->gbytes_per_s);
  printf("%-16s%12.2f GB/s\n", "read alone", s->raw_gbytes_per_s);
  printf("%-16s%12.1f %%\n", "of that", 100 * s->raw_share);
  printf("%-16s%12.1f %%\n", "waiting", 100 * s->wait_share);
}

static void print_table(const bench_result *r) {
  char memory[32];
  printf("%s, %s on %s, %s, %u thread%s\n", r->model, r->output, r->device, r->precision,
         r->threads, r->threads == 1 ? "" : "s");
  if (r->paints)
    printf("%u picture%s of one prompt", r->batch, r->batch == 1 ? "" : "s");
  else if (r->kind == BENCH_TOKENS)
    printf("batch of %u, %llu tokens", r->batch, (unsigned long long)r->tokens);
  else
    printf("batch of %u, %s of %u", r->batch,
           r->kind == BENCH_PICTURES  ? "pictures with sides"
           : r->kind == BENCH_LATENTS ? "latents with sides"
                                      : "sounds",
           r->lengths[0]);
  printf("%s; %u runs in %u round%s\n\n",
         r->paints                   ? ""
         : r->kind == BENCH_PICTURES ? " pixels"
         : r->kind == BENCH_SAMPLES  ? " samples"
                                     : "",
         r->iters, r->rounds, r->rounds > 1 ? "s" : "");
  printf("%-16s%12.3f ms\n%-16s%12.3f ms\n%-16s%12.3f ms\n%-16s%12.3f ms\n", "load", r->load_ms,
         "median", r->median_ms, "fastest", r->min_ms, "90 %", r->p90_ms);
  printf("%-16s%12.1f /s\n", "items", r->items_per_s);
  if (r->paints)
    printf("%-16s%12.3f ms\n%-16s%12.3f ms\n", "a step", r->step_ms, "decoding", r->decode_ms);
  if (r->tokens)
    printf("%-16s%12.0f /s\n", r->new_tokens ? "prompt tokens" : "tokens", r->prefill_tokens_per_s);
  if (r->transcribes) printf("%-16s%12.3f ms\n", "encoder", r->encoder_ms);
  if (r->new_tokens)
    printf("%-16s%12.1f /s\n%-16s%12.3f ms\n", "new tokens", r->decode_tokens_per_s, "a step",
           r->decoder_ms_per_token);
  if (r->streams) print_stream(r);
  printf("%-16s%12s\n", "peak memory", cli_bytes(r->peak_rss_bytes, memory, sizeof memory));
}

/* "5,12,40" */
static int read_lengths(cli_run *run, uint32_t **lengths, uint32_t *n) {
  char **words;
  if (!cli_split(run->value[OPT_LENGTHS], &words, n))
    return cli_error(run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
  int code = *n ? 0 : cli_usage(run, "--lengths takes numbers of tokens, such as 5,12,40");
  *lengths = calloc(*n + 1, sizeof **lengths);
  if (!*lengths) code = cli_error(run, ACCEL_ERROR_OUT_OF_MEMORY, "out of memory");
  for (uint32_t i = 0; !code && i < *n; ++i) {
    char *end;
    unsigned long value = strtoul(words[i], &end, 10);
    if (*end || value < 1 || value > 1048576)
      code = cli_usage(run, "--lengths: '%s' is no number of tokens from 1 to 1048576", words[i]);
    (*lengths)[i] = (uint32_t)value;
  }
  free(words);
  return code;
}

/* Everything that is written elsewhere than to stdout. */
static int write_files(cli_run *run, const bench_result *result) {
  char message[1024], path[CLI_PATH];
  if (run->value[OPT_DB] || cli_flag(run, OPT_STORE)) {
    int code = cli_database(run, path);
    if (code) return code;
    if (!bench_store(path, result, message, sizeof message))
      return cli_error(run, ACCEL_ERROR_IO, "%s", message);
  }
  if (run->value[OPT_PROFILE_SVG] &&
      !bench_picture(run->value[OPT_PROFILE_SVG], result, message, sizeof message))
    return cli_error(run, ACCEL_ERROR_IO, "%s", message);
  return 0;
}

/* old: the text of --compare's file, NULL without it. */
static int report(cli_run *run, const bench_params *params, const bench_result *result,
                  const char *old) {
  bench_comparison comparison = {0};
  char message[256];
  bool markdown = cli_flag(run, OPT_MARKDOWN);
  if (old && !bench_compare(old, result, &comparison, message, sizeof message))
    return cli_error(run, ACCEL_ERROR_FORMAT, "%s: %s", run->value[OPT_COMPARE], message);
  int code = 0;
  if (cli_flag(run, OPT_JSON)) {
    code = print_json(run, params, result, old ? &comparison : NULL);
  } else {
    print_table(result);
    if (result->profile.n) cli_profile_print(&result->profile, markdown);
    if (old) cli_comparison_print(run->value[OPT_COMPARE], &comparison, markdown);
  }
  bench_comparison_free(&comparison);
  return code;
}

static int bench(cli_run *run, bench_params *params) {
  char *old = NULL, message[1024]; /* read first: a wrong name is not to cost a benchmark */
  const char *path = run->value[OPT_COMPARE];
  const bool stored = path && bench_is_store(path);
  int code = path && !stored ? cli_file_read(run, path, &old, NULL) : 0;
  if (code) {
    free(old);
    return code;
  }
  bench_result result;
  accel_status status = bench_run(run->ctx, params, say_placement, run, &result);
  if (status == ACCEL_ERROR_ARGUMENT && params->streams && !result.stream.resident)
    code = cli_error(run, ACCEL_ERROR_ARGUMENT,
                     "%s: all weights are in memory: --stream needs a --memory that is smaller",
                     params->model);
  else if (status != ACCEL_OK)
    code = cli_fail(run, status);
  if (!code && strstr(result.arch, "simulator")) /* how long it took says nothing */
    code = cli_error(run, ACCEL_ERROR_UNSUPPORTED, "%s is %s: its times are not the hardware's",
                     result.device, result.description);
  if (!code && params->profile && !result.profile.n)
    code =
        cli_error(run, ACCEL_ERROR_UNSUPPORTED, "the plugin of %s tells no steps", result.device);
  /* before this run is stored, perhaps in the same file */
  if (!code && stored && !bench_stored(path, &result, &old, message, sizeof message))
    code = cli_error(run, ACCEL_ERROR_NOT_FOUND, "%s", message);
  if (!code) code = write_files(run, &result);
  if (!code) code = report(run, params, &result, old);
  bench_result_free(&result);
  free(old);
  return code;
}

/* What --task makes of the other options. */
static int read_task(cli_run *run, bench_params *params) {
  const char *given = run->value[OPT_TASK], *task = params->streams  ? "generate"
                                                    : given          ? given
                                                    : params->paints ? "text-to-image"
                                                                     : "encode";
  if (params->streams && given && strcmp(given, task) != 0)
    return cli_usage(run, "--stream times --task generate");
  if (params->streams && params->profile)
    return cli_usage(run, "--stream and --profile do not go together");
  const bool encodes = !strcmp(task, "encode"), paints = !strcmp(task, "text-to-image");
  if (paints && !params->paints)
    return cli_usage(run,
                     "--task text-to-image is for pipelines: a directory with "
                     "model_index.json");
  if (params->paints && !paints)
    return cli_usage(run,
                     "a pipeline makes pictures: --task text-to-image; its parts are models of "
                     "their own, such as %s/unet",
                     params->model);
  if (paints && (run->value[OPT_SEQ] || params->ragged || run->value[OPT_LENGTHS] ||
                 run->value[OPT_OUTPUTS] || run->value[OPT_NEW]))
    return cli_usage(run, "pictures have --size, --n and --steps, no lengths, tokens and outputs");
  if (!paints && (run->value[OPT_IMAGE_SIZE] || run->value[OPT_IMAGES] || run->value[OPT_STEPS] ||
                  cli_flag(run, OPT_TILE)))
    return cli_usage(run, "--size, --n, --steps and --tile are for pipelines that make pictures");
  if (paints) return 0;
  params->transcribes = !strcmp(task, "transcribe");
  if (!encodes && !params->transcribes && strcmp(task, "generate") != 0)
    return cli_usage(run, "--task: encode, generate, transcribe or text-to-image, not %s", task);
  if (encodes && run->value[OPT_NEW])
    return cli_usage(run, "--new goes with --task generate or transcribe");
  if (!encodes && run->value[OPT_OUTPUTS])
    return cli_usage(run, "--outputs does not go with --task %s", task);
  if (!encodes) params->new_tokens = (uint32_t)cli_count(run, OPT_NEW, params->streams ? 16 : 64);
  if (params->streams && params->new_tokens < 2)
    return cli_usage(run, "--stream times the tokens behind the first one: --new 2 or more");
  if (params->transcribes && (params->batch != 1 || params->ragged || run->value[OPT_LENGTHS]))
    return cli_usage(run, "--task transcribe times one sound");
  if (params->transcribes && params->seq > BENCH_MAX_SAMPLES)
    return cli_usage(run, "--seq: at most %d samples, 30 seconds", BENCH_MAX_SAMPLES);
  return 0;
}

int cmd_bench(cli_run *run) {
  if (cli_one_precision(run)) return 2;
  if (run->value[OPT_EXPORT] || run->value[OPT_IMPORT]) return cli_exchange(run);
  if (run->value[OPT_SUITE]) return cli_suite(run);
  if (!run->n_args) return cli_usage(run, "which MODEL?");
  if (run->value[OPT_COMPARE] && bench_is_store(run->args[0]))
    return cli_compare_databases(run, run->value[OPT_COMPARE], run->args[0]);
  accel_init_params how;
  cli_init_params(run, NULL, &how);
  bench_params params = {
      .model = run->args[0],
      .how = &how,
      .output = run->value[OPT_OUTPUTS],
      .batch = (uint32_t)cli_count(run, OPT_BATCH, 1),
      .seq = (uint32_t)cli_count(run, OPT_SEQ, 0),
      .steps = (uint32_t)cli_count(run, OPT_STEPS, 0),
      .tiled = cli_flag(run, OPT_TILE),
      .ragged = cli_flag(run, OPT_RAGGED),
      .ragged_seed = (uint64_t)cli_count(run, OPT_RAGGED, 0),
      .seed = (uint64_t)cli_count(run, OPT_SEED, 0),
      .iters = (uint32_t)cli_count(run, OPT_ITERS, cli_flag(run, OPT_STREAM) ? 5 : 20),
      .warmup = (uint32_t)cli_count(run, OPT_WARMUP, cli_flag(run, OPT_STREAM) ? 1 : 2),
      .rounds = (uint32_t)cli_count(run, OPT_ROUNDS, 1),
      .profile = cli_flag(run, OPT_PROFILE) || run->value[OPT_PROFILE_SVG],
      .streams = cli_flag(run, OPT_STREAM)};
  uint32_t *lengths = NULL;
  if (!params.batch) params.batch = 1;
  cli_size(run, OPT_MEM_LIMIT, &params.memory_limit);
  cli_size(run, OPT_MEMORY, &params.memory_limit);
  int code = cli_image_size(run, &params.width, &params.height);
  if (!code) code = cli_context(run);
  if (code) return code;
  params.paints = bench_images_made_by(run->ctx, params.model);
  if (params.paints) params.batch = (uint32_t)cli_count(run, OPT_IMAGES, params.batch);
  code = read_task(run, &params);
  if (code) return code;
  if (run->value[OPT_LENGTHS] && params.ragged)
    return cli_usage(run, "give --lengths or --ragged, not both");
  if (run->value[OPT_LENGTHS]) code = read_lengths(run, &lengths, &params.batch);
  params.lengths = lengths;
  how.batch_size = 0; /* --batch is the batch of the run, not of a task */
  if (!code) code = bench(run, &params);
  free(lengths);
  return code;
}
