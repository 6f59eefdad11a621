/* schema_shape.c - the keywords of a list of clauses: which there are, what `$ref` refers to, and
 * where a failure is. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/grammar/schema_internal.h"

/* ---- where a node is ---- */

static void add_name(accel__buffer *b, const char *name) {
  accel__buffer_text(b, "/");
  for (const char *c = name; *c; c++) {
    if (*c == '~' || *c == '/')
      accel__buffer_text(b, *c == '~' ? "~0" : "~1");
    else
      accel__buffer_bytes(b, c, 1);
  }
}

/* The way from the root to `node` as a JSON pointer, by a search on a stack of its own. */
static void add_pointer(accel__buffer *b, const accel__json *root, const accel__json *node) {
  const accel__json *way[260] = {root};
  uint32_t depth = 1;
  while (depth && way[depth - 1] != node) {
    const accel__json *at = way[depth - 1];
    if (at->child && depth < 259) {
      way[depth++] = at->child;
      continue;
    }
    while (depth > 1 && !way[depth - 1]->next) depth--;
    if (depth == 1) break;
    way[depth - 1] = way[depth - 1]->next;
  }
  accel__buffer_text(b, "#");
  for (uint32_t i = 1; i < depth; i++) {
    uint32_t number = 0;
    for (const accel__json *x = way[i - 1]->child; x && x != way[i]; x = x->next) number++;
    if (!way[i]->string) accel__buffer_printf(b, "/%u", number);
    if (way[i]->string) add_name(b, way[i]->string);
  }
}

accel_status accel__schema_fail(const accel__schema *s, accel_status code, const accel__json *at,
                                const char *format, ...) {
  char what[400];
  accel__buffer pointer = {0};
  va_list list;
  va_start(list, format);
  vsnprintf(what, sizeof what, format, list);
  va_end(list);
  add_pointer(&pointer, s->root, at);
  accel__fail(code, "JSON schema: at %.300s: %s", pointer.data ? pointer.data : "#", what);
  accel__buffer_free(&pointer);
  return code;
}

/* ---- keywords ---- */

/* What is done with a keyword. */
typedef enum handling {
  READ,    /* by whoever needs it; `types` are what it is about */
  SCHEMAS, /* holds schemas that others refer to */
  NOTHING, /* says nothing about values */
  REFUSED  /* not supported, unless it holds `harmless` */
} handling;

static const struct {
  const char *name;
  handling how;
  unsigned types;
  const char *harmless; /* "true", "false", "0"; NULL */
} keywords[] = {
    {"type", READ, 0, NULL},
    {"enum", READ, 0, NULL},
    {"const", READ, 0, NULL},
    {"anyOf", READ, 0, NULL},
    {"oneOf", READ, 0, NULL},
    {"allOf", READ, 0, NULL},
    {"$ref", READ, 0, NULL},
    {"properties", READ, ACCEL__TYPE_OBJECT, NULL},
    {"required", READ, ACCEL__TYPE_OBJECT, NULL},
    {"patternProperties", READ, ACCEL__TYPE_OBJECT, NULL},
    {"additionalProperties", READ, ACCEL__TYPE_OBJECT, NULL},
    {"items", READ, ACCEL__TYPE_ARRAY, NULL},
    {"prefixItems", READ, ACCEL__TYPE_ARRAY, NULL},
    {"minItems", READ, ACCEL__TYPE_ARRAY, NULL},
    {"maxItems", READ, ACCEL__TYPE_ARRAY, NULL},
    {"uniqueItems", READ, ACCEL__TYPE_ARRAY, NULL},
    {"pattern", READ, ACCEL__TYPE_STRING, NULL},
    {"minLength", READ, ACCEL__TYPE_STRING, NULL},
    {"maxLength", READ, ACCEL__TYPE_STRING, NULL},
    {"format", READ, ACCEL__TYPE_STRING, NULL},
    {"minimum", READ, ACCEL__TYPE_INTEGER | ACCEL__TYPE_FRACTION, NULL},
    {"maximum", READ, ACCEL__TYPE_INTEGER | ACCEL__TYPE_FRACTION, NULL},
    {"exclusiveMinimum", READ, ACCEL__TYPE_INTEGER | ACCEL__TYPE_FRACTION, NULL},
    {"exclusiveMaximum", READ, ACCEL__TYPE_INTEGER | ACCEL__TYPE_FRACTION, NULL},
    {"multipleOf", READ, ACCEL__TYPE_INTEGER | ACCEL__TYPE_FRACTION, NULL},
    {"$defs", SCHEMAS, 0, NULL},
    {"definitions", SCHEMAS, 0, NULL},
    {"$schema", NOTHING, 0, NULL},
    {"$id", NOTHING, 0, NULL},
    {"$comment", NOTHING, 0, NULL},
    {"title", NOTHING, 0, NULL},
    {"description", NOTHING, 0, NULL},
    {"default", NOTHING, 0, NULL},
    {"examples", NOTHING, 0, NULL},
    {"deprecated", NOTHING, 0, NULL},
    {"readOnly", NOTHING, 0, NULL},
    {"writeOnly", NOTHING, 0, NULL},
    {"minProperties", REFUSED, 0, "0"},
    {"minContains", REFUSED, 0, NULL},
};

