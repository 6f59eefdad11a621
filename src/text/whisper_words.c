/* whisper_words.c - tokens to words: transformers' _combine_tokens_into_words and what it calls. */
#include <string.h>

#include "text/jinja/jinja_strings.h"
#include "text/whisper_tokenizer.h"

static const char prepended[] = "\"'“¡¿([{-", appended[] = "\"'.。,，!！?？:：”)]}、",
                  punctuation[] = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";

bool accel__whisper_has_spaces(const char *language) {
  static const char *const without[] = {"chinese", "japanese", "thai",
                                        "lao",     "myanmar",  "cantonese"};
  for (size_t i = 0; language && i < sizeof without / sizeof *without; i++)
    if (!strcmp(language, without[i])) return false;
  return true;
}

/* ---- texts ---- */

/* Python's `text in set` of strings. */
static bool within(const char *set, const char *text, size_t n) {
  return memmem(set, strlen(set), text, n) != NULL;
}

static bool within_stripped(const char *set, const char *text) {
  accel__jinja_value v = {.kind = ACCEL__J_STRING, .text = text, .n = (uint32_t)strlen(text)};
  accel__jinja_strip(&v, NULL, true, true);
  return within(set, v.text, v.n);
}

/* How many code points there are, and the number of the first that could not be decoded, or -1. */
static int64_t count_chars(const char *text, int64_t *broken) {
  int64_t n = 0;
  *broken = -1;
  for (size_t at = 0, end = strlen(text); at < end; n++) {
    uint32_t c;
    at += accel__utf8_decode(text + at, end - at, &c);
    if (c == 0xFFFD && *broken < 0) *broken = n;
  }
  return n;
}

/* Whether code point `number` of the text is there and could be decoded. */
static bool is_whole_at(const char *text, int64_t number) {
  for (size_t at = 0, end = strlen(text); at < end; number--) {
    uint32_t c;
    at += accel__utf8_decode(text + at, end - at, &c);
    if (number == 0) return c != 0xFFFD;
  }
  return false;
}

/* ---- words ---- */

/* Tokens are taken together until their characters are complete, or are broken in the whole text,
 * too; what is left at the end is no word. */
static accel_status split_characters(const accel__tokenizer *tokenizer, const int32_t *ids,
                                     uint32_t n, accel__arena *arena, accel__whisper_word *out,
                                     uint32_t *n_words) {
  const char *full, *text;
  uint32_t first = 0;
  int64_t broken;
  *n_words = 0;
  ACCEL_TRY(accel__whisper_decode(tokenizer, ids, n, true, arena, &full));
  for (uint32_t i = 0; i < n; i++) {
    ACCEL_TRY(accel__whisper_decode(tokenizer, ids + first, i + 1 - first, true, arena, &text));
    int64_t chars = count_chars(text, &broken);
    if (broken >= 0 && is_whole_at(full, broken)) continue;
    out[(*n_words)++] = (accel__whisper_word){text, first, i + 1};
    first = i + 1;
    /* past what is done */
    for (const char *end = full + strlen(full); chars > 0 && full < end; chars--) {
      uint32_t c;
      full += accel__utf8_decode(full, (size_t)(end - full), &c);
    }
  }
  return ACCEL_OK;
}

static accel_status join(accel__whisper_word *left, const accel__whisper_word *right,
                         accel__arena *arena) {
  left->text = accel__arena_printf(arena, "%s%s", left->text, right->text);
  left->end = right->end;
  return left->text ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

/* A piece that does not begin a word belongs to the one before it. */
static accel_status join_pieces(const accel__tokenizer *tokenizer, const int32_t *ids,
                                accel__arena *arena, accel__whisper_word *word, uint32_t *n) {
  const int32_t end_of_text = accel__tokenizer_describe(tokenizer)->eos;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < *n; i++) {
    const bool special = end_of_text >= 0 && ids[word[i].first] >= end_of_text;
    if (special || word[i].text[0] == ' ' || within_stripped(punctuation, word[i].text) ||
        kept == 0)
      word[kept++] = word[i];
    else
      ACCEL_TRY(join(&word[kept - 1], &word[i], arena));
  }
  *n = kept;
  return ACCEL_OK;
}

static void empty(accel__whisper_word *w) { *w = (accel__whisper_word){"", w->end, w->end}; }

/* Opening punctuation goes to the word after it, closing punctuation to the one before. */
static accel_status join_punctuation(accel__arena *arena, accel__whisper_word *word, uint32_t *n) {
  uint32_t kept = 0;
  for (uint32_t i = *n ? *n - 1 : 0, to = i; i-- > 0;) {
    if (word[i].text[0] != ' ' || !within_stripped(prepended, word[i].text)) {
      to = i;
      continue;
    }
    accel__whisper_word joined = word[i];
    ACCEL_TRY(join(&joined, &word[to], arena));
    word[to] = joined;
    empty(&word[i]);
  }
  for (uint32_t i = 0, k = 1; k < *n; k++) {
    const size_t length = strlen(word[i].text);
    if ((length && word[i].text[length - 1] == ' ') ||
        !within(appended, word[k].text, strlen(word[k].text))) {
      i = k;
      continue;
    }
    if (word[k].first == word[k].end) continue; /* emptied above */
    ACCEL_TRY(join(&word[i], &word[k], arena));
    empty(&word[k]);
  }
  for (uint32_t i = 0; i < *n; i++)
    if (word[i].text[0] && word[i].first < word[i].end) word[kept++] = word[i];
  *n = kept;
  return ACCEL_OK;
}

accel_status accel__whisper_words(const accel__tokenizer *tokenizer, const int32_t *ids, uint32_t n,
                                  bool spaces, accel__arena *arena, accel__whisper_word *out,
                                  uint32_t *n_words) {
  ACCEL_TRY(split_characters(tokenizer, ids, n, arena, out, n_words));
  if (spaces) ACCEL_TRY(join_pieces(tokenizer, ids, arena, out, n_words));
  return join_punctuation(arena, out, n_words);
}
