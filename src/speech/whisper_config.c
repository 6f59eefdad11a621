/* whisper_config.c - Whisper's fields of generation_config.json, and the first tokens of its
 * decoder. */
#include "speech/whisper_config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/text.h"
#include "text/whisper_languages.h"

typedef struct reader {
  const accel__json_file *file;
  accel__arena *arena;
  int64_t vocab;
  accel__whisper_config *to;
} reader;

static accel_status wrong(const reader *r, const char *key, const char *expected) {
  return accel__fail(ACCEL_ERROR_FORMAT, "%s: field '%s': expected %s", r->file->name, key,
                     expected);
}

static bool is_id(const reader *r, const accel__json *value) {
  return cJSON_IsNumber(value) && value->valuedouble >= 0 &&
         value->valuedouble < (double)r->vocab &&
         value->valuedouble == (double)(int64_t)value->valuedouble;
}

/* {"<|en|>": id, ...} */
static accel_status read_languages(const reader *r) {
  const accel__json *map = NULL;
  uint32_t n = 0;
  ACCEL_TRY(accel__json_object(r->file, r->file->root, "lang_to_id", &map));
  if (!map) return ACCEL_OK;
  accel__whisper_language *list =
      accel__arena_array(r->arena, (size_t)cJSON_GetArraySize(map), sizeof *list);
  if (!list) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_JSON_EACH(item, map) {
    if (!is_id(r, item)) return wrong(r, "lang_to_id", "token ids of the vocabulary");
    list[n].token = accel__arena_string(r->arena, item->string);
    if (!list[n].token) return ACCEL_ERROR_OUT_OF_MEMORY;
    list[n++].id = (int32_t)item->valuedouble;
  }
  r->to->language = list;
  r->to->n_languages = n;
  return ACCEL_OK;
}

static accel_status read_tasks(const reader *r) {
  const accel__json *map = NULL;
  ACCEL_TRY(accel__json_object(r->file, r->file->root, "task_to_id", &map));
  ACCEL_TRY(accel__json_int(r->file, map, "transcribe", 0, r->vocab - 1, &r->to->transcribe));
  return accel__json_int(r->file, map, "translate", 0, r->vocab - 1, &r->to->translate);
}

/* [[1, id or null], [2, id], ...]: tokens of positions 1, 2, ... without a gap. */
static accel_status read_forced(const reader *r) {
  static const char expected[] = "[[1, token or null], [2, token], ...] without a gap";
  const accel__json *list = NULL;
  uint32_t n = 0;
  ACCEL_TRY(accel__json_array(r->file, r->file->root, "forced_decoder_ids", &list));
  if (!list || !list->child || r->to->forced) return ACCEL_OK;
  int64_t *forced = accel__arena_array(r->arena, (size_t)cJSON_GetArraySize(list), sizeof *forced);
  if (!forced) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_JSON_EACH(pair, list) {
    const accel__json *index = cJSON_IsArray(pair) ? pair->child : NULL,
                      *token = index ? index->next : NULL;
    if (!cJSON_IsNumber(index) || !token || token->next)
      return wrong(r, "forced_decoder_ids", expected);
    /* as the class has it: then none count */
    if (n == 0 && index->valuedouble != 1) return ACCEL_OK;
    if (index->valuedouble != n + 1.0) return wrong(r, "forced_decoder_ids", expected);
    if (!cJSON_IsNull(token) && !is_id(r, token))
      return wrong(r, "forced_decoder_ids", "token ids of the vocabulary");
    forced[n++] = cJSON_IsNull(token) ? -1 : (int64_t)token->valuedouble;
  }
  r->to->forced = forced;
  r->to->n_forced = n;
  return ACCEL_OK;
}

static accel_status read_text(const reader *r, const char *key, const char **out) {
  const char *text = NULL;
  ACCEL_TRY(accel__json_string(r->file, r->file->root, key, &text));
  if (text && !(*out = accel__arena_string(r->arena, text))) return ACCEL_ERROR_OUT_OF_MEMORY;
  return ACCEL_OK;
}

static accel_status read_plain(const reader *r) {
  const accel__json_file *f = r->file;
  accel__whisper_config *c = r->to;
  bool multilingual = true;
  ACCEL_TRY(accel__json_bool(f, f->root, "is_multilingual", &multilingual));
  c->english_only = !multilingual;
  ACCEL_TRY(
      accel__json_int(f, f->root, "no_timestamps_token_id", 0, r->vocab - 1, &c->no_timestamps));
  ACCEL_TRY(accel__json_int(f, f->root, "max_initial_timestamp_index", 0, INT32_MAX,
                            &c->max_initial_timestamp));
  ACCEL_TRY(accel__json_int(f, f->root, "prev_sot_token_id", 0, r->vocab - 1, &c->prev_sot));
  ACCEL_TRY(accel__json_bool(f, f->root, "return_timestamps", &c->return_timestamps));
  ACCEL_TRY(accel__json_bool(f, f->root, "condition_on_prev_tokens", &c->condition_on_previous));
  ACCEL_TRY(accel__json_number(f, f->root, "compression_ratio_threshold", &c->compression_ratio));
  ACCEL_TRY(accel__json_number(f, f->root, "logprob_threshold", &c->logprob));
  ACCEL_TRY(accel__json_number(f, f->root, "no_speech_threshold", &c->no_speech));
  ACCEL_TRY(read_text(r, "language", &c->said_language));
  return read_text(r, "task", &c->said_task);
}

