/* generate_config.c - one table of GenerationConfig's fields: what each means here, and which are
 * refused. */
#include "generate/generate_config.h"

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

/* ---- the fields ---- */

typedef struct layer {
  const accel__json_file *file;
  accel__arena *arena;
  accel__generate_config *to;
} layer;

typedef accel_status (*reader)(const layer *l, const accel__json *value, const char *key,
                               void *field);

static accel_status wrong(const layer *l, const char *key, const char *expected) {
  return accel__fail(ACCEL_ERROR_FORMAT, "%s: field '%s': expected %s", l->file->name, key,
                     expected);
}

static accel_status read_count(const layer *l, const accel__json *value, const char *key,
                               void *field) {
  (void)value;
  return accel__json_int(l->file, l->file->root, key, 0, INT32_MAX, field);
}
static accel_status read_small(const layer *l, const accel__json *value, const char *key,
                               void *field) {
  int64_t n = 0;
  (void)value;
  ACCEL_TRY(accel__json_int(l->file, l->file->root, key, 1, 1024, &n));
  *(uint32_t *)field = (uint32_t)n;
  return ACCEL_OK;
}
static accel_status read_number(const layer *l, const accel__json *value, const char *key,
                                void *field) {
  (void)value;
  return accel__json_number(l->file, l->file->root, key, field);
}
static accel_status read_bool(const layer *l, const accel__json *value, const char *key,
                              void *field) {
  (void)value;
  return accel__json_bool(l->file, l->file->root, key, field);
}
static accel_status read_seed(const layer *l, const accel__json *value, const char *key,
                              void *field) {
  int64_t n = 0;
  (void)value;
  ACCEL_TRY(accel__json_int(l->file, l->file->root, key, 0, INT64_MAX, &n));
  *(uint64_t *)field = (uint64_t)n;
  return ACCEL_OK;
}

static bool is_id(const accel__json *value) {
  return cJSON_IsNumber(value) && value->valuedouble >= -1 && value->valuedouble <= INT32_MAX &&
         value->valuedouble == (double)(int32_t)value->valuedouble;
}

static accel_status read_id(const layer *l, const accel__json *value, const char *key,
                            void *field) {
  if (cJSON_IsArray(value) && value->child && !value->child->next) value = value->child;
  if (!is_id(value)) return wrong(l, key, "a token id");
  *(int64_t *)field = (int64_t)value->valuedouble;
  return ACCEL_OK;
}

/* Array of ids; a number alone is an array of one. */
static accel_status read_ids(const layer *l, const accel__json *value, const char *key,
                             void *field) {
  accel__ids *out = field;
  bool list = cJSON_IsArray(value);
  uint32_t n = list ? (uint32_t)cJSON_GetArraySize(value) : 1, at = 0;
  int32_t *id = accel__arena_array(l->arena, n, sizeof *id);
  if (!id) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (const accel__json *item = list ? value->child : value; item && at < n; item = item->next) {
    if (!is_id(item)) return wrong(l, key, "token ids");
    id[at++] = (int32_t)item->valuedouble;
  }
  *out = (accel__ids){id, n};
  return ACCEL_OK;
}

static bool same_ids(accel__ids a, accel__ids b) {
  return a.n == b.n && !memcmp(a.id, b.id, a.n * sizeof *a.id);
}

/* [[[id, ...], bias], ...] */
static accel_status read_biases(const layer *l, const accel__json *value, const char *key,
                                void *field) {
  static const char expected[] = "a list of [[token ids], bias]";
  uint32_t n = cJSON_IsArray(value) ? (uint32_t)cJSON_GetArraySize(value) : 0, at = 0;
  accel__biased *list = accel__arena_array(l->arena, n, sizeof *list);
  (void)field;
  if (!list) return ACCEL_ERROR_OUT_OF_MEMORY;
  if (!cJSON_IsArray(value)) return wrong(l, key, expected);
  ACCEL_JSON_EACH(pair, value) {
    const accel__json *ids = cJSON_IsArray(pair) ? pair->child : NULL,
                      *bias = ids ? ids->next : NULL;
    if (!bias || bias->next || !cJSON_IsArray(ids) || !ids->child || !cJSON_IsNumber(bias))
      return wrong(l, key, expected);
    ACCEL_TRY(read_ids(l, ids, key, &list[at].ids));
    uint32_t to = 0; /* of several biases of the same tokens the last one counts */
    while (to < at && !same_ids(list[to].ids, list[at].ids)) to++;
    list[to].ids = list[at].ids;
    list[to].bias = (float)bias->valuedouble;
    at += to == at;
  }
  l->to->bias = list;
  l->to->n_bias = at;
  return ACCEL_OK;
}

