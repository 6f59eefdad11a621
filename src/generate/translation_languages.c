/* translation_languages.c - see translation_languages.h. */
#include "generate/translation_languages.h"

#include <stdio.h>
#include <string.h>

#include "processing/processor.h"

static const char PAIR[] = "translation_";

/* ---- what a model knows ---- */

typedef struct known {
  accel__arena *arena;
  const char **name; /* as a caller writes them */
  int32_t *id;       /* their tokens; -1: none */
  uint32_t n, capacity;
} known;

static accel_status add(known *k, const char *name, size_t n, int32_t id) {
  if (k->n == k->capacity) {
    uint32_t capacity = 2 * k->capacity + 64;
    const char **names = accel__arena_array(k->arena, capacity, sizeof *names);
    int32_t *ids = accel__arena_array(k->arena, capacity, sizeof *ids);
    if (!names || !ids) return ACCEL_ERROR_OUT_OF_MEMORY;
    if (k->n) memcpy(names, k->name, k->n * sizeof *names), memcpy(ids, k->id, k->n * sizeof *ids);
    k->name = names;
    k->id = ids;
    k->capacity = capacity;
  }
  k->id[k->n] = id;
  k->name[k->n] = accel__arena_copy(k->arena, name, n);
  return k->name[k->n++] ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

static size_t lower(const char *text) { return strspn(text, "abcdefghijklmnopqrstuvwxyz"); }
static size_t letters(const char *text) {
  return strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
}

/* "en_XX", "zh_CN", "ace_Arab": the whole; "__en__": what is between.  *n 0: no language. */
static const char *language_of(const char *token, size_t length, size_t *n) {
  size_t first = lower(token);
  *n = 0;
  if (accel__starts_with(token, "__") && (first = lower(token + 2)) >= 2 && first + 4 == length &&
      !strcmp(token + 2 + first, "__"))
    return *n = first, token + 2;
  if ((first != 2 && first != 3) || token[first] != '_') return token;
  const char *rest = token + first + 1;
  if (*rest >= 'A' && *rest <= 'Z' && letters(rest) >= 2 && letters(rest) <= 4 &&
      first + 1 + letters(rest) == length)
    *n = length;
  return token;
}

bool accel__is_language(const accel__tokenizer *tokenizer, int32_t id) {
  size_t length, n = 0;
  const char *token = accel__id_to_token(tokenizer, id, &length);
  if (token && accel__id_is_special(tokenizer, id)) language_of(token, length, &n);
  return n > 0;
}

static accel_status of_tokens(const accel__tokenizer *t, known *k) {
  for (uint32_t id = 0; id <= accel__tokenizer_describe(t)->max_id; id++) {
    size_t length, n;
    if (!accel__id_is_special(t, (int32_t)id)) continue;
    const char *token = accel__id_to_token(t, (int32_t)id, &length);
    const char *name = language_of(token, length, &n);
    if (n) ACCEL_TRY(add(k, name, n, (int32_t)id));
  }
  return ACCEL_OK;
}

/* Marian's tokens ">>fra<<". */
static accel_status of_codes(const accel__tokenizer *t, known *k) {
  for (uint32_t id = 0; id <= accel__tokenizer_describe(t)->max_id; id++) {
    size_t length;
    const char *token = accel__id_to_token(t, (int32_t)id, &length);
    if (token && length > 4 && accel__starts_with(token, ">>") && accel__ends_with(token, "<<"))
      ACCEL_TRY(add(k, token + 2, length - 4, (int32_t)id));
  }
  return ACCEL_OK;
}

/* ---- errors ---- */

static accel_status unknown(const accel_endpoint *ep, const char *what, const char *name,
                            const known *k) {
  char list[700] = "";
  size_t used = 0;
  uint32_t i = 0;
  for (; i < k->n && used + strlen(k->name[i]) + 40 < sizeof list; i++)
    used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", k->name[i]);
  if (i < k->n) snprintf(list + used, sizeof list - used, " and %u more", k->n - i);
  const char *near = accel__nearest(name, k->name, k->n);
  accel_status status = accel__fail(ACCEL_ERROR_ARGUMENT,
                                    "%s: the model does not know the %s language '%s'; it knows %s",
                                    ep->name, what, name, list);
  return near ? accel__remedy(status, "did you mean '%s'?", near) : status;
}

/* `name`, or the only language that begins with it and '_'. */
static accel_status look_up(const accel_endpoint *ep, const char *what, const char *name,
                            const known *k, int32_t *id) {
  size_t n = strlen(name);
  uint32_t matches = 0;
  for (uint32_t i = 0; i < k->n; i++)
    if (!strcmp(k->name[i], name)) return *id = k->id[i], ACCEL_OK;
  for (uint32_t i = 0; i < k->n; i++)
    if (!strncmp(k->name[i], name, n) && k->name[i][n] == '_') *id = k->id[i], matches++;
  return matches == 1 ? ACCEL_OK : unknown(ep, what, name, k);
}

/* ---- the kinds ---- */

/* T5: entries "translation_en_to_de" of task_specific_params. */
static accel_status find_pair(const accel_endpoint *ep, const accel__json *tasks, const char *from,
                              const char *to, accel__arena *arena, accel__languages *out) {
  known pairs = {.arena = arena};
  uint32_t matches = 0;
  ACCEL_JSON_EACH(item, tasks) {
    const char *name = item->string + strlen(PAIR), *middle = strstr(item->string, "_to_");
    if (!accel__starts_with(item->string, PAIR) || !middle || !cJSON_IsObject(item)) continue;
    size_t n = (size_t)(middle - name);
    ACCEL_TRY(add(&pairs, name, strlen(name), -1));
    if ((from && (strlen(from) != n || strncmp(from, name, n))) || (to && strcmp(to, middle + 4)))
      continue;
    out->task = item;
    matches++;
  }
  if (matches == 1 || pairs.n == 0) return ACCEL_OK;
  char wanted[200];
  snprintf(wanted, sizeof wanted, "%.80s_to_%.80s", from ? from : "?", to ? to : "?");
  return unknown(ep, "pair of", wanted, &pairs);
}

/* What tokenizer_config.json says of a model with one pair. */
static accel_status check_pair(const accel_endpoint *ep, const char *from, const char *to) {
  accel__json_file file;
  const char *source = NULL, *target = NULL;
  accel_status status = accel__json_read_beside(ep->directory, "tokenizer_config.json", 0, &file);
  if (status == ACCEL_OK && file.root)
    status = accel__json_string(&file, file.root, "source_lang", &source);
  if (file.root && status == ACCEL_OK)
    status = accel__json_string(&file, file.root, "target_lang", &target);
  if (status == ACCEL_OK &&
      ((from && source && strcmp(from, source)) || (to && target && strcmp(to, target))))
    status = accel__fail(ACCEL_ERROR_ARGUMENT, "%s: the model translates %s to %s, not %s to %s",
                         ep->name, source ? source : "?", target ? target : "?",
                         from     ? from
                         : source ? source
                                  : "?",
                         to       ? to
                         : target ? target
                                  : "?");
  if (status == ACCEL_OK && !source && !target)
    status =
        accel__remedy(accel__fail(ACCEL_ERROR_ARGUMENT,
                                  "%s: the model does not say which languages it knows", ep->name),
                      "leave the languages out");
  accel__json_free(&file);
  return status;
}

/* "translation" alone is the first pair, as transformers has it. */
static const accel__json *first_pair(const accel_endpoint *ep, const accel__json *tasks) {
  ACCEL_JSON_EACH(item, tasks) {
    if (!accel__starts_with(item->string, "translation") || !cJSON_IsObject(item)) continue;
    accel__logf(&ep->ctx->log, ACCEL_LOG_WARNING, "%s: no languages are named: '%s'", ep->name,
                item->string);
    return item;
  }
  return NULL;
}

static accel_status with_code(const accel_endpoint *ep, const char *to, const known *codes,
                              accel__arena *arena, accel__languages *out) {
  int32_t id = -1;
  if (!to) return ACCEL_OK;
  ACCEL_TRY(look_up(ep, "target", to, codes, &id));
  for (uint32_t i = 0; i < codes->n; i++)
    if (codes->id[i] == id) out->before = accel__arena_printf(arena, ">>%s<< ", codes->name[i]);
  return out->before ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

/* "translation_en_to_de" in parts; false: it is no such name. */
static bool split_hint(const char *hint, accel__arena *arena, const char **from, const char **to) {
  const char *middle = hint ? strstr(hint, "_to_") : NULL, *name = hint + strlen(PAIR);
  if (!middle || !accel__starts_with(hint, PAIR) || middle <= name) return false;
  *from = accel__arena_copy(arena, name, (size_t)(middle - name));
  *to = middle + 4;
  return *from != NULL;
}

accel_status accel__languages_find(const accel_endpoint *ep, const char *from, const char *to,
                                   const char *hint, accel__arena *arena, accel__languages *out) {
  const accel__tokenizer *t = accel__processor_for(ep)->tokenizer;
  const accel__json *tasks = accel__json_get(ep->config.root, "task_specific_params");
  known tokens = {.arena = arena}, codes = {.arena = arena};
  const char *hinted_from = NULL, *hinted_to = NULL;
  *out = (accel__languages){.from = -1, .to = -1, .before = ""};
  bool asked = from || to, hinted = !asked && split_hint(hint, arena, &hinted_from, &hinted_to);
  if (hint) out->task = accel__json_get(tasks, hint);
  ACCEL_TRY(of_tokens(t, &tokens));
  if (tokens.n > 1) { /* one alone is some other special token */
    if (hinted) from = hinted_from, to = hinted_to;
    if (from) ACCEL_TRY(look_up(ep, "source", from, &tokens, &out->from));
    return to ? look_up(ep, "target", to, &tokens, &out->to) : ACCEL_OK;
  }
  if (!asked && hint && !strcmp(hint, "translation") && !out->task)
    out->task = first_pair(ep, tasks);
  if (!asked) return ACCEL_OK;
  ACCEL_TRY(find_pair(ep, tasks, from, to, arena, out));
  if (out->task) return ACCEL_OK;
  ACCEL_TRY(of_codes(t, &codes));
  return codes.n ? with_code(ep, to, &codes, arena, out) : check_pair(ep, from, to);
}
