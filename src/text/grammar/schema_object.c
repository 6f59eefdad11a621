/* schema_object.c - objects, whose properties come in the order in which the schema has them, and
 * arrays. */
#include <stdlib.h>
#include <string.h>

#include "text/grammar/schema_internal.h"

/* ---- clauses of a property ---- */

typedef struct property {
  const char *name;
  const accel__json *where; /* for messages */
  bool required;
} property;

typedef struct properties {
  property *at;
  size_t n, capacity;
  accel__map known;
} properties;

static accel_status add_property(properties *p, const char *name, const accel__json *where,
                                 bool required) {
  int64_t number;
  if (accel__map_get(&p->known, name, strlen(name), &number)) {
    p->at[number].required |= required;
    return ACCEL_OK;
  }
  if (p->n == p->capacity) {
    const size_t capacity = p->capacity * 2 + 32;
    property *more = realloc(p->at, capacity * sizeof *more);
    if (!more) return accel__no_memory(capacity * sizeof *more);
    p->at = more;
    p->capacity = capacity;
  }
  ACCEL_TRY(accel__map_set(&p->known, name, strlen(name), (int64_t)p->n));
  p->at[p->n++] = (property){name, where, required};
  return ACCEL_OK;
}

/* Those of `properties` in their order, then those that are only required. */
static accel_status list_properties(const accel__schema *s, const accel__shape *shape,
                                    properties *out) {
  ACCEL__SHAPE_EACH(list, shape, "properties") {
    if (!cJSON_IsObject(list))
      return accel__schema_fail(s, ACCEL_ERROR_ARGUMENT, list, "an object is expected");
    ACCEL_JSON_EACH(one, list) ACCEL_TRY(add_property(out, one->string, one, false));
  }
  ACCEL__SHAPE_EACH(names, shape, "required") {
    if (!cJSON_IsArray(names))
      return accel__schema_fail(s, ACCEL_ERROR_ARGUMENT, names, "a list of names is expected");
    ACCEL_JSON_EACH(one, names) {
      if (!cJSON_IsString(one))
        return accel__schema_fail(s, ACCEL_ERROR_ARGUMENT, one, "a name is expected");
      ACCEL_TRY(add_property(out, one->valuestring, one, true));
    }
  }
  return ACCEL_OK;
}

static const accel__json *member(const accel__json *object, const char *name) {
  const accel__json *found = NULL;
  ACCEL_JSON_EACH(one, cJSON_IsObject(object) ? object : NULL)
  if (!strcmp(one->string, name)) found = one;
  return found;
}

/* What each clause says of the property `name`: its schema there, else additionalProperties.  NULL:
 * of properties that no clause names.  *never: one says that it may not be. */
static accel__clauses clauses_of(const accel__shape *shape, const char *name, accel__clause *list,
                                 bool *never) {
  accel__clauses out = {list, 0};
  *never = false;
  for (uint32_t i = 0; i < shape->n; i++) {
    const accel__json *node = accel__clause_node(shape->clause[i]),
                      *own = name ? member(member(node, "properties"), name) : NULL,
                      *other = member(node, "additionalProperties"), *says = own ? own : other;
    if (!says || cJSON_IsTrue(says)) continue;
    *never |= cJSON_IsFalse(says);
    list[out.n++] = (accel__clause)says;
  }
  return out;
}

/* ---- names that are not listed ---- */

/* A letter of a trie of names; names that begin alike share their first ones. */
typedef struct letter {
  uint32_t code, child, next; /* 0: none */
  uint32_t state;
  bool ends;
} letter;

