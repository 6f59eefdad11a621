/* text_stream.c - incremental decoding: the text of a window before and with the new tokens; the
 * difference is new text. */
#include "generate/text_stream.h"

#include <string.h>

static accel_status decode(const accel__text_stream *s, const int32_t *ids, uint32_t n,
                           accel__buffer *out) {
  out->n = 0;
  accel__buffer_text(out, "");
  bool clean_up = !s->no_clean_up && accel__tokenizer_describe(s->tokenizer)->clean_up;
  return accel__decode(s->tokenizer, ids, n, !s->keep_special_tokens, clean_up, out);
}

static bool ends_broken(const accel__buffer *b) {
  return b->n >= 3 && !memcmp(b->data + b->n - 3, "\xEF\xBF\xBD", 3);
}

/* First occurrence of a stop string that ends beyond byte `known`; *end is where it ends. */
static bool find_stop(const accel__text_stream *s, size_t known, size_t *begin, size_t *end) {
  bool found = false;
  *begin = *end = s->text.n;
  for (uint32_t i = 0; i < s->n_stop; i++) {
    size_t n = strlen(s->stop[i]), first = known >= n ? known - n + 1 : 0;
    const char *at = s->text.n >= n + first
                         ? memmem(s->text.data + first, s->text.n - first, s->stop[i], n)
                         : NULL;
    size_t where = at ? (size_t)(at - s->text.data) : 0;
    if (!at || (found && where >= *begin)) continue;
    *begin = where;
    *end = where + n;
    found = true;
  }
  return found;
}

static accel_status add(accel__text_stream *s, const int32_t *ids, uint32_t n, bool last) {
  if (!s->tokenizer || s->stopped || n <= s->read) return ACCEL_OK;
  ACCEL_TRY(decode(s, ids + s->from, s->read - s->from, &s->before));
  ACCEL_TRY(decode(s, ids + s->from, n - s->from, &s->with));
  if (ends_broken(&s->with) && !last) return ACCEL_OK;
  bool goes_on = s->with.n >= s->before.n &&
                 (!s->before.n || !memcmp(s->with.data, s->before.data, s->before.n));
  /* byte tokens that made text before are broken by those behind them: what was emitted stays */
  if (!goes_on) {
    ACCEL_TRY(decode(s, ids + s->read, n - s->read, &s->with));
    s->before.n = 0;
  }
  if (s->with.n == s->before.n) return ACCEL_OK;
  size_t known = s->text.n, begin, end;
  accel__buffer_bytes(&s->text, s->with.data + s->before.n, s->with.n - s->before.n);
  ACCEL_TRY(accel__buffer_status(&s->text));
  s->from = s->read;
  s->read = n;
  if (!find_stop(s, known, &begin, &end)) return ACCEL_OK;
  s->stopped = true;
  s->text.n = s->keep_stop ? end : begin;
  return ACCEL_OK;
}

accel_status accel__text_stream_add(accel__text_stream *s, const int32_t *ids, uint32_t n) {
  return add(s, ids, n, false);
}

accel_status accel__text_stream_end(accel__text_stream *s, const int32_t *ids, uint32_t n) {
  ACCEL_TRY(add(s, ids, n, true));
  s->n_stop = 0;
  return ACCEL_OK;
}

/* Bytes at the end of the text that a stop string begins with. */
static size_t held_back(const accel__text_stream *s) {
  size_t most = 0;
  if (s->keep_stop || s->stopped) return 0;
  for (uint32_t i = 0; i < s->n_stop; i++)
    for (size_t k = strlen(s->stop[i]) - 1; k > most; k--)
      if (k <= s->text.n && !memcmp(s->text.data + s->text.n - k, s->stop[i], k)) most = k;
  return most;
}

const char *accel__text_stream_take(accel__text_stream *s, size_t *bytes) {
  size_t sure = s->text.n - held_back(s), from = s->emitted;
  *bytes = sure > from ? sure - from : 0;
  s->emitted += *bytes;
  return s->text.data ? s->text.data + from : "";
}

void accel__text_stream_free(accel__text_stream *s) {
  accel__buffer_free(&s->text);
  accel__buffer_free(&s->before);
  accel__buffer_free(&s->with);
}
