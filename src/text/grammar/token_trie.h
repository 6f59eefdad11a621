/* token_trie.h - the bytes of a vocabulary's tokens as a trie, which is walked once for a mask.
 *
 * Nodes lie in depth-first order, so the tokens that begin with a node's bytes are the nodes up to
 * its end.  Plain tokens come first: whole characters, none of them a control character, `"` or
 * `\`.  Where every such character may come, all of them are taken at once, by their number of
 * characters.
 */
#ifndef ACCEL_TEXT_GRAMMAR_TOKEN_TRIE_H
#define ACCEL_TEXT_GRAMMAR_TOKEN_TRIE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

enum {
  ACCEL__PLAIN_CHARS = 32,      /* of a plain token, at most */
  ACCEL__TOKEN_BYTES_MAX = 1024 /* longer tokens are left out: they never come */
};

typedef struct accel__token_trie {
  uint32_t n_tokens;   /* ids are below it */
  uint32_t n, n_plain; /* nodes; those of plain tokens */
  uint32_t deepest;    /* bytes of the longest token */
  uint8_t *byte;       /* [n] of the node */
  uint16_t *depth;     /* [n] 1: first bytes of tokens */
  uint32_t *end;       /* [n] node behind all that go on from it */
  int32_t *token;      /* [n] that ends there; -1 none */
  int32_t *same;       /* [n_tokens] the next token of the same bytes; -1 none */
  uint32_t *offset;    /* [n_tokens + 1] of each token's bytes */
  char *bytes;
  /* [ACCEL__PLAIN_CHARS + 1][words] a bit a token: plain ones of at most so many characters */
  uint64_t *plain;
  size_t words;      /* of a set of tokens: n_tokens / 64, rounded up */
  bool strips_space; /* a text's first token loses its leading space when it is decoded */
} accel__token_trie;

/* Token i has bytes[offset[i] .. offset[i + 1]), copied; none: it is no text and never comes. */
accel_status accel__token_trie_make(const char *bytes, const uint32_t *offset, uint32_t n_tokens,
                                    bool strips_space, accel__token_trie **out);
void accel__token_trie_free(accel__token_trie **trie); /* NULL-safe */
size_t accel__token_trie_bytes(const accel__token_trie *trie);

#endif
