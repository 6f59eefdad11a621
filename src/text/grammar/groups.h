/* groups.h - the groups of an expression that is parsed: alternatives of sequences of elements, of
 * which each may be repeated.  What regular expressions and grammars have in common. */
#ifndef ACCEL_TEXT_GRAMMAR_GROUPS_H
#define ACCEL_TEXT_GRAMMAR_GROUPS_H

#include "text/grammar/sources.h"

typedef struct accel__group_part {
  accel__part part;
  uint32_t at;  /* the end of the alternative so far */
  size_t begin; /* where it begins in the text, for messages */
} accel__group_part;

typedef struct accel__groups {
  accel__rule *r;
  accel__group_part open[ACCEL__GRAMMAR_DEPTH_MAX + 1];
  uint32_t depth; /* groups open beside the whole expression, open[0] */
  accel__part atom;
  bool has_atom; /* a repetition may follow */
} accel__groups;

/* Puts the last element, if there is one, behind the alternative. */
void accel__groups_join(accel__groups *g);
/* Begins an element, `atom`, behind the last one. */
void accel__groups_element(accel__groups *g);
void accel__groups_end_alternative(accel__groups *g);
/* `begin`: where the parenthesis is.  Failures name it. */
accel_status accel__groups_open(accel__groups *g, const accel__cursor *c, size_t begin);
/* The group becomes the last element. */
accel_status accel__groups_close(accel__groups *g, const accel__cursor *c, size_t begin);
/* How often the last element, which must be there, is wanted: from the cursor. */
accel_status accel__groups_count(const accel__groups *g, accel__cursor *c, uint32_t *min,
                                 uint32_t *max);
void accel__groups_repeat(accel__groups *g, uint32_t min, uint32_t max);
/* Behind all: fails where a group is open. */
accel_status accel__groups_closed(const accel__groups *g, const accel__cursor *c);

#endif
