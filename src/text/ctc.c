/* ctc.c - see ctc.h. */
#include "text/ctc.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "core/json.h"
#include "core/text.h"
#include "text/unicode.h"

enum { MAX_ID = 1 << 24 };

/* ---- files ---- */

static accel_status set_token(accel__ctc *c, const accel__json_file *file, const char *text,
                              int64_t id) {
  if (id < 0 || id >= MAX_ID)
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: token '%s' has the id %lld", file->name, text,
                       (long long)id);
  if (id >= c->n) {
    const int64_t n = 2 * id + 64;
    const char **grown = accel__arena_array(&c->arena, (size_t)n, sizeof *grown);
    if (!grown) return ACCEL_ERROR_OUT_OF_MEMORY;
    if (c->n) memcpy(grown, c->token, (size_t)c->n * sizeof *grown);
    c->token = grown;
    c->n = n;
  }
  c->token[id] = accel__arena_string(&c->arena, text);
  return c->token[id] ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

/* {"a": 5, ...} */
static accel_status read_vocab(accel__ctc *c, const accel__json_file *file,
                               const accel__json *vocab) {
  ACCEL_JSON_EACH(item, vocab) {
    if (!cJSON_IsNumber(item))
      return accel__fail(ACCEL_ERROR_FORMAT, "%s: the id of '%s' is no number", file->name,
                         item->string);
    ACCEL_TRY(set_token(c, file, item->string, (int64_t)item->valuedouble));
  }
  return ACCEL_OK;
}

