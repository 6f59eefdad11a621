/* tiktoken.c - see tiktoken.h. */
#include "text/tiktoken.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/text_internal.h"

enum { LONGEST = 1024 /* bytes of a token */ };

typedef struct writer {
  accel__buffer *b;
  accel__vocab tokens; /* bytes and ranks */
  accel__map added;    /* contents already in added_tokens */
  accel__arena arena;
  bool first;
} writer;

/* ---- reading ---- */

/* "aGk= 17"; the number of bytes, -1 when it is no such line. */
static int read_line(const char *at, size_t n, uint8_t bytes[LONGEST], int64_t *rank) {
  const char *space = memchr(at, ' ', n);
  size_t length;
  if (!space || space == at || (size_t)(space - at) > LONGEST / 3 * 4 ||
      !accel__base64_decode(at, (size_t)(space - at), bytes, &length) || length == 0)
    return -1;
  *rank = 0;
  for (const char *digit = space + 1; digit < at + n; digit++) {
    if (*digit < '0' || *digit > '9') return -1;
    *rank = 10 * *rank + (*digit - '0');
    if (*rank >= ACCEL__TOKENS_MAX) return -1;
  }
  return space + 1 < at + n ? (int)length : -1;
}

static size_t line_length(const char *at, const char *end) {
  const char *feed = memchr(at, '\n', (size_t)(end - at));
  size_t n = (size_t)((feed ? feed : end) - at);
  return n && at[n - 1] == '\r' ? n - 1 : n;
}

bool accel__is_tiktoken(const char *text, size_t n) {
  uint8_t bytes[LONGEST];
  int64_t rank;
  return n > 0 && read_line(text, line_length(text, text + n), bytes, &rank) > 0;
}

static accel_status read_tokens(writer *w, const char *at, size_t n, const char *name) {
  const char *end = at + n;
  uint8_t bytes[LONGEST];
  int64_t rank;
  for (size_t line = 1; at < end; ++line) {
    const size_t length = line_length(at, end);
    const char *feed = memchr(at, '\n', (size_t)(end - at));
    if (length) {
      int found = read_line(at, length, bytes, &rank);
      if (found < 0)
        return accel__fail(ACCEL_ERROR_FORMAT, "%s: line %zu is not a token in base64 and its rank",
                           name, line);
      ACCEL_TRY(accel__vocab_add(&w->tokens, (const char *)bytes, (size_t)found, (int32_t)rank));
    }
    at = feed ? feed + 1 : end;
  }
  ACCEL_TRY(accel__vocab_finish(&w->tokens));
  for (size_t i = 0; i < w->tokens.n; ++i)
    if (accel__vocab_token(&w->tokens, w->tokens.entry[i].id) != &w->tokens.entry[i])
      return accel__fail(ACCEL_ERROR_FORMAT, "%s: rank %d comes twice", name,
                         w->tokens.entry[i].id);
  return ACCEL_OK;
}

/* ---- writing ---- */

/* Bytes as the printable characters of byte-level models. */
static void put_bytes(writer *w, const char *bytes, size_t n) {
  char text[4 * LONGEST];
  size_t length = 0;
  for (size_t i = 0; i < n; ++i)
    length += accel__utf8_encode(accel__byte_to_char((uint8_t)bytes[i]), text + length);
  accel__buffer_json_string(w->b, text, length);
}

typedef struct cut {
  int32_t left, right; /* ranks */
  uint32_t at;         /* bytes */
} cut;

static int by_ranks(const void *a, const void *b) {
  const cut *x = a, *y = b;
  if (x->left != y->left) return x->left < y->left ? -1 : 1;
  return (x->right > y->right) - (x->right < y->right);
}

static void put_merges_of(writer *w, const accel__vocab_entry *e) {
  cut cuts[LONGEST];
  uint32_t n = 0;
  const char *bytes = accel__vocab_text(&w->tokens, e);
  for (uint32_t i = 1; i < e->n; ++i) {
    int32_t left = accel__vocab_id(&w->tokens, bytes, i);
    int32_t right = left < 0 ? -1 : accel__vocab_id(&w->tokens, bytes + i, e->n - i);
    if (right >= 0) cuts[n++] = (cut){left, right, i};
  }
  qsort(cuts, n, sizeof *cuts, by_ranks);
  for (uint32_t k = 0; k < n; ++k) {
    accel__buffer_text(w->b, w->first ? "[" : ",[");
    w->first = false;
    put_bytes(w, bytes, cuts[k].at);
    accel__buffer_text(w->b, ",");
    put_bytes(w, bytes + cuts[k].at, e->n - cuts[k].at);
    accel__buffer_text(w->b, "]");
  }
}

static accel_status put_model(writer *w) {
  accel__buffer_text(w->b, "\"model\":{\"type\":\"BPE\",\"ignore_merges\":true,\"vocab\":{");
  w->first = true;
  for (int32_t rank = 0; (size_t)rank < w->tokens.ids; ++rank) {
    const accel__vocab_entry *e = accel__vocab_token(&w->tokens, rank);
    if (!e) continue;
    accel__buffer_text(w->b, w->first ? "" : ",");
    w->first = false;
    put_bytes(w, accel__vocab_text(&w->tokens, e), e->n);
    accel__buffer_printf(w->b, ":%d", rank);
  }
  accel__buffer_text(w->b, "},\"merges\":[");
  w->first = true;
  for (int32_t rank = 0; (size_t)rank < w->tokens.ids; ++rank) {
    const accel__vocab_entry *e = accel__vocab_token(&w->tokens, rank);
    if (e) put_merges_of(w, e);
  }
  accel__buffer_text(w->b, "]}");
  return accel__buffer_status(w->b);
}

