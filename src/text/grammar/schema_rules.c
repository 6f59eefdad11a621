/* schema_rules.c - JSON Schema (draft 2020-12, as far as it goes): rules from a queue, types and
 * alternatives. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "text/grammar/schema_internal.h"

typedef struct accel__schema_job {
  accel__clauses clauses;
  accel__rule *rule;
} accel__schema_job;

accel__rule *accel__schema_rule(accel__schema *s, accel__clauses clauses) {
  const size_t bytes = clauses.n * sizeof *clauses.at;
  int64_t number;
  if (accel__map_get(&s->known, (const char *)clauses.at, bytes, &number))
    return s->job[number].rule;
  accel__clause *copy =
      (accel__clause *)accel__arena_copy(&s->arena, (const char *)clauses.at, bytes);
  accel__rule *r = accel__rules_add(s->rules, "the schema", 10);
  if (!copy || !r) return accel__rules_fail(s->rules, ACCEL_ERROR_OUT_OF_MEMORY), NULL;
  if (s->n_jobs == s->jobs_capacity) {
    const size_t capacity = s->jobs_capacity * 2 + 32;
    accel__schema_job *more = realloc(s->job, capacity * sizeof *more);
    if (!more) return accel__rules_fail(s->rules, accel__no_memory(capacity * sizeof *more)), NULL;
    s->job = more;
    s->jobs_capacity = capacity;
  }
  accel__rules_fail(s->rules,
                    accel__map_set(&s->known, (const char *)copy, bytes, (int64_t)s->n_jobs));
  s->job[s->n_jobs++] = (accel__schema_job){{copy, clauses.n}, r};
  return r;
}

accel_status accel__schema_count(const accel__schema *s, const accel__shape *shape,
                                 const char *keyword, bool largest, uint32_t *out) {
  bool found = false;
  ACCEL__SHAPE_EACH(value, shape, keyword) {
    const double x = cJSON_IsNumber(value) ? value->valuedouble : -1;
    if (!(x >= 0 && x <= ACCEL__GRAMMAR_STATES_MAX) || x != floor(x))
      return accel__schema_fail(s, ACCEL_ERROR_ARGUMENT, value,
                                "a whole number from 0 to %d is expected",
                                ACCEL__GRAMMAR_STATES_MAX);
    const uint32_t n = (uint32_t)x;
    if (!found || (largest ? n > *out : n < *out)) *out = n;
    found = true;
  }
  return ACCEL_OK;
}

/* ---- alternatives ---- */

/* The clauses with one alternative, and a note that it was chosen. */
static accel__clauses choose(accel__schema *s, const accel__shape *shape, uint32_t at,
                             accel__clause chose, const accel__json *branch) {
  accel__clause *list = accel__arena_array(&s->arena, shape->n + 1, sizeof *list);
  if (!list) return (accel__clauses){NULL, 0};
  memcpy(list, shape->clause, shape->n * sizeof *list);
  list[at] |= chose;
  list[shape->n] = (accel__clause)branch;
  return (accel__clauses){list, shape->n + 1};
}

static bool requires(const accel__shape *shape, const char *name) {
  ACCEL__SHAPE_EACH(list, shape, "required")
  ACCEL_JSON_EACH(item, list)
  if (cJSON_IsString(item) && !strcmp(item->valuestring, name)) return true;
  return false;
}

/* Both require a property whose values differ. */
static bool differ_by_property(const accel__shape *a, const accel__shape *b) {
  ACCEL__SHAPE_EACH(mine, a, "properties")
  ACCEL_JSON_EACH(x, mine) {
    if (!requires(a, x->string) || !requires(b, x->string)) continue;
    ACCEL__SHAPE_EACH(theirs, b, "properties") {
      const accel__json *y = accel__json_get(theirs, x->string),
                        *x_one = accel__json_get(x, "const"), *y_one = accel__json_get(y, "const");
      if (y && accel__listed_apart(x_one ? x_one : accel__json_get(x, "enum"), x_one != NULL,
                                   y_one ? y_one : accel__json_get(y, "enum"), y_one != NULL))
        return true;
    }
  }
  return false;
}