/* A string, or an added token's object with "content". */
static accel_status read_token(accel__ctc *c, const accel__json_file *file, const char *key,
                               const char **out) {
  const accel__json *v = accel__json_get(file->root, key);
  const char *text = NULL;
  if (!v) return ACCEL_OK;
  ACCEL_TRY(cJSON_IsObject(v) ? accel__json_string(file, v, "content", &text)
                              : accel__json_string(file, file->root, key, &text));
  if (text) *out = accel__arena_string(&c->arena, text);
  return *out ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

static accel_status read_config(accel__ctc *c, const accel__json_file *file,
                                const char **language) {
  const accel__json *added = NULL;
  ACCEL_TRY(read_token(c, file, "pad_token", &c->blank));
  ACCEL_TRY(read_token(c, file, "unk_token", &c->unknown));
  ACCEL_TRY(read_token(c, file, "word_delimiter_token", &c->delimiter));
  ACCEL_TRY(read_token(c, file, "replace_word_delimiter_char", &c->space));
  ACCEL_TRY(read_token(c, file, "target_lang", language));
  ACCEL_TRY(accel__json_bool(file, file->root, "do_lower_case", &c->lower));
  ACCEL_TRY(accel__json_object(file, file->root, "added_tokens_decoder", &added));
  ACCEL_JSON_EACH(item, added) {
    const char *content = NULL;
    ACCEL_TRY(accel__json_string(file, item, "content", &content));
    if (content) ACCEL_TRY(set_token(c, file, content, strtoll(item->string, NULL, 10)));
  }
  return ACCEL_OK;
}

accel_status accel__ctc_load(const char *directory, accel__ctc *out) {
  accel__json_file vocab = {0}, config = {0}, added = {0};
  const char *language = NULL;
  accel_status status;
  *out = (accel__ctc){.blank = "<pad>", .unknown = "<unk>", .delimiter = "|", .space = " "};
  const char *path = accel__path_join(&out->arena, directory, "vocab.json");
  ACCEL_GOTO(path ? accel__json_read(path, 0, &vocab) : ACCEL_ERROR_OUT_OF_MEMORY);
  ACCEL_GOTO(accel__json_read_beside(directory, "tokenizer_config.json", 0, &config));
  ACCEL_GOTO(accel__json_read_beside(directory, "added_tokens.json", 0, &added));
  if (added.root) ACCEL_GOTO(read_vocab(out, &added, added.root));
  if (config.root) ACCEL_GOTO(read_config(out, &config, &language));
  const accel__json *words = vocab.root;
  /* one vocabulary a language */
  if (words && cJSON_IsObject(words->child ? words->child : words) && words->child) {
    words = language ? accel__json_get(vocab.root, language) : NULL;
    if (!words) {
      status = accel__fail(ACCEL_ERROR_FORMAT,
                           "%s: holds vocabularies of several languages, and "
                           "tokenizer_config.json's target_lang '%s' is none of them",
                           vocab.name, language ? language : "");
      goto done;
    }
  }
  status = read_vocab(out, &vocab, words);
done:
  accel__json_free(&vocab);
  accel__json_free(&config);
  accel__json_free(&added);
  if (status != ACCEL_OK) accel__ctc_free(out);
  return status;
}

void accel__ctc_free(accel__ctc *ctc) {
  accel__arena_free(&ctc->arena);
  *ctc = (accel__ctc){0};
}

/* ---- decoding ---- */

static const char *token_of(const accel__ctc *c, int64_t id) {
  return id >= 0 && id < c->n && c->token[id] ? c->token[id] : c->unknown;
}

/* Runs of equal tokens without the blanks; delimiters as spaces. */
static uint32_t characters(const accel__ctc *c, const int64_t *ids, int64_t n,
                           accel__ctc_piece *out) {
  uint32_t found = 0;
  for (int64_t begin = 0, end; begin < n; begin = end) {
    const char *token = token_of(c, ids[begin]);
    for (end = begin + 1; end < n && !strcmp(token_of(c, ids[end]), token); end++) {
    }
    if (!strcmp(token, c->blank)) continue;
    out[found++] = (accel__ctc_piece){strcmp(token, c->delimiter) ? token : c->space, begin, end};
  }
  return found;
}

/* Joins the characters between spaces, in place. */
static accel_status join_words(const accel__ctc *c, accel__ctc_text *t, accel__arena *arena) {
  uint32_t words = 0;
  for (uint32_t i = 0; i < t->n;) {
    if (!strcmp(t->piece[i].text, c->space)) {
      i++;
      continue;
    }
    accel__buffer word = {0};
    accel__ctc_piece whole = t->piece[i];
    for (; i < t->n && strcmp(t->piece[i].text, c->space); i++) {
      accel__buffer_text(&word, t->piece[i].text);
      whole.end = t->piece[i].end;
    }
    whole.text = word.failed ? NULL : accel__arena_string(arena, word.data ? word.data : "");
    accel__buffer_free(&word);
    if (!whole.text) return accel__no_memory(0);
    t->piece[words++] = whole;
  }
  t->n = words;
  return ACCEL_OK;
}

/* Spaces at both ends go, and capitals where the tokenizer says so. */
static char *finished(const accel__ctc *c, const accel__buffer *b, accel__arena *arena) {
  const char *begin = b->data ? b->data : "";
  size_t n = b->n;
  accel__buffer low = {0};
  while (n && isspace((unsigned char)*begin)) begin++, n--;
  while (n && isspace((unsigned char)begin[n - 1])) n--;
  if (!c->lower) return accel__arena_copy(arena, begin, n);
  for (size_t i = 0; i < n;) {
    uint32_t code, small[2];
    char bytes[4];
    i += accel__utf8_decode(begin + i, n - i, &code);
    const size_t count = accel__unicode_lower(code, small);
    for (size_t k = 0; k < count; k++)
      accel__buffer_bytes(&low, bytes, accel__utf8_encode(small[k], bytes));
  }
  char *text = low.failed ? NULL : accel__arena_copy(arena, low.data ? low.data : "", low.n);
  accel__buffer_free(&low);
  return text;
}

accel_status accel__ctc_decode(const accel__ctc *c, const int64_t *ids, int64_t n, bool words,
                               accel__arena *arena, accel__ctc_text *out) {
  accel__buffer all = {0};
  *out = (accel__ctc_text){.piece = accel__arena_array(arena, (size_t)n + 1, sizeof *out->piece)};
  if (!out->piece) return ACCEL_ERROR_OUT_OF_MEMORY;
  out->n = characters(c, ids, n, out->piece);
  for (uint32_t i = 0; i < out->n; i++) accel__buffer_text(&all, out->piece[i].text);
  out->text = all.failed ? NULL : finished(c, &all, arena);
  accel__buffer_free(&all);
  if (!out->text) return accel__no_memory(0);
  for (uint32_t i = 0; i < out->n; i++) /* the pieces outlive the tokenizer */
    if (!(out->piece[i].text = accel__arena_string(arena, out->piece[i].text)))
      return ACCEL_ERROR_OUT_OF_MEMORY;
  return words ? join_words(c, out, arena) : ACCEL_OK;
}