accel_status accel__whisper_config_read(const accel__json_file *file,
                                        const accel__json_file *config, int64_t vocab,
                                        accel__arena *arena, accel__whisper_config *out) {
  reader r = {file ? file : config, arena, vocab, out};
  *out = (accel__whisper_config){.transcribe = -1,
                                 .translate = -1,
                                 .no_timestamps = -1,
                                 .max_initial_timestamp = -1,
                                 .prev_sot = -1,
                                 .compression_ratio = NAN,
                                 .logprob = NAN,
                                 .no_speech = NAN};
  if (!(out->file = accel__arena_string(arena, r.file->name))) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(read_plain(&r));
  ACCEL_TRY(read_languages(&r));
  ACCEL_TRY(read_tasks(&r));
  ACCEL_TRY(read_forced(&r));
  r.file = config;
  return read_forced(&r);
}

/* ---- the first tokens ---- */

static const accel__whisper_language *find_language(const accel__whisper_config *c,
                                                    const char *token) {
  for (uint32_t i = 0; i < c->n_languages; i++)
    if (accel__equal_ignoring_case(c->language[i].token, token)) return &c->language[i];
  return NULL;
}

const char *accel__whisper_language_of(const accel__whisper_config *c, int32_t id) {
  for (uint32_t i = 0; i < c->n_languages; i++) {
    const char *token = c->language[i].token;
    size_t n = strlen(token);
    if (c->language[i].id != id || n < 5) continue;
    const char *name = accel__language_name(token + 2, n - 4);
    if (name) return accel__language_code(name);
  }
  return NULL;
}

static accel_status language_id(const accel__whisper_config *c, const char *name, int64_t *id) {
  char token[64];
  const char *code = accel__language_code(name);
  if (!c->n_languages)
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "%s: has no lang_to_id, so no language can be chosen ('%s' is asked for)",
                       c->file, name);
  snprintf(token, sizeof token, "<|%s|>", code ? code : "");
  const accel__whisper_language *found = find_language(c, name);
  if (!found && code) found = find_language(c, token);
  if (!found)
    return accel__remedy(
        accel__fail(ACCEL_ERROR_ARGUMENT,
                    code ? "%s: lang_to_id has no language '%s'" : "%s: language '%s' is not known",
                    c->file, name),
        "give a code (en, fr, ...) or an English name of one of the model's %u languages",
        c->n_languages);
  *id = found->id;
  return ACCEL_OK;
}

static accel_status task_id(const accel__whisper_config *c, const char *task, int64_t *id) {
  const bool translate = !strcmp(task, "translate");
  if (!translate && strcmp(task, "transcribe"))
    return accel__fail(ACCEL_ERROR_ARGUMENT, "task '%s' is not known; known: transcribe, translate",
                       task);
  *id = translate ? c->translate : c->transcribe;
  if (*id < 0)
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "%s: task_to_id has no '%s', so this task cannot be chosen", c->file, task);
  return ACCEL_OK;
}

static bool has_task(const accel__whisper_config *c, const int64_t *ids, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (ids[i] >= 0 && (ids[i] == c->transcribe || ids[i] == c->translate)) return true;
  return false;
}

enum { DETECT = -2 }; /* beside -1, which stands for null */

/* Start, then what forced_decoder_ids say, with the language in its position. */
static accel_status first_tokens(const accel__whisper_config *c, const char *language,
                                 const char *task, int64_t start, int64_t *ids, uint32_t *n) {
  ids[(*n)++] = start;
  for (uint32_t i = 0; !language && !task && i < c->n_forced; i++) ids[(*n)++] = c->forced[i];
  int64_t id = DETECT;
  const bool open = *n <= 1 || ids[1] < 0;
  if (language) ACCEL_TRY(language_id(c, language, &id));
  if (!language && (!c->n_languages || !open)) return ACCEL_OK;
  ids[1] = id;
  if (*n < 2) *n = 2;
  return ACCEL_OK;
}

accel_status accel__whisper_begin(const accel__whisper_config *c, const char *language,
                                  const char *task, bool timestamps, int64_t start,
                                  accel__arena *arena, accel__ids *out, int32_t *detect) {
  if (c->english_only && (language || task))
    return accel__remedy(
        accel__fail(ACCEL_ERROR_ARGUMENT,
                    "%s: is_multilingual is false: language and task cannot be chosen", c->file),
        "leave them out, or use a multilingual model");
  if (!language) language = c->said_language;
  if (!task) task = c->said_task;
  int64_t *ids = accel__arena_array(arena, (size_t)c->n_forced + 5, sizeof *ids), id = -1;
  int32_t *kept = accel__arena_array(arena, (size_t)c->n_forced + 5, sizeof *kept);
  uint32_t n = 0, k = 0;
  if (!ids || !kept) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(first_tokens(c, language, task, start, ids, &n));
  if (task) {
    ACCEL_TRY(task_id(c, task, &id));
    ids[n++] = id;
  } else if (language && c->transcribe >= 0 && !has_task(c, ids, n)) {
    ids[n++] = c->transcribe;
  }
  if (c->no_timestamps >= 0 && !timestamps && ids[n - 1] != c->no_timestamps)
    ids[n++] = c->no_timestamps;
  else if (timestamps && c->no_timestamps >= 0 && ids[n - 1] == c->no_timestamps)
    n--;
  *detect = -1;
  for (uint32_t i = 0; i < n; i++) {
    if (ids[i] == DETECT) *detect = (int32_t)k;
    if (ids[i] != -1) kept[k++] = ids[i] == DETECT ? -1 : (int32_t)ids[i];
  }
  *out = (accel__ids){kept, k};
  return ACCEL_OK;
}
