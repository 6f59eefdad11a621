/* settings.c - see settings.h. */
#include "text/settings.h"

#include <stdlib.h>
#include <string.h>

#include "text/text_internal.h"
#include "text/tokenizer_class.h"

const char *const accel__named_token_keys[ACCEL__NAMED_TOKENS] = {
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};

typedef const accel__json json_t;
typedef const accel__json_file file_t;

/* ---- one object of all files ---- */

static void put_key(accel__buffer *b, const char *key, bool *first) {
  accel__buffer_text(b, *first ? "{" : ",");
  *first = false;
  accel__buffer_json_string(b, key, strlen(key));
  accel__buffer_text(b, ":");
}

static accel_status put_member(accel__buffer *b, json_t *member, bool *first) {
  char *text = cJSON_PrintUnformatted(member);
  if (!text) return accel__no_memory(0);
  put_key(b, member->string, first);
  accel__buffer_text(b, text);
  cJSON_free(text);
  return accel__buffer_status(b);
}

static const char *content_of(json_t *token) {
  json_t *text = cJSON_IsObject(token) ? accel__json_get(token, "content") : token;
  return cJSON_IsString(text) ? text->valuestring : "";
}

json_t *accel__extra_tokens(json_t *settings) {
  json_t *list = accel__json_get(settings, "extra_special_tokens");
  return list ? list : accel__json_get(settings, "additional_special_tokens");
}

/* Texts that count as special when added_tokens.json is read: those of special_tokens_map.json, and
 * of tokenizer_config.json those that are plain strings. */
static accel_status find_special(json_t *config, json_t *map, accel__map *out) {
  json_t *list = accel__extra_tokens(config);
  for (int i = 0; i < ACCEL__NAMED_TOKENS; ++i) {
    json_t *token = accel__json_get(map, accel__named_token_keys[i]);
    if (!token) token = accel__json_get(config, accel__named_token_keys[i]);
    const char *text = accel__json_get(map, accel__named_token_keys[i]) || cJSON_IsString(token)
                           ? content_of(token)
                           : "";
    if (*text) ACCEL_TRY(accel__map_set(out, text, strlen(text), 1));
  }
  ACCEL_JSON_EACH(token, cJSON_IsArray(list) ? list : NULL) {
    if (cJSON_IsString(token))
      ACCEL_TRY(accel__map_set(out, token->valuestring, strlen(token->valuestring), 1));
  }
  return ACCEL_OK;
}

static bool has(const accel__map *map, const char *text) {
  int64_t value;
  return accel__map_get(map, text, strlen(text), &value);
}

static int by_number(const void *a, const void *b) {
  json_t *const *x = a, *const *y = b;
  return ((*x)->valuedouble > (*y)->valuedouble) - ((*x)->valuedouble < (*y)->valuedouble);
}

static void put_numbered(accel__buffer *b, json_t *item, bool special, bool first) {
  accel__buffer_printf(b, "%s\"%d\":{\"content\":", first ? "{" : ",", (int)item->valuedouble);
  accel__buffer_json_string(b, item->string, strlen(item->string));
  accel__buffer_printf(b, ",\"special\":%s,\"normalized\":%s}", special ? "true" : "false",
                       special ? "false" : "true");
}

/* {"text": id, ...} as an added_tokens_decoder, by ids. */
static accel_status put_added(accel__buffer *b, file_t *added, const accel__map *special_texts,
                              bool *first) {
  size_t n = 0;
  if (!cJSON_IsObject(added->root))
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: not a JSON object", added->name);
  ACCEL_JSON_EACH(item, added->root) {
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0 && item->valuedouble < ACCEL__TOKENS_MAX))
      return accel__fail(ACCEL_ERROR_FORMAT, "%s: '%.60s' has no id from 0 to %d", added->name,
                         item->string, ACCEL__TOKENS_MAX - 1);
    n++;
  }
  json_t **list = calloc(n + 1, sizeof *list);
  if (!list) return accel__no_memory((n + 1) * sizeof *list);
  n = 0;
  ACCEL_JSON_EACH(item, added->root) list[n++] = item;
  qsort(list, n, sizeof *list, by_number);
  put_key(b, "added_tokens_decoder", first);
  for (size_t i = 0; i < n; ++i)
    put_numbered(b, list[i], has(special_texts, list[i]->string), i == 0);
  accel__buffer_text(b, n ? "}" : "{}");
  free(list);
  return accel__buffer_status(b);
}

