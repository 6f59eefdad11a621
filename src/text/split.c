/* split.c - the expressions that many published tokenizers cut words with, matched by hand.
 *
 * Each function returns the length of the match that begins at chars[0]; these expressions match
 * everywhere.  Classes are Oniguruma's, as the tables have them.  tests/unit/text_split_test.c
 * holds them to the regular expressions themselves.
 */
#include <string.h>

#include "text/text_internal.h"
#include "text/unicode.h"

typedef enum kind { SPACE, LETTER, NUMBER, OTHER } kind;

static kind kind_of(uint32_t c) {
  static const uint8_t ascii[128] = {
      3, 3, 3, 3, 3, 3, 3, 3, 3, 0, 0, 0, 0, 0, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3,
      3, 3, 3, 3, 3, 3, 0, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 2, 2, 2, 2,
      2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
      1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3, 3, 3, 3, 3, 3, 1, 1, 1, 1, 1, 1, 1,
      1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3, 3, 3, 3, 3};
  if (c < 128) return (kind)ascii[c];
  unsigned flags = accel__unicode(c)->flags;
  return flags & ACCEL__UNI_LETTER   ? LETTER
         : flags & ACCEL__UNI_NUMBER ? NUMBER
         : flags & ACCEL__UNI_SPACE  ? SPACE
                                     : OTHER;
}

static bool is_feed(uint32_t c) { return c == '\r' || c == '\n'; }

/* One of 's 't 're 've 'm 'll 'd, in lower case or (fold) in any: the long s counts as an s
 * then. */
static size_t contraction(const accel__char *chars, size_t n, bool fold) {
  if (n < 2 || chars[0].c != '\'') return 0;
  uint32_t a = chars[1].c, b = n > 2 ? chars[2].c : 0;
  if (fold) {
    a = a == 0x17F ? 's' : a - 'A' < 26 ? a + 32 : a;
    b = b - 'A' < 26 ? b + 32 : b;
  }
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
  return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

/* Where the run of characters of kind k that begins at i ends. */
static size_t class_end(const accel__char *chars, size_t n, size_t i, kind k) {
  while (i < n && kind_of(chars[i].c) == k) i++;
  return i;
}

/* White space in front of something: all of it but the last, which goes with what follows. */
static size_t leading_white_space(const accel__char *chars, size_t n) {
  size_t i = class_end(chars, n, 0, SPACE);
  return i == n || i == 1 ? i : i - 1;
}

size_t accel__split_gpt2(const accel__char *chars, size_t n) {
  size_t i = contraction(chars, n, false);
  if (i) return i;
  i = chars[0].c == ' ' && n > 1 && kind_of(chars[1].c) != SPACE;
  kind k = kind_of(chars[i].c);
  return k == SPACE ? leading_white_space(chars, n) : class_end(chars, n, i + 1, k);
}

/* \s*[\r\n]+ at a space: through the last line feed of the run of spaces; 0 when there is none. */
static size_t through_feed(const accel__char *chars, size_t n) {
  size_t end = class_end(chars, n, 0, SPACE);
  while (end > 0 && !is_feed(chars[end - 1].c)) end--;
  return end;
}

/* What cl100k, Llama 3 and Qwen 2 share behind their words; `digits` of a number at most. */
static size_t after_words(const accel__char *chars, size_t n, size_t digits) {
  kind k = kind_of(chars[0].c);
  size_t i = 0;
  if (k == NUMBER) {
    while (i < n && i < digits && kind_of(chars[i].c) == NUMBER) i++;
    return i;
  }
  i = chars[0].c == ' ';
  if (i < n && kind_of(chars[i].c) == OTHER) {
    i = class_end(chars, n, i, OTHER);
    while (i < n && is_feed(chars[i].c)) i++;
    return i;
  }
  i = through_feed(chars, n);
  return i ? i : leading_white_space(chars, n);
}

static size_t cl100k(const accel__char *chars, size_t n, size_t digits) {
  size_t i = contraction(chars, n, true);
  if (i) return i;
  kind k = kind_of(chars[0].c);
  if (k == LETTER) return class_end(chars, n, 1, LETTER);
  if (k != NUMBER && !is_feed(chars[0].c) && n > 1 && kind_of(chars[1].c) == LETTER)
    return class_end(chars, n, 2, LETTER);
  return after_words(chars, n, digits);
}

size_t accel__split_cl100k(const accel__char *chars, size_t n) { return cl100k(chars, n, 3); }
size_t accel__split_qwen2(const accel__char *chars, size_t n) { return cl100k(chars, n, 1); }

/* CLIP's, which leaves spaces out: 0 there. */
size_t accel__split_clip(const accel__char *chars, size_t n) {
  size_t i = contraction(chars, n, false);
  if (i) return i;
  kind k = kind_of(chars[0].c);
  return k == SPACE ? 0 : k == NUMBER ? 1 : class_end(chars, n, 1, k);
}

const accel__known_split accel__known_splits[] = {
    {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
     accel__split_gpt2},
    {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
     "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     accel__split_cl100k},
    {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
     "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     accel__split_qwen2},
    {"'s|'t|'re|'ve|'m|'ll|'d|[\\p{L}]+|[\\p{N}]|[^\\s\\p{L}\\p{N}]+", accel__split_clip},
    {NULL, NULL},
};

accel__split_fn accel__split_known(const char *expression) {
  for (const accel__known_split *known = accel__known_splits; known->expression; ++known) {
    if (strcmp(known->expression, expression) == 0) return known->fn;
  }
  return NULL;
}