static bool is_harmless(const accel__json *value, const char *harmless) {
  if (!harmless) return false;
  if (*harmless == '0') return cJSON_IsNumber(value) && value->valuedouble == 0;
  return *harmless == 'f' ? cJSON_IsFalse(value) : cJSON_IsTrue(value);
}

static accel_status check_keyword(const accel__schema *s, const accel__json *member,
                                  unsigned *mentioned) {
  for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++) {
    if (strcmp(keywords[i].name, member->string) != 0) continue;
    *mentioned |= keywords[i].types;
    if (keywords[i].how != REFUSED || is_harmless(member, keywords[i].harmless)) return ACCEL_OK;
    break;
  }
  return accel__remedy(accel__schema_fail(s, ACCEL_ERROR_UNSUPPORTED, member,
                                          "keyword '%.80s' is not supported", member->string),
                       "remove it; docs/constrained.md lists the keywords that are");
}

/* ---- references ---- */

static int hex_digit(char c) {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                : -1;
}

/* One name of a pointer, at *at behind its "/"; ~0 and ~1, %XX. */
static void read_name(const char **at, accel__buffer *out) {
  const char *c = *at;
  out->n = 0;
  accel__buffer_text(out, "");
  while (*c && *c != '/') {
    char byte = *c++;
    if (byte == '%' && hex_digit(c[0]) >= 0 && hex_digit(c[1]) >= 0) {
      byte = (char)(hex_digit(c[0]) * 16 + hex_digit(c[1]));
      c += 2;
    }
    if (byte == '~' && (*c == '0' || *c == '1')) byte = *c++ == '0' ? '~' : '/';
    accel__buffer_bytes(out, &byte, 1);
  }
  *at = c;
}

static const accel__json *element(const accel__json *list, const char *name) {
  char *end;
  const unsigned long number = strtoul(name, &end, 10);
  const accel__json *at = list->child;
  if (!*name || *end) return NULL;
  for (unsigned long i = 0; at && i < number; i++) at = at->next;
  return at;
}

static accel_status resolve(const accel__schema *s, const accel__json *ref,
                            const accel__json **out) {
  const accel__json *at = s->root;
  accel__buffer name = {0};
  if (!cJSON_IsString(ref) || ref->valuestring[0] != '#' ||
      (ref->valuestring[1] && ref->valuestring[1] != '/'))
    return accel__remedy(
        accel__schema_fail(s, ACCEL_ERROR_UNSUPPORTED, ref, "$ref '%.80s' is not supported",
                           cJSON_IsString(ref) ? ref->valuestring : "(no text)"),
        "refer to places of the same schema: #/$defs/NAME");
  for (const char *c = ref->valuestring + 1; at && *c == '/';) {
    c++;
    read_name(&c, &name);
    at = cJSON_IsArray(at) ? element(at, name.data ? name.data : "")
                           : accel__json_get(at, name.data ? name.data : "");
  }
  const accel_status status = accel__buffer_status(&name);
  accel__buffer_free(&name);
  ACCEL_TRY(status);
  if (!at)
    return accel__schema_fail(s, ACCEL_ERROR_ARGUMENT, ref, "$ref '%.80s' leads nowhere",
                              ref->valuestring);
  *out = at;
  return ACCEL_OK;
}

/* ---- shapes ---- */

static accel_status add_clause(const accel__schema *s, accel__shape *shape, accel__clause c) {
  const accel__json *node = accel__clause_node(c);
  for (uint32_t i = 0; i < shape->n; i++)
    if (accel__clause_node(shape->clause[i]) == node) return ACCEL_OK;
  if (!cJSON_IsObject(node) && !cJSON_IsBool(node))
    return accel__schema_fail(s, ACCEL_ERROR_ARGUMENT, node, "no schema: an object is expected");
  if (shape->n == ACCEL__SHAPE_CLAUSES)
    return accel__schema_fail(s, ACCEL_ERROR_LIMIT, node, "more than %d schemas at one place",
                              ACCEL__SHAPE_CLAUSES);
  shape->clause[shape->n++] = c;
  return ACCEL_OK;
}

