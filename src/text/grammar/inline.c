/* inline.c - small rules copied to where they are called, so that most of a grammar is one
 * automaton, and fewer tokens depend on what a rule was called for. */
#include <stdlib.h>

#include "text/grammar/automaton.h"

enum { SMALL = 512 /* states of a rule that is copied */, MOST = 1 << 17 /* of all, copied */ };

/* The rules in an order in which callees come before their callers; those on the way to themselves
 * are marked as rules to be kept. */
typedef struct visit {
  uint32_t rule;
  size_t edge; /* next to be looked at */
} visit;

static void visit_all(accel__rules *g, visit *stack, uint8_t *color, uint32_t *order) {
  enum { NEW, OPEN, DONE };
  size_t n_order = 0;
  for (uint32_t i = 0; i < g->n; i++) {
    size_t depth = 0;
    if (color[i] != NEW) continue;
    color[i] = OPEN;
    stack[depth++] = (visit){i, 0};
    while (depth) {
      visit *v = &stack[depth - 1];
      const accel__rule *r = g->rule[v->rule];
      while (v->edge < r->n_edges && r->edge[v->edge].kind != ACCEL__EDGE_CALL) v->edge++;
      if (v->edge == r->n_edges) {
        color[v->rule] = DONE;
        order[n_order++] = v->rule;
        depth--;
        continue;
      }
      const uint32_t callee = r->edge[v->edge++].rule;
      if (color[callee] == OPEN) g->rule[callee]->keep = true;
      if (color[callee] != NEW) continue;
      color[callee] = OPEN;
      stack[depth++] = (visit){callee, 0};
    }
  }
}

/* Edge `i` of `r`, a call, becomes a copy of the callee. */
static void copy_callee(accel__rule *r, size_t i, const accel__rule *callee) {
  const uint32_t first = accel__rule_state(r);
  for (uint32_t k = 1; k < callee->n_states; k++) accel__rule_state(r);
  for (size_t k = 0; k < callee->n_edges && r->rules->status == ACCEL_OK; k++) {
    const accel__rule_edge e = callee->edge[k];
    if (e.kind == ACCEL__EDGE_BYTES)
      accel__rule_bytes(r, first + e.from, e.low, e.high, first + e.to);
    else if (e.kind == ACCEL__EDGE_EMPTY)
      accel__rule_empty(r, first + e.from, first + e.to);
    else
      accel__rule_call(r, first + e.from, r->rules->rule[e.rule], first + e.to);
  }
  if (r->rules->status != ACCEL_OK) return;
  accel__rule_empty(r, first + 1, r->edge[i].to);
  r->edge[i].kind = ACCEL__EDGE_EMPTY;
  r->edge[i].to = first;
}

static void inline_into(accel__rule *r, size_t *copied) {
  const size_t edges = r->n_edges;
  for (size_t i = 0; i < edges && r->rules->status == ACCEL_OK; i++) {
    if (r->edge[i].kind != ACCEL__EDGE_CALL) continue;
    const accel__rule *callee = r->rules->rule[r->edge[i].rule];
    if (callee->keep || callee == r || callee->n_states > SMALL ||
        *copied + callee->n_states > MOST)
      continue;
    *copied += callee->n_states;
    copy_callee(r, i, callee);
  }
}

accel_status accel__rules_inline(accel__rules *g) {
  visit *stack = malloc((g->n + 1) * sizeof *stack);
  uint8_t *color = calloc(g->n + 1, sizeof *color);
  uint32_t *order = malloc((g->n + 1) * sizeof *order);
  size_t copied = 0;
  if (!stack || !color || !order)
    accel__rules_fail(g, accel__no_memory((g->n + 1) * sizeof *stack));
  else
    visit_all(g, stack, color, order);
  for (size_t i = 0; i < g->n && g->status == ACCEL_OK; i++)
    inline_into(g->rule[order[i]], &copied);
  free(stack);
  free(color);
  free(order);
  return g->status;
}