static accel_status read_words(const layer *l, const accel__json *value, const char *key,
                               void *field) {
  static const char expected[] = "a list of lists of token ids";
  uint32_t n = cJSON_IsArray(value) ? (uint32_t)cJSON_GetArraySize(value) : 0, at = 0;
  accel__biased *list = accel__arena_array(l->arena, n, sizeof *list);
  (void)field;
  if (!list) return ACCEL_ERROR_OUT_OF_MEMORY;
  if (!cJSON_IsArray(value)) return wrong(l, key, expected);
  ACCEL_JSON_EACH(word, value) {
    if (!cJSON_IsArray(word) || !word->child) return wrong(l, key, expected);
    ACCEL_TRY(read_ids(l, word, key, &list[at++].ids));
  }
  l->to->bad_words = list;
  l->to->n_bad_words = n;
  return ACCEL_OK;
}

static accel_status read_stop(const layer *l, const accel__json *value, const char *key,
                              void *field) {
  bool one = cJSON_IsString(value);
  uint32_t n = one ? 1 : cJSON_IsArray(value) ? (uint32_t)cJSON_GetArraySize(value) : 0, at = 0;
  const char **list = accel__arena_array(l->arena, n, sizeof *list);
  (void)field;
  if (!list) return ACCEL_ERROR_OUT_OF_MEMORY;
  if (!one && !cJSON_IsArray(value)) return wrong(l, key, "a text or a list of texts");
  for (const accel__json *item = one ? value : value->child; item && at < n; item = item->next) {
    if (!cJSON_IsString(item) || !*item->valuestring)
      return wrong(l, key, "texts that are not empty");
    if (!(list[at++] = accel__arena_string(l->arena, item->valuestring)))
      return ACCEL_ERROR_OUT_OF_MEMORY;
  }
  l->to->stop = list;
  l->to->n_stop = n;
  return ACCEL_OK;
}

static accel_status read_early(const layer *l, const accel__json *value, const char *key,
                               void *field) {
  accel__early *out = field;
  if (cJSON_IsBool(value))
    *out = cJSON_IsTrue(value) ? ACCEL__EARLY_TRUE : ACCEL__EARLY_FALSE;
  else if (cJSON_IsString(value) && !strcmp(value->valuestring, "never"))
    *out = ACCEL__EARLY_NEVER;
  else
    return wrong(l, key, "true, false or \"never\"");
  return ACCEL_OK;
}

static accel_status read_decay(const layer *l, const accel__json *value, const char *key,
                               void *field) {
  const accel__json *start = cJSON_IsArray(value) ? value->child : NULL,
                    *factor = start ? start->next : NULL;
  (void)field;
  if (!factor || factor->next || !cJSON_IsNumber(factor) || !is_id(start))
    return wrong(l, key, "[start, factor]");
  l->to->decays = true;
  l->to->decay_start = (int64_t)start->valuedouble;
  l->to->decay_factor = factor->valuedouble;
  return ACCEL_OK;
}

