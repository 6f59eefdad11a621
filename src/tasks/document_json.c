/* document_json.c - the texts that Donut writes: their answer, and token2json of its processor. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "tasks/document_questions.h"
#include "core/json.h"
#include "core/text.h"
#include "processing/processor.h"
#include "text/unicode.h"

/* ---- texts ---- */

size_t accel__space_at(const char *text, size_t n) {
  uint32_t c;
  const size_t bytes = n ? accel__utf8_decode(text, n, &c) : 0;
  if (!bytes) return 0;
  /* Python counts the separators of ASCII, too */
  return accel__unicode_is(c, ACCEL__UNI_WHITE) || (c >= 0x1C && c <= 0x1F) ? bytes : 0;
}

void accel__strip(const char **text, size_t *n) {
  size_t end = 0, space;
  while ((space = accel__space_at(*text, *n)) > 0) {
    *text += space;
    *n -= space;
  }
  for (size_t at = 0; at < *n;) {
    if ((space = accel__space_at(*text + at, *n - at)) > 0)
      at += space;
    else
      end = ++at;
  }
  *n = end;
}

/* Where `what` is in text[n]; NULL: nowhere. */
static const char *find(const char *text, size_t n, const char *what, size_t bytes, bool any_case) {
  for (size_t at = 0; bytes <= n && at <= n - bytes; at++)
    if (any_case ? !strncasecmp(text + at, what, bytes) : !memcmp(text + at, what, bytes))
      return text + at;
  return NULL;
}

bool accel__donut_answer(const char *text, const char **answer, size_t *n) {
  static const char open[] = "<s_answer>", close[] = "</s_answer>";
  const char *at = strchr(text, '<');
  /* the first mark is the task's: what it is does not matter */
  for (; at; at = strchr(at + 1, '<')) {
    const size_t to = strcspn(at, ">\n");
    if (at[to] != '>') continue;
    at += to + 1;
    break;
  }
  for (at = strstr(at ? at : text, open); at; at = strstr(at + 1, open)) {
    const char *begin = at + strlen(open), *last = NULL;
    const size_t line = strcspn(begin, "\n");
    for (const char *c = begin;
         (c = find(c, line - (size_t)(c - begin), close, strlen(close), false)); c++)
      last = c;
    if (!last) continue;
    *answer = begin;
    *n = (size_t)(last - begin);
    accel__strip(answer, n);
    return true;
  }
  return false;
}

/* ---- token2json ---- */

enum { MAX_DEPTH = 64 };
typedef struct span {
  const char *at;
  size_t n;
} span;

static cJSON *string_of(span s) {
  char *copy = strndup(s.at, s.n);
  cJSON *item = copy ? cJSON_CreateString(copy) : NULL;
  free(copy);
  return item;
}

/* "<yes/>", an added token, says "yes". */
static cJSON *leaf(const accel__tokenizer *tokenizer, span s) {
  accel__strip(&s.at, &s.n);
  if (s.n > 3 && s.at[0] == '<' && !memcmp(s.at + s.n - 2, "/>", 2) &&
      accel__id_is_added(tokenizer, accel__token_to_id(tokenizer, s.at, s.n)))
    s = (span){s.at + 1, s.n - 3};
  return string_of(s);
}

/* A list of one is that one. */
static cJSON *alone(cJSON *list) {
  if (cJSON_GetArraySize(list) != 1) return list;
  cJSON *one = cJSON_DetachItemFromArray(list, 0);
  cJSON_Delete(list);
  return one;
}

static cJSON *leaves(const accel__tokenizer *tokenizer, span s) {
  static const char between[] = "<sep/>";
  cJSON *list = cJSON_CreateArray();
  for (;;) {
    const char *next = find(s.at, s.n, between, strlen(between), false);
    const size_t n = next ? (size_t)(next - s.at) : s.n;
    cJSON_AddItemToArray(list, leaf(tokenizer, (span){s.at, n}));
    if (!next) return alone(list);
    s = (span){next + strlen(between), s.n - n - strlen(between)};
  }
}

/* A member in the place of an older one of its name, or at the end. */
static void set_member(cJSON *object, span key, cJSON *value) {
  char *name = strndup(key.at, key.n);
  if (name && cJSON_GetObjectItemCaseSensitive(object, name))
    cJSON_ReplaceItemInObjectCaseSensitive(object, name, value);
  else if (name)
    cJSON_AddItemToObject(object, name, value);
  else
    cJSON_Delete(value);
  free(name);
}

