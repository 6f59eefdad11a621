/* determinize.c - one rule by subset construction.  Calls are symbols like bytes. */
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "text/grammar/automaton.h"

/* Edges looked at and states reached and compared, of all rules of a grammar: some tenths of a
 * second. */
static const uint64_t most_work = 32u << 20;

typedef struct subset {
  const uint32_t *state; /* sorted */
  uint32_t n;
} subset;

typedef struct builder {
  const accel__rule *rule;
  accel__automaton *out;
  accel__arena arena;
  uint32_t *first; /* [n_states + 1] of `edge` below */
  const accel__rule_edge **edge;
  accel__map known; /* subset to number */
  subset *set;
  size_t n, capacity;
  uint32_t base; /* of its states in `out` */
  uint32_t *stack, *found, *visited;
  uint32_t n_found, n_visited;
  uint64_t *seen; /* a bit a state */
  uint64_t *work;
} builder;

static accel_status sort_edges(builder *b) {
  const accel__rule *r = b->rule;
  b->first = accel__arena_array(&b->arena, (size_t)r->n_states + 2, sizeof *b->first);
  b->edge = accel__arena_array(&b->arena, r->n_edges + 1, sizeof(accel__rule_edge *));
  b->stack = accel__arena_array(&b->arena, r->n_states, sizeof *b->stack);
  b->found = accel__arena_array(&b->arena, r->n_states, sizeof *b->found);
  b->visited = accel__arena_array(&b->arena, r->n_states, sizeof *b->visited);
  b->seen = accel__arena_array(&b->arena, r->n_states / 64 + 1, sizeof *b->seen);
  if (!b->first || !b->edge || !b->stack || !b->found || !b->visited || !b->seen)
    return ACCEL_ERROR_OUT_OF_MEMORY;
  for (size_t i = 0; i < r->n_edges; i++) b->first[r->edge[i].from + 2]++;
  for (size_t i = 2; i < (size_t)r->n_states + 2; i++) b->first[i] += b->first[i - 1];
  for (size_t i = 0; i < r->n_edges; i++) b->edge[b->first[r->edge[i].from + 1]++] = &r->edge[i];
  return ACCEL_OK;
}

static bool first_time(builder *b, uint32_t state) {
  const uint64_t bit = UINT64_C(1) << (state % 64);
  if (b->seen[state / 64] & bit) return false;
  b->seen[state / 64] |= bit;
  b->visited[b->n_visited++] = state;
  return true;
}

/* Adds to found[] what is reached from `state` by reading nothing: the states that something leaves
 * by a byte or a call, and the end.  The others do not tell subsets apart. */
static void close_over(builder *b, uint32_t state) {
  uint32_t n = 0;
  if (!first_time(b, state)) return;
  b->stack[n++] = state;
  while (n) {
    const uint32_t at = b->stack[--n];
    bool matters = at == 1;
    for (uint32_t i = b->first[at]; i < b->first[at + 1]; i++) {
      const accel__rule_edge *e = b->edge[i];
      if (e->kind != ACCEL__EDGE_EMPTY)
        matters = true;
      else if (first_time(b, e->to))
        b->stack[n++] = e->to;
    }
    if (matters) b->found[b->n_found++] = at;
  }
}