/* Fields that change the result in ways that are not implemented, unless they hold this. */
static accel_status refuse(const layer *l, const accel__json *value, const char *key) {
  char *text = cJSON_PrintUnformatted(value);
  accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: field '%s': %.60s is not supported in generation",
              l->file->name, key, text ? text : "this value");
  cJSON_free(text);
  return accel__remedy(ACCEL_ERROR_UNSUPPORTED, "remove the field, or set it to null");
}
static accel_status refuse_number(const layer *l, const accel__json *value, const char *key,
                                  void *field) {
  const double *harmless = field;
  return cJSON_IsNumber(value) && value->valuedouble == *harmless ? ACCEL_OK
                                                                  : refuse(l, value, key);
}
static accel_status refuse_true(const layer *l, const accel__json *value, const char *key,
                                void *field) {
  (void)field;
  return cJSON_IsFalse(value) ? ACCEL_OK : refuse(l, value, key);
}
static accel_status refuse_any(const layer *l, const accel__json *value, const char *key,
                               void *field) {
  (void)field;
  return refuse(l, value, key);
}
static accel_status refuse_quantized(const layer *l, const accel__json *value, const char *key,
                                     void *field) {
  (void)field;
  return cJSON_IsString(value) && !strcmp(value->valuestring, "quantized") ? refuse(l, value, key)
                                                                           : ACCEL_OK;
}
/* Nothing here depends on it: how transformers computes, what it returns, who wrote the file. */
static accel_status ignore(const layer *l, const accel__json *value, const char *key, void *field) {
  (void)l, (void)value, (void)key, (void)field;
  return ACCEL_OK;
}

#define AT(member) offsetof(accel__generate_config, member)
static const struct {
  const char *key;
  reader read;
  size_t at;
} fields[] = {
    {"max_length", read_count, AT(max_length)},
    {"max_new_tokens", read_count, AT(max_new_tokens)},
    {"min_length", read_count, AT(min_length)},
    {"min_new_tokens", read_count, AT(min_new_tokens)},
    {"max_time", read_number, AT(max_time)},
    {"do_sample", read_bool, AT(do_sample)},
    {"num_beams", read_small, AT(num_beams)},
    {"num_return_sequences", read_small, AT(num_return)},
    {"early_stopping", read_early, AT(early_stopping)},
    {"length_penalty", read_number, AT(length_penalty)},
    {"seed", read_seed, AT(seed)},
    {"temperature", read_number, AT(temperature)},
    {"top_k", read_count, AT(top_k)},
    {"top_p", read_number, AT(top_p)},
    {"min_p", read_number, AT(min_p)},
    {"top_h", read_number, AT(top_h)},
    {"typical_p", read_number, AT(typical_p)},
    {"epsilon_cutoff", read_number, AT(epsilon_cutoff)},
    {"eta_cutoff", read_number, AT(eta_cutoff)},
    {"repetition_penalty", read_number, AT(repetition_penalty)},
    {"encoder_repetition_penalty", read_number, AT(encoder_repetition_penalty)},
    {"presence_penalty", read_number, AT(presence_penalty)},
    {"frequency_penalty", read_number, AT(frequency_penalty)},
    {"no_repeat_ngram_size", read_count, AT(no_repeat_ngram)},
    {"encoder_no_repeat_ngram_size", read_count, AT(encoder_no_repeat_ngram)},
    {"sequence_bias", read_biases, 0},
    {"bad_words_ids", read_words, 0},
    {"forced_bos_token_id", read_id, AT(forced_bos)},
    {"forced_eos_token_id", read_ids, AT(forced_eos)},
    {"suppress_tokens", read_ids, AT(suppress)},
    {"begin_suppress_tokens", read_ids, AT(begin_suppress)},
    {"remove_invalid_values", read_bool, AT(remove_invalid)},
    {"renormalize_logits", read_bool, AT(renormalize)},
    {"exponential_decay_length_penalty", read_decay, 0},
    {"eos_token_id", read_ids, AT(eos)},
    {"pad_token_id", read_id, AT(pad)},
    {"bos_token_id", read_id, AT(bos)},
    {"decoder_start_token_id", read_id, AT(decoder_start)},
    {"stop_strings", read_stop, 0},
    {"prompt_lookup_num_tokens", read_count, AT(prompt_lookup)},
    {"num_assistant_tokens", read_count, AT(assistant_tokens)},
    {"max_matching_ngram_size", read_count, AT(matching_ngram)},
    /* would change the result */
    {"token_healing", refuse_true, 0},
    {"watermarking_config", refuse_any, 0},
    {"dola_layers", refuse_any, 0},
    {"constraints", refuse_any, 0},
    {"force_words_ids", refuse_any, 0},
    {"cache_implementation", refuse_quantized, 0},
    /* would not: about memory, speed and what is returned */
    {"use_cache", ignore, 0},
    {"use_mtp", ignore, 0},
    {"cache_config", ignore, 0},
    {"max_cache_len", ignore, 0},
    {"output_attentions", ignore, 0},
    {"output_hidden_states", ignore, 0},
    {"output_scores", ignore, 0},
    {"output_logits", ignore, 0},
    {"return_dict_in_generate", ignore, 0},
    {"is_assistant", ignore, 0},
    {"num_assistant_tokens_schedule", ignore, 0},
    {"assistant_confidence_threshold", ignore, 0},
    {"assistant_early_exit", ignore, 0},
    {"assistant_lookbehind", ignore, 0},
    {"target_lookbehind", ignore, 0},
    {"assistant_ensemble_weight", ignore, 0},
    {"speculation_type", ignore, 0},
    {"compile_config", ignore, 0},
    {"disable_compile", ignore, 0},
    {"continuous_batching_config", ignore, 0},
    {"low_memory", ignore, 0},
    {"prefill_chunk_size", ignore, 0},
    {"transformers_version", ignore, 0},
    {"_from_model_config", ignore, 0},
    {"_commit_hash", ignore, 0},
};
#undef AT

