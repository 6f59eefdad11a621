/* groups.c - a stack of groups, their alternatives and the last element (groups.h). */
#include "text/grammar/groups.h"

void accel__groups_join(accel__groups *g) {
  accel__group_part *top = &g->open[g->depth];
  if (g->has_atom) {
    accel__rule_empty(g->r, top->at, g->atom.in);
    top->at = g->atom.out;
  }
  g->has_atom = false;
}

void accel__groups_element(accel__groups *g) {
  accel__groups_join(g);
  g->atom = accel__part_begin(g->r);
  g->has_atom = true;
}

void accel__groups_end_alternative(accel__groups *g) {
  accel__group_part *top = &g->open[g->depth];
  accel__groups_join(g);
  accel__rule_empty(g->r, top->at, top->part.out);
  top->at = top->part.in;
}

accel_status accel__groups_open(accel__groups *g, const accel__cursor *c, size_t begin) {
  if (g->depth == ACCEL__GRAMMAR_DEPTH_MAX)
    return accel__cursor_fail(c, ACCEL_ERROR_LIMIT, begin,
                              "more than %d groups inside of each other", ACCEL__GRAMMAR_DEPTH_MAX);
  accel__groups_join(g);
  accel__group_part *top = &g->open[++g->depth];
  top->part = accel__part_begin(g->r);
  top->at = top->part.in;
  top->begin = begin;
  return ACCEL_OK;
}

accel_status accel__groups_close(accel__groups *g, const accel__cursor *c, size_t begin) {
  if (!g->depth) return accel__cursor_fail(c, ACCEL_ERROR_ARGUMENT, begin, "')' without its '('");
  accel__groups_end_alternative(g);
  g->atom = g->open[g->depth--].part;
  g->has_atom = true;
  return ACCEL_OK;
}

accel_status accel__groups_count(const accel__groups *g, accel__cursor *c, uint32_t *min,
                                 uint32_t *max) {
  bool found;
  const size_t begin = c->at;
  *min = *max = 0;
  ACCEL_TRY(accel__repeat_parse(c, min, max, &found));
  return g->has_atom ? ACCEL_OK
                     : accel__cursor_fail(c, ACCEL_ERROR_ARGUMENT, begin, "nothing to repeat");
}

void accel__groups_repeat(accel__groups *g, uint32_t min, uint32_t max) {
  accel__part_repeat(g->r, &g->atom, min, max);
  accel__groups_join(g);
}

accel_status accel__groups_closed(const accel__groups *g, const accel__cursor *c) {
  return g->depth ? accel__cursor_fail(c, ACCEL_ERROR_ARGUMENT, g->open[g->depth].begin,
                                       "'(' without its ')'")
                  : ACCEL_OK;
}