/* The class that config.json names or implies, where tokenizer_config.json names none. */
static void put_class(accel__buffer *b, json_t *config, json_t *model, bool *first) {
  json_t *class = accel__json_get(model, "tokenizer_class"),
         *type = accel__json_get(model, "model_type");
  const char *name = cJSON_IsString(class)  ? class->valuestring
                     : cJSON_IsString(type) ? accel__tokenizer_class_of_type(type->valuestring)
                                            : NULL;
  if (name == NULL || cJSON_IsString(accel__json_get(config, "tokenizer_class"))) return;
  put_key(b, "tokenizer_class", first);
  accel__buffer_json_string(b, name, strlen(name));
}

static accel_status put_settings(accel__buffer *b, json_t *config, json_t *map, file_t *added,
                                 file_t *model, bool pieces) {
  static const char lists[] = "additional_special_tokens";
  bool first = true;
  put_class(b, config, model->root, &first);
  const bool listed = pieces || accel__extra_tokens(config);
  ACCEL_JSON_EACH(member, config) {
    const bool replaced =
        accel__json_get(map, member->string) && strcmp(member->string, lists) != 0;
    if (!replaced && accel__json_get(config, member->string) == member)
      ACCEL_TRY(put_member(b, member, &first));
  }
  /* additional_special_tokens count where tokenizer_config.json has no such list */
  ACCEL_JSON_EACH(member, map) {
    const bool unread = listed && strcmp(member->string, lists) == 0;
    if (!unread && accel__json_get(map, member->string) == member)
      ACCEL_TRY(put_member(b, member, &first));
  }
  if (added->root) {
    accel__map special_texts = {0};
    accel_status status = find_special(config, map, &special_texts);
    if (status == ACCEL_OK) status = put_added(b, added, &special_texts, &first);
    accel__map_free(&special_texts);
    ACCEL_TRY(status);
  }
  accel__buffer_text(b, first ? "{}" : "}");
  return accel__buffer_status(b);
}

accel_status accel__tokenizer_settings(const char *directory, file_t *config, file_t *map,
                                       file_t *model, bool pieces, accel__json_file *out) {
  accel__buffer b = {0};
  accel__json_file added = {0};
  accel_status status = ACCEL_OK;
  const bool whole = accel__json_get(config->root, "added_tokens_decoder") != NULL;
  if (!whole) status = accel__json_read_beside(directory, "added_tokens.json", 0, &added);
  if (status == ACCEL_OK)
    status = put_settings(&b, config->root, whole ? NULL : map->root, &added, model, pieces);
  if (status == ACCEL_OK)
    status = accel__json_parse(
        b.data, b.n, config->root ? config->name : "the files beside the vocabulary", out);
  accel__json_free(&added);
  accel__buffer_free(&b);
  return status;
}

/* ---- added tokens ---- */

typedef struct token {
  double id;      /* of added_tokens_decoder */
  size_t mention; /* there, counted */
  const char *content;
  json_t *flags;        /* NULL: none of its own */
  bool special, listed; /* listed: in added_tokens_decoder, which later mentions do not change */
  bool as_text, later;  /* was mentioned as a string; by name or in a list of special tokens */
} token;

typedef struct tokens {
  token *at;
  size_t n;
  accel__map index; /* of a content */
} tokens;

static int by_id(const void *a, const void *b) {
  const token *x = a, *y = b;
  if (x->id != y->id) return x->id > y->id ? 1 : -1;
  return (x->mention > y->mention) - (x->mention < y->mention);
}