/* Numbers that switch something off that is not implemented. */
static const struct {
  const char *key;
  double harmless;
} switched_off[] = {
    {"guidance_scale", 1}, {"penalty_alpha", 0}, {"num_beam_groups", 1}, {"diversity_penalty", 0}};

/* ---- layers ---- */

static accel_status read_member(const layer *l, const accel__json *value, bool strict) {
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
    if (!strcmp(fields[i].key, value->string))
      return fields[i].read(l, value, fields[i].key, (char *)l->to + fields[i].at);
  for (size_t i = 0; i < sizeof switched_off / sizeof *switched_off; i++)
    if (!strcmp(switched_off[i].key, value->string))
      return refuse_number(l, value, value->string, (void *)&switched_off[i].harmless);
  return strict ? accel__fail(ACCEL_ERROR_ARGUMENT,
                              "%s: '%s' is no field of a generation configuration", l->file->name,
                              value->string)
                : ACCEL_OK;
}

accel_status accel__generate_config_overlay(const accel__json_file *file, bool strict,
                                            accel__arena *arena, accel__generate_config *config) {
  layer l = {file, arena, config};
  if (!cJSON_IsObject(file->root))
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: not a JSON object", file->name);
  ACCEL_JSON_EACH(value, file->root) {
    if (cJSON_IsNull(value) || accel__json_get(file->root, value->string) != value) continue;
    ACCEL_TRY(read_member(&l, value, strict));
  }
  return ACCEL_OK;
}

accel_status accel__generate_config_read(const accel__json_file *file,
                                         const accel__json_file *config, accel__arena *arena,
                                         accel__generate_config *out) {
  *out = (accel__generate_config){.max_length = -1,
                                  .max_new_tokens = -1,
                                  .min_length = -1,
                                  .min_new_tokens = -1,
                                  .num_beams = 1,
                                  .num_return = 1,
                                  .length_penalty = 1,
                                  .temperature = 1,
                                  .top_k = 50,
                                  .top_p = 1,
                                  .typical_p = 1,
                                  .repetition_penalty = 1,
                                  .encoder_repetition_penalty = 1,
                                  .forced_bos = -1,
                                  .pad = -1,
                                  .max_initial_timestamp = -1,
                                  .bos = -1,
                                  .decoder_start = -1};
  ACCEL_TRY(accel__generate_config_overlay(file ? file : config, false, arena, out));
  bool forced = false; /* how BART's first checkpoints say it */
  if (!file)
    ACCEL_TRY(accel__json_bool(config, config->root, "force_bos_token_to_be_generated", &forced));
  if (forced) out->forced_bos = out->bos;
  if (out->decoder_start < 0) out->decoder_start = out->bos;
  return ACCEL_OK;
}

/* ---- checks ---- */

