/* character_tokenizer.c - see character_tokenizer.h. */
#include "text/character_tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "text/ctc.h"
#include "text/unicode.h"

typedef const accel__json_file file_t;
typedef const accel__json json_t;

static const accel__class_tokens ctc_class = {.own = {"<s>", "</s>", "<unk>", NULL, "<pad>"}},
                                 vits_class = {.own = {NULL, NULL, "<unk>", NULL, "<pad>"}};

/* ---- files ---- */

static accel_status find_class(accel__tokenizer *t, file_t *settings) {
  json_t *named = accel__json_get(settings->root, "tokenizer_class");
  const char *name = cJSON_IsString(named) ? named->valuestring : "";
  t->characters.class = accel__starts_with(name, "Vits")     ? ACCEL__CHARACTERS_VITS
                        : !*name || strstr(name, "Wav2Vec2") ? ACCEL__CHARACTERS_CTC
                                                             : ACCEL__CHARACTERS_NONE;
  t->characters.phonemize = strstr(name, "Phoneme") != NULL;
  if (t->characters.class != ACCEL__CHARACTERS_NONE) return ACCEL_OK;
  accel__fail(ACCEL_ERROR_UNSUPPORTED,
              "%s: without merges.txt it is a vocabulary of characters, which a %s does not have",
              t->name, name);
  return accel__remedy(ACCEL_ERROR_UNSUPPORTED,
                       "if it is a BPE vocabulary, put its merges.txt beside it");
}

/* The vocabulary, or of several that of the language. */
static accel_status choose_vocab(file_t *vocab, file_t *settings, json_t **out) {
  const char *language = NULL;
  json_t *first = vocab->root ? vocab->root->child : NULL;
  *out = vocab->root;
  if (!cJSON_IsObject(vocab->root))
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: is no object of tokens and ids", vocab->name);
  if (!cJSON_IsObject(first)) return ACCEL_OK;
  ACCEL_TRY(accel__json_string(settings, settings->root, "target_lang", &language));
  *out = language ? accel__json_get(vocab->root, language) : NULL;
  return *out ? ACCEL_OK
              : accel__fail(ACCEL_ERROR_FORMAT,
                            "%s: holds vocabularies of several languages, and "
                            "tokenizer_config.json's target_lang '%s' is none of them",
                            vocab->name, language ? language : "");
}

static accel_status read_vocab(accel__tokenizer *t, file_t *file, json_t *vocab) {
  ACCEL_JSON_EACH(item, vocab) {
    int64_t id = -1;
    ACCEL_TRY(accel__json_int(file, vocab, item->string, 0, ACCEL__TOKENS_MAX, &id));
    if (id < 0 || !*item->string)
      return accel__fail(ACCEL_ERROR_FORMAT, "%s: token '%s' has no id, or no characters",
                         file->name, item->string);
    ACCEL_TRY(accel__vocab_add(&t->vocab, item->string, strlen(item->string), (int32_t)id));
  }
  return ACCEL_OK;
}

static const char *text_of(accel__tokenizer *t, file_t *settings, const char *key,
                           const char *usual) {
  return accel__arena_string(&t->arena, accel__special_text(settings->root, NULL, key, usual));
}

static accel_status read_settings(accel__tokenizer *t, file_t *f) {
  accel__characters *c = &t->characters;
  const char *language = NULL;
  c->unknown = text_of(t, f, "unk_token", "<unk>");
  c->blank = text_of(t, f, "pad_token", "<pad>");
  c->delimiter = text_of(t, f, "word_delimiter_token", "|");
  c->space = text_of(t, f, "replace_word_delimiter_char", " ");
  if (!c->unknown || !c->blank || !c->delimiter || !c->space) return ACCEL_ERROR_OUT_OF_MEMORY;
  if (c->class == ACCEL__CHARACTERS_CTC) {
    if (c->phonemize) ACCEL_TRY(accel__json_bool(f, f->root, "do_phonemize", &c->phonemize));
    return accel__json_bool(f, f->root, "do_lower_case", &c->lower);
  }
  c->normalize = c->phonemize = c->blanks = true;
  ACCEL_TRY(accel__json_bool(f, f->root, "add_blank", &c->blanks));
  ACCEL_TRY(accel__json_bool(f, f->root, "normalize", &c->normalize));
  ACCEL_TRY(accel__json_bool(f, f->root, "phonemize", &c->phonemize));
  ACCEL_TRY(accel__json_bool(f, f->root, "is_uroman", &c->uroman));
  ACCEL_TRY(accel__json_string(f, f->root, "language", &language));
  c->romanian = language && !strcmp(language, "ron");
  return ACCEL_OK;
}

