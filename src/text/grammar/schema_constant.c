/* schema_constant.c - values that a schema lists: enum, const, and those of null and boolean. */
#include <math.h>
#include <string.h>

#include "text/grammar/schema_internal.h"

static void write_number(const accel__json *value, accel__buffer *b) {
  const char *text = value->valuestring;
  accel__buffer_bytes(b, text, strspn(text, "+-0123456789.eE"));
}

static void write_scalar(const accel__json *value, accel__buffer *b) {
  if (cJSON_IsNumber(value))
    write_number(value, b);
  else
    accel__buffer_text(b, cJSON_IsNull(value) ? "null" : cJSON_IsTrue(value) ? "true" : "false");
}

/* The value as compact JSON, from state 0 to 1 of `r`, on a stack of its own. */
static void add_constant(accel__rule *r, const accel__json *whole) {
  const accel__json *stack[260];
  uint32_t depth = 0, at = 0;
  for (const accel__json *v = whole; v;) {
    if (v->string && v != whole) {
      at = accel__rule_json_text(r, accel__rule_text(r, at, "\""), v->string, strlen(v->string));
      at = accel__rule_text(r, at, "\":");
    }
    if (cJSON_IsString(v)) {
      at = accel__rule_text(r, at, "\"");
      at = accel__rule_json_text(r, at, v->valuestring, strlen(v->valuestring));
      at = accel__rule_text(r, at, "\"");
    } else if (cJSON_IsObject(v) || cJSON_IsArray(v)) {
      at = accel__rule_text(r, at, cJSON_IsObject(v) ? "{" : "[");
      if (v->child && depth < 259) {
        stack[depth++] = v;
        v = v->child;
        continue;
      }
      at = accel__rule_text(r, at, cJSON_IsObject(v) ? "}" : "]");
    } else {
      accel__buffer b = {0};
      write_scalar(v, &b);
      accel__rules_fail(r->rules, accel__buffer_status(&b));
      if (b.data) at = accel__rule_literal(r, at, b.data, b.n);
      accel__buffer_free(&b);
    }
    while (depth && (v == whole || !v->next)) {
      v = stack[--depth];
      at = accel__rule_text(r, at, cJSON_IsObject(v) ? "}" : "]");
    }
    if (v == whole) break;
    at = accel__rule_text(r, at, ",");
    v = v->next;
  }
  accel__rule_empty(r, at, 1);
}

static unsigned type_of(const accel__json *v) {
  if (cJSON_IsNull(v)) return ACCEL__TYPE_NULL;
  if (cJSON_IsBool(v)) return ACCEL__TYPE_BOOLEAN;
  if (cJSON_IsObject(v)) return ACCEL__TYPE_OBJECT;
  if (cJSON_IsArray(v)) return ACCEL__TYPE_ARRAY;
  if (cJSON_IsString(v)) return ACCEL__TYPE_STRING;
  return v->valuedouble == floor(v->valuedouble) ? ACCEL__TYPE_INTEGER : ACCEL__TYPE_FRACTION;
}

static bool holds(const accel__json *list, const accel__json *v) {
  ACCEL_JSON_EACH(other, list) if (cJSON_Compare(other, v, true)) return true;
  return false;
}

/* Do `type`, `enum` and `const` of all clauses allow the value? */
static bool is_allowed(const accel__shape *shape, const accel__json *v) {
  if (!(shape->types & type_of(v))) return false;
  ACCEL__SHAPE_EACH(list, shape, "enum") if (!holds(list, v)) return false;
  ACCEL__SHAPE_EACH(one, shape, "const") if (!cJSON_Compare(one, v, true)) return false;
  return true;
}

