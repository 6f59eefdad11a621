/* rules.h - the internal form of every grammar: rules over bytes.
 *
 * A rule is a nondeterministic automaton.  Its states are numbers; state 0 begins, state 1 ends.
 * Its edges read a byte of a range, read nothing, or call another rule.  JSON Schema, regular
 * expressions, grammar texts and choices all become rules, which grammar_compile.c makes
 * deterministic.
 *
 * Building never fails halfway: after the first failure (memory, a limit) `status` of the rules
 * keeps it, with the thread's message, and everything else does nothing, so that a writer checks
 * once at the end.
 */
#ifndef ACCEL_TEXT_GRAMMAR_RULES_H
#define ACCEL_TEXT_GRAMMAR_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/arena.h"
#include "core/status.h"

/* What one grammar may take; beyond it ACCEL_ERROR_LIMIT says which number was passed. */
enum {
  ACCEL__GRAMMAR_SOURCE_MAX = 4 << 20,  /* bytes of its text */
  ACCEL__GRAMMAR_DEPTH_MAX = 250,       /* groups inside of groups */
  ACCEL__GRAMMAR_RULES_MAX = 1 << 14,   /* rules */
  ACCEL__GRAMMAR_STATES_MAX = 1 << 19,  /* states of all rules, before they are deterministic */
  ACCEL__GRAMMAR_EDGES_MAX = 1 << 21,   /* and their edges */
  ACCEL__AUTOMATON_STATES_MAX = 1 << 17 /* states of all rules, once they are */
};

typedef enum accel__edge_kind {
  ACCEL__EDGE_BYTES,
  ACCEL__EDGE_EMPTY,
  ACCEL__EDGE_CALL
} accel__edge_kind;
typedef struct accel__rule_edge {
  uint32_t from, to;
  uint32_t rule; /* CALL: its number */
  uint8_t kind;
  uint8_t low, high; /* BYTES: from low to high, both included */
} accel__rule_edge;

typedef struct accel__rule {
  struct accel__rules *rules;
  const char *name; /* for messages */
  uint32_t number;
  uint32_t n_states;
  accel__rule_edge *edge;
  size_t n_edges, capacity;
  bool keep; /* stays a rule of its own where it is called (compiling copies small rules) */
} accel__rule;

typedef struct accel__rules {
  accel__arena arena;
  accel__rule **rule; /* [n]; rule 0 is where texts begin */
  size_t n, capacity;
  size_t states, edges; /* of all of them */
  accel_status status;
} accel__rules; /* {0}: none */

void accel__rules_free(accel__rules *rules);
/* A new rule; name[n] is copied.  NULL after a failure. */
accel__rule *accel__rules_add(accel__rules *rules, const char *name, size_t n);
/* Keeps a failure (its message is the thread's). */
void accel__rules_fail(accel__rules *rules, accel_status status);

/* ---- building; r NULL does nothing ---- */

uint32_t accel__rule_state(accel__rule *r);
void accel__rule_bytes(accel__rule *r, uint32_t from, uint8_t low, uint8_t high, uint32_t to);
void accel__rule_empty(accel__rule *r, uint32_t from, uint32_t to);
void accel__rule_call(accel__rule *r, uint32_t from, const accel__rule *callee, uint32_t to);
/* These bytes; returns the state behind them. */
uint32_t accel__rule_literal(accel__rule *r, uint32_t from, const char *bytes, size_t n);
uint32_t accel__rule_text(accel__rule *r, uint32_t from, const char *text);

/* A part of a rule: all states and edges since a mark, entered at `in` and left at `out`. */
typedef struct accel__part {
  uint32_t first, in, out; /* first: of its states */
  size_t edge;             /* first of its edges */
} accel__part;
accel__part accel__part_begin(accel__rule *r); /* with `in` and `out` of its own */
/* The part, which must be the newest of the rule, min to max times; max UINT32_MAX: any number. */
void accel__part_repeat(accel__rule *r, accel__part *part, uint32_t min, uint32_t max);

/* ---- characters ---- */

typedef struct accel__code_range {
  uint32_t first, last;
} accel__code_range;
/* Sets of code points: sorted ranges that do not touch. */
enum { ACCEL__CODE_RANGES_MAX = 512 };
typedef struct accel__code_set {
  accel__code_range range[ACCEL__CODE_RANGES_MAX];
  uint32_t n;
  bool full; /* something was left out, as there were too many ranges */
} accel__code_set;
void accel__code_set_add(accel__code_set *set, uint32_t first, uint32_t last);
void accel__code_set_invert(accel__code_set *set);
void accel__code_set_remove(accel__code_set *set, uint32_t first, uint32_t last);
/* How characters are written down. */
typedef enum accel__spelling {
  ACCEL__SPELL_PLAIN, /* as UTF-8, without U+0000 */
  ACCEL__SPELL_JSON   /* as in a JSON string, each character in one way only (see spell.c) */
} accel__spelling;
/* One character of the set, without surrogates. */
void accel__rule_code_set(accel__rule *r, uint32_t from, const accel__code_set *set,
                          accel__spelling spelling, uint32_t to);
/* text[n] as the inside of a JSON string; returns the state behind it. */
uint32_t accel__rule_json_text(accel__rule *r, uint32_t from, const char *text, size_t n);

#endif
