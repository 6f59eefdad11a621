/* automaton.h - rules made deterministic: what matching walks over.
 *
 * States of all rules have one numbering.  A state's edges read bytes and do not overlap; its calls
 * go into another rule and come back to a state of its own rule.  `ends` says that its rule may end
 * there.  From every state a text can be finished: what leads nowhere is cut off.
 */
#ifndef ACCEL_TEXT_GRAMMAR_AUTOMATON_H
#define ACCEL_TEXT_GRAMMAR_AUTOMATON_H

#include "text/grammar/rules.h"

enum { ACCEL__NO_STATE = 0 /* is also the first state; nothing ever leads there */ };

typedef struct accel__state {
  uint32_t edge, call; /* the first of each */
  uint16_t n_edges, n_calls;
  bool ends;
  bool plain; /* does not end, calls nothing: nothing follows from being there */
  bool last;  /* of rule 0, which nothing calls: nothing follows where it ends */
} accel__state;
typedef struct accel__state_edge {
  uint32_t to;
  uint8_t low, high;
} accel__state_edge;
typedef struct accel__state_call {
  uint32_t start, to; /* first state of the rule called; where it comes back to */
} accel__state_call;

typedef struct accel__automaton {
  accel__state *state;
  accel__state_edge *edge;
  accel__state_call *call;
  size_t n_states, n_edges, n_calls;
  size_t states_capacity, edges_capacity, calls_capacity;
  uint32_t start;
  /* bytes that lead to the same state from every state are of one class */
  uint8_t byte_class[256];
  uint32_t n_classes;
  uint32_t *table;  /* [n_states][n_classes] where they lead; NULL: it would be too large */
} accel__automaton; /* {0}: none */

/* Of the rules, whose edges it may add to.  ACCEL_ERROR_LIMIT: too many states.
 * ACCEL_ERROR_ARGUMENT: a rule calls itself before it reads a byte, or no text is described. */
accel_status accel__automaton_make(accel__rules *rules, accel__automaton *out);
void accel__automaton_free(accel__automaton *a);
size_t accel__automaton_bytes(const accel__automaton *a);

/* Where byte `b` leads; ACCEL__NO_STATE: nowhere. */
static inline uint32_t accel__automaton_step(const accel__automaton *a, uint32_t state, uint8_t b) {
  if (a->table) return a->table[state * (size_t)a->n_classes + a->byte_class[b]];
  const accel__state *s = &a->state[state];
  const accel__state_edge *e = &a->edge[s->edge];
  uint32_t low = 0, high = s->n_edges;
  while (low < high) {
    const uint32_t middle = (low + high) / 2;
    if (e[middle].high < b)
      low = middle + 1;
    else
      high = middle;
  }
  return low < s->n_edges && e[low].low <= b ? e[low].to : ACCEL__NO_STATE;
}

/* ---- between inline.c, determinize.c and automaton.c ---- */

/* Copies small rules that do not call themselves into those that call them. */
accel_status accel__rules_inline(accel__rules *rules);
/* Appends the states of one rule; calls have rule numbers for states of `start`, and their targets
 * are states.  *start: its first one. */
accel_status accel__rule_determinize(const accel__rule *r, accel__automaton *out, uint32_t *start,
                                     uint64_t *work);

#endif
