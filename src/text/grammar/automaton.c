/* automaton.c - all rules of a grammar as one automaton: dead ends cut off, calls in circles
 * refused. */
#include "text/grammar/automaton.h"

#include <stdlib.h>
#include <string.h>

void accel__automaton_free(accel__automaton *a) {
  free(a->state);
  free(a->edge);
  free(a->call);
  free(a->table);
  *a = (accel__automaton){0};
}

size_t accel__automaton_bytes(const accel__automaton *a) {
  return (a->table ? a->n_states * (size_t)a->n_classes * sizeof *a->table : 0) +
         a->states_capacity * sizeof *a->state + a->edges_capacity * sizeof *a->edge +
         a->calls_capacity * sizeof *a->call;
}

/* ---- what can be finished ---- */

/* Backward search.  A state is reached when its rule may end there, by a byte to a state that is
 * (`bytes`), or by a call of a rule whose first state is, coming back to one that is. */
typedef struct search {
  const accel__automaton *a;
  const uint32_t *call_owner; /* the state that call i leaves */
  uint32_t *first, *from;     /* states with bytes to state i: from[first[i] .. first[i + 1]) */
  uint32_t *first_call;       /* calls that start at or come back to state i, likewise */
  uint32_t *by_state;
  uint32_t *stack;
  size_t n;
} search;

static void reach(search *s, bool *reached, uint32_t state) {
  if (reached[state]) return;
  reached[state] = true;
  s->stack[s->n++] = state;
}

static void run_search(search *s, bool bytes, bool *reached) {
  const accel__automaton *a = s->a;
  s->n = 0;
  for (uint32_t i = 1; i < a->n_states; i++)
    if (a->state[i].ends) reach(s, reached, i);
  while (s->n) {
    const uint32_t at = s->stack[--s->n];
    for (uint32_t i = s->first[at]; bytes && i < s->first[at + 1]; i++)
      reach(s, reached, s->from[i]);
    for (uint32_t i = s->first_call[at]; i < s->first_call[at + 1]; i++) {
      const accel__state_call *c = &a->call[s->by_state[i]];
      if (reached[c->start] && reached[c->to]) reach(s, reached, s->call_owner[s->by_state[i]]);
    }
  }
}

/* Both by counting sort. */
static void index_edges(const accel__automaton *a, search *s) {
  memset(s->first, 0, (a->n_states + 2) * sizeof *s->first);
  for (size_t i = 0; i < a->n_edges; i++) s->first[a->edge[i].to + 2]++;
  for (size_t i = 2; i < a->n_states + 2; i++) s->first[i] += s->first[i - 1];
  for (uint32_t q = 1; q < a->n_states; q++)
    for (uint32_t k = 0; k < a->state[q].n_edges; k++)
      s->from[s->first[a->edge[a->state[q].edge + k].to + 1]++] = q;
}

static void index_calls(const accel__automaton *a, search *s) {
  memset(s->first_call, 0, (a->n_states + 2) * sizeof *s->first_call);
  for (size_t i = 0; i < a->n_calls; i++) {
    s->first_call[a->call[i].start + 2]++;
    s->first_call[a->call[i].to + 2]++;
  }
  for (size_t i = 2; i < a->n_states + 2; i++) s->first_call[i] += s->first_call[i - 1];
  for (uint32_t i = 0; i < a->n_calls; i++) {
    s->by_state[s->first_call[a->call[i].start + 1]++] = i;
    s->by_state[s->first_call[a->call[i].to + 1]++] = i;
  }
}

/* Edges and calls that lead to states without an end are removed. */
static void trim(accel__automaton *a, const bool *live) {
  for (uint32_t q = 1; q < a->n_states; q++) {
    accel__state *s = &a->state[q];
    uint16_t n = 0;
    for (uint32_t k = 0; k < s->n_edges; k++)
      if (live[a->edge[s->edge + k].to]) a->edge[s->edge + n++] = a->edge[s->edge + k];
    s->n_edges = n;
    n = 0;
    for (uint32_t k = 0; k < s->n_calls; k++) {
      const accel__state_call c = a->call[s->call + k];
      if (live[c.to] && live[c.start]) a->call[s->call + n++] = c;
    }
    s->n_calls = n;
    s->plain = !s->ends && !n;
  }
}

/* ---- calls in circles ---- */

/* Which rules each rule calls before it has read a byte. */
typedef struct left_calls {
  uint32_t *first; /* [rules + 1] of `rule` below */
  uint32_t *rule;
  size_t n;
  uint32_t *seen; /* [n_states] the last rule + 1 whose search came there */
  uint32_t *stack;
} left_calls;