static bool flag(json_t *token, const char *key) {
  return cJSON_IsTrue(accel__json_get(token, key));
}

static void put_token(accel__buffer *b, const char *text, json_t *flags, bool strips, bool special,
                      bool first) {
  json_t *id = accel__json_get(flags, "id");
  accel__buffer_text(b, first ? "{\"content\":" : ",{\"content\":");
  accel__buffer_json_string(b, text, strlen(text));
  accel__buffer_printf(b, ",\"lstrip\":%s,\"rstrip\":%s,\"single_word\":%s,\"special\":%s",
                       strips || flag(flags, "lstrip") ? "true" : "false",
                       strips || flag(flags, "rstrip") ? "true" : "false",
                       flag(flags, "single_word") ? "true" : "false", special ? "true" : "false");
  if (cJSON_IsNumber(id)) accel__buffer_printf(b, ",\"id\":%.0f", id->valuedouble);
  accel__buffer_text(b, ",\"normalized\":false}");
}

/* Of CTC every token of more than one character is found in texts as a whole, and takes the spaces
 * around it along. */
static void put_long_tokens(const accel__tokenizer *t, json_t *added, bool first,
                            accel__buffer *b) {
  for (size_t i = 0; i < t->vocab.n; i++) {
    const accel__vocab_entry *e = &t->vocab.entry[i];
    const char *text = accel__vocab_text(&t->vocab, e);
    bool special = false;
    uint32_t c;
    if (accel__utf8_decode(text, e->n, &c) == e->n) continue;
    ACCEL_JSON_EACH(item, added) {
      json_t *content = accel__json_get(item, "content");
      special = special || (!strcmp(content->valuestring, text) && flag(item, "special"));
    }
    put_token(b, text, NULL, true, special, first);
    first = false;
  }
}

/* "added_tokens":[...], : none of them is normalized. */
static accel_status put_added(const accel__tokenizer *t, file_t *settings, accel__buffer *b) {
  const bool ctc = t->characters.class == ACCEL__CHARACTERS_CTC;
  accel__buffer list = {0};
  accel__json_file file = {0};
  accel__buffer_text(&list, "{");
  accel_status status =
      accel__put_added_tokens(settings->root, NULL, ctc ? &ctc_class : &vits_class, &list);
  accel__buffer_text(&list, "\"end\":0}");
  if (status == ACCEL_OK) status = accel__buffer_status(&list);
  if (status == ACCEL_OK) status = accel__json_parse(list.data, list.n, t->name, &file);
  if (status == ACCEL_OK) {
    json_t *added = accel__json_get(file.root, "added_tokens");
    accel__buffer_text(b, "\"added_tokens\":[");
    ACCEL_JSON_EACH(item, added)
    put_token(b, accel__json_get(item, "content")->valuestring, item, false, flag(item, "special"),
              item == added->child);
    if (ctc) put_long_tokens(t, added, !added->child, b);
    accel__buffer_text(b, "],");
  }
  accel__json_free(&file);
  accel__buffer_free(&list);
  return status == ACCEL_OK ? accel__buffer_status(b) : status;
}

accel_status accel__characters_read(accel__tokenizer *t, const char *vocab, size_t n,
                                    file_t *settings, accel__buffer *b) {
  accel__json_file file = {0};
  json_t *words = NULL;
  ACCEL_TRY(find_class(t, settings));
  accel_status status = accel__json_parse(vocab, n, t->name, &file);
  if (status == ACCEL_OK) status = choose_vocab(&file, settings, &words);
  if (status == ACCEL_OK) status = read_vocab(t, &file, words);
  accel__json_free(&file);
  if (status == ACCEL_OK) status = read_settings(t, settings);
  accel__buffer_text(b, "{");
  if (status == ACCEL_OK) status = put_added(t, settings, b);
  if (status != ACCEL_OK) return status;
  const accel__characters *c = &t->characters;
  if (c->class == ACCEL__CHARACTERS_CTC) {
    accel__buffer_text(b,
                       "\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},"
                       "\"content\":");
    accel__buffer_json_string(b, c->delimiter, strlen(c->delimiter));
    accel__buffer_text(b, "},");
  }
  accel__buffer_text(b,
                     "\"pre_tokenizer\":{\"type\":\"FixedLength\",\"length\":1},"
                     "\"model\":{\"type\":\"WordLevel\",\"unk_token\":");
  accel__buffer_json_string(b, c->unknown, strlen(c->unknown));
  accel__buffer_text(b, "}}");
  return accel__buffer_status(b);
}