/* ---- special tokens ---- */

/* `item`: an object with flags, or NULL: special, and nothing else. */
static accel_status put_added(writer *w, const char *text, const accel__json *item) {
  static const char *const flags[] = {"special", "normalized", "lstrip", "rstrip", "single_word"};
  const size_t n = strlen(text);
  int64_t known;
  if (n == 0 || accel__map_get(&w->added, text, n, &known)) return ACCEL_OK;
  char *kept = accel__arena_copy(&w->arena, text, n);
  if (!kept) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(accel__map_set(&w->added, kept, n, 1));
  accel__buffer_text(w->b, w->first ? "{\"content\":" : ",{\"content\":");
  w->first = false;
  accel__buffer_json_string(w->b, text, n);
  for (int i = 0; i < 5; ++i) {
    const bool on = item ? cJSON_IsTrue(accel__json_get(item, flags[i])) : i == 0;
    accel__buffer_printf(w->b, ",\"%s\":%s", flags[i], on ? "true" : "false");
  }
  accel__buffer_text(w->b, "}");
  return accel__buffer_status(w->b);
}

static accel_status put_list(writer *w, const accel__json *list) {
  ACCEL_JSON_EACH(item, list) {
    const accel__json *text = cJSON_IsObject(item) ? accel__json_get(item, "content") : item;
    if (cJSON_IsString(text)) ACCEL_TRY(put_added(w, text->valuestring, NULL));
  }
  return ACCEL_OK;
}

static int64_t id_of(const accel__json *item) { /* of added_tokens_decoder; -1: none that can be */
  const long long id = strtoll(item->string, NULL, 10);
  return id >= 0 && id < ACCEL__TOKENS_MAX ? id : -1;
}

/* Ids of added_tokens_decoder from the vocabulary's size on, and those between them. */
static accel_status put_behind(writer *w, const accel__json *decoder) {
  const int64_t base = (int64_t)w->tokens.n;
  int64_t most = -1;
  ACCEL_JSON_EACH(item, decoder) most = id_of(item) > most ? id_of(item) : most;
  if (most < base) return ACCEL_OK;
  const accel__json **at = accel__arena_array(&w->arena, (size_t)(most - base + 1), sizeof *at);
  if (!at) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_JSON_EACH(item, decoder) if (id_of(item) >= base) at[id_of(item) - base] = item;
  for (int64_t id = base; id <= most; ++id) {
    char reserved[48];
    const accel__json *item = at[id - base], *content = accel__json_get(item, "content");
    snprintf(reserved, sizeof reserved, "<|reserved_token_%lld|>", (long long)id);
    ACCEL_TRY(put_added(w, cJSON_IsString(content) ? content->valuestring : reserved, item));
  }
  return ACCEL_OK;
}

/* Ids of added_tokens_decoder behind the vocabulary, those between them reserved, then
 * extra_special_tokens; then what is named. */
static accel_status put_added_tokens(writer *w, const accel__json *config) {
  static const char *const named[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                      "pad_token", "cls_token", "mask_token"};
  const accel__json *decoder = accel__json_get(config, "added_tokens_decoder");
  accel__buffer_text(w->b, "\"added_tokens\":[");
  w->first = true;
  ACCEL_TRY(put_behind(w, decoder));
  ACCEL_TRY(put_list(w, accel__json_get(config, "extra_special_tokens")));
  ACCEL_JSON_EACH(item, decoder) {
    const accel__json *content = accel__json_get(item, "content");
    if (cJSON_IsString(content)) ACCEL_TRY(put_added(w, content->valuestring, item));
  }
  for (size_t i = 0; i < sizeof named / sizeof *named; ++i) {
    const accel__json *at = accel__json_get(config, named[i]),
                      *text = cJSON_IsObject(at) ? accel__json_get(at, "content") : at;
    if (cJSON_IsString(text)) ACCEL_TRY(put_added(w, text->valuestring, NULL));
  }
  ACCEL_TRY(put_list(w, accel__json_get(config, "additional_special_tokens")));
  accel__buffer_text(w->b, "],");
  return accel__buffer_status(w->b);
}

static accel_status put_all(writer *w, const accel__json *config) {
  accel__buffer_text(w->b, "{\"version\":\"1.0\",");
  ACCEL_TRY(put_added_tokens(w, config));
  accel__buffer_text(w->b,
                     "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":"
                     "\"Split\",\"pattern\":{"
                     "\"Regex\":\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{"
                     "L}+|\\\\p{N}{1,3}| "
                     "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|"
                     "\\\\s+\"},\"behavior\":"
                     "\"Isolated\",\"invert\":false},{\"type\":\"ByteLevel\",\"add_prefix_space\":"
                     "false,\"use_regex\":false}]},"
                     "\"post_processor\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_"
                     "offsets\":false},"
                     "\"decoder\":{\"type\":\"ByteLevel\"},");
  ACCEL_TRY(put_model(w));
  accel__buffer_text(w->b, "}");
  return accel__buffer_status(w->b);
}

accel_status accel__tiktoken_json(const char *text, size_t n, const char *name,
                                  const accel__json_file *config, accel__buffer *out) {
  writer w = {.b = out};
  accel_status status = read_tokens(&w, text, n, name);
  if (status == ACCEL_OK) status = put_all(&w, config ? config->root : NULL);
  accel__vocab_free(&w.tokens);
  accel__map_free(&w.added);
  accel__arena_free(&w.arena);
  return status;
}
