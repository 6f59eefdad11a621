/* schema_names.c - names of properties that a schema does not list: all but those that are listed,
 * in sets by which patternProperties hold for them. */
#include <stdlib.h>
#include <string.h>

#include "text/grammar/condition.h"
#include "text/grammar/schema_internal.h"

/* A member of patternProperties. */
typedef struct accel__name_pattern {
  uint32_t clause; /* of the shape */
  const accel__json *schema;
  accel__condition condition; /* names with their quotes */
} accel__name_pattern;

typedef struct accel__name_set {
  uint32_t patterns; /* which hold, as bits */
  accel__condition condition;
} accel__name_set;

/* ---- names that are not listed ---- */

/* A letter of a trie of names; names that begin alike share their first ones. */
typedef struct letter {
  uint32_t code, child, next; /* 0: none */
  uint32_t state;
  bool ends;
} letter;

static accel_status make_letters(const accel__names *p, letter **out) {
  size_t most = 1, n = 1;
  for (size_t i = 0; i < p->n_properties; i++) most += strlen(p->property[i].name);
  letter *l = calloc(most, sizeof *l);
  *out = l;
  if (!l) return accel__no_memory(most * sizeof *l);
  for (size_t i = 0; i < p->n_properties; i++) {
    const char *name = p->property[i].name;
    uint32_t at = 0, code, child;
    for (size_t k = 0, bytes = strlen(name); k < bytes;) {
      k += accel__utf8_decode(name + k, bytes - k, &code);
      for (child = l[at].child; child && l[child].code != code;) child = l[child].next;
      if (!child) {
        child = (uint32_t)n++;
        l[child] = (letter){.code = code, .next = l[at].child};
        l[at].child = child;
      }
      at = child;
    }
    l[at].ends = true;
  }
  return ACCEL_OK;
}

/* A name with its quotes that is none of those; each character is written in one way. */
static accel_status add_other_name(accel__rule *r, uint32_t from, const accel__names *p,
                                   uint32_t to) {
  static const accel__code_set plain = {.n = 2, .range = {{0, 0x7E}, {0x80, 0x10FFFF}}};
  letter *l;
  ACCEL_TRY(make_letters(p, &l));
  uint32_t *stack = malloc(sizeof *stack);
  const uint32_t any = accel__rule_state(r);
  size_t n = 0, capacity = 1;
  accel_status status = stack ? ACCEL_OK : accel__no_memory(sizeof *stack);
  accel__rule_code_set(r, any, &plain, ACCEL__SPELL_JSON, any);
  accel__rule_bytes(r, any, '"', '"', to);
  l[0].state = accel__rule_text(r, from, "\"");
  if (stack) stack[n++] = 0;
  while (n && status == ACCEL_OK) {
    const letter at = l[stack[--n]];
    accel__code_set others = plain;
    if (!at.ends) accel__rule_bytes(r, at.state, '"', '"', to);
    for (uint32_t c = at.child; c && status == ACCEL_OK; c = l[c].next) {
      const accel__code_set own = {.n = 1, .range = {{l[c].code, l[c].code}}};
      accel__code_set_remove(&others, l[c].code, l[c].code);
      l[c].state = accel__rule_state(r);
      accel__rule_code_set(r, at.state, &own, ACCEL__SPELL_JSON, l[c].state);
      status = r->rules->status;
      if (n == capacity) {
        uint32_t *more = realloc(stack, (capacity *= 2) * sizeof *more);
        if (!more) status = accel__no_memory(capacity * sizeof *more);
        stack = more ? more : stack;
      }
      if (status == ACCEL_OK) stack[n++] = c;
    }
    accel__rule_code_set(r, at.state, &others, ACCEL__SPELL_JSON, any);
  }
  free(stack);
  free(l);
  return status == ACCEL_OK ? r->rules->status : status;
}

/* ---- patterns ---- */

static accel_status fill_pattern(void *user, uint32_t number, accel__rule *r) {
  const accel__names *names = user;
  const accel__json *schema = names->pattern[number].schema;
  uint32_t end;
  ACCEL_TRY(accel__schema_expression(names->schema, schema, schema->string, true, r,
                                     accel__rule_text(r, 0, "\""), &end));
  accel__rule_bytes(r, end, '"', '"', 1);
  return r->rules->status;
}

static accel_status fill_others(void *user, uint32_t number, accel__rule *r) {
  (void)number;
  return add_other_name(r, 0, user, 1);
}

