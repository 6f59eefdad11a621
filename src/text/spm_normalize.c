/* spm_normalize.c - SentencePiece's own normalizer (normalizer.cc), where the `tokenizers` package
 * goes other ways: the longest replacement wins, clusters or not; white space at both ends and
 * repeated white space go; U+2581 stands for a space, and for the beginning. */
#include <string.h>

#include "text/text_internal.h"

/* What stands at chars[0]: a replacement (NULL: the code point itself) of *taken code points. */
static const char *prefix(const accel__normalizer *step, const accel__char *chars, size_t n,
                          size_t *taken) {
  *taken = 1;
  return step->trie_n ? accel__mapped(step, chars, n, taken) : NULL;
}

static bool is_space(const char *text, const accel__char *chars) {
  return text ? text[0] == ' ' && text[1] == 0 : chars[0].c == ' ';
}

/* Appends one code point, spaces only behind something else where they are not to repeat. */
static accel_status push(accel__chars *out, uint32_t c, const accel__char *first,
                         const accel__char *last, bool *after_space, bool *any) {
  if (c == ' ' && *after_space && !*any) return ACCEL_OK;
  *any = true;
  return accel__chars_push(out, c == ' ' ? ACCEL__SPACE_MARK : c, first->start, last->end);
}

/* One replacement or code point; `after_space` says whether what came before ended with a space. */
static accel_status push_prefix(accel__chars *out, const char *text, const accel__char *first,
                                const accel__char *last, bool *after_space) {
  bool any = false;
  uint32_t c = 0;
  if (!text) ACCEL_TRY(push(out, c = first->c, first, last, after_space, &any));
  for (size_t left; text && *text;) {
    for (left = 1; left < 4 && text[left];) left++;
    text += accel__utf8_decode(text, left, &c);
    ACCEL_TRY(push(out, c, first, last, after_space, &any));
  }
  if (any) *after_space = c == ' ';
  return ACCEL_OK;
}

accel_status accel__spm_normalize(const accel__normalizer *step, accel__encode_scratch *s) {
  const accel__char *chars = s->chars.at;
  accel__chars *out = &s->other;
  size_t n = s->chars.n, i = 0, taken;
  out->n = 0;
  while (step->remove_extra && i < n && is_space(prefix(step, chars + i, n - i, &taken), chars + i))
    i += taken;
  if (i < n && step->dummy_prefix)
    ACCEL_TRY(accel__chars_push(out, ACCEL__SPACE_MARK, chars[i].start, chars[i].end));
  bool after_space = step->remove_extra;
  for (; i < n; i += taken) {
    const char *text = prefix(step, chars + i, n - i, &taken);
    ACCEL_TRY(push_prefix(out, text, &chars[i], &chars[i + taken - 1], &after_space));
    after_space = after_space && step->remove_extra;
  }
  while (step->remove_extra && out->n && out->at[out->n - 1].c == ACCEL__SPACE_MARK) out->n--;
  accel__chars kept = s->chars;
  s->chars = s->other;
  s->other = kept;
  return ACCEL_OK;
}