accel_status accel__characters_listed_id(file_t *file, json_t *token, int32_t *id) {
  int64_t listed = *id;
  ACCEL_TRY(accel__json_int(file, token, "id", 0, ACCEL__TOKENS_MAX - 1, &listed));
  *id = (int32_t)listed;
  return ACCEL_OK;
}

accel_status accel__characters_finish(accel__tokenizer *t) {
  const accel__characters *c = &t->characters;
  if (c->class == ACCEL__CHARACTERS_VITS) /* it may be an added token */
    t->model.unk = accel__token_to_id(t, c->unknown, strlen(c->unknown));
  if (c->blanks && !accel__vocab_token(&t->vocab, 0))
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: add_blank needs a token with the id 0", t->name);
  if (c->lower) return accel__tokenizer_upper_case(t);
  return ACCEL_OK;
}

accel_status accel__characters_load(const char *directory, accel__tokenizer **out) {
  accel__arena arena = {0};
  const char *path = accel__path_join(&arena, directory, "vocab.json");
  *out = NULL;
  const accel_status status = path ? accel__tokenizer_load(path, out) : ACCEL_ERROR_OUT_OF_MEMORY;
  accel__arena_free(&arena);
  return status;
}

/* ---- texts ---- */

/* Code points of `text` when chars[0..n) begin with it; else 0. */
static size_t begins_with(const accel__char *chars, size_t n, const char *text, size_t bytes) {
  size_t at = 0;
  for (size_t i = 0; i < bytes; at++) {
    uint32_t c;
    i += accel__utf8_decode(text + i, bytes - i, &c);
    if (at == n || chars[at].c != c) return 0;
  }
  return at;
}

/* Code points of the first token of the vocabulary, then of the added ones, that chars begin
 * with; 0. */
static size_t word_at(const accel__tokenizer *t, const accel__char *chars, size_t n) {
  size_t found = 0;
  for (size_t i = 0; !found && i < t->vocab.n; i++) {
    const accel__vocab_entry *e = &t->vocab.entry[i];
    found = begins_with(chars, n, accel__vocab_text(&t->vocab, e), e->n);
  }
  for (size_t i = 0; !found && i < t->added_n; i++)
    found = begins_with(chars, n, t->added[i].content, t->added[i].content_n);
  return found;
}

static void swap(accel__chars *a, accel__chars *b) {
  const accel__chars kept = *a;
  *a = *b;
  *b = kept;
}

/* Lower case, but for tokens of the vocabulary. */
static accel_status lower(const accel__tokenizer *t, accel__encode_scratch *s) {
  s->other.n = 0;
  for (size_t at = 0, n; at < s->raw.n; at += n) {
    const accel__char *from = s->raw.at + at;
    uint32_t lowered[2];
    const size_t known = word_at(t, from, s->raw.n - at);
    n = known ? known : 1;
    for (size_t i = 0; i < known; i++)
      ACCEL_TRY(accel__chars_push(&s->other, from[i].c, from[i].start, from[i].end));
    for (size_t i = 0, all = known ? 0 : accel__unicode_lower(from->c, lowered); i < all; i++)
      ACCEL_TRY(accel__chars_push(&s->other, lowered[i], from->start, from->end));
  }
  swap(&s->raw, &s->other);
  return ACCEL_OK;
}

static bool is_known(const accel__tokenizer *t, uint32_t c) {
  char bytes[4];
  return accel__vocab_id(&t->vocab, bytes, accel__utf8_encode(c, bytes)) >= 0;
}

/* Characters of the vocabulary, without the spaces at both ends. */
static void filter(const accel__tokenizer *t, accel__chars *chars) {
  size_t n = 0, kept = 0;
  for (size_t i = 0; i < chars->n; i++) {
    const bool white = accel__is_white(chars->at[i].c);
    if (!is_known(t, chars->at[i].c) || (white && !n)) continue;
    chars->at[n++] = chars->at[i];
    if (!white) kept = n;
  }
  chars->n = kept;
}

/* Runs of white space as one space, as behind the phonemizer. */
static void collapse(accel__chars *chars) {
  size_t n = 0;
  bool last = false;
  for (size_t i = 0; i < chars->n; i++) {
    const bool white = accel__is_white(chars->at[i].c);
    if (!white || !last) {
      chars->at[n] = chars->at[i];
      if (white) chars->at[n].c = ' ';
      n++;
    }
    last = white;
  }
  chars->n = n;
}