static accel_status check_exclusive(accel__schema *s, const accel__shape *shape) {
  const accel__json *list = shape->one_of;
  accel__shape *pair = malloc(2 * sizeof *pair);
  accel_status status = pair ? ACCEL_OK : accel__no_memory(2 * sizeof *pair);
  ACCEL_JSON_EACH(x, list)
  for (const accel__json *y = x->next; y && status == ACCEL_OK; y = y->next) {
    bool x_one, y_one;
    status =
        accel__shape_read(s, choose(s, shape, shape->one_clause, ACCEL__CHOSE_ONE, x), &pair[0]);
    if (status == ACCEL_OK)
      status =
          accel__shape_read(s, choose(s, shape, shape->one_clause, ACCEL__CHOSE_ONE, y), &pair[1]);
    if (status != ACCEL_OK) break;
    const accel__json *a = accel__shape_listed(&pair[0], &x_one),
                      *b = accel__shape_listed(&pair[1], &y_one);
    if ((pair[0].types & pair[1].types) == 0 || accel__listed_apart(a, x_one, b, y_one)) continue;
    if (((pair[0].types | pair[1].types) == ACCEL__TYPE_OBJECT) &&
        differ_by_property(&pair[0], &pair[1]))
      continue;
    status = accel__remedy(
        accel__schema_fail(s, ACCEL_ERROR_UNSUPPORTED, list,
                           "oneOf with alternatives that may hold at the same time"),
        "use anyOf, or give all alternatives different types, or a required property with "
        "different constants");
  }
  free(pair);
  return status;
}

static accel_status add_alternatives(accel__schema *s, const accel__shape *shape, accel__rule *r) {
  const bool one = !shape->any_of;
  if (one) ACCEL_TRY(check_exclusive(s, shape));
  ACCEL_JSON_EACH(branch, one ? shape->one_of : shape->any_of) {
    const accel__clauses list = choose(s, shape, one ? shape->one_clause : shape->any_clause,
                                       one ? ACCEL__CHOSE_ONE : ACCEL__CHOSE_ANY, branch);
    if (!list.n) return ACCEL_ERROR_OUT_OF_MEMORY;
    accel__rule_call(r, 0, accel__schema_rule(s, list), 1);
  }
  return s->rules->status;
}

/* ---- all of it ---- */

static accel_status add_types(accel__schema *s, const accel__shape *shape, accel__rule *r) {
  const unsigned types = shape->types;
  if (types == ACCEL__TYPE_ALL && !shape->mentioned && !shape->typed) {
    accel__rule_call(r, 0, accel__json_value_rule(&s->parts), 1);
    return s->rules->status;
  }
  if (types & ACCEL__TYPE_NULL) accel__rule_empty(r, accel__rule_text(r, 0, "null"), 1);
  if (types & ACCEL__TYPE_BOOLEAN) {
    accel__rule_empty(r, accel__rule_text(r, 0, "true"), 1);
    accel__rule_empty(r, accel__rule_text(r, 0, "false"), 1);
  }
  if (types & ACCEL__TYPE_OBJECT) ACCEL_TRY(accel__schema_object(s, shape, r));
  if (types & ACCEL__TYPE_ARRAY) ACCEL_TRY(accel__schema_array(s, shape, r));
  if (types & ACCEL__TYPE_STRING) ACCEL_TRY(accel__schema_string(s, shape, r));
  if (types & (ACCEL__TYPE_INTEGER | ACCEL__TYPE_FRACTION))
    ACCEL_TRY(accel__schema_number(s, shape, !(types & ACCEL__TYPE_FRACTION), r));
  return s->rules->status;
}

static accel_status make_rule(accel__schema *s, accel__shape *shape, accel__clauses clauses,
                              accel__rule *r) {
  bool listed;
  ACCEL_TRY(accel__shape_read(s, clauses, shape));
  if (shape->any_of || shape->one_of) return add_alternatives(s, shape, r);
  ACCEL_TRY(accel__schema_add_listed(s, shape, r, &listed));
  return listed ? ACCEL_OK : add_types(s, shape, r);
}

accel_status accel__schema_add(accel__json_parts *parts, const accel__json *schema,
                               accel__rule **out) {
  accel__rules *rules = parts->rules;
  accel__schema s = {.rules = rules, .parts = *parts, .root = schema};
  accel__shape *shape = malloc(sizeof *shape);
  accel_status status = ACCEL_OK;
  *out = NULL;
  if (!shape) ACCEL_GOTO(accel__no_memory(sizeof *shape));
  const accel__clause root = (accel__clause)schema;
  *out = accel__schema_rule(&s, (accel__clauses){&root, 1});
  ACCEL_GOTO(rules->status);
  for (size_t i = 0; i < s.n_jobs; i++) {
    const accel__schema_job job = s.job[i];
    ACCEL_GOTO(make_rule(&s, shape, job.clauses, job.rule));
    ACCEL_GOTO(rules->status);
  }
done:
  *parts = s.parts;
  free(shape);
  free(s.job);
  accel__map_free(&s.known);
  accel__arena_free(&s.arena);
  return status;
}

accel_status accel__schema_rules(accel__rules *rules, const char *text, size_t n) {
  accel__json_parts parts = {.rules = rules};
  accel__json_file file = {0};
  accel__rule *made;
  accel_status status = accel__json_parse(text, n, "JSON schema", &file);
  if (status == ACCEL_ERROR_FORMAT) status = accel__wrap(ACCEL_ERROR_ARGUMENT, "grammar");
  if (status == ACCEL_OK) status = accel__schema_add(&parts, file.root, &made);
  accel__json_free(&file);
  return status;
}