/* Removes all of `what` (a part of the text) from text[*n], in place. */
static void remove_all(char *text, size_t *n, span what) {
  char *mark = strndup(what.at, what.n);
  for (char *at = text;
       mark && (at = (char *)find(at, *n - (size_t)(at - text), mark, what.n, false));) {
    memmove(at, at + what.n, *n - (size_t)(at - text) - what.n);
    *n -= what.n;
  }
  if (!mark) *n = 0;
  free(mark);
}

static cJSON *read_tokens(const accel__tokenizer *tokenizer, span tokens, bool inner,
                          uint32_t depth);

/* The member that `mark` opens and `end` (as it is written where it is first) closes; nothing where
 * it does not. */
static void read_member(const accel__tokenizer *tokenizer, span tokens, span mark, span end,
                        uint32_t depth, cJSON *object) {
  const char *open = find(tokens.at, tokens.n, mark.at, mark.n, true), *past = tokens.at + tokens.n;
  const char *begin = open ? open + mark.n : NULL,
             *close = begin ? find(begin, (size_t)(past - begin), end.at, end.n, true) : NULL;
  if (!close) return;
  span content = {begin, (size_t)(close - begin)};
  const span key = {mark.at + 3, mark.n - 4};
  accel__strip(&content.at, &content.n);
  if (!find(content.at, content.n, "<s_", 3, false) ||
      !find(content.at, content.n, "</s_", 4, false)) {
    set_member(object, key, leaves(tokenizer, content));
    return;
  }
  cJSON *value = read_tokens(tokenizer, content, true, depth + 1);
  if (cJSON_GetArraySize(value) > 0)
    set_member(object, key, alone(value));
  else
    cJSON_Delete(value);
}

/* What is read so far, in a list or by itself; `rest`: what was no member. */
static cJSON *finish(cJSON *object, bool inner, span rest) {
  if (!object->child) {
    cJSON_Delete(object);
    if (inner) return cJSON_CreateArray();
    object = cJSON_CreateObject();
    cJSON_AddItemToObject(object, "text_sequence", string_of(rest));
    return object;
  }
  if (!inner) return object;
  cJSON *list = cJSON_CreateArray();
  cJSON_AddItemToArray(list, object);
  return list;
}

static cJSON *read_tokens(const accel__tokenizer *tokenizer, span tokens, bool inner,
                          uint32_t depth) {
  char *own = strndup(tokens.at, tokens.n), *text = own;
  size_t n = own ? tokens.n : 0;
  cJSON *object = cJSON_CreateObject(), *after = NULL;
  while (n && depth < MAX_DEPTH) {
    const char *open = find(text, n, "<s_", 3, true),
               *close = open ? memchr(open, '>', n - (size_t)(open - text)) : NULL;
    if (!close) break;
    const span mark = {open, (size_t)(close - open) + 1};
    accel__buffer name = {0};
    accel__buffer_text(&name, "</s_");
    accel__buffer_bytes(&name, open + 3, mark.n - 3);
    const char *end = name.data ? find(text, n, name.data, name.n, true) : NULL;
    if (!end) {
      accel__buffer_free(&name);
      remove_all(text, &n, mark);
      continue;
    }
    read_member(tokenizer, (span){text, n}, mark, (span){end, name.n}, depth, object);
    const char *rest = end + name.n;
    accel__buffer_free(&name);
    n -= (size_t)(rest - text);
    accel__strip(&rest, &n);
    text = (char *)rest;
    if (n < 6 || memcmp(text, "<sep/>", 6) != 0) continue;
    after = read_tokens(tokenizer, (span){text + 6, n - 6}, true, depth + 1);
    break;
  }
  cJSON *result = NULL;
  if (after) { /* the items of a list, of which this is the first, be it empty */
    cJSON_InsertItemInArray(after, 0, object);
    result = after;
  } else {
    result = finish(object, inner, (span){text ? text : "", n});
  }
  free(own);
  return result;
}

accel_status accel__document_json(const accel_endpoint *ep, const char *text, char **json) {
  const accel__processor *processor = accel__processor_for(ep);
  if (!processor->tokenizer)
    return accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: no tokenizer for text: %s", ep->name,
                       processor->no_tokenizer);
  cJSON *tree = read_tokens(processor->tokenizer, (span){text, strlen(text)}, false, 0);
  *json = tree ? cJSON_PrintUnformatted(tree) : NULL;
  cJSON_Delete(tree);
  return *json ? ACCEL_OK : accel__no_memory(strlen(text));
}
