/* bench_inputs.c - seeded ids, pictures and sounds (bench_inputs.h). */
#include "bench/bench_inputs.h"
#include "bench/bench_images.h"

#include <cjson/cJSON.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t bench_random(uint64_t *state) { /* splitmix64 */
  uint64_t z = *state += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

static cJSON *read_config(const char *directory, const char *name) {
  char path[4096], text[65536];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  FILE *file = fopen(path, "rb");
  if (!file) return NULL;
  size_t n = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[n] = 0;
  return cJSON_Parse(text);
}

cJSON *bench_config_of(accel *ctx, const char *model) {
  char *directory, *entry;
  if (accel_find_model(ctx, model, &directory) == ACCEL_OK) {
    cJSON *found = read_config(directory, "config.json");
    if (!found) found = read_config(directory, "model_index.json");
    accel_string_free(&directory);
    return found;
  }
  if (accel_registry_json(ctx, model, &entry) != ACCEL_OK) return NULL;
  cJSON *all = cJSON_Parse(entry), *config = cJSON_DetachItemFromObjectCaseSensitive(all, "config");
  accel_string_free(&entry);
  cJSON_Delete(all);
  return config;
}

int64_t bench_config_number(const cJSON *config, const char *part, const char *key) {
  const cJSON *inner = part ? cJSON_GetObjectItemCaseSensitive(config, part) : NULL;
  const cJSON *found = cJSON_GetObjectItemCaseSensitive(inner ? inner : config, key);
  if (cJSON_IsArray(found)) found = found->child;
  return cJSON_IsNumber(found) ? (int64_t)found->valuedouble : 0;
}

/* Ids that are ordinary words in every vocabulary: neither special tokens, which stand first, nor
 * beyond the table. */
static void id_range(const cJSON *config, const accel_endpoint *endpoint, int64_t *low,
                     int64_t *high) {
  int64_t tokenizer = accel_processor_of(endpoint)->vocab_size,
          table = bench_config_number(config, NULL, "vocab_size");
  int64_t vocab = table && (!tokenizer || table < tokenizer) ? table : tokenizer;
  if (!vocab) vocab = 1000;
  *low = vocab > 4000 ? 1000 : vocab / 4;
  *high = vocab < 30000 ? vocab : 30000;
}

static uint32_t longest_of(const bench_result *result) {
  uint32_t longest = 0;
  for (uint32_t b = 0; b < result->batch; ++b)
    longest = result->lengths[b] > longest ? result->lengths[b] : longest;
  return longest;
}

