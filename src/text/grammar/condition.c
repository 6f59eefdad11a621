/* condition.c - products of automata: the texts of both, or of one without the other. */
#include "text/grammar/condition.h"

#include <stdlib.h>

#include "core/text.h"

void accel__condition_free(accel__condition *c) {
  accel__automaton_free(&c->automaton);
  *c = (accel__condition){0};
}

/* The automaton of rules without calls, which are freed. */
static accel_status take_rules(accel__rules *rules, accel__condition *out) {
  accel_status status = rules->status;
  *out = (accel__condition){0};
  if (status == ACCEL_OK) status = accel__automaton_make(rules, &out->automaton);
  accel__rules_free(rules);
  /* rules without calls cannot call themselves: nothing is described */
  out->none = status == ACCEL_ERROR_ARGUMENT;
  if (!out->none) return status;
  accel__clear_error();
  return ACCEL_OK;
}

accel_status accel__condition_make(accel__condition_fn fill, void *user, uint32_t number,
                                   accel__condition *out) {
  accel__rules rules = {0};
  accel__rule *r = accel__rules_add(&rules, "a condition", 11);
  const accel_status status = r ? fill(user, number, r) : rules.status;
  *out = (accel__condition){0};
  if (status == ACCEL_OK) return take_rules(&rules, out);
  accel__rules_free(&rules);
  return status;
}

bool accel__condition_holds(const accel__condition *c, const char *text, size_t n) {
  uint32_t at = c->automaton.start;
  if (c->none) return false;
  for (size_t i = 0; i < n && at != ACCEL__NO_STATE; i++)
    at = accel__automaton_step(&c->automaton, at, (uint8_t)text[i]);
  return at != ACCEL__NO_STATE && c->automaton.state[at].ends;
}

/* ---- products ---- */

/* Where both automata may stand at the same time; b ACCEL__NO_STATE: its texts were left. */
typedef struct pairs {
  uint32_t *a, *b, *state; /* [n] */
  size_t n, capacity;
  accel__map known;
  accel__arena arena;
} pairs;

static uint32_t pair_of(pairs *p, accel__rule *r, uint32_t a, uint32_t b) {
  const uint32_t key[2] = {a, b};
  int64_t number;
  if (accel__map_get(&p->known, (const char *)key, sizeof key, &number)) return p->state[number];
  const char *copy = accel__arena_copy(&p->arena, (const char *)key, sizeof key);
  if (p->n == p->capacity) {
    const size_t more = p->capacity * 2 + 64;
    void *x = realloc(p->a, more * 4), *y = realloc(p->b, more * 4),
         *z = realloc(p->state, more * 4);
    if (x) p->a = x;
    if (y) p->b = y;
    if (z) p->state = z;
    if (x && y && z) p->capacity = more;
  }
  if (!copy || p->n == p->capacity)
    return accel__rules_fail(r->rules, accel__no_memory(p->n * 12)), 0;
  accel__rules_fail(r->rules, accel__map_set(&p->known, copy, sizeof key, (int64_t)p->n));
  p->a[p->n] = a;
  p->b[p->n] = b;
  return p->state[p->n++] = accel__rule_state(r);
}

/* The edges of a pair: bytes that both read, and with `without` those that `a` alone reads. */
static void add_edges(pairs *p, accel__rule *r, uint32_t state, const accel__automaton *a,
                      const accel__state *x, const accel__automaton *b, const accel__state *y,
                      bool without) {
  for (uint32_t k = 0; k < x->n_edges; k++) {
    const accel__state_edge *e = &a->edge[x->edge + k];
    int next = e->low; /* of the bytes for which `b` has not been asked */
    for (uint32_t m = 0; m < y->n_edges; m++) {
      const accel__state_edge *f = &b->edge[y->edge + m];
      const int low = e->low > f->low ? e->low : f->low,
                high = e->high < f->high ? e->high : f->high;
      if (low > high) continue;
      if (without && next < low)
        accel__rule_bytes(r, state, (uint8_t)next, (uint8_t)(low - 1),
                          pair_of(p, r, e->to, ACCEL__NO_STATE));
      accel__rule_bytes(r, state, (uint8_t)low, (uint8_t)high, pair_of(p, r, e->to, f->to));
      next = high + 1;
    }
    if (without && next <= e->high)
      accel__rule_bytes(r, state, (uint8_t)next, e->high, pair_of(p, r, e->to, ACCEL__NO_STATE));
  }
}

/* Adds to `r`, from state `from` to `to`, the texts of both, or those of `a` alone. */
static void add_product(accel__rule *r, uint32_t from, const accel__automaton *a,
                        const accel__automaton *b, bool without, uint32_t to) {
  static const accel__state nowhere = {0};
  pairs p = {0};
  accel__rule_empty(r, from, pair_of(&p, r, a->start, b->start));
  for (size_t i = 0; i < p.n && r->rules->status == ACCEL_OK; i++) {
    const accel__state *x = &a->state[p.a[i]],
                       *y = p.b[i] == ACCEL__NO_STATE ? &nowhere : &b->state[p.b[i]];
    if (x->ends && y->ends != without) accel__rule_empty(r, p.state[i], to);
    add_edges(&p, r, p.state[i], a, x, b, y, without);
  }
  free(p.a);
  free(p.b);
  free(p.state);
  accel__map_free(&p.known);
  accel__arena_free(&p.arena);
}

void accel__condition_add(const accel__condition *c, accel__rule *r, uint32_t from, uint32_t to) {
  /* the automaton as it is: both of it and itself */
  if (!c->none) add_product(r, from, &c->automaton, &c->automaton, false, to);
}

accel_status accel__condition_meet(const accel__condition *a, const accel__condition *b,
                                   bool without, accel__condition *out) {
  accel__rules rules = {0};
  *out = (accel__condition){.none = a->none || (b->none && !without)};
  if (out->none) return ACCEL_OK;
  accel__rule *r = accel__rules_add(&rules, "a condition", 11);
  if (r && b->none) accel__condition_add(a, r, 0, 1);
  if (r && !b->none) add_product(r, 0, &a->automaton, &b->automaton, without, 1);
  return take_rules(&rules, out);
}

accel_status accel__conditions_add(accel__condition_fn fill, void *user, uint32_t n, accel__rule *r,
                                   uint32_t from, uint32_t to) {
  accel__condition all, one, both;
  accel_status status = accel__condition_make(fill, user, 0, &all);
  for (uint32_t i = 1; i < n && status == ACCEL_OK; i++) {
    status = accel__condition_make(fill, user, i, &one);
    if (status != ACCEL_OK) break;
    status = accel__condition_meet(&all, &one, false, &both);
    accel__condition_free(&one);
    accel__condition_free(&all);
    all = both;
  }
  if (status == ACCEL_OK) accel__condition_add(&all, r, from, to);
  accel__condition_free(&all);
  return status == ACCEL_OK ? r->rules->status : status;
}
