/* token_trie.h - the bytes of a vocabulary's tokens as a trie, which is walked once for a mask.
 *
 * Nodes lie in depth-first order, so the tokens that begin with a node's bytes are the nodes up to
 * its end.  Where all characters but those of some kinds may come, as inside of a string or a name,
 * the plain tokens without these kinds, which are whole characters and not too many of them, are
 * taken at once, by their number of characters; and only the others are walked, from the first
 * character of such a kind.
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
  /* kinds of characters: a-z, A-Z, 0-9, the space, all beyond ASCII; then each of ASCII's marks, the
   * tab, the two ends of a line; and at last the other control characters */
  ACCEL__KINDS = 41,
  ACCEL__KIND_BEYOND = 4,
  ACCEL__KIND_MARKS = 5,    /* the first of those behind */
  ACCEL__PLAIN_CLASSES = 6, /* the kinds before, and one of all marks and control characters */
  ACCEL__PLAIN_GROUPS = 1 << ACCEL__PLAIN_CLASSES, /* sets of classes */
  ACCEL__PLAIN_SETS = 96,                          /* sets of tokens that a trie keeps */
  ACCEL__TOKEN_BYTES_MAX = 1024                    /* longer tokens are left out: they never come */
};

/* Which kind of characters a byte is of. */
static inline uint32_t accel__character_kind(uint8_t b) {
  if (b >= 0x80) return ACCEL__KIND_BEYOND;
  if (b >= 'a' && b <= 'z') return 0;
  if (b >= 'A' && b <= 'Z') return 1;
  if (b >= '0' && b <= '9') return 2;
  if (b == ' ') return 3;
  if (b == '\t' || b == '\n') return ACCEL__KINDS - 4 + (b == '\n');
  if (b < ' ' || b == 0x7F) return b == '\r' ? ACCEL__KINDS - 2 : ACCEL__KINDS - 1;
  const uint32_t mark = b - '!'; /* the 10, 26 and 26 between them are no marks */
  return ACCEL__KIND_MARKS + mark - (b > '9' ? 10 : 0) - (b > 'Z' ? 26 : 0) - (b > 'z' ? 26 : 0);
}

/* The kinds that a token of a set of classes surely has, as bits: of its marks there are many. */
static inline uint64_t accel__plain_kinds(uint32_t classes) {
  return classes & ((1u << ACCEL__KIND_MARKS) - 1);
}

/* The plain tokens without some kinds that have at most so many characters. */
typedef struct accel__plain_set {
  uint64_t except; /* kinds */
  uint32_t chars;
  uint64_t *bits; /* [words] */
} accel__plain_set;

typedef struct accel__token_trie {
  uint32_t n_tokens; /* ids are below it */
  uint32_t n;        /* nodes; of the tokens that are not plain those from `plain_end` on */
  uint32_t plain_end;
  uint32_t deepest; /* bytes of the longest token */
  uint8_t *byte;    /* [n] of the node */
  uint16_t *depth;  /* [n] 1: first bytes of tokens */
  uint32_t *end;    /* [n] node behind all that go on from it */
  /* Nodes of plain tokens at which a character begins, by its kind, then by the classes before it;
   * with the kinds of the characters before it, and how many these are. */
  uint32_t *of_kind;
  uint64_t *before;
  uint8_t *chars;
  uint32_t of_kind_at[ACCEL__KINDS * ACCEL__PLAIN_GROUPS + 1];
  int32_t *token;   /* [n] that ends there; -1 none */
  int32_t *same;    /* [n_tokens] the next token of the same bytes; -1 none */
  uint32_t *offset; /* [n_tokens + 1] of each token's bytes */
  char *bytes;
  int32_t *plain; /* plain tokens, by sets of classes, then by characters */
  /* Kinds of the characters of those with marks or control characters, which come last in `plain`. */
  uint64_t *marked;
  /* [groups][characters] how many of `plain` come before those with more characters */
  uint32_t plain_upto[ACCEL__PLAIN_GROUPS][ACCEL__PLAIN_CHARS + 1];
  /* The tokens of each set of classes without marks as bits; NULL: they are few. */
  uint64_t *group[ACCEL__PLAIN_GROUPS / 2];
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
/* Copies to bits[words] the plain tokens without the kinds `except`, with at most `chars`
 * characters. */
void accel__token_trie_plain(const accel__token_trie *trie, uint64_t except, uint32_t chars,
                             uint64_t *bits);
size_t accel__token_trie_bytes(const accel__token_trie *trie);

#endif
