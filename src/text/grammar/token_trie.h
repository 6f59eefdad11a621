/* token_trie.h - the bytes of a vocabulary's tokens as a trie, which is walked once for a mask.
 *
 * Nodes lie in depth-first order, so the tokens that begin with a node's bytes are the nodes up to
 * its end.  Plain tokens, whole characters without `"`, `\` and control characters, lie by the
 * classes of characters that are in them.  Where all characters of some classes may come, as inside of a
 * string, the tokens of these classes are taken at once, by their number of characters, and only
 * the others are walked over.
 */
#ifndef ACCEL_TEXT_GRAMMAR_TOKEN_TRIE_H
#define ACCEL_TEXT_GRAMMAR_TOKEN_TRIE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

enum {
  ACCEL__PLAIN_CHARS = 32, /* of a plain token, at most */
  /* classes: a-z, A-Z, 0-9, the space, all beyond ASCII, ASCII's other characters but `"` and `\` */
  ACCEL__PLAIN_CLASSES = 6,
  ACCEL__PLAIN_GROUPS = 1 << ACCEL__PLAIN_CLASSES, /* sets of classes */
  ACCEL__PLAIN_SETS = 96,                          /* sets of tokens that a trie keeps */
  ACCEL__TOKEN_BYTES_MAX = 1024                    /* longer tokens are left out: they never come */
};

/* The plain tokens of some classes that have at most so many characters. */
typedef struct accel__plain_set {
  uint32_t classes, chars;
  uint64_t *bits; /* [words] */
} accel__plain_set;

typedef struct accel__token_trie {
  uint32_t n_tokens; /* ids are below it */
  uint32_t n;        /* nodes */
  /* Of each set of classes, and at last of the tokens that are not plain, the first node. */
  uint32_t group[ACCEL__PLAIN_GROUPS + 2];
  uint32_t deepest; /* bytes of the longest token */
  uint8_t *byte;    /* [n] of the node */
  uint16_t *depth;  /* [n] 1: first bytes of tokens */
  uint32_t *end;    /* [n] node behind all that go on from it */
  int32_t *token;   /* [n] that ends there; -1 none */
  int32_t *same;    /* [n_tokens] the next token of the same bytes; -1 none */
  uint32_t *offset; /* [n_tokens + 1] of each token's bytes */
  char *bytes;
  int32_t *plain; /* plain tokens, by sets of classes, then by characters */
  /* [groups][characters] how many of `plain` come before those with more characters */
  uint32_t plain_upto[ACCEL__PLAIN_GROUPS][ACCEL__PLAIN_CHARS + 1];
  pthread_mutex_t lock; /* of `set`, which are made when they are first asked for */
  accel__plain_set set[ACCEL__PLAIN_SETS];
  uint32_t n_sets;
  size_t words;      /* of a set of tokens: n_tokens / 64, rounded up */
  bool strips_space; /* a text's first token loses its leading space when it is decoded */
} accel__token_trie;

/* Token i has bytes[offset[i] .. offset[i + 1]), copied; none: it is no text and never comes. */
accel_status accel__token_trie_make(const char *bytes, const uint32_t *offset, uint32_t n_tokens,
                                    bool strips_space, accel__token_trie **out);
void accel__token_trie_free(accel__token_trie **trie); /* NULL-safe */
/* Copies to bits[words] the plain tokens of no other classes, with at most `chars` characters. */
void accel__token_trie_plain(const accel__token_trie *trie, uint32_t classes, uint32_t chars,
                             uint64_t *bits);
size_t accel__token_trie_bytes(const accel__token_trie *trie);

#endif
