/* rules.c - building rules: states, edges, parts and their repetition. */
#include "text/grammar/rules.h"

#include <stdlib.h>
#include <string.h>

void accel__rules_free(accel__rules *g) {
  for (size_t i = 0; i < g->n; i++) free(g->rule[i]->edge);
  free(g->rule);
  accel__arena_free(&g->arena);
  *g = (accel__rules){0};
}

void accel__rules_fail(accel__rules *g, accel_status status) {
  if (g->status == ACCEL_OK) g->status = status;
}

static void too_large(accel__rules *g, const char *what, size_t limit) {
  accel__rules_fail(
      g, accel__remedy(
             accel__fail(ACCEL_ERROR_LIMIT, "the grammar needs more than %zu %s", limit, what),
             "use smaller numbers of repetitions, lengths and items, or fewer alternatives"));
}

accel__rule *accel__rules_add(accel__rules *g, const char *name, size_t n) {
  if (g->status != ACCEL_OK) return NULL;
  if (g->n >= ACCEL__GRAMMAR_RULES_MAX) return too_large(g, "rules", g->n), NULL;
  if (g->n == g->capacity) {
    const size_t capacity = g->capacity * 2 + 16;
    accel__rule **more = realloc(g->rule, capacity * sizeof(accel__rule *));
    if (!more) return accel__rules_fail(g, accel__no_memory(capacity * sizeof *more)), NULL;
    g->rule = more;
    g->capacity = capacity;
  }
  accel__rule *r = accel__arena_alloc(&g->arena, sizeof *r);
  const char *copy = accel__arena_copy(&g->arena, name, n);
  if (!r || !copy) return accel__rules_fail(g, ACCEL_ERROR_OUT_OF_MEMORY), NULL;
  *r = (accel__rule){.rules = g, .name = copy, .number = (uint32_t)g->n, .n_states = 2};
  g->states += 2;
  return g->rule[g->n++] = r;
}

static bool is_usable(const accel__rule *r) { return r && r->rules->status == ACCEL_OK; }

/* n states more; answers the first. */
static uint32_t add_states(accel__rule *r, size_t n) {
  if (!is_usable(r)) return 0;
  if (n > ACCEL__GRAMMAR_STATES_MAX - r->rules->states)
    return too_large(r->rules, "states", ACCEL__GRAMMAR_STATES_MAX), 0;
  r->rules->states += n;
  r->n_states += (uint32_t)n;
  return r->n_states - (uint32_t)n;
}

static bool reserve_edges(accel__rule *r, size_t n) {
  if (!is_usable(r)) return false;
  if (n > ACCEL__GRAMMAR_EDGES_MAX - r->rules->edges)
    return too_large(r->rules, "edges", ACCEL__GRAMMAR_EDGES_MAX), false;
  r->rules->edges += n;
  if (r->n_edges + n <= r->capacity) return true;
  const size_t capacity = (r->n_edges + n) * 2 + 16;
  accel__rule_edge *edge = realloc(r->edge, capacity * sizeof *edge);
  if (!edge) return accel__rules_fail(r->rules, accel__no_memory(capacity * sizeof *edge)), false;
  r->edge = edge;
  r->capacity = capacity;
  return true;
}

static void add_edge(accel__rule *r, accel__rule_edge edge) {
  if (reserve_edges(r, 1)) r->edge[r->n_edges++] = edge;
}

uint32_t accel__rule_state(accel__rule *r) { return add_states(r, 1); }

void accel__rule_bytes(accel__rule *r, uint32_t from, uint8_t low, uint8_t high, uint32_t to) {
  add_edge(r, (accel__rule_edge){from, to, 0, ACCEL__EDGE_BYTES, low, high});
}

void accel__rule_empty(accel__rule *r, uint32_t from, uint32_t to) {
  add_edge(r, (accel__rule_edge){from, to, 0, ACCEL__EDGE_EMPTY, 0, 0});
}

void accel__rule_call(accel__rule *r, uint32_t from, const accel__rule *callee, uint32_t to) {
  if (callee) add_edge(r, (accel__rule_edge){from, to, callee->number, ACCEL__EDGE_CALL, 0, 0});
}

uint32_t accel__rule_literal(accel__rule *r, uint32_t from, const char *bytes, size_t n) {
  for (size_t i = 0; i < n; i++) {
    const uint32_t to = accel__rule_state(r);
    accel__rule_bytes(r, from, (uint8_t)bytes[i], (uint8_t)bytes[i], to);
    from = to;
  }
  return from;
}

uint32_t accel__rule_text(accel__rule *r, uint32_t from, const char *text) {
  return accel__rule_literal(r, from, text, strlen(text));
}

/* ---- parts ---- */

accel__part accel__part_begin(accel__rule *r) {
  const uint32_t first = add_states(r, 2);
  return (accel__part){first, first, first + 1, r ? r->n_edges : 0};
}

/* Copies of states [first, first + states) and edges [edge, edge + edges); answers how far the copy
 * is from the original. */
static uint32_t copy_part(accel__rule *r, const accel__part *part, size_t states, size_t edges) {
  const uint32_t base = add_states(r, states), by = base - part->first;
  if (!reserve_edges(r, edges)) return 0;
  for (size_t i = 0; i < edges; i++) {
    accel__rule_edge e = r->edge[part->edge + i];
    e.from += by;
    e.to += by;
    r->edge[r->n_edges++] = e;
  }
  return by;
}

void accel__part_repeat(accel__rule *r, accel__part *part, uint32_t min, uint32_t max) {
  if (!is_usable(r)) return;
  const bool endless = max == UINT32_MAX;
  const size_t states = r->n_states - part->first, edges = r->n_edges - part->edge;
  const uint32_t copies = !endless ? max
                          : min    ? min
                                   : 1,
                 in = accel__rule_state(r), out = accel__rule_state(r);
  uint32_t at = in;
  for (uint32_t i = 0; i < copies && is_usable(r); i++) {
    const uint32_t by = i ? copy_part(r, part, states, edges) : 0;
    if (i >= min) accel__rule_empty(r, at, out);
    accel__rule_empty(r, at, part->in + by);
    if (endless && i + 1 == copies) accel__rule_empty(r, part->out + by, part->in + by);
    at = part->out + by;
  }
  accel__rule_empty(r, at, out);
  part->in = in;
  part->out = out;
}
