/* schema_unique.c - arrays without equal elements, where the values of all elements are listed.
 *
 * Behind some elements stand a state for each set of values that were used: of n values at most
 * 2^n, fewer where the array is short.  */
#include <stdlib.h>
#include <string.h>

#include "text/grammar/schema_internal.h"

enum {
  VALUES = 64,      /* of all elements */
  USED_SETS = 4096, /* of used values */
  PLACES = 64       /* elements that have schemas by their place */
};

typedef struct unique {
  accel__schema *schema;
  accel__listed value[VALUES];
  accel__rule *rule[VALUES]; /* of each value; NULL: not asked for yet */
  uint32_t n;
  uint64_t allowed[PLACES + 1]; /* values of element i, as bits; the last: of all behind */
  uint32_t places;
  /* sets of used values, in the order in which they were found */
  uint64_t used[USED_SETS];
  uint32_t state[USED_SETS];
  uint32_t n_used;
  accel__map known; /* a set's bytes, which are those of `used`, to its number */
} unique;

static accel_status refuse(const accel__schema *s, const accel__shape *shape, accel_status code,
                           const char *why) {
  uint32_t at;
  return accel__remedy(
      accel__schema_fail(s, code, accel__shape_find(shape, "uniqueItems", 0, &at), "%s", why),
      "list the values of all elements with enum or const, or set a smaller maxItems, or leave "
      "uniqueItems out");
}

/* Adds the values of one place to those of the array. */
static accel_status take_values(unique *u, const accel__shape *shape, const accel__shape *element,
                                uint64_t *allowed) {
  accel__listed value[VALUES + 1];
  uint32_t n;
  *allowed = 0;
  ACCEL_TRY(accel__shape_values(u->schema, element, VALUES, value, &n));
  if (n == UINT32_MAX)
    return refuse(u->schema, shape, ACCEL_ERROR_UNSUPPORTED,
                  "uniqueItems is not supported where values of elements are not listed");
  for (uint32_t i = 0; i < n && n <= VALUES; i++) {
    uint32_t k = 0;
    while (k < u->n && !accel__listed_equal(&u->value[k], &value[i])) k++;
    if (k == VALUES) n = VALUES + 1;
    if (k == VALUES) break;
    if (k == u->n) u->value[u->n++] = value[i];
    *allowed |= UINT64_C(1) << k;
  }
  if (n <= VALUES) return ACCEL_OK;
  return refuse(u->schema, shape, ACCEL_ERROR_LIMIT,
                "uniqueItems is not supported for more than 64 values");
}

static accel_status read_places(unique *u, const accel__shape *shape, uint32_t first) {
  accel__clause list[ACCEL__SHAPE_CLAUSES];
  accel__clauses clauses;
  accel__shape *element = malloc(sizeof *element);
  accel_status status = element ? ACCEL_OK : accel__no_memory(sizeof *element);
  if (status == ACCEL_OK && first > PLACES)
    status = refuse(u->schema, shape, ACCEL_ERROR_LIMIT,
                    "uniqueItems is not supported beside more than 64 prefixItems");
  for (uint32_t i = 0; i <= first && status == ACCEL_OK; i++) {
    bool never;
    status = accel__schema_element(u->schema, shape, i, list, &clauses, &never);
    u->allowed[i] = 0;
    if (status != ACCEL_OK || never) continue;
    status = accel__shape_read(u->schema, clauses, element);
    if (status == ACCEL_OK) status = take_values(u, shape, element, &u->allowed[i]);
  }
  u->places = first;
  free(element);
  return status;
}

/* The state behind elements with these values; UINT32_MAX: there are too many. */
static uint32_t state_of(unique *u, accel__rule *r, uint64_t used) {
  int64_t number;
  if (accel__map_get(&u->known, (const char *)&used, sizeof used, &number)) return u->state[number];
  if (u->n_used == USED_SETS) return UINT32_MAX;
  u->used[u->n_used] = used;
  accel__rules_fail(r->rules, accel__map_set(&u->known, (const char *)&u->used[u->n_used],
                                             sizeof used, u->n_used));
  return u->state[u->n_used++] = accel__rule_state(r);
}

/* The rule of a value; it stays one, as it is called in many places. */
static accel__rule *rule_of(unique *u, uint32_t i) {
  if (u->rule[i]) return u->rule[i];
  accel__rule *r = accel__rules_add(u->schema->rules, "a listed value", 14);
  if (r) accel__listed_add(r, &u->value[i]);
  if (r) r->keep = true;
  return u->rule[i] = r;
}

/* What may follow set number `at` of used values. */
static bool add_elements(unique *u, uint32_t at, accel__rule *r) {
  const uint64_t used = u->used[at];
  const uint32_t n = (uint32_t)__builtin_popcountll(used), place = n < u->places ? n : u->places,
                 element = n ? accel__rule_text(r, u->state[at], ",") : u->state[at];
  for (uint32_t i = 0; i < u->n; i++) {
    const uint64_t value = UINT64_C(1) << i;
    if (used & value || !(u->allowed[place] & value)) continue;
    const uint32_t next = state_of(u, r, used | value);
    if (next == UINT32_MAX) return false;
    accel__rule_call(r, element, rule_of(u, i), next);
  }
  return true;
}

accel_status accel__schema_unique(accel__schema *s, const accel__shape *shape, uint32_t first,
                                  uint32_t min, uint32_t max, uint32_t at, uint32_t end,
                                  accel__rule *r) {
  unique *u = calloc(1, sizeof *u);
  if (!u) return accel__no_memory(sizeof *u);
  u->schema = s;
  accel_status status = read_places(u, shape, first < max ? first : max);
  if (status == ACCEL_OK) accel__rule_empty(r, at, state_of(u, r, 0));
  for (uint32_t i = 0; i < u->n_used && status == ACCEL_OK; i++) {
    const uint32_t n = (uint32_t)__builtin_popcountll(u->used[i]);
    if (n >= min) accel__rule_empty(r, u->state[i], end);
    if (n < max && !add_elements(u, i, r))
      status = refuse(s, shape, ACCEL_ERROR_LIMIT,
                      "uniqueItems with so many values is not supported for arrays so long");
    if (status == ACCEL_OK) status = s->rules->status;
  }
  accel__map_free(&u->known);
  free(u);
  return status;
}
