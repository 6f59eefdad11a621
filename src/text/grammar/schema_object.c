/* schema_object.c - objects, whose properties come in the order in which the schema has them, and
 * arrays. */
#include <stdlib.h>
#include <string.h>

#include "text/grammar/schema_internal.h"

/* ---- clauses of a property ---- */

typedef struct properties {
  accel__property *at;
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
    accel__property *more = realloc(p->at, capacity * sizeof *more);
    if (!more) return accel__no_memory(capacity * sizeof *more);
    p->at = more;
    p->capacity = capacity;
  }
  ACCEL_TRY(accel__map_set(&p->known, name, strlen(name), (int64_t)p->n));
  p->at[p->n++] = (accel__property){name, where, required};
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

enum { LIST = ACCEL__SHAPE_CLAUSES + ACCEL__NAME_PATTERNS };

/* What each clause says of a property, whose `name` is NULL where no clause has it: its schema there
 * and those of its patterns among `patterns`, else additionalProperties.  list[LIST].  *never: one
 * says that it may not be. */
static accel__clauses clauses_of(const accel__shape *shape, const accel__names *names,
                                 const char *name, uint32_t patterns, accel__clause *list,
                                 bool *never) {
  uint32_t n = 0, kept = 0;
  *never = false;
  for (uint32_t i = 0; i < shape->n; i++) {
    const accel__json *node = accel__clause_node(shape->clause[i]),
                      *own = name ? member(member(node, "properties"), name) : NULL;
    const uint32_t before = n;
    if (own) list[n++] = (accel__clause)own;
    n += accel__names_schemas(names, i, patterns, list + n);
    const accel__json *other = n == before ? member(node, "additionalProperties") : NULL;
    if (other) list[n++] = (accel__clause)other;
  }
  for (uint32_t i = 0; i < n; i++) {
    const accel__json *says = accel__clause_node(list[i]);
    *never |= cJSON_IsFalse(says);
    if (!cJSON_IsTrue(says)) list[kept++] = list[i];
  }
  return (accel__clauses){list, kept};
}

/* ---- objects ---- */

/* May there be properties that no clause names, nor any of its patterns?  Where nobody says, only if
 * none is named. */
static bool takes_others(const accel__shape *shape) {
  uint32_t at;
  bool said = false;
  ACCEL__SHAPE_EACH(value, shape, "additionalProperties") {
    if (cJSON_IsFalse(value)) return false;
    said = true;
  }
  return said || !(accel__shape_find(shape, "properties", 0, &at) ||
                   accel__shape_find(shape, "patternProperties", 0, &at));
}

/* Any number of properties that are not listed: set `set` of `names`, whose patterns are `patterns`.
 * `first`: before the first property; `later`: behind one. */
static accel_status add_others(accel__schema *s, const accel__shape *shape,
                               const accel__names *names, uint32_t set, uint32_t patterns,
                               accel__rule *r, uint32_t first, uint32_t later) {
  accel__clause list[LIST];
  bool never;
  const accel__clauses clauses = clauses_of(shape, names, NULL, patterns, list, &never);
  const uint32_t here = accel__rule_state(r), named = accel__rule_state(r);
  if (never) return ACCEL_OK;
  accel__rule_empty(r, first, here);
  accel__rule_empty(r, accel__rule_text(r, later, ","), here);
  ACCEL_TRY(accel__names_add(names, set, r, here, named));
  accel__rule_call(r, accel__rule_text(r, named, ":"), accel__schema_rule(s, clauses), later);
  return s->rules->status;
}

/* Where the next property comes: before the first one, behind one. */
typedef struct place {
  uint32_t first, later;
} place;

