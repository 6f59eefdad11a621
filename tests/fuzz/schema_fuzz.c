/* schema_fuzz.c - a JSON Schema up to the first NUL byte; it is compiled, and what is behind the NUL
 * byte chooses a text of it. */
#include <stdint.h>
#include <string.h>

#include "grammar_walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static const uint8_t usual[64] = "{\"a\":1,";
  accel__grammar *g = NULL;
  if (!n) return 0;
  const char *text = (const char *)data, *end = memchr(text, 0, n);
  const size_t text_n = end ? (size_t)(end - text) : n;
  if (accel__grammar_compile(ACCEL_GRAMMAR_JSON_SCHEMA, text, text_n, &g) != ACCEL_OK) return 0;
  if (end)
    walk_grammar(g, data + text_n + 1, n - text_n - 1);
  else
    walk_grammar(g, usual, sizeof usual);
  accel__grammar_release(&g);
  return 0;
}
