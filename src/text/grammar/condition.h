/* condition.h - texts of which several things are asked at once: automata of both conditions, or of
 * one without the other.  Conditions are regular: their rules call no others. */
#ifndef ACCEL_TEXT_GRAMMAR_CONDITION_H
#define ACCEL_TEXT_GRAMMAR_CONDITION_H

#include "text/grammar/automaton.h"

typedef struct accel__condition {
  accel__automaton automaton;
  bool none;        /* no text is described: the automaton is empty */
} accel__condition; /* {0}: none was made */

/* Fills `r`, an empty rule, with the texts of condition `number` from state 0 to 1. */
typedef accel_status (*accel__condition_fn)(void *user, uint32_t number, accel__rule *r);

accel_status accel__condition_make(accel__condition_fn fill, void *user, uint32_t number,
                                   accel__condition *out);
/* Texts of `a` that are those of `b`, too, or with `without` those that are not. */
accel_status accel__condition_meet(const accel__condition *a, const accel__condition *b,
                                   bool without, accel__condition *out);
/* Whether text[n] is one of them. */
bool accel__condition_holds(const accel__condition *c, const char *text, size_t n);
/* Adds them to `r`, from state `from` to `to`. */
void accel__condition_add(const accel__condition *c, accel__rule *r, uint32_t from, uint32_t to);
void accel__condition_free(accel__condition *c);

/* Adds to `r`, from state `from` to `to`, the texts for which all of conditions [0, n) hold; n at
 * least 1. */
accel_status accel__conditions_add(accel__condition_fn fill, void *user, uint32_t n, accel__rule *r,
                                   uint32_t from, uint32_t to);

#endif