static accel_status add_property_rule(accel__schema *s, const accel__shape *shape,
                                      const accel__names *names, const accel__property *p,
                                      accel__rule *r, place *at) {
  accel__clause list[LIST];
  uint32_t patterns;
  bool never;
  ACCEL_TRY(accel__names_patterns(names, p->name, &patterns));
  const accel__clauses clauses = clauses_of(shape, names, p->name, patterns, list, &never);
  const uint32_t here = accel__rule_state(r);
  const place next = {accel__rule_state(r), accel__rule_state(r)};
  if (never && p->required)
    return accel__schema_fail(s, ACCEL_ERROR_ARGUMENT, p->where,
                              "property '%.80s' is required, and may not be", p->name);
  accel__rule_empty(r, at->first, here);
  accel__rule_empty(r, accel__rule_text(r, at->later, ","), here);
  uint32_t name = accel__rule_text(r, here, "\"");
  name = accel__rule_text(r, accel__rule_json_text(r, name, p->name, strlen(p->name)), "\":");
  if (!never) accel__rule_call(r, name, accel__schema_rule(s, clauses), next.later);
  if (!p->required) {
    accel__rule_empty(r, at->first, next.first);
    accel__rule_empty(r, at->later, next.later);
  }
  *at = next;
  return s->rules->status;
}

static accel_status add_properties(accel__schema *s, const accel__shape *shape, const properties *p,
                                   accel__rule *r) {
  accel__names names;
  place at = {accel__rule_text(r, 0, "{"), accel__rule_state(r)};
  accel_status status = accel__names_make(s, shape, p->at, p->n, &names);
  for (size_t i = 0; i < p->n && status == ACCEL_OK; i++)
    status = add_property_rule(s, shape, &names, &p->at[i], r, &at);
  const bool others = takes_others(shape);
  if (status == ACCEL_OK && !names.n_patterns && others)
    status = add_others(s, shape, &names, 0, 0, r, at.first, at.later);
  for (uint32_t i = 0; i < names.n_sets && status == ACCEL_OK; i++) {
    const uint32_t patterns = accel__names_set_patterns(&names, i);
    if (patterns || others)
      status = add_others(s, shape, &names, i, patterns, r, at.first, at.later);
  }
  accel__names_free(&names);
  accel__rule_empty(r, accel__rule_text(r, at.first, "}"), 1);
  accel__rule_empty(r, accel__rule_text(r, at.later, "}"), 1);
  return status == ACCEL_OK ? s->rules->status : status;
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

accel_status accel__schema_element(const accel__schema *s, const accel__shape *shape, uint32_t i,
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

/* Does any clause ask that no two elements are equal? */
static accel_status read_unique(const accel__schema *s, const accel__shape *shape, bool *out) {
  *out = false;
  ACCEL__SHAPE_EACH(value, shape, "uniqueItems") {
    if (!cJSON_IsBool(value))
      return accel__schema_fail(s, ACCEL_ERROR_ARGUMENT, value, "true or false is expected");
    *out |= cJSON_IsTrue(value) != 0;
  }
  return ACCEL_OK;
}

accel_status accel__schema_array(accel__schema *s, const accel__shape *shape, accel__rule *r) {
  accel__clause list[ACCEL__SHAPE_CLAUSES];
  accel__clauses clauses;
  bool never, unique;
  uint32_t min, max, at = accel__rule_text(r, 0, "[");
  const uint32_t first = count_first(shape), end = accel__rule_state(r);
  ACCEL_TRY(read_sizes(s, shape, first, &min, &max));
  ACCEL_TRY(read_unique(s, shape, &unique));
  const uint32_t known = first > min ? first : min, last = max != UINT32_MAX ? max : known + 1;
  accel__rule_empty(r, accel__rule_text(r, end, "]"), 1);
  if (unique && max > 1) return accel__schema_unique(s, shape, first, min, max, at, end, r);
  for (uint32_t i = 0; i < last && s->rules->status == ACCEL_OK; i++) {
    const uint32_t next = accel__rule_state(r), element = i ? accel__rule_text(r, at, ",") : at;
    ACCEL_TRY(accel__schema_element(s, shape, i, list, &clauses, &never));
    if (i >= min) accel__rule_empty(r, at, end);
    if (!never) accel__rule_call(r, element, accel__schema_rule(s, clauses), next);
    at = next;
    if (max == UINT32_MAX && i + 1 == last && !never) /* and any number of those */
      accel__rule_call(r, accel__rule_text(r, at, ","), accel__schema_rule(s, clauses), at);
  }
  if (min <= max) accel__rule_empty(r, at, end);
  return s->rules->status;
}