static accel_status read_type(const accel__schema *s, const accel__json *name, unsigned *types) {
  static const struct {
    const char *name;
    unsigned types;
  } known[] = {{"null", ACCEL__TYPE_NULL},
               {"boolean", ACCEL__TYPE_BOOLEAN},
               {"object", ACCEL__TYPE_OBJECT},
               {"array", ACCEL__TYPE_ARRAY},
               {"string", ACCEL__TYPE_STRING},
               {"integer", ACCEL__TYPE_INTEGER},
               {"number", ACCEL__TYPE_INTEGER | ACCEL__TYPE_FRACTION}};
  for (size_t i = 0; i < sizeof known / sizeof *known && cJSON_IsString(name); i++)
    if (!strcmp(known[i].name, name->valuestring)) {
      *types |= known[i].types;
      return ACCEL_OK;
    }
  return accel__schema_fail(s, ACCEL_ERROR_ARGUMENT, name, "no type of JSON Schema");
}

static accel_status read_types(const accel__schema *s, const accel__json *value,
                               accel__shape *shape) {
  unsigned types = 0;
  if (!value) return ACCEL_OK;
  if (!cJSON_IsArray(value)) ACCEL_TRY(read_type(s, value, &types));
  ACCEL_JSON_EACH(name, cJSON_IsArray(value) ? value : NULL)
  ACCEL_TRY(read_type(s, name, &types));
  shape->types &= types;
  shape->typed = true;
  return ACCEL_OK;
}

static accel_status check_list(const accel__schema *s, const accel__json *value) {
  if (!value || (cJSON_IsArray(value) && value->child)) return ACCEL_OK;
  return accel__schema_fail(s, ACCEL_ERROR_ARGUMENT, value, "a list with elements is expected");
}

static accel_status read_clause(accel__schema *s, accel__shape *shape, uint32_t i) {
  const accel__clause c = shape->clause[i];
  const accel__json *node = accel__clause_node(c), *ref = accel__json_get(node, "$ref"), *to = NULL;
  if (cJSON_IsBool(node)) {
    if (cJSON_IsFalse(node)) shape->types = 0;
    return ACCEL_OK;
  }
  ACCEL_JSON_EACH(member, node) ACCEL_TRY(check_keyword(s, member, &shape->mentioned));
  ACCEL_TRY(read_types(s, accel__json_get(node, "type"), shape));
  if (ref) {
    ACCEL_TRY(resolve(s, ref, &to));
    ACCEL_TRY(add_clause(s, shape, (accel__clause)to));
  }
  static const char *const lists[] = {"allOf", "anyOf", "oneOf", "enum"};
  for (int k = 0; k < 4; k++) ACCEL_TRY(check_list(s, accel__json_get(node, lists[k])));
  ACCEL_JSON_EACH(part, accel__json_get(node, "allOf"))
  ACCEL_TRY(add_clause(s, shape, (accel__clause)part));
  const accel__json *any = accel__json_get(node, "anyOf"), *one = accel__json_get(node, "oneOf");
  if (any && !(c & ACCEL__CHOSE_ANY) && !shape->any_of) shape->any_of = any, shape->any_clause = i;
  if (one && !(c & ACCEL__CHOSE_ONE) && !shape->one_of) shape->one_of = one, shape->one_clause = i;
  return ACCEL_OK;
}

accel_status accel__shape_read(accel__schema *s, accel__clauses clauses, accel__shape *out) {
  out->n = 0;
  out->types = ACCEL__TYPE_ALL;
  out->typed = false;
  out->mentioned = 0;
  out->any_of = out->one_of = NULL;
  if (!clauses.at) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < clauses.n; i++) ACCEL_TRY(add_clause(s, out, clauses.at[i]));
  for (uint32_t i = 0; i < out->n; i++) ACCEL_TRY(read_clause(s, out, i));
  /* without a type it is one that the keywords are about */
  if (!out->typed && out->mentioned) out->types &= out->mentioned;
  return ACCEL_OK;
}

const accel__json *accel__shape_find(const accel__shape *shape, const char *keyword, uint32_t from,
                                     uint32_t *at) {
  for (uint32_t i = from; i < shape->n; i++) {
    const accel__json *node = accel__clause_node(shape->clause[i]), *found = NULL;
    /* null is a constant like others, and duplicates count as their last */
    ACCEL_JSON_EACH(member, cJSON_IsObject(node) ? node : NULL)
    if (!strcmp(member->string, keyword)) found = member;
    *at = i;
    if (found) return found;
  }
  return NULL;
}
