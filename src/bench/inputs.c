/* inputs.c - seeded ids, pictures and sounds (inputs.h). */
#include "bench/inputs.h"

#include <cjson/cJSON.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t next_random(uint64_t *state) { /* splitmix64 */
  uint64_t z = *state += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

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

static uint32_t longest_of(const bench_result *result) {
  uint32_t longest = 0;
  for (uint32_t b = 0; b < result->batch; ++b) longest = result->lengths[b] > longest ? result->lengths[b] : longest;
  return longest;
}

static accel_status make_ids(accel *ctx, const bench_params *params, const accel_endpoint *endpoint,
                             const bench_result *result, bench_inputs *out) {
  int64_t low, high, longest = longest_of(result);
  id_range(ctx, params->model, endpoint, &low, &high);
  size_t n = (size_t)result->batch * (size_t)longest;
  int64_t *ids = calloc(n, sizeof *ids), *mask = calloc(n, sizeof *mask);
  uint64_t state = params->seed;
  for (uint32_t b = 0; ids && mask && b < result->batch; ++b) {
    for (uint32_t s = 0; s < result->lengths[b]; ++s) {
      ids[(size_t)b * (size_t)longest + s] = low + (int64_t)(next_random(&state) % (uint64_t)(high - low));
      mask[(size_t)b * (size_t)longest + s] = 1;
    }
  }
  out->n = 2;
  out->item[0] =
      (accel_tensor){.name = "input_ids", .dtype = ACCEL_I64, .rank = 2, .dim = {result->batch, longest}, .data = ids};
  out->item[1] =
      (accel_tensor){.name = "attention_mask", .dtype = ACCEL_I64, .rank = 2, .dim = {result->batch, longest}, .data = mask};
  return ids && mask ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

/* Sums of four uniform numbers, of mean 0 and deviation 1: what normalised pictures and sounds are like. */
static accel_status make_signal(const bench_params *params, const bench_result *result, bench_inputs *out) {
  int64_t longest = longest_of(result), n = result->batch;
  out->n = 1;
  if (result->kind == BENCH_PICTURES)
    out->item[0] = (accel_tensor){.name = "pixel_values", .rank = 4, .dim = {n, 3, longest, longest}};
  else
    out->item[0] = (accel_tensor){.name = "input_values", .rank = 2, .dim = {n, longest}};
  out->item[0].dtype = ACCEL_F32;
  n *= result->kind == BENCH_PICTURES ? 3 * longest * longest : longest;
  float *x = out->item[0].data = malloc((size_t)n * sizeof *x);
  uint64_t state = params->seed;
  for (int64_t i = 0; x && i < n; ++i) {
    uint64_t bits = next_random(&state);
    int64_t sum = 0;
    for (int k = 0; k < 4; ++k) sum += (int64_t)(bits >> 16 * k & 0xFFFF) - 0x8000;
    x[i] = (float)sum * (1.7320508f / 65536.0f); /* a uniform number of width 65536 has deviation 65536 / sqrt(12) */
  }
  return x ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

static bool listed(const accel_strings *names, const char *name) {
  for (uint32_t i = 0; i < names->n; ++i) {
    if (strcmp(names->item[i], name) == 0) return true;
  }
  return false;
}

/* One token for each item, for the part of the model that nothing is asked of. */
static accel_status add_token(const bench_result *result, const char *name, bench_inputs *out) {
  int64_t *ids = calloc(result->batch, sizeof *ids);
  out->item[out->n++] = (accel_tensor){.name = name, .dtype = ACCEL_I64, .rank = 2, .dim = {result->batch, 1}, .data = ids};
  return ids ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

static bench_kind kind_of(const bench_params *params, const accel_endpoint *endpoint, const accel_strings *inputs) {
  if (params->new_tokens) return BENCH_TOKENS;
  if (listed(inputs, "input_values")) return BENCH_SAMPLES;
  if (!listed(inputs, "pixel_values")) return BENCH_TOKENS;
  const int64_t most = accel_processor_of(endpoint)->max_length;
  return listed(inputs, "input_ids") && (int64_t)params->seq <= most ? BENCH_TOKENS : BENCH_PICTURES;
}

static uint32_t default_length(bench_kind kind, int64_t most) {
  if (kind == BENCH_PICTURES) return 224;
  if (kind == BENCH_SAMPLES) return 80000; /* five seconds */
  return most > 0 && most < 128 ? (uint32_t)most : 128;
}

static accel_status make_lengths(const bench_params *params, int64_t most, bench_result *result) {
  result->batch = params->batch;
  result->lengths = calloc(params->batch, sizeof *result->lengths);
  if (!result->lengths) return ACCEL_ERROR_OUT_OF_MEMORY;
  uint64_t state = params->ragged_seed;
  uint32_t seq = params->seq ? params->seq : default_length(result->kind, most), least = seq < 5 ? seq : 5;
  for (uint32_t b = 0; b < params->batch; ++b) {
    uint32_t drawn = least + (uint32_t)(next_random(&state) % (seq - least + 1));
    result->lengths[b] = params->lengths ? params->lengths[b] : params->ragged ? drawn : seq;
    if (result->kind == BENCH_TOKENS) result->tokens += result->lengths[b];
  }
  return ACCEL_OK;
}

/* How much an output stands for the encoder's work: what the encoder of texts or of pictures gives where the model has
 * another part beside it; last_hidden_state, as the peers compute it; else the highest hidden_states.N (a class with a
 * head), else whatever the model gives. */
static long rank_output(const char *name, const char *part) {
  if (part && strcmp(name, part) == 0) return LONG_MAX;
  if (strcmp(name, "last_hidden_state") == 0) return LONG_MAX - 1;
  return strncmp(name, "hidden_states.", 14) == 0 ? 1 + strtol(name + 14, NULL, 10) : 0;
}

static void choose_output(const bench_params *params, const accel_strings *inputs, const accel_strings *outputs,
                          bench_result *result) {
  const char *part = NULL;
  uint32_t best = 0;
  if (result->kind == BENCH_PICTURES && listed(inputs, "input_ids")) part = "image_embeds";
  if (result->kind == BENCH_TOKENS && listed(inputs, "decoder_input_ids")) part = "encoder_last_hidden_state";
  for (uint32_t i = 1; i < outputs->n; ++i) {
    if (rank_output(outputs->item[i], part) > rank_output(outputs->item[best], part)) best = i;
  }
  const char *name = params->output ? params->output : outputs->n ? outputs->item[best] : "";
  snprintf(result->output, sizeof result->output, "%s", params->new_tokens ? "sequences" : name);
}

static accel_status fill(accel *ctx, const bench_params *params, accel_endpoint *endpoint, const accel_strings *inputs,
                         bench_result *result, bench_inputs *out) {
  const int64_t most = accel_processor_of(endpoint)->max_length - params->new_tokens;
  accel_status status = result->lengths ? ACCEL_OK : make_lengths(params, most, result);
  if (status != ACCEL_OK) return status;
  status = result->kind == BENCH_TOKENS ? make_ids(ctx, params, endpoint, result, out) : make_signal(params, result, out);
  if (status != ACCEL_OK || params->new_tokens) return status;
  if (result->kind == BENCH_PICTURES && listed(inputs, "input_ids")) return add_token(result, "input_ids", out);
  if (result->kind == BENCH_TOKENS && listed(inputs, "decoder_input_ids"))
    return add_token(result, "decoder_input_ids", out);
  return ACCEL_OK;
}

accel_status bench_inputs_make(accel *ctx, const bench_params *params, accel_endpoint *endpoint, bench_result *result,
                               bench_inputs *out) {
  accel_strings *inputs = NULL, *outputs = NULL;
  accel_status status = accel_endpoint_io(endpoint, &inputs, &outputs);
  if (status != ACCEL_OK) return status;
  result->kind = kind_of(params, endpoint, inputs);
  choose_output(params, inputs, outputs, result);
  status = fill(ctx, params, endpoint, inputs, result, out);
  accel_strings_free(&inputs);
  accel_strings_free(&outputs);
  return status;
}

void bench_inputs_free(bench_inputs *inputs) {
  for (uint32_t i = 0; i < inputs->n; ++i) free(inputs->item[i].data);
  *inputs = (bench_inputs){0};
}