/* Keywords whose conditions are not looked at for values that are listed. */
static accel_status check_listed(const accel__schema *s, const accel__shape *shape) {
  static const char *const others[] = {"properties", "required",         "additionalProperties",
                                       "items",      "prefixItems",      "minItems",
                                       "maxItems",   "pattern",          "minLength",
                                       "maxLength",  "format",           "minimum",
                                       "maximum",    "exclusiveMinimum", "exclusiveMaximum",
                                       "multipleOf", "uniqueItems",      "patternProperties"};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    uint32_t at;
    const accel__json *found = accel__shape_find(shape, others[i], 0, &at);
    if (found)
      return accel__remedy(
          accel__schema_fail(s, ACCEL_ERROR_UNSUPPORTED, found,
                             "'%s' beside enum or const is not supported", others[i]),
          "leave it out, and list the values for which it holds");
  }
  return ACCEL_OK;
}

const accel__json *accel__shape_listed(const accel__shape *shape, bool *one) {
  uint32_t at;
  const accel__json *value = accel__shape_find(shape, "const", 0, &at);
  *one = value != NULL;
  return value ? value : accel__shape_find(shape, "enum", 0, &at);
}

accel_status accel__schema_add_listed(accel__schema *s, const accel__shape *shape, accel__rule *r,
                                      bool *found) {
  bool one;
  const accel__json *values = accel__shape_listed(shape, &one);
  *found = values != NULL;
  if (!values) return ACCEL_OK;
  ACCEL_TRY(check_listed(s, shape));
  if (one && is_allowed(shape, values)) add_constant(r, values);
  ACCEL_JSON_EACH(v, one ? NULL : values) if (is_allowed(shape, v)) add_constant(r, v);
  return s->rules->status;
}

bool accel__listed_apart(const accel__json *a, bool a_one, const accel__json *b, bool b_one) {
  if (!a || !b) return false;
  for (const accel__json *x = a_one ? a : a->child; x; x = a_one ? NULL : x->next)
    if (b_one ? cJSON_Compare(x, b, true) : holds(b, x)) return false;
  return true;
}

/* ---- values one by one ---- */

bool accel__listed_equal(const accel__listed *a, const accel__listed *b) {
  if (a->value && b->value) return cJSON_Compare(a->value, b->value, true);
  if (!a->value && !b->value) return !strcmp(a->text, b->text);
  const accel__json *value = a->value ? a->value : b->value;
  const char *text = a->value ? b->text : a->text;
  return !strcmp(text, cJSON_IsNull(value)    ? "null"
                       : cJSON_IsTrue(value)  ? "true"
                       : cJSON_IsFalse(value) ? "false"
                                              : "");
}

void accel__listed_add(accel__rule *r, const accel__listed *value) {
  if (value->value)
    add_constant(r, value->value);
  else
    accel__rule_empty(r, accel__rule_text(r, 0, value->text), 1);
}

static uint32_t add_value(accel__listed *out, uint32_t n, uint32_t most, accel__listed value) {
  for (uint32_t i = 0; i < n; i++)
    if (accel__listed_equal(&out[i], &value)) return n;
  if (n < most) out[n] = value;
  return n + 1;
}

accel_status accel__shape_values(const accel__schema *s, const accel__shape *shape, uint32_t most,
                                 accel__listed *out, uint32_t *n) {
  static const struct {
    unsigned type;
    const char *text;
  } words[] = {
      {ACCEL__TYPE_NULL, "null"}, {ACCEL__TYPE_BOOLEAN, "true"}, {ACCEL__TYPE_BOOLEAN, "false"}};
  bool one;
  const accel__json *values = accel__shape_listed(shape, &one);
  *n = UINT32_MAX;
  if (shape->any_of || shape->one_of) return ACCEL_OK;
  if (!values && (shape->types & ~(unsigned)(ACCEL__TYPE_NULL | ACCEL__TYPE_BOOLEAN)))
    return ACCEL_OK;
  *n = 0;
  for (int i = 0; i < 3 && !values; i++)
    if (shape->types & words[i].type)
      *n = add_value(out, *n, most, (accel__listed){.text = words[i].text});
  if (values) ACCEL_TRY(check_listed(s, shape));
  if (one && is_allowed(shape, values)) out[(*n)++] = (accel__listed){.value = values};
  ACCEL_JSON_EACH(v, one ? NULL : values)
  if (is_allowed(shape, v) && *n <= most)
    *n = add_value(out, *n, most, (accel__listed){.value = v});
  return ACCEL_OK;
}
