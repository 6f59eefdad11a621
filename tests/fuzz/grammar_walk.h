/* grammar_walk.h - for fuzz targets: texts of a grammar, byte by byte, as the input's last bytes
 * choose. */
#ifndef ACCEL_TESTS_FUZZ_GRAMMAR_WALK_H
#define ACCEL_TESTS_FUZZ_GRAMMAR_WALK_H

#include <stdlib.h>

#include "text/grammar/grammar.h"

/* Every text that masks allow goes on or may end, and a byte is in the mask if and only if it can be
 * read.  Tokens are the bytes. */
static inline void walk_grammar(accel__grammar *g, const uint8_t *choices, size_t n) {
  static accel__token_trie *trie;
  accel__matcher *m;
  uint32_t state = ACCEL__MATCH_START, next, offset[257];
  char bytes[256];
  for (int i = 0; i < 257; i++) offset[i] = (uint32_t)i;
  for (int i = 0; i < 256; i++) bytes[i] = (char)i;
  if (!trie && accel__token_trie_make(bytes, offset, 256, false, &trie) != ACCEL_OK) return;
  if (accel__matcher_open(g, trie, &m) != ACCEL_OK) return;
  for (size_t i = 0; i < n; i++) {
    const uint64_t *allowed;
    bool may_end, any = false;
    if (accel__matcher_mask(m, state, &allowed, &may_end) != ACCEL_OK) break;
    int byte = choices[i];
    for (int k = 0; k < 256 && !any; k++) {
      byte = (choices[i] + k) % 256;
      any = allowed[byte / 64] >> (byte % 64) & 1;
    }
    if (!any && !may_end) abort();
    for (int b = byte; b <= (any ? byte : 255); b++) {
      const bool in_mask = allowed[b / 64] >> (b % 64) & 1;
      if (accel__matcher_advance(m, state, b, &next) != ACCEL_OK) goto done;
      if (in_mask != (next != ACCEL__MATCH_FAILED)) abort();
    }
    if (!any) break;
    state = next;
  }
done:
  accel__matcher_close(&m);
}

#endif