static accel_status make_letters(const properties *p, letter **out) {
  size_t most = 1, n = 1;
  for (size_t i = 0; i < p->n; i++) most += strlen(p->at[i].name);
  letter *l = calloc(most, sizeof *l);
  *out = l;
  if (!l) return accel__no_memory(most * sizeof *l);
  for (size_t i = 0; i < p->n; i++) {
    const char *name = p->at[i].name;
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
static accel_status add_other_name(accel__rule *r, uint32_t from, const properties *p,
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

/* ---- objects ---- */

/* May there be properties that no clause names?  Where nobody says, only if none is named. */
static bool takes_others(const accel__shape *shape) {
  uint32_t at;
  bool said = false;
  ACCEL__SHAPE_EACH(value, shape, "additionalProperties") {
    if (cJSON_IsFalse(value)) return false;
    said = true;
  }
  return said || !accel__shape_find(shape, "properties", 0, &at);
}

static accel_status add_properties(accel__schema *s, const accel__shape *shape, const properties *p,
                                   accel__rule *r) {
  accel__clause list[ACCEL__SHAPE_CLAUSES];
  bool never;
  /* before the next property: nothing came yet; something did */
  uint32_t first = accel__rule_text(r, 0, "{"), later = accel__rule_state(r);
  for (size_t i = 0; i < p->n; i++) {
    const char *name = p->at[i].name;
    const accel__clauses clauses = clauses_of(shape, name, list, &never);
    const uint32_t here = accel__rule_state(r), next_first = accel__rule_state(r),
                   next_later = accel__rule_state(r);
    if (never && p->at[i].required)
      return accel__schema_fail(s, ACCEL_ERROR_ARGUMENT, p->at[i].where,
                                "property '%.80s' is required, and may not be", name);
    accel__rule_empty(r, first, here);
    accel__rule_empty(r, accel__rule_text(r, later, ","), here);
    uint32_t at = accel__rule_text(r, here, "\"");
    at = accel__rule_text(r, accel__rule_json_text(r, at, name, strlen(name)), "\":");
    if (!never) accel__rule_call(r, at, accel__schema_rule(s, clauses), next_later);
    if (!p->at[i].required) {
      accel__rule_empty(r, first, next_first);
      accel__rule_empty(r, later, next_later);
    }
    first = next_first;
    later = next_later;
  }
  if (takes_others(shape)) {
    const accel__clauses clauses = clauses_of(shape, NULL, list, &never);
    const uint32_t here = accel__rule_state(r), named = accel__rule_state(r);
    accel__rule_empty(r, first, here);
    accel__rule_empty(r, accel__rule_text(r, later, ","), here);
    ACCEL_TRY(add_other_name(r, here, p, named));
    accel__rule_call(r, accel__rule_text(r, named, ":"), accel__schema_rule(s, clauses), later);
  }
  accel__rule_empty(r, accel__rule_text(r, first, "}"), 1);
  accel__rule_empty(r, accel__rule_text(r, later, "}"), 1);
  return s->rules->status;
}

accel_status accel__schema_object(accel__schema *s, const accel__shape *shape, accel__rule *r) {
  properties p = {0};
  accel_status status = list_properties(s, shape, &p);
  if (status == ACCEL_OK) status = add_properties(s, shape, &p, r);
  accel__map_free(&p.known);
  free(p.at);
  return status;
}

/* ---- arrays ---- */

/* What each clause says of element `i`; *last: it says the same of all behind it. */
static accel_status element_clauses(const accel__schema *s, const accel__shape *shape, uint32_t i,
                                    accel__clause *list, accel__clauses *out, bool *never) {
  *out = (accel__clauses){list, 0};
  *never = false;
  for (uint32_t k = 0; k < shape->n; k++) {
    const accel__json *node = accel__clause_node(shape->clause[k]),
                      *first = member(node, "prefixItems"), *items = member(node, "items");
    if ((first && !cJSON_IsArray(first)) || cJSON_IsArray(items))
      return accel__remedy(
          accel__schema_fail(s, ACCEL_ERROR_UNSUPPORTED, cJSON_IsArray(items) ? items : first,
                             "a schema of elements is expected"),
          "schemas by place belong to prefixItems, which is a list");
    uint32_t number = 0;
    const accel__json *says = first ? first->child : NULL;
    while (says && number < i) says = says->next, number++;
    if (!says) says = items;
    if (!says || cJSON_IsTrue(says)) continue;
    *never |= cJSON_IsFalse(says);
    list[out->n++] = (accel__clause)says;
  }
  return ACCEL_OK;
}

/* Elements that clauses name by their place, at most. */
static uint32_t count_first(const accel__shape *shape) {
  uint32_t most = 0;
  ACCEL__SHAPE_EACH(first, shape, "prefixItems") {
    const int n = cJSON_GetArraySize(first);
    if (n > 0 && (uint32_t)n > most) most = (uint32_t)n;
  }
  return most;
}

/* How many elements there may be; UINT32_MAX: any number. */
static accel_status read_sizes(const accel__schema *s, const accel__shape *shape, uint32_t first,
                               uint32_t *min, uint32_t *max) {
  uint32_t at;
  *min = 0;
  *max = UINT32_MAX;
  ACCEL_TRY(accel__schema_count(s, shape, "minItems", true, min));
  ACCEL_TRY(accel__schema_count(s, shape, "maxItems", false, max));
  /* where nobody says what comes behind the first ones nothing does, unless it must */
  if (first && !accel__shape_find(shape, "items", 0, &at)) {
    const uint32_t most = *min > first ? *min : first;
    if (*max > most) *max = most;
  }
  return ACCEL_OK;
}

accel_status accel__schema_array(accel__schema *s, const accel__shape *shape, accel__rule *r) {
  accel__clause list[ACCEL__SHAPE_CLAUSES];
  accel__clauses clauses;
  bool never;
  uint32_t min, max, at = accel__rule_text(r, 0, "[");
  const uint32_t first = count_first(shape), end = accel__rule_state(r);
  ACCEL_TRY(read_sizes(s, shape, first, &min, &max));
  const uint32_t known = first > min ? first : min, last = max != UINT32_MAX ? max : known + 1;
  accel__rule_empty(r, accel__rule_text(r, end, "]"), 1);
  for (uint32_t i = 0; i < last && s->rules->status == ACCEL_OK; i++) {
    const uint32_t next = accel__rule_state(r), element = i ? accel__rule_text(r, at, ",") : at;
    ACCEL_TRY(element_clauses(s, shape, i, list, &clauses, &never));
    if (i >= min) accel__rule_empty(r, at, end);
    if (!never) accel__rule_call(r, element, accel__schema_rule(s, clauses), next);
    at = next;
    if (max == UINT32_MAX && i + 1 == last && !never) /* and any number of those */
      accel__rule_call(r, accel__rule_text(r, at, ","), accel__schema_rule(s, clauses), at);
  }
  if (min <= max) accel__rule_empty(r, at, end);
  return s->rules->status;
}