/* From the first state of rule `r` on, past calls that may be empty; number[] is the rule that a
 * state is the first of. */
static void add_left_calls(const accel__automaton *a, const bool *empty, const uint32_t *number,
                           uint32_t r, uint32_t start, left_calls *l) {
  size_t n = 0;
  l->stack[n++] = start;
  l->seen[start] = r + 1;
  while (n) {
    const accel__state *s = &a->state[l->stack[--n]];
    for (uint32_t k = 0; k < s->n_calls; k++) {
      const accel__state_call c = a->call[s->call + k];
      l->rule[l->n++] = number[c.start];
      if (!empty[c.start] || l->seen[c.to] == r + 1) continue;
      l->seen[c.to] = r + 1;
      l->stack[n++] = c.to;
    }
  }
}

typedef struct step {
  uint32_t rule, next;
} step;

/* A rule that is on the way to itself; `rules` when there is none. */
static uint32_t find_circle(const left_calls *l, uint32_t rules, step *stack, uint8_t *color) {
  enum { NEW, OPEN, DONE };
  for (uint32_t i = 0; i < rules; i++) {
    size_t depth = 0;
    if (color[i] != NEW) continue;
    color[i] = OPEN;
    stack[depth++] = (step){i, l->first[i]};
    while (depth) {
      step *s = &stack[depth - 1];
      if (s->next == l->first[s->rule + 1]) {
        color[s->rule] = DONE;
        depth--;
        continue;
      }
      const uint32_t to = l->rule[s->next++];
      if (color[to] == OPEN) return to;
      if (color[to] == DONE) continue;
      color[to] = OPEN;
      stack[depth++] = (step){to, l->first[to]};
    }
  }
  return rules;
}

static accel_status check_circles(const accel__automaton *a, const accel__rules *g,
                                  const uint32_t *start, const bool *empty, accel__arena *arena) {
  const uint32_t n = (uint32_t)g->n;
  left_calls l = {.first = accel__arena_array(arena, n + 1u, sizeof *l.first),
                  .rule = accel__arena_array(arena, a->n_calls + 1, sizeof *l.rule),
                  .seen = accel__arena_array(arena, a->n_states, sizeof *l.seen),
                  .stack = accel__arena_array(arena, a->n_states, sizeof *l.stack)};
  uint32_t *number = accel__arena_array(arena, a->n_states, sizeof *number);
  step *stack = accel__arena_array(arena, n, sizeof *stack);
  uint8_t *color = accel__arena_array(arena, n, sizeof *color);
  if (!l.first || !l.rule || !l.seen || !l.stack || !number || !stack || !color)
    return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t r = 0; r < n; r++) number[start[r]] = r;
  for (uint32_t r = 0; r < n; r++) {
    l.first[r] = (uint32_t)l.n;
    if (start[r] != ACCEL__NO_STATE) add_left_calls(a, empty, number, r, start[r], &l);
  }
  l.first[n] = (uint32_t)l.n;
  const uint32_t circle = find_circle(&l, n, stack, color);
  if (circle == n) return ACCEL_OK;
  return accel__remedy(
      accel__fail(ACCEL_ERROR_ARGUMENT, "rule '%s' calls itself before it has read a byte",
                  g->rule[circle]->name),
      "write left recursion (a ::= a \"x\" | \"y\") as a repetition (a ::= \"y\" \"x\"*)");
}

/* ---- all of it ---- */

static accel_status check(accel__automaton *a, const accel__rules *g, const uint32_t *start,
                          search *s, accel__arena *arena) {
  bool *live = accel__arena_array(arena, a->n_states, sizeof *live),
       *empty = accel__arena_array(arena, a->n_states, sizeof *empty);
  if (!live || !empty) return ACCEL_ERROR_OUT_OF_MEMORY;
  run_search(s, true, live);
  run_search(s, false, empty);
  if (!live[a->start])
    return accel__remedy(
        accel__fail(ACCEL_ERROR_ARGUMENT, "no text can be what is asked for: '%s' never ends",
                    g->rule[0]->name),
        "give every rule an alternative that does not call itself, and look for conditions that "
        "exclude each other");
  trim(a, live);
  return check_circles(a, g, start, empty, arena);
}

