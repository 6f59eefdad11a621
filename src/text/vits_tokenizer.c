/* vits_tokenizer.c - see vits_tokenizer.h. */
#include "text/vits_tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "text/settings.h"
#include "text/text_internal.h"
#include "text/unicode.h"

enum { MAX_ID = 1 << 24, MAX_TEXT = 1 << 24 };

/* ---- files ---- */

static accel_status read_vocab(accel__vits_tokenizer *t) {
  accel__arena *arena = &t->vocab.arena;
  if (!cJSON_IsObject(t->vocab.root))
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: is no object of tokens and ids", t->vocab.name);
  ACCEL_JSON_EACH(item, t->vocab.root) t->n_words++;
  t->word = accel__arena_array(arena, t->n_words, sizeof *t->word);
  if (!t->word) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(accel__map_reserve(&t->ids, t->n_words));
  uint32_t n = 0;
  ACCEL_JSON_EACH(item, t->vocab.root) {
    int64_t id = -1;
    ACCEL_TRY(accel__json_int(&t->vocab, t->vocab.root, item->string, 0, MAX_ID, &id));
    if (id < 0 || !*item->string)
      return accel__fail(ACCEL_ERROR_FORMAT, "%s: token '%s' has no id, or no characters",
                         t->vocab.name, item->string);
    ACCEL_TRY(accel__map_set(&t->ids, item->string, strlen(item->string), id));
    t->word[n++] = item;
  }
  return ACCEL_OK;
}

static int32_t vocab_id(const accel__vits_tokenizer *t, const char *text, size_t n) {
  int64_t id;
  return accel__map_get(&t->ids, text, n, &id) ? (int32_t)id : -1;
}

static const accel__vits_added *added_token(const accel__vits_tokenizer *t, const char *text,
                                            size_t n) {
  for (uint32_t i = 0; i < t->n_added; i++)
    if (t->added[i].n == n && !memcmp(t->added[i].text, text, n)) return &t->added[i];
  return NULL;
}

/* A token that texts are cut at; id -1: the vocabulary's, or the next free one. */
static accel_status add_token(accel__vits_tokenizer *t, const accel__json *token, int64_t id) {
  const accel__json_file *f = &t->settings;
  const char *text = cJSON_IsString(token) ? token->valuestring : NULL;
  bool single = false;
  accel__vits_added one = {0};
  if (cJSON_IsObject(token)) {
    ACCEL_TRY(accel__json_string(f, token, "content", &text));
    ACCEL_TRY(accel__json_bool(f, token, "lstrip", &one.strip_left));
    ACCEL_TRY(accel__json_bool(f, token, "rstrip", &one.strip_right));
    ACCEL_TRY(accel__json_bool(f, token, "single_word", &single));
  }
  if (single)
    return accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: token '%s': single_word is not supported",
                       f->name, text ? text : "");
  if (!text || !*text || added_token(t, text, strlen(text))) return ACCEL_OK;
  one.text = text;
  one.n = strlen(text);
  if (id < 0) id = vocab_id(t, text, one.n);
  if (id < 0) { /* behind the vocabulary and what was added to it */
    id = t->n_words;
    for (uint32_t i = 0; i < t->n_added; i++)
      id += vocab_id(t, t->added[i].text, t->added[i].n) < 0;
  }
  one.id = (int32_t)id;
  t->added[t->n_added++] = one;
  return ACCEL_OK;
}