static bool has(accel__ids ids, int64_t id) {
  for (uint32_t i = 0; i < ids.n; i++)
    if (ids.id[i] == id) return true;
  return false;
}

static accel_status check_ids(const char *name, const char *key, accel__ids ids, int64_t vocab) {
  for (uint32_t i = 0; i < ids.n; i++)
    if (ids.id[i] < 0 || ids.id[i] >= vocab)
      return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: %s holds token %d; the model's are 0 to %lld",
                         name, key, ids.id[i], (long long)vocab - 1);
  return ACCEL_OK;
}

static accel_status check_range(const char *name, const char *key, double value, double least,
                                double most) {
  if (value >= least && value <= most) return ACCEL_OK;
  return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: %s is %g; it must be in [%g, %g]", name, key, value,
                     least, most);
}

static accel_status check_tokens(const accel__generate_config *c, const char *name, int64_t vocab) {
  for (uint32_t i = 0; i < c->n_bias; i++)
    ACCEL_TRY(check_ids(name, "sequence_bias", c->bias[i].ids, vocab));
  for (uint32_t i = 0; i < c->n_bad_words; i++)
    ACCEL_TRY(check_ids(name, "bad_words_ids", c->bad_words[i].ids, vocab));
  ACCEL_TRY(check_ids(name, "forced_eos_token_id", c->forced_eos, vocab));
  int32_t bos = (int32_t)c->forced_bos;
  if (c->forced_bos >= 0)
    ACCEL_TRY(check_ids(name, "forced_bos_token_id", (accel__ids){&bos, 1}, vocab));
  bool all = c->forced_eos.n > 0;
  for (uint32_t i = 0; i < c->forced_eos.n; i++) all &= has(c->suppress, c->forced_eos.id[i]);
  if (all || (c->forced_bos >= 0 && has(c->suppress, c->forced_bos)))
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "%s: suppress_tokens holds every token that forced_%s_token_id forces", name,
                       all ? "eos" : "bos");
  return ACCEL_OK;
}

accel_status accel__generate_config_check(const accel__generate_config *c, const char *name,
                                          int64_t vocab) {
  const double tiny = DBL_MIN;
  if (c->do_sample) {
    ACCEL_TRY(check_range(name, "temperature", c->temperature, tiny, FLT_MAX));
    ACCEL_TRY(check_range(name, "top_p", c->top_p, 0, 1));
    ACCEL_TRY(check_range(name, "min_p", c->min_p, 0, 1));
    ACCEL_TRY(check_range(name, "top_h", c->top_h, 0, 1));
    ACCEL_TRY(check_range(name, "typical_p", c->typical_p, tiny, FLT_MAX));
    ACCEL_TRY(check_range(name, "epsilon_cutoff", c->epsilon_cutoff, 0, 1));
    ACCEL_TRY(check_range(name, "eta_cutoff", c->eta_cutoff, 0, 1));
  }
  ACCEL_TRY(check_range(name, "repetition_penalty", c->repetition_penalty, tiny, FLT_MAX));
  ACCEL_TRY(check_range(name, "encoder_repetition_penalty", c->encoder_repetition_penalty, tiny,
                        FLT_MAX));
  ACCEL_TRY(check_range(name, "presence_penalty", c->presence_penalty, -FLT_MAX, FLT_MAX));
  ACCEL_TRY(check_range(name, "frequency_penalty", c->frequency_penalty, -FLT_MAX, FLT_MAX));
  ACCEL_TRY(check_range(name, "length_penalty", c->length_penalty, -FLT_MAX, FLT_MAX));
  ACCEL_TRY(check_range(name, "max_time", c->max_time, 0, FLT_MAX));
  if (c->max_new_tokens == 0)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: max_new_tokens is 0; at least 1", name);
  if (c->num_beams > 1 && c->num_return > c->num_beams)
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "%s: num_return_sequences %u is more than num_beams %u", name, c->num_return,
                       c->num_beams);
  if (c->num_beams == 1 && c->num_return > 1 && !c->do_sample)
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "%s: greedy decoding gives one sequence; num_return_sequences is %u", name,
                       c->num_return);
  return check_tokens(c, name, vocab);
}
