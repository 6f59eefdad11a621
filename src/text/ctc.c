/* ctc.c - see ctc.h. */
#include "text/ctc.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "text/text_internal.h"
#include "text/unicode.h"

const char *accel__ctc_token(const accel__tokenizer *t, int64_t id, size_t *n) {
  const bool fits = id >= 0 && id < ACCEL__TOKENS_MAX;
  const accel__vocab_entry *e = fits ? accel__vocab_token(&t->vocab, (int32_t)id) : NULL;
  const char *added = !e && fits ? accel__id_to_token(t, (int32_t)id, n) : NULL;
  if (added) return added;
  const char *text = e ? accel__vocab_text(&t->vocab, e) : t->characters.unknown;
  if (n) *n = e ? e->n : strlen(text);
  return text;
}

static const char *token_of(const accel__tokenizer *t, int64_t id) {
  return accel__ctc_token(t, id, NULL);
}

/* Runs of equal tokens without the blanks; delimiters as spaces. */
static uint32_t characters(const accel__tokenizer *t, const int64_t *ids, int64_t n,
                           accel__ctc_piece *out) {
  const accel__characters *c = &t->characters;
  uint32_t found = 0;
  for (int64_t begin = 0, end; begin < n; begin = end) {
    const char *token = token_of(t, ids[begin]);
    for (end = begin + 1; end < n && !strcmp(token_of(t, ids[end]), token); end++) {
    }
    if (!strcmp(token, c->blank)) continue;
    out[found++] = (accel__ctc_piece){strcmp(token, c->delimiter) ? token : c->space, begin, end};
  }
  return found;
}

/* Joins the characters between spaces, in place. */
static accel_status join_words(const accel__characters *c, accel__ctc_text *t,
                               accel__arena *arena) {
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
static char *finished(const accel__characters *c, const accel__buffer *b, accel__arena *arena) {
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

accel_status accel__ctc_decode(const accel__tokenizer *t, const int64_t *ids, int64_t n, bool words,
                               accel__arena *arena, accel__ctc_text *out) {
  accel__buffer all = {0};
  *out = (accel__ctc_text){.piece = accel__arena_array(arena, (size_t)n + 1, sizeof *out->piece)};
  if (!out->piece) return ACCEL_ERROR_OUT_OF_MEMORY;
  out->n = characters(t, ids, n, out->piece);
  for (uint32_t i = 0; i < out->n; i++) accel__buffer_text(&all, out->piece[i].text);
  out->text = all.failed ? NULL : finished(&t->characters, &all, arena);
  accel__buffer_free(&all);
  if (!out->text) return accel__no_memory(0);
  for (uint32_t i = 0; i < out->n; i++) /* the pieces outlive the tokenizer */
    if (!(out->piece[i].text = accel__arena_string(arena, out->piece[i].text)))
      return ACCEL_ERROR_OUT_OF_MEMORY;
  return words ? join_words(&t->characters, out, arena) : ACCEL_OK;
}