static int by_number(const void *a, const void *b) {
  const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

/* Ends a subset: close_over has seen nothing. */
static void forget(builder *b) {
  while (b->n_visited) b->seen[b->visited[--b->n_visited] / 64] = 0;
}

static accel_status limit(const builder *b) {
  return accel__remedy(
      accel__fail(ACCEL_ERROR_LIMIT, "rule '%s' needs more than %d states", b->rule->name,
                  ACCEL__AUTOMATON_STATES_MAX),
      "use smaller numbers of repetitions, lengths and items, or fewer alternatives that begin "
      "alike");
}

/* The number of found[] as a subset; a new one gets a state. */
static accel_status number_of(builder *b, uint32_t *out) {
  int64_t number;
  *b->work += 4 * (uint64_t)b->n_found;
  qsort(b->found, b->n_found, sizeof *b->found, by_number);
  if (accel__map_get(&b->known, (const char *)b->found, b->n_found * sizeof *b->found, &number)) {
    *out = (uint32_t)number;
    return ACCEL_OK;
  }
  if (b->base + b->n >= ACCEL__AUTOMATON_STATES_MAX || *b->work > most_work) return limit(b);
  if (b->n == b->capacity) {
    const size_t capacity = b->capacity * 2 + 64;
    subset *more = realloc(b->set, capacity * sizeof *more);
    if (!more) return accel__no_memory(capacity * sizeof *more);
    b->set = more;
    b->capacity = capacity;
  }
  const uint32_t *copy = (const uint32_t *)accel__arena_copy(&b->arena, (const char *)b->found,
                                                             b->n_found * sizeof *b->found);
  if (!copy) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(
      accel__map_set(&b->known, (const char *)copy, b->n_found * sizeof *copy, (int64_t)b->n));
  b->set[b->n] = (subset){copy, b->n_found};
  *out = (uint32_t)b->n++;
  return ACCEL_OK;
}

/* ---- what leaves a subset ---- */

static accel_status grow(void *array, size_t *capacity, size_t need, size_t size) {
  void **at = array;
  if (need <= *capacity) return ACCEL_OK;
  const size_t more = need * 2 + 64;
  void *moved = realloc(*at, more * size);
  if (!moved) return accel__no_memory(more * size);
  *at = moved;
  *capacity = more;
  return ACCEL_OK;
}

static accel_status add_edge(builder *b, accel__state *s, uint8_t low, uint8_t high, uint32_t to) {
  accel__automaton *a = b->out;
  accel__state_edge *last = s->n_edges ? &a->edge[a->n_edges - 1] : NULL;
  if (last && last->to == to && last->high + 1 == low) {
    last->high = high;
    return ACCEL_OK;
  }
  ACCEL_TRY(grow(&a->edge, &a->edges_capacity, a->n_edges + 1, sizeof *a->edge));
  a->edge[a->n_edges++] = (accel__state_edge){to, low, high};
  s->n_edges++;
  return ACCEL_OK;
}

/* Bytes: between the places where a range begins or ends all bytes lead to the same states. */
static accel_status add_bytes(builder *b, const subset *set, accel__state *s) {
  bool begins[257] = {false};
  uint64_t edges = 0;
  for (uint32_t i = 0; i < set->n; i++)
    edges += b->first[set->state[i] + 1] - b->first[set->state[i]];
  for (uint32_t i = 0; i < set->n; i++)
    for (uint32_t k = b->first[set->state[i]]; k < b->first[set->state[i] + 1]; k++)
      if (b->edge[k]->kind == ACCEL__EDGE_BYTES)
        begins[b->edge[k]->low] = begins[b->edge[k]->high + 1] = true;
  for (uint32_t low = 0, high; low < 256; low = high + 1) {
    for (high = low; high < 255 && !begins[high + 1];) high++;
    b->n_found = 0;
    for (uint32_t i = 0; i < set->n; i++)
      for (uint32_t k = b->first[set->state[i]]; k < b->first[set->state[i] + 1]; k++)
        if (b->edge[k]->kind == ACCEL__EDGE_BYTES && b->edge[k]->low <= low &&
            b->edge[k]->high >= high)
          close_over(b, b->edge[k]->to);
    *b->work += edges + b->n_visited;
    forget(b);
    if (!b->n_found) continue;
    if (*b->work > most_work) return limit(b);
    uint32_t to;
    ACCEL_TRY(number_of(b, &to));
    ACCEL_TRY(add_edge(b, s, (uint8_t)low, (uint8_t)high, b->base + to));
  }
  return ACCEL_OK;
}

/* Calls: those of one rule lead to one state. */
static accel_status add_calls(builder *b, const subset *set, accel__state *s) {
  for (int64_t last = -1, next;; last = next) {
    next = INT64_MAX;
    b->n_found = 0;
    for (uint32_t i = 0; i < set->n; i++)
      for (uint32_t k = b->first[set->state[i]]; k < b->first[set->state[i] + 1]; k++)
        if (b->edge[k]->kind == ACCEL__EDGE_CALL && b->edge[k]->rule > last &&
            b->edge[k]->rule < next)
          next = b->edge[k]->rule;
    if (next == INT64_MAX) return ACCEL_OK;
    for (uint32_t i = 0; i < set->n; i++)
      for (uint32_t k = b->first[set->state[i]]; k < b->first[set->state[i] + 1]; k++)
        if (b->edge[k]->kind == ACCEL__EDGE_CALL && b->edge[k]->rule == next)
          close_over(b, b->edge[k]->to);
    *b->work += set->n + b->n_visited;
    forget(b);
    if (*b->work > most_work) return limit(b);
    uint32_t to;
    ACCEL_TRY(number_of(b, &to));
    accel__automaton *a = b->out;
    ACCEL_TRY(grow(&a->call, &a->calls_capacity, a->n_calls + 1, sizeof *a->call));
    a->call[a->n_calls++] = (accel__state_call){(uint32_t)next, b->base + to};
    if (++s->n_calls == UINT16_MAX) return limit(b);
  }
}

static accel_status construct(builder *b) {
  accel__automaton *a = b->out;
  uint32_t number;
  close_over(b, 0);
  forget(b);
  ACCEL_TRY(number_of(b, &number));
  for (size_t i = 0; i < b->n; i++) {
    accel__state s = {.edge = (uint32_t)a->n_edges, .call = (uint32_t)a->n_calls};
    const subset set = b->set[i];
    for (uint32_t k = 0; k < set.n; k++) s.ends |= set.state[k] == 1;
    ACCEL_TRY(add_bytes(b, &set, &s));
    ACCEL_TRY(add_calls(b, &set, &s));
    ACCEL_TRY(grow(&a->state, &a->states_capacity, a->n_states + 1, sizeof *a->state));
    a->state[a->n_states++] = s;
  }
  return ACCEL_OK;
}

accel_status accel__rule_determinize(const accel__rule *r, accel__automaton *out, uint32_t *start,
                                     uint64_t *work) {
  builder b = {.rule = r, .out = out, .base = (uint32_t)out->n_states, .work = work};
  *start = b.base;
  accel_status status = sort_edges(&b);
  if (status == ACCEL_OK) status = construct(&b);
  accel__map_free(&b.known);
  free(b.set);
  accel__arena_free(&b.arena);
  return status;
}