static accel_status needs_phonemes(const accel__tokenizer *t) {
  const bool speaks = t->characters.class == ACCEL__CHARACTERS_VITS;
  return accel__remedy(
      accel__fail(ACCEL_ERROR_UNSUPPORTED,
                  "%s: '%s' is true: the model's tokens are phonemes, which are not made here",
                  t->name, speaks ? "phonemize" : "do_phonemize"),
      speaks ? "give phonemes as Python's phonemizer writes them (backend espeak, with_stress, "
               "preserve_punctuation) and say so: --phonemes, accel_text_to_speech_params.phonemes"
             : "Python's phonemizer makes them of texts");
}

/* VitsTokenizer.prepare_for_tokenization. */
static accel_status prepare_vits(const accel__tokenizer *t, accel__encode_scratch *s) {
  const accel__characters *c = &t->characters;
  bool foreign = false;
  if (c->normalize) ACCEL_TRY(lower(t, s));
  for (size_t i = 0; i < s->raw.n; i++) {
    uint32_t *code = &s->raw.at[i].c;
    if (c->romanian && *code == 0x21B) *code = 0x163; /* t with comma, with cedilla */
    foreign |= *code > 0x7F;
  }
  if (foreign && c->uroman)
    return accel__remedy(
        accel__fail(
            ACCEL_ERROR_UNSUPPORTED,
            "%s: 'is_uroman' is true: the model reads Roman letters, and the text has others",
            t->name),
        "romanise the text first, as Python's package uroman does");
  if (c->normalize) filter(t, &s->raw);
  return ACCEL_OK;
}

accel_status accel__characters_prepare(const accel__tokenizer *t, bool phonemes,
                                       accel__encode_scratch *s) {
  if (phonemes) {
    collapse(&s->raw);
    return ACCEL_OK;
  }
  if (t->characters.phonemize) return needs_phonemes(t);
  return t->characters.class == ACCEL__CHARACTERS_VITS ? prepare_vits(t, s) : ACCEL_OK;
}

accel_status accel__characters_push_blank(const accel__tokenizer *t, const accel__char *at,
                                          bool behind, int32_t word, accel__tokens *out) {
  ACCEL_TRY(accel__tokens_push(t, out, 0, at, 1, word));
  accel__token *token = &out->at[out->n - 1];
  token->start = token->end = behind ? token->end : token->start;
  return ACCEL_OK;
}

/* ---- decoding ---- */

static bool is_left_out(const accel__tokenizer *t, int32_t id) {
  size_t n;
  const char *text = accel__ctc_token(t, id, &n);
  if (t->characters.class == ACCEL__CHARACTERS_CTC && !strcmp(text, t->characters.delimiter))
    return false;
  const int32_t same = accel__vocab_id(&t->added_vocab, text, n);
  return same >= 0 && t->added[t->added_by_id[same] - 1].skipped;
}

/* Every second one where blanks are between them. */
static void join(const accel__tokenizer *t, const int64_t *ids, size_t n, accel__buffer *out) {
  const bool blanks = t->characters.blanks && n > 1;
  for (size_t i = blanks; i < n; i += 1 + blanks) {
    size_t length;
    const char *text = accel__id_to_token(t, (int32_t)ids[i], &length);
    if (text) accel__buffer_bytes(out, text, length);
  }
}

accel_status accel__characters_decode(const accel__tokenizer *t, const int32_t *ids, size_t n,
                                      bool skip_special, accel__buffer *out) {
  accel__arena arena = {0};
  accel__ctc_text found = {0};
  int64_t *kept = accel__arena_array(&arena, n + 1, sizeof *kept);
  size_t count = 0;
  accel_status status = kept ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
  for (size_t i = 0; kept && i < n; i++)
    if (!skip_special || !is_left_out(t, ids[i])) kept[count++] = ids[i];
  if (status == ACCEL_OK && t->characters.class == ACCEL__CHARACTERS_VITS) {
    join(t, kept, count, out);
  } else if (status == ACCEL_OK) {
    status = accel__ctc_decode(t, kept, (int64_t)count, false, &arena, &found);
    if (status == ACCEL_OK) accel__buffer_text(out, found.text);
  }
  accel__arena_free(&arena);
  return status == ACCEL_OK ? accel__buffer_status(out) : status;
}