/* A content that is there already gets the flags of its last mention, of plain strings the
 * first. */
static accel_status add(tokens *t, json_t *said, const char *content, bool special) {
  json_t *flags = cJSON_IsObject(said) ? said : NULL;
  int64_t i = (int64_t)t->n;
  if (!*content) return ACCEL_OK;
  if (accel__map_get(&t->index, content, strlen(content), &i)) {
    token *at = &t->at[i];
    if (!at->listed && (flags || !at->as_text)) at->flags = flags;
    at->as_text = at->as_text || !flags;
    at->later = true;
    return ACCEL_OK;
  }
  t->at[t->n++] = (token){
      .content = content, .flags = flags, .special = special, .as_text = !flags, .later = true};
  return accel__map_set(&t->index, content, strlen(content), i);
}

static bool is_named(const char *key) {
  for (int i = 0; i < ACCEL__NAMED_TOKENS; ++i) {
    if (!strcmp(key, accel__named_token_keys[i])) return true;
  }
  return false;
}

/* A member "..._token" of another name. */
static bool is_model_token(json_t *member) {
  return cJSON_IsString(member) && !is_named(member->string) &&
         accel__ends_with(member->string, "_token");
}

static bool is_named_otherwise(json_t *settings, const char *content) {
  ACCEL_JSON_EACH(member, settings) {
    if (is_model_token(member) && !strcmp(member->valuestring, content)) return true;
  }
  return false;
}

/* A token of added_tokens_decoder, or of a tokenizer.json's added_tokens. */
static void add_listed(tokens *t, json_t *settings, const char *const *named, json_t *item,
                       double id) {
  const char *content = content_of(item);
  bool special = cJSON_IsTrue(accel__json_get(item, "special"));
  for (int k = 0; k < ACCEL__NAMED_TOKENS; ++k) special = special || !strcmp(named[k], content);
  if (!*content) return;
  t->at[t->n] = (token){.id = id,
                        .mention = t->n,
                        .content = content,
                        .flags = item,
                        .special = special || is_named_otherwise(settings, content),
                        .listed = true};
  t->n++;
}

/* What has an id: the last mention of one counts. */
static accel_status add_decoder(tokens *t, json_t *settings, json_t *listed,
                                const accel__class_tokens *class) {
  const char *named[ACCEL__NAMED_TOKENS];
  json_t *object = accel__json_get(settings, "added_tokens_decoder");
  for (int i = 0; i < ACCEL__NAMED_TOKENS; ++i) {
    named[i] = content_of(accel__json_get(settings, accel__named_token_keys[i]));
    if (!*named[i] && class->own[i]) named[i] = class->own[i];
  }
  ACCEL_JSON_EACH(item, cJSON_IsObject(object) ? object : NULL)
  add_listed(t, settings, named, item, atof(item->string));
  ACCEL_JSON_EACH(item, listed) {
    json_t *id = accel__json_get(item, "id");
    add_listed(t, settings, named, item, cJSON_IsNumber(id) ? id->valuedouble : 0);
  }
  qsort(t->at, t->n, sizeof *t->at, by_id);
  size_t n = 0;
  for (size_t i = 0; i < t->n; ++i) {
    if (listed && i + 1 < t->n && t->at[i + 1].id == t->at[i].id) continue;
    t->at[n++] = t->at[i];
  }
  t->n = n;
  for (size_t i = 0; i < t->n; ++i)
    ACCEL_TRY(accel__map_set(&t->index, t->at[i].content, strlen(t->at[i].content), (int64_t)i));
  return ACCEL_OK;
}

static const accel__json takes_space = {.type = cJSON_True, .string = (char[]){"lstrip"}},
                         own_mask = {.type = cJSON_Object, .child = (accel__json *)&takes_space};

