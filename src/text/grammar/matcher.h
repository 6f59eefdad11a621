/* matcher.h - what matcher.c, token_mask.c and grammar.c share. */
#ifndef ACCEL_TEXT_GRAMMAR_MATCHER_H
#define ACCEL_TEXT_GRAMMAR_MATCHER_H

#include <pthread.h>
#include <stdatomic.h>

#include "text/grammar/automaton.h"
#include "text/grammar/grammar.h"

enum {
  ACCEL__STACK_BOTTOM = 0,         /* nothing called the rule: where it ends the text may end */
  ACCEL__STACK_UNKNOWN = 1,        /* whoever called it: of masks that serve every stack */
  ACCEL__MASKS_KEPT = 8,           /* whole masks of a matcher */
  ACCEL__MASK_BYTES_MAX = 64 << 20 /* of all masks of a grammar */
};

/* A place where a text may stand: a state that reads bytes, and the stack below it. */
typedef struct accel__place {
  uint32_t stack, state;
} accel__place;
/* A stack: the state to come back to, on top of another stack. */
typedef struct accel__stack_node {
  uint32_t below, state;
} accel__stack_node;
typedef struct accel__place_set {
  uint32_t first, n; /* in matcher.place */
  bool ends;         /* the text may end */
} accel__place_set;

/* The tokens that may follow a state whatever its stack is, and the trie's nodes before which its
 * rule may have ended. */
typedef struct accel__state_mask {
  struct accel__state_mask *newer, *older;
  uint32_t state;
  uint32_t n_ids, n_ended;
  uint64_t *bits; /* [words]; NULL: they are few, ids[n_ids] */
  uint32_t *ids;
  uint32_t *ended; /* [n_ended] */
  /* Not 0: the rule may also have ended before characters of other kinds than these, which `ended`
   * lacks: it holds for callers that read none of them. */
  uint64_t except;
  size_t bytes;
} accel__state_mask;

/* Where the characters that may come many times lead: see token_mask.c. */
typedef struct accel__plain_step {
  uint64_t except; /* the kinds of characters that lead elsewhere, or need a walk */
  uint32_t to;     /* state; 0: not asked for yet */
} accel__plain_step;

struct accel__grammar {
  atomic_uint references;
  accel__automaton automaton;
  pthread_mutex_t lock; /* of all below */
  const accel__token_trie *trie;
  accel__state_mask **mask; /* [n_states] */
  accel__state_mask *newest, *oldest;
  size_t mask_bytes;
  accel__plain_step *plain_step; /* [n_states] */
};

/* Numbers of things that are kept once: open addressing over their hashes. */
typedef struct accel__numbers {
  uint32_t *slot; /* number + 1 */
  size_t capacity, n;
} accel__numbers;

typedef struct accel__walk_buffer {
  accel__place *at;
  size_t n, capacity;
  bool ends;    /* the bottom was reached */
  bool unknown; /* the unknown was */
} accel__walk_buffer;

typedef struct accel__kept_mask {
  uint32_t state;
  bool is_set;
  uint64_t *bits;
} accel__kept_mask;

struct accel__matcher {
  accel__grammar *grammar;
  const accel__token_trie *trie;
  accel__stack_node *node;
  size_t n_nodes, nodes_capacity;
  accel__numbers nodes;
  accel__place_set *set;
  size_t n_sets, sets_capacity;
  accel__numbers sets;
  accel__place *place; /* of all sets */
  size_t n_places, places_capacity;
  accel__walk_buffer walk, other;
  accel__place *pending; /* of closing over a place */
  size_t pending_capacity;
  uint32_t *start; /* [deepest + 2] of walk.at, by depth */
  uint32_t *ended; /* nodes before which a rule ended, found on a walk */
  size_t n_ended, ended_capacity;
  accel__kept_mask kept[ACCEL__MASKS_KEPT];
  uint32_t next_kept;
  accel_status status; /* of a walk */
};

/* Adds to b->at[from ..] the places that follow from being in `state` over `stack`.  Failures are
 * kept in m->status. */
void accel__matcher_enter(accel__matcher *m, accel__walk_buffer *b, size_t from, uint32_t stack,
                          uint32_t state);
/* Makes *array, of `size`-byte items, hold `need`; keeps what it holds. */
accel_status accel__matcher_grow(void *array, size_t *capacity, size_t need, size_t size);

/* Frees all masks of a grammar. */
void accel__masks_free(accel__grammar *g);

#endif
