/* chars.c - growing arrays of code points, splits and tokens; bytes to code points and back. */
#include <stdlib.h>

#include "text/text_internal.h"

accel_status accel__grow(void *array, size_t *capacity, size_t need, size_t size) {
  if (need <= *capacity) return ACCEL_OK;
  size_t more = *capacity < 32 ? 64 : *capacity + *capacity / 2;
  if (more < need) more = need;
  if (more > SIZE_MAX / size) return accel__no_memory(SIZE_MAX);
  void *grown = realloc(*(void **)array, more * size);
  if (!grown) return accel__no_memory(more * size);
  *(void **)array = grown;
  *capacity = more;
  return ACCEL_OK;
}

accel_status accel__chars_push(accel__chars *chars, uint32_t c, uint32_t start, uint32_t end) {
  if (chars->n == chars->capacity)
    ACCEL_TRY(accel__grow(&chars->at, &chars->capacity, chars->n + 1, sizeof *chars->at));
  chars->at[chars->n++] = (accel__char){c, start, end};
  return ACCEL_OK;
}

accel_status accel__chars_decode(accel__chars *out, const char *text, size_t n) {
  out->n = 0;
  ACCEL_TRY(accel__grow(&out->at, &out->capacity, n, sizeof *out->at));
  accel__char *at = out->at;
  for (size_t i = 0; i < n;) {
    uint32_t c = (uint8_t)text[i];
    size_t length = c < 0x80 ? 1 : accel__text_decode(text + i, n - i, &c);
    *at++ = (accel__char){c, (uint32_t)i, (uint32_t)(i + length)};
    i += length;
  }
  out->n = (size_t)(at - out->at);
  return ACCEL_OK;
}

accel_status accel__splits_push(accel__splits *splits, accel__split split) {
  if (splits->n == splits->capacity)
    ACCEL_TRY(accel__grow(&splits->at, &splits->capacity, splits->n + 1, sizeof *splits->at));
  splits->at[splits->n++] = split;
  return ACCEL_OK;
}

accel_status accel__chars_utf8(accel__encode_scratch *s, const accel__char *chars, size_t n,
                               size_t *bytes) {
  ACCEL_TRY(accel__grow(&s->utf8, &s->utf8_capacity, 4 * n + 1, 1));
  ACCEL_TRY(accel__grow(&s->bound, &s->bound_capacity, n + 1, sizeof *s->bound));
  size_t at = 0;
  for (size_t i = 0; i < n; ++i) {
    s->bound[i] = (uint32_t)at;
    if (chars[i].c < 0x80)
      s->utf8[at++] = (char)chars[i].c;
    else
      at += accel__utf8_encode(chars[i].c, s->utf8 + at);
  }
  s->bound[n] = (uint32_t)at;
  *bytes = at;
  return ACCEL_OK;
}

void accel__count_spaces(const char *text, size_t n, uint32_t *lead, uint32_t *trail) {
  /* The trimming of offsets counts byte-level spaces (U+0120) and white space; see unicode.h. */
  *lead = *trail = 0;
  bool leading = true;
  for (size_t i = 0; i < n;) {
    uint32_t c;
    i += accel__utf8_decode(text + i, n - i, &c);
    bool space = c == 0x120 || accel__is_white(c);
    leading = leading && space;
    *lead += leading;
    *trail = space ? *trail + 1 : 0;
  }
}

accel_status accel__tokens_push(const accel__tokenizer *t, accel__tokens *tokens, int32_t id,
                                const accel__char *first, size_t n, int32_t word) {
  if (tokens->n == tokens->capacity)
    ACCEL_TRY(accel__grow(&tokens->at, &tokens->capacity, tokens->n + 1, sizeof *tokens->at));
  accel__token *token = &tokens->at[tokens->n++];
  *token = (accel__token){.id = id,
                          .start = first[0].start,
                          .end = first[n - 1].end,
                          .word = word,
                          .first = first,
                          .chars = (uint32_t)n};
  if (t->trims) {
    const accel__vocab_entry *e = accel__vocab_token(&t->vocab, id);
    if (e) accel__count_spaces(accel__vocab_text(&t->vocab, e), e->n, &token->lead, &token->trail);
  }
  return ACCEL_OK;
}

accel_status accel__tokens_push_added(const accel__tokenizer *t, accel__tokens *tokens, int32_t id,
                                      const accel__char *first, size_t n, int32_t word,
                                      accel__encode_scratch *s) {
  ACCEL_TRY(accel__tokens_push(t, tokens, id, first, n, word));
  if (!t->trims) return ACCEL_OK;
  size_t bytes;
  ACCEL_TRY(accel__chars_utf8(s, first, n, &bytes));
  accel__token *token = &tokens->at[tokens->n - 1];
  accel__count_spaces(s->utf8, bytes, &token->lead, &token->trail);
  return ACCEL_OK;
}