static accel_status read_added(accel__vits_tokenizer *t) {
  static const char *const own[ACCEL__NAMED_TOKENS] = {NULL, NULL, "<unk>", NULL, "<pad>"};
  const accel__json *list = NULL, *root = t->settings.root,
                    *extra = accel__json_get(root, "extra_special_tokens");
  if (!extra) extra = accel__json_get(root, "additional_special_tokens");
  ACCEL_TRY(accel__json_object(&t->settings, root, "added_tokens_decoder", &list));
  const size_t most =
      (size_t)cJSON_GetArraySize(list) + (size_t)cJSON_GetArraySize(extra) + ACCEL__NAMED_TOKENS;
  t->added = accel__arena_array(&t->settings.arena, most, sizeof *t->added);
  if (!t->added) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_JSON_EACH(item, list) {
    char *end;
    const long long id = strtoll(item->string, &end, 10);
    if (*end || id < 0 || id > MAX_ID)
      return accel__fail(ACCEL_ERROR_FORMAT, "%s: added_tokens_decoder: '%s' is no id",
                         t->settings.name, item->string);
    ACCEL_TRY(add_token(t, item, id));
  }
  for (int i = 0; i < ACCEL__NAMED_TOKENS; i++) {
    const accel__json *token = accel__json_get(root, accel__named_token_keys[i]);
    const accel__json usual = {.type = cJSON_String, .valuestring = (char *)own[i]};
    if (token) ACCEL_TRY(add_token(t, token, -1));
    if (!token && own[i]) ACCEL_TRY(add_token(t, &usual, -1));
  }
  ACCEL_JSON_EACH(item, extra) ACCEL_TRY(add_token(t, item, -1));
  const char *unknown = "<unk>";
  const accel__json *token = accel__json_get(root, "unk_token");
  if (cJSON_IsObject(token))
    ACCEL_TRY(accel__json_string(&t->settings, token, "content", &unknown));
  else if (cJSON_IsString(token))
    unknown = token->valuestring;
  const accel__vits_added *found = added_token(t, unknown, strlen(unknown));
  t->unknown = found ? found->id : vocab_id(t, unknown, strlen(unknown));
  return ACCEL_OK;
}

static accel_status read_settings(accel__vits_tokenizer *t) {
  const accel__json_file *f = &t->settings;
  bool blank = true;
  t->normalize = t->phonemize = true;
  ACCEL_TRY(accel__json_bool(f, f->root, "add_blank", &blank));
  ACCEL_TRY(accel__json_bool(f, f->root, "normalize", &t->normalize));
  ACCEL_TRY(accel__json_bool(f, f->root, "phonemize", &t->phonemize));
  ACCEL_TRY(accel__json_bool(f, f->root, "is_uroman", &t->uroman));
  ACCEL_TRY(accel__json_string(f, f->root, "language", &t->language));
  ACCEL_TRY(read_added(t));
  t->blank = -1;
  for (uint32_t i = 0; blank && i < t->n_words; i++)
    if (t->word[i]->valuedouble == 0) t->blank = 0;
  if (blank && t->blank < 0)
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: add_blank needs a token with the id 0",
                       t->vocab.name);
  return ACCEL_OK;
}

accel_status accel__vits_tokenizer_load(const char *directory, accel__vits_tokenizer *out) {
  accel__json_file config = {0}, map = {0}, model = {0};
  accel__arena arena = {0};
  *out = (accel__vits_tokenizer){0};
  const char *path = accel__path_join(&arena, directory, "vocab.json");
  accel_status status = path ? accel__json_read(path, 0, &out->vocab) : ACCEL_ERROR_OUT_OF_MEMORY;
  if (status == ACCEL_OK)
    status = accel__json_read_beside(directory, "tokenizer_config.json", 0, &config);
  if (status == ACCEL_OK)
    status = accel__json_read_beside(directory, "special_tokens_map.json", 0, &map);
  if (status == ACCEL_OK) status = accel__json_read_beside(directory, "config.json", 0, &model);
  if (status == ACCEL_OK)
    status = accel__tokenizer_settings(directory, &config, &map, &model, false, &out->settings);
  if (status == ACCEL_OK) status = read_vocab(out);
  if (status == ACCEL_OK) status = read_settings(out);
  accel__json_free(&config);
  accel__json_free(&map);
  accel__json_free(&model);
  accel__arena_free(&arena);
  return status;
}

void accel__vits_tokenizer_free(accel__vits_tokenizer *t) {
  accel__map_free(&t->ids);
  accel__json_free(&t->vocab);
  accel__json_free(&t->settings);
  *t = (accel__vits_tokenizer){0};
}

/* ---- texts ---- */

static void put_code_point(accel__buffer *b, uint32_t c) {
  char bytes[4];
  accel__buffer_bytes(b, bytes, accel__utf8_encode(c, bytes));
}