static accel_status make_ids(const cJSON *config, const bench_params *params,
                             const accel_endpoint *endpoint, const bench_result *result,
                             bench_inputs *out) {
  int64_t low, high, longest = longest_of(result);
  id_range(config, endpoint, &low, &high);
  size_t n = (size_t)result->batch * (size_t)longest;
  int64_t *ids = calloc(n, sizeof *ids), *mask = calloc(n, sizeof *mask);
  uint64_t state = params->seed;
  for (uint32_t b = 0; ids && mask && b < result->batch; ++b) {
    for (uint32_t s = 0; s < result->lengths[b]; ++s) {
      ids[(size_t)b * (size_t)longest + s] =
          low + (int64_t)(bench_random(&state) % (uint64_t)(high - low));
      mask[(size_t)b * (size_t)longest + s] = 1;
    }
  }
  out->n = 2;
  out->item[0] = (accel_tensor){.name = "input_ids",
                                .dtype = ACCEL_I64,
                                .rank = 2,
                                .dim = {result->batch, longest},
                                .data = ids};
  out->item[1] = (accel_tensor){.name = "attention_mask",
                                .dtype = ACCEL_I64,
                                .rank = 2,
                                .dim = {result->batch, longest},
                                .data = mask};
  return ids && mask ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

/* Sums of four uniform numbers, of mean 0 and deviation 1. */
accel_status bench_signal(const bench_params *params, accel_tensor like, bench_inputs *out) {
  int64_t n = 1;
  for (uint32_t i = 0; i < like.rank; ++i) n *= like.dim[i];
  like.dtype = ACCEL_F32;
  float *x = like.data = malloc((size_t)n * sizeof *x);
  out->item[out->n++] = like;
  uint64_t state = params->seed;
  for (int64_t i = 0; x && i < n; ++i) {
    uint64_t bits = bench_random(&state);
    int64_t sum = 0;
    for (int k = 0; k < 4; ++k) sum += (int64_t)(bits >> 16 * k & 0xFFFF) - 0x8000;
    /* a uniform number of width 65536 has deviation 65536 / sqrt(12) */
    x[i] = (float)sum * (1.7320508f / 65536.0f);
  }
  return x ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

/* [n][width] integers, all of `value`. */
static accel_status add_integers(const char *name, int64_t n, int64_t width, int64_t value,
                                 bench_inputs *out) {
  int64_t *x = malloc((size_t)(n * width) * sizeof *x);
  out->item[out->n++] =
      (accel_tensor){.name = name, .dtype = ACCEL_I64, .rank = 2, .dim = {n, width}, .data = x};
  for (int64_t i = 0; x && i < n * width; ++i) x[i] = value;
  return x ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

/* Qwen2-VL: the patches of square pictures of whole blocks, and as many image tokens as they have
 * rows. */
static accel_status make_patches(const cJSON *config, const bench_params *params,
                                 const bench_result *result, bench_inputs *out) {
  static const char *const keys[] = {"patch_size", "spatial_merge_size", "temporal_patch_size"};
  int64_t size[3] = {14, 2, 2}, n = result->batch;
  for (int i = 0; i < 3; ++i) {
    const int64_t found = bench_config_number(config, "vision_config", keys[i]);
    if (found > 0) size[i] = found;
  }
  int64_t blocks = longest_of(result) / (size[0] * size[1]);
  if (blocks < 1) blocks = 1;
  const int64_t side = blocks * size[1],
                token = bench_config_number(config, NULL, "image_token_id");
  const accel_tensor like = {
      .name = "pixel_values", .rank = 2, .dim = {n * side * side, 3 * size[2] * size[0] * size[0]}};
  accel_status status = bench_signal(params, like, out);
  if (status == ACCEL_OK) status = add_integers("image_grid_thw", n, 3, side, out);
  for (int64_t i = 0; status == ACCEL_OK && i < n; ++i) ((int64_t *)out->item[1].data)[3 * i] = 1;
  return status == ACCEL_OK
             ? add_integers("input_ids", n, blocks * blocks, token ? token : 151655, out)
             : status;
}

static bool listed(const accel_strings *names, const char *name) {
  for (uint32_t i = 0; i < names->n; ++i) {
    if (strcmp(names->item[i], name) == 0) return true;
  }
  return false;
}

static bench_kind kind_of(const bench_params *params, const accel_strings *inputs) {
  bench_kind part;
  if (params->new_tokens) return BENCH_TOKENS;
  if (bench_part_known(inputs)) return bench_part_side(NULL, inputs, &part), part;
  if (listed(inputs, "input_values") || listed(inputs, "input_features")) return BENCH_SAMPLES;
  if (listed(inputs, "bbox")) return BENCH_TOKENS;
  return listed(inputs, "pixel_values") ? BENCH_PICTURES : BENCH_TOKENS;
}

static uint32_t default_length(const cJSON *config, bench_kind kind, int64_t most) {
  if (kind == BENCH_PICTURES) {
    int64_t side = bench_config_number(config, "vision_config", "image_size");
    return side > 0 && side <= 4096 ? (uint32_t)side : 224;
  }
  /* Whisper, two frames of 160 each */
  if (kind == BENCH_SAMPLES && bench_config_number(config, NULL, "max_source_positions") > 0)
    return (uint32_t)(320 * bench_config_number(config, NULL, "max_source_positions"));
  /* CLAP: 10 s */
  if (kind == BENCH_SAMPLES)
    return bench_config_number(config, "audio_config", "spec_size") > 0 ? 480000 : 80000;
  return most > 0 && most < 128 ? (uint32_t)most : 128;
}

static accel_status make_lengths(const cJSON *config, const bench_params *params,
                                 const accel_strings *inputs, int64_t most, bench_result *result) {
  result->batch = params->batch;
  result->lengths = calloc(params->batch, sizeof *result->lengths);
  if (!result->lengths) return ACCEL_ERROR_OUT_OF_MEMORY;
  uint64_t state = params->ragged_seed;
  bench_kind kind;
  uint32_t seq = params->seq                ? params->seq
                 : bench_part_known(inputs) ? bench_part_side(config, inputs, &kind)
                                            : default_length(config, result->kind, most),
           least = seq < 5 ? seq : 5;
  for (uint32_t b = 0; b < params->batch; ++b) {
    uint32_t drawn = least + (uint32_t)(bench_random(&state) % (seq - least + 1));
    result->lengths[b] = params->lengths ? params->lengths[b] : params->ragged ? drawn : seq;
    if (result->kind == BENCH_TOKENS) result->tokens += result->lengths[b];
  }
  return ACCEL_OK;
}

/* How much an output stands for the encoder's work: what the encoder of texts or of pictures gives
 * where the model has another part beside it; last_hidden_state, as the peers compute it; else the
 * highest hidden_states.N (a class with a head), else whatever the model gives. */
static long rank_output(const char *name, const char *part) {
  if (part && strcmp(name, part) == 0) return LONG_MAX;
  if (strcmp(name, "last_hidden_state") == 0) return LONG_MAX - 1;
  return strncmp(name, "hidden_states.", 14) == 0 ? 1 + strtol(name + 14, NULL, 10) : 0;
}

static void choose_output(const bench_params *params, const accel_strings *inputs,
                          const accel_strings *outputs, bench_result *result) {
  const char *part = NULL;
  uint32_t best = 0;
  if (result->kind == BENCH_PICTURES && listed(inputs, "input_ids"))
    part = listed(outputs, "image_hidden_states") ? "image_hidden_states"
           : listed(outputs, "video_embeds")      ? "video_embeds"
                                                  : "image_embeds";
  if (result->kind == BENCH_SAMPLES && listed(outputs, "audio_embeds")) part = "audio_embeds";
  if (result->kind != BENCH_PICTURES && listed(inputs, "decoder_input_ids"))
    part = "encoder_last_hidden_state";
  for (uint32_t i = 1; i < outputs->n; ++i) {
    if (rank_output(outputs->item[i], part) > rank_output(outputs->item[best], part)) best = i;
  }
  const char *name = params->output ? params->output : outputs->n ? outputs->item[best] : "";
  snprintf(result->output, sizeof result->output, "%s", params->new_tokens ? "sequences" : name);
}

/* Spectrograms as the extractors of Whisper and CLAP make them: of 30 and of 10 seconds. */
static accel_status make_spectrogram(const cJSON *config, const bench_params *params,
                                     const accel_strings *inputs, int64_t n, bench_inputs *out) {
  const int64_t heard = bench_config_number(config, NULL, "max_source_positions"),
                mels = bench_config_number(config, NULL, "num_mel_bins"),
                given = bench_config_number(config, "audio_config", "num_mel_bins"),
                bins = given > 0 ? given : 64,
                spec = bench_config_number(config, "audio_config", "spec_size"),
                most = spec > 0 ? spec * spec / bins : 1001;
  const bool fusion = listed(inputs, "is_longer");
  accel_tensor like = {.name = "input_features",
                       .rank = 4,
                       .dim = {n, fusion ? 4 : 1, most < 1001 ? most : 1001, bins}};
  if (listed(inputs, "decoder_input_ids") || heard > 0)
    like = (accel_tensor){.name = "input_features",
                          .rank = 3,
                          .dim = {n, mels > 0 ? mels : 80, 2 * (heard > 0 ? heard : 1500)}};
  accel_status status = bench_signal(params, like, out);
  if (status == ACCEL_OK && fusion) status = add_integers("is_longer", n, 1, 0, out);
  if (status == ACCEL_OK && listed(inputs, "input_ids"))
    status = add_integers("input_ids", n, 1, 0, out);
  if (status == ACCEL_OK && listed(inputs, "decoder_input_ids"))
    status = add_integers("decoder_input_ids", n, 1, 0, out);
  return status;
}

/* Words of pages with their boxes, and the pages, of the side that the config has: LayoutLMv3. */
static accel_status make_pages(const cJSON *config, const bench_params *params,
                               const accel_strings *inputs, int64_t n, int64_t longest,
                               bench_inputs *out) {
  const int64_t side = bench_config_number(config, NULL, "input_size"),
                known = bench_config_number(config, NULL, "max_2d_position_embeddings"),
                most = known > 1 && known < 1001 ? known - 1 : 1000;
  accel_status status = add_integers("bbox", n * longest, 4, 0, out);
  accel_tensor *boxes = &out->item[out->n - 1];
  int64_t *box = boxes->data;
  uint64_t state = params->seed;
  *boxes = (accel_tensor){
      .name = "bbox", .dtype = ACCEL_I64, .rank = 3, .dim = {n, longest, 4}, .data = box};
  for (int64_t i = 0; box && i < 2 * n * longest; ++i) { /* left, top, right, bottom */
    const int64_t at = i / 2 * 4 + i % 2;
    box[at] = (int64_t)(bench_random(&state) % (uint64_t)most);
    box[at + 2] = box[at] + 1 + (int64_t)(bench_random(&state) % (uint64_t)(most - box[at]));
  }
  if (status != ACCEL_OK || !listed(inputs, "pixel_values")) return status;
  const int64_t wide = side > 0 ? side : 224;
  return bench_signal(
      params, (accel_tensor){.name = "pixel_values", .rank = 4, .dim = {n, 3, wide, wide}}, out);
}

enum { TILES = 5 }; /* of a picture, where a model takes some (LLaVA-Next) */

static accel_status fill(const cJSON *config, const bench_params *params, accel_endpoint *endpoint,
                         const accel_strings *inputs, bench_result *result, bench_inputs *out) {
  const int64_t most = accel_processor_of(endpoint)->max_length - params->new_tokens;
  if (params->only_tokens && (result->kind != BENCH_TOKENS || (most > 0 && params->seq > most)))
    return ACCEL_ERROR_UNSUPPORTED;
  accel_status status =
      result->lengths ? ACCEL_OK : make_lengths(config, params, inputs, most, result);
  if (status != ACCEL_OK) return status;
  const int64_t longest = longest_of(result), n = result->batch;
  const bool tiles = listed(inputs, "image_sizes");
  if (bench_part_known(inputs)) return bench_part_inputs(config, params, inputs, n, longest, out);
  if (result->kind == BENCH_TOKENS) {
    status = make_ids(config, params, endpoint, result, out);
    if (status == ACCEL_OK && !params->new_tokens && listed(inputs, "bbox"))
      return make_pages(config, params, inputs, n, longest, out);
    if (status != ACCEL_OK || params->new_tokens || !listed(inputs, "decoder_input_ids"))
      return status;
    return add_integers("decoder_input_ids", n, 1, 0, out);
  }
  const int64_t frames = bench_config_number(config, NULL, "max_length"),
                mels = bench_config_number(config, NULL, "num_mel_bins"),
                shown = bench_config_number(config, "vision_config", "num_frames");
  if (listed(inputs, "input_values") && frames > 0 && mels > 0) /* AST */
    return bench_signal(
        params, (accel_tensor){.name = "input_values", .rank = 3, .dim = {n, frames, mels}}, out);
  if (result->kind == BENCH_SAMPLES && listed(inputs, "input_features"))
    return make_spectrogram(config, params, inputs, n, out);
  if (result->kind == BENCH_SAMPLES)
    return bench_signal(
        params, (accel_tensor){.name = "input_values", .rank = 2, .dim = {n, longest}}, out);
  if (listed(inputs, "image_grid_thw")) return make_patches(config, params, result, out);
  accel_tensor like = {.name = "pixel_values", .rank = 4, .dim = {n, 3, longest, longest}};
  if (tiles)
    like =
        (accel_tensor){.name = "pixel_values", .rank = 5, .dim = {n, TILES, 3, longest, longest}};
  if (listed(inputs, "pixel_attention_mask")) /* Idefics3: a prompt's images */
    like = (accel_tensor){.name = "pixel_values", .rank = 5, .dim = {n, 1, 3, longest, longest}};
  if (shown > 0)
    like =
        (accel_tensor){.name = "pixel_values", .rank = 5, .dim = {n, shown, 3, longest, longest}};
  status = bench_signal(params, like, out);
  if (status == ACCEL_OK && tiles) status = add_integers("image_sizes", n, 2, longest, out);
  if (status == ACCEL_OK && listed(inputs, "input_ids"))
    status = add_integers("input_ids", n, 1, 0, out);
  if (status == ACCEL_OK && listed(inputs, "decoder_input_ids"))
    status = add_integers("decoder_input_ids", n, 1, 0, out);
  return status;
}

accel_status bench_inputs_make(accel *ctx, const bench_params *params, accel_endpoint *endpoint,
                               bench_result *result, bench_inputs *out) {
  accel_strings *inputs = NULL, *outputs = NULL;
  accel_status status = accel_endpoint_io(endpoint, &inputs, &outputs);
  if (status != ACCEL_OK) return status;
  result->kind = kind_of(params, inputs);
  choose_output(params, inputs, outputs, result);
  cJSON *config = bench_config_of(ctx, params->model);
  status = fill(config, params, endpoint, inputs, result, out);
  cJSON_Delete(config);
  accel_strings_free(&inputs);
  accel_strings_free(&outputs);
  return status;
}

accel_status bench_inputs_plan(accel *ctx, const bench_params *params, const accel_strings *inputs,
                               const accel_strings *outputs, bench_result *result) {
  result->kind = kind_of(params, inputs);
  choose_output(params, inputs, outputs, result);
  cJSON *config = bench_config_of(ctx, params->model);
  accel_status status = make_lengths(config, params, inputs, 0, result);
  cJSON_Delete(config);
  return status;
}

void bench_inputs_free(bench_inputs *inputs) {
  for (uint32_t i = 0; i < inputs->n; ++i) free(inputs->item[i].data);
  *inputs = (bench_inputs){0};
}