static accel_status make_search(accel__automaton *a, search *s, accel__arena *arena) {
  uint32_t *owner = accel__arena_array(arena, a->n_calls + 1, sizeof *owner);
  *s = (search){.a = a,
                .call_owner = owner,
                .first = accel__arena_array(arena, a->n_states + 2, sizeof(uint32_t)),
                .from = accel__arena_array(arena, a->n_edges + 1, sizeof(uint32_t)),
                .first_call = accel__arena_array(arena, a->n_states + 2, sizeof(uint32_t)),
                .by_state = accel__arena_array(arena, 2 * a->n_calls + 1, sizeof(uint32_t)),
                .stack = accel__arena_array(arena, a->n_states, sizeof(uint32_t))};
  if (!owner || !s->first || !s->from || !s->first_call || !s->by_state || !s->stack)
    return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t q = 1; q < a->n_states; q++)
    for (uint32_t k = 0; k < a->state[q].n_calls; k++) owner[a->state[q].call + k] = q;
  index_edges(a, s);
  index_calls(a, s);
  return ACCEL_OK;
}

/* Rules that rule 0 comes to by calls. */
static void find_used(const accel__rules *g, uint32_t *stack, bool *used) {
  size_t n = 0;
  stack[n++] = 0;
  used[0] = true;
  while (n) {
    const accel__rule *r = g->rule[stack[--n]];
    for (size_t i = 0; i < r->n_edges; i++) {
      const uint32_t callee = r->edge[i].rule;
      if (r->edge[i].kind != ACCEL__EDGE_CALL || used[callee]) continue;
      used[callee] = true;
      stack[n++] = callee;
    }
  }
}

/* Does any rule call rule 0? */
static bool calls_first(const accel__rules *g) {
  for (size_t i = 0; i < g->n; i++)
    for (size_t k = 0; k < g->rule[i]->n_edges; k++) {
      const accel__rule_edge *e = &g->rule[i]->edge[k];
      if (e->kind == ACCEL__EDGE_CALL && e->rule == 0) return true;
    }
  return false;
}

/* Where each class of bytes leads from each state.  Without the memory for it edges are searched. */
static void make_table(accel__automaton *a) {
  enum { MOST = 4 << 20 /* entries */ };
  bool begins[257] = {true};
  for (size_t i = 0; i < a->n_edges; i++)
    begins[a->edge[i].low] = begins[a->edge[i].high + 1] = true;
  a->n_classes = 0;
  for (int b = 0; b < 256; b++) {
    a->n_classes += begins[b];
    a->byte_class[b] = (uint8_t)(a->n_classes - 1);
  }
  const size_t entries = a->n_states * (size_t)a->n_classes;
  if (entries <= MOST) a->table = calloc(entries, sizeof *a->table);
  for (uint32_t q = 0; a->table && q < a->n_states; q++)
    for (uint32_t k = 0; k < a->state[q].n_edges; k++) {
      const accel__state_edge *e = &a->edge[a->state[q].edge + k];
      for (uint32_t c = a->byte_class[e->low]; c <= a->byte_class[e->high]; c++)
        a->table[q * (size_t)a->n_classes + c] = e->to;
    }
}

static accel_status make(accel__rules *g, accel__arena *arena, accel__automaton *a) {
  uint32_t *start = accel__arena_array(arena, g->n + 1, sizeof *start);
  bool *used = accel__arena_array(arena, g->n + 1, sizeof *used);
  uint32_t *stack = accel__arena_array(arena, g->n + 1, sizeof *stack);
  uint64_t work = 0;
  size_t top = 0; /* behind the states of rule 0 */
  search s;
  a->state = calloc(64, sizeof *a->state);
  if (!start || !used || !stack) return ACCEL_ERROR_OUT_OF_MEMORY;
  if (!a->state) return accel__no_memory(64 * sizeof *a->state);
  a->states_capacity = 64;
  a->n_states = 1; /* ACCEL__NO_STATE */
  ACCEL_TRY(accel__rules_inline(g));
  find_used(g, stack, used);
  for (size_t i = 0; i < g->n; i++) {
    if (used[i]) ACCEL_TRY(accel__rule_determinize(g->rule[i], a, &start[i], &work));
    if (i == 0) top = a->n_states;
  }
  const bool called = calls_first(g);
  for (size_t q = 1; q < top; q++) a->state[q].last = !called;
  for (size_t i = 0; i < a->n_calls; i++) a->call[i].start = start[a->call[i].start];
  a->start = start[0];
  ACCEL_TRY(make_search(a, &s, arena));
  return check(a, g, start, &s, arena);
}

accel_status accel__automaton_make(accel__rules *g, accel__automaton *out) {
  accel__arena arena = {0};
  *out = (accel__automaton){0};
  accel_status status = g->status;
  if (status == ACCEL_OK) status = make(g, &arena, out);
  accel__arena_free(&arena);
  if (status == ACCEL_OK)
    make_table(out);
  else
    accel__automaton_free(out);
  return status;
}