/* Bytes of the first token of the vocabulary, then of the added ones, that begins at `text`; 0. */
static size_t word_at(const accel__vits_tokenizer *t, const char *text) {
  for (uint32_t i = 0; i < t->n_words; i++)
    if (accel__starts_with(text, t->word[i]->string)) return strlen(t->word[i]->string);
  for (uint32_t i = 0; i < t->n_added; i++)
    if (accel__starts_with(text, t->added[i].text)) return t->added[i].n;
  return 0;
}

/* Lower case, but for tokens of the vocabulary. */
static void lower(const accel__vits_tokenizer *t, const char *text, accel__buffer *out) {
  const char *end = text + strlen(text);
  while (text < end) {
    uint32_t c, lowered[2];
    const size_t known = word_at(t, text),
                 n = known ? known : accel__utf8_decode(text, (size_t)(end - text), &c);
    if (known) accel__buffer_bytes(out, text, n);
    for (size_t i = 0, all = known ? 0 : accel__unicode_lower(c, lowered); i < all; i++)
      put_code_point(out, lowered[i]);
    text += n;
  }
}

/* Characters of the vocabulary, without the spaces at both ends. */
static void filter(const accel__vits_tokenizer *t, const char *text, size_t n, accel__buffer *out) {
  size_t kept = out->n;
  for (size_t at = 0, step; at < n; at += step) {
    uint32_t c;
    step = accel__utf8_decode(text + at, n - at, &c);
    if (vocab_id(t, text + at, step) < 0) continue;
    const bool white = accel__is_white(c);
    if (white && !out->n) continue;
    accel__buffer_bytes(out, text + at, step);
    if (!white) kept = out->n;
  }
  out->n = kept;
}

/* Text as the tokenizer takes it (prepare_for_tokenization). */
static accel_status prepare(const accel__vits_tokenizer *t, const char *text, accel__buffer *out) {
  accel__buffer lowered = {0}, letters = {0};
  accel_status status = ACCEL_OK;
  if (t->phonemize)
    return accel__remedy(
        accel__fail(ACCEL_ERROR_UNSUPPORTED,
                    "%s: 'phonemize' is true: the model reads phonemes, which are not made here",
                    t->settings.name),
        "give phonemes as Python's phonemizer writes them (backend espeak, with_stress, "
        "preserve_punctuation) and say so: --phonemes, "
        "accel_text_to_speech_params.phonemes");
  if (t->normalize)
    lower(t, text, &lowered);
  else
    accel__buffer_text(&lowered, text);
  const bool romanian = t->language && !strcmp(t->language, "ron");
  bool foreign = false;
  for (size_t at = 0, step; at < lowered.n; at += step) {
    uint32_t c;
    step = accel__utf8_decode(lowered.data + at, lowered.n - at, &c);
    put_code_point(&letters, romanian && c == 0x21B ? 0x163 : c); /* t with comma, with cedilla */
    foreign |= c > 0x7F;
  }
  if (foreign && t->uroman)
    status = accel__remedy(
        accel__fail(
            ACCEL_ERROR_UNSUPPORTED,
            "%s: 'is_uroman' is true: the model reads Roman letters, and the text has others",
            t->settings.name),
        "romanise the text first, as Python's package uroman does");
  else if (t->normalize)
    filter(t, letters.data ? letters.data : "", letters.n, out);
  else
    accel__buffer_bytes(out, letters.data ? letters.data : "", letters.n);
  if (status == ACCEL_OK) status = accel__buffer_status(&letters);
  if (status == ACCEL_OK) status = accel__buffer_status(&lowered);
  accel__buffer_free(&lowered);
  accel__buffer_free(&letters);
  return status;
}

/* Runs of white space as one space, as behind the phonemizer. */
static void collapse(const char *text, accel__buffer *out) {
  const size_t n = strlen(text);
  bool last = false;
  for (size_t at = 0, step; at < n; at += step) {
    uint32_t c;
    step = accel__utf8_decode(text + at, n - at, &c);
    const bool white = accel__is_white(c);
    if (white && !last) accel__buffer_text(out, " ");
    if (!white) accel__buffer_bytes(out, text + at, step);
    last = white;
  }
}