static accel_status read_patterns(const accel__shape *shape, accel__names *names) {
  const accel__schema *s = names->schema;
  ACCEL__SHAPE_EACH(list, shape, "patternProperties") {
    if (!cJSON_IsObject(list))
      return accel__schema_fail(s, ACCEL_ERROR_ARGUMENT, list, "an object is expected");
    ACCEL_JSON_EACH(schema, list) {
      if (names->n_patterns == ACCEL__NAME_PATTERNS)
        return accel__schema_fail(s, ACCEL_ERROR_LIMIT, schema, "more than %d patterns of names",
                                  ACCEL__NAME_PATTERNS);
      if (!names->pattern) names->pattern = calloc(ACCEL__NAME_PATTERNS, sizeof *names->pattern);
      if (!names->pattern) return accel__no_memory(ACCEL__NAME_PATTERNS * sizeof *names->pattern);
      accel__name_pattern *p = &names->pattern[names->n_patterns];
      *p = (accel__name_pattern){.clause = list_at, .schema = schema};
      ACCEL_TRY(accel__condition_make(fill_pattern, names, names->n_patterns, &p->condition));
      names->n_patterns++;
    }
  }
  return ACCEL_OK;
}

/* ---- sets ---- */

/* Splits set `i` into names for which pattern `number` holds, and others; empty ones go. */
static accel_status split(accel__names *names, uint32_t i, uint32_t number) {
  accel__name_set *set = &names->set[i];
  const accel__condition *pattern = &names->pattern[number].condition;
  accel__condition with, without;
  ACCEL_TRY(accel__condition_meet(&set->condition, pattern, false, &with));
  if (with.none) return ACCEL_OK;
  const accel_status status = accel__condition_meet(&set->condition, pattern, true, &without);
  if (status != ACCEL_OK) {
    accel__condition_free(&with);
    return status;
  }
  accel__condition_free(&set->condition);
  if (without.none) {
    *set = (accel__name_set){set->patterns | 1u << number, with};
    return ACCEL_OK;
  }
  set->condition = without;
  if (names->n_sets < ACCEL__NAME_SETS) {
    names->set[names->n_sets++] = (accel__name_set){set->patterns | 1u << number, with};
    return ACCEL_OK;
  }
  accel__condition_free(&with);
  return accel__schema_fail(names->schema, ACCEL_ERROR_LIMIT, names->pattern[number].schema,
                            "patterns of names overlap in more than %d ways", ACCEL__NAME_SETS);
}

static accel_status make_sets(accel__names *names) {
  names->set = calloc(ACCEL__NAME_SETS, sizeof *names->set);
  if (!names->set) return accel__no_memory(ACCEL__NAME_SETS * sizeof *names->set);
  ACCEL_TRY(accel__condition_make(fill_others, names, 0, &names->set[0].condition));
  names->n_sets = 1;
  for (uint32_t number = 0; number < names->n_patterns; number++)
    for (uint32_t i = 0, n = names->n_sets; i < n; i++) ACCEL_TRY(split(names, i, number));
  return ACCEL_OK;
}

accel_status accel__names_make(const accel__schema *s, const accel__shape *shape,
                               const accel__property *property, size_t n, accel__names *out) {
  *out = (accel__names){.schema = s, .property = property, .n_properties = n};
  ACCEL_TRY(read_patterns(shape, out));
  return out->n_patterns ? make_sets(out) : ACCEL_OK;
}

void accel__names_free(accel__names *names) {
  for (uint32_t i = 0; i < names->n_patterns; i++)
    accel__condition_free(&names->pattern[i].condition);
  for (uint32_t i = 0; i < names->n_sets; i++) accel__condition_free(&names->set[i].condition);
  free(names->pattern);
  free(names->set);
  *names = (accel__names){0};
}

/* ---- what is asked of them ---- */

static accel_status fill_name(void *user, uint32_t number, accel__rule *r) {
  const char *name = user;
  (void)number;
  const uint32_t at = accel__rule_json_text(r, accel__rule_text(r, 0, "\""), name, strlen(name));
  accel__rule_bytes(r, at, '"', '"', 1);
  return r->rules->status;
}

accel_status accel__names_patterns(const accel__names *names, const char *name, uint32_t *out) {
  accel__condition one = {0};
  accel_status status = ACCEL_OK;
  *out = 0;
  if (!names->n_patterns) return ACCEL_OK;
  ACCEL_TRY(accel__condition_make(fill_name, (void *)(uintptr_t)name, 0, &one));
  for (uint32_t i = 0; i < names->n_patterns && status == ACCEL_OK; i++) {
    accel__condition both;
    status = accel__condition_meet(&one, &names->pattern[i].condition, false, &both);
    if (status == ACCEL_OK && !both.none) *out |= 1u << i;
    accel__condition_free(&both);
  }
  accel__condition_free(&one);
  return status;
}

uint32_t accel__names_set_patterns(const accel__names *names, uint32_t i) {
  return names->set[i].patterns;
}

uint32_t accel__names_schemas(const accel__names *names, uint32_t clause, uint32_t patterns,
                              accel__clause *list) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < names->n_patterns; i++)
    if (names->pattern[i].clause == clause && patterns >> i & 1)
      list[n++] = (accel__clause)names->pattern[i].schema;
  return n;
}

accel_status accel__names_add(const accel__names *names, uint32_t i, accel__rule *r, uint32_t from,
                              uint32_t to) {
  if (!names->n_sets) return add_other_name(r, from, names, to);
  accel__condition_add(&names->set[i].condition, r, from, to);
  return r->rules->status;
}
