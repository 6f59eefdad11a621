/* grammar_fuzz.c - the first byte says what the text up to the first NUL byte is (a regular
 * expression, a grammar, choices; 't': a structural tag); it is compiled, and what is behind the NUL byte chooses a text of
 * it. */
#include <stdint.h>
#include <string.h>

#include "grammar_walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static const accel_grammar_kind kinds[] = {ACCEL_GRAMMAR_REGEX, ACCEL_GRAMMAR_TEXT,
                                             ACCEL_GRAMMAR_CHOICES};
  static const uint8_t usual[64] = "{\"a\":1,";
  accel__grammar *g = NULL;
  if (!n) return 0;
  const char *text = (const char *)data + 1, *end = memchr(text, 0, n - 1);
  const size_t text_n = end ? (size_t)(end - text) : n - 1;
  const accel_grammar_kind kind =
      data[0] == 't' ? ACCEL_GRAMMAR_STRUCTURAL_TAG : kinds[data[0] % 3];
  if (accel__grammar_compile(kind, text, text_n, &g) != ACCEL_OK) return 0;
  if (end)
    walk_grammar(g, data + text_n + 2, n - text_n - 2);
  else
    walk_grammar(g, usual, sizeof usual);
  accel__grammar_release(&g);
  return 0;
}