/* ---- tokens ---- */

typedef struct tokens {
  int32_t *id;
  size_t n, capacity;
} tokens;

static accel_status push(tokens *to, int32_t id) {
  ACCEL_TRY(accel__grow(&to->id, &to->capacity, to->n + 1, sizeof *to->id));
  to->id[to->n++] = id;
  return ACCEL_OK;
}

/* Characters of a stretch of text between added tokens, blanks around and between them. */
static accel_status push_text(const accel__vits_tokenizer *t, const char *text, size_t n,
                              tokens *to) {
  if (!n) return ACCEL_OK;
  if (t->blank >= 0) ACCEL_TRY(push(to, t->blank));
  for (size_t at = 0, step; at < n; at += step) {
    uint32_t c;
    step = accel__utf8_decode(text + at, n - at, &c);
    const int32_t id = vocab_id(t, text + at, step);
    if (id < 0 && t->unknown < 0)
      return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: has no token '%.*s', and no unk_token",
                         t->vocab.name, (int)step, text + at);
    ACCEL_TRY(push(to, id < 0 ? t->unknown : id));
    if (t->blank >= 0) ACCEL_TRY(push(to, t->blank));
  }
  return ACCEL_OK;
}

static size_t white_in_front(const char *text, size_t n) {
  size_t at = 0;
  for (size_t step; at < n; at += step) {
    uint32_t c;
    step = accel__utf8_decode(text + at, n - at, &c);
    if (!accel__is_white(c)) break;
  }
  return at;
}

static size_t without_white_behind(const char *text, size_t n) {
  size_t kept = 0;
  for (size_t at = 0, step; at < n; at += step) {
    uint32_t c;
    step = accel__utf8_decode(text + at, n - at, &c);
    if (!accel__is_white(c)) kept = at + step;
  }
  return kept;
}

/* The longest added token that begins at `text`. */
static const accel__vits_added *added_at(const accel__vits_tokenizer *t, const char *text,
                                         size_t n) {
  const accel__vits_added *best = NULL;
  for (uint32_t i = 0; i < t->n_added; i++) {
    const accel__vits_added *a = &t->added[i];
    if (a->n <= n && (!best || a->n > best->n) && !memcmp(a->text, text, a->n)) best = a;
  }
  return best;
}

static accel_status push_all(const accel__vits_tokenizer *t, const char *text, size_t n,
                             tokens *to) {
  size_t from = 0, at = 0;
  while (at < n) {
    const accel__vits_added *a = added_at(t, text + at, n - at);
    if (!a) {
      uint32_t c;
      at += accel__utf8_decode(text + at, n - at, &c);
      continue;
    }
    const size_t length = at - from;
    ACCEL_TRY(push_text(t, text + from,
                        a->strip_left ? without_white_behind(text + from, length) : length, to));
    ACCEL_TRY(push(to, a->id));
    at += a->n;
    if (a->strip_right) at += white_in_front(text + at, n - at);
    from = at;
  }
  return push_text(t, text + from, n - from, to);
}

accel_status accel__vits_encode(const accel__vits_tokenizer *t, const char *text, bool phonemes,
                                int32_t **ids, uint32_t *n) {
  accel__buffer ready = {0};
  tokens to = {0};
  *ids = NULL;
  *n = 0;
  if (strlen(text) > MAX_TEXT)
    return accel__fail(ACCEL_ERROR_LIMIT, "a text of more than %d bytes", MAX_TEXT);
  accel_status status = ACCEL_OK;
  if (phonemes)
    collapse(text, &ready);
  else
    status = prepare(t, text, &ready);
  if (status == ACCEL_OK) status = accel__buffer_status(&ready);
  if (status == ACCEL_OK && ready.n) status = push_all(t, ready.data, ready.n, &to);
  accel__buffer_free(&ready);
  if (status != ACCEL_OK) {
    free(to.id);
    return status;
  }
  *ids = to.id;
  *n = (uint32_t)to.n;
  return ACCEL_OK;
}