static accel_status add_all(tokens *t, json_t *settings, json_t *listed,
                            const accel__class_tokens *class) {
  ACCEL_TRY(add_decoder(t, settings, listed, class));
  for (int i = 0; i < ACCEL__NAMED_TOKENS; ++i) {
    /* null: none */
    json_t *said = cJSON_GetObjectItemCaseSensitive(settings, accel__named_token_keys[i]);
    const char *content = said ? content_of(said) : class->own[i] ? class->own[i] : "";
    if (class->mask_takes_space && i == ACCEL__NAMED_TOKENS - 1 && !cJSON_IsObject(said))
      said = &own_mask;
    ACCEL_TRY(add(t, said, content, true));
  }
  ACCEL_JSON_EACH(member, settings) {
    if (is_model_token(member)) ACCEL_TRY(add(t, NULL, member->valuestring, true));
  }
  ACCEL_JSON_EACH(said, accel__extra_tokens(settings)) { /* of a list, or of an object by name */
    const bool special = cJSON_IsString(said) || cJSON_IsTrue(accel__json_get(said, "special"));
    ACCEL_TRY(add(t, said, content_of(said), special));
  }
  return ACCEL_OK;
}

static void put_token(accel__buffer *b, const token *t) {
  static const char *const names[] = {"lstrip", "rstrip", "single_word"};
  accel__buffer_text(b, "{\"content\":");
  accel__buffer_json_string(b, t->content, strlen(t->content));
  for (int i = 0; i < 3; ++i)
    accel__buffer_printf(b, ",\"%s\":%s", names[i],
                         cJSON_IsTrue(accel__json_get(t->flags, names[i])) ? "true" : "false");
  json_t *said = accel__json_get(t->flags, "normalized");
  const bool normalized = cJSON_IsBool(said) ? cJSON_IsTrue(said) : !t->special;
  if (t->listed) accel__buffer_printf(b, ",\"id\":%.0f", t->id);
  accel__buffer_printf(b, ",\"normalized\":%s,\"special\":%s,\"listed\":%s}",
                       normalized ? "true" : "false", t->special ? "true" : "false",
                       t->listed ? "true" : "false");
}

accel_status accel__put_added_tokens(json_t *settings, json_t *listed,
                                     const accel__class_tokens *class, accel__buffer *b) {
  tokens t = {0};
  size_t most = ACCEL__NAMED_TOKENS;
  ACCEL_JSON_EACH(member, settings) most++;
  ACCEL_JSON_EACH(member, accel__json_get(settings, "added_tokens_decoder")) most++;
  ACCEL_JSON_EACH(member, accel__extra_tokens(settings)) most++;
  ACCEL_JSON_EACH(member, listed) most++;
  if (!(t.at = calloc(most, sizeof *t.at))) return accel__no_memory(most * sizeof *t.at);
  accel_status status = add_all(&t, settings, listed, class);
  accel__buffer_text(b, "\"added_tokens\":[");
  for (size_t i = 0; status == ACCEL_OK && i < t.n; ++i) {
    if (class->plain && t.at[i].later)
      t.at[i] = (token){.content = t.at[i].content, .special = true};
    accel__buffer_text(b, i ? "," : "");
    put_token(b, &t.at[i]);
  }
  accel__buffer_text(b, "],");
  accel__map_free(&t.index);
  free(t.at);
  return status == ACCEL_OK ? accel__buffer_status(b) : status;
}

accel_status accel__settings_tokens(json_t *settings, const char *name, accel__json_file *out) {
  static const accel__class_tokens none;
  accel__buffer b = {0};
  *out = (accel__json_file){0};
  accel__buffer_text(&b, "{");
  accel_status status = accel__put_added_tokens(settings, NULL, &none, &b);
  accel__buffer_text(&b, "\"\":0}");
  if (status == ACCEL_OK) status = accel__buffer_status(&b);
  if (status == ACCEL_OK) status = accel__json_parse(b.data, b.n, name, out);
  accel__buffer_free(&b);
  return status;
}
