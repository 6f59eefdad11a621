/* schema.c - the checker: walks value and schema together, keeping the path of the value for
 * messages. */
#include "registry/schema.h"

#include <math.h>
#include <regex.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/text.h"

typedef struct checker {
  const accel__json *definitions;
  const char *file;
  char path[256]; /* "models[3].id" */
  size_t n;
} checker;

static accel_status bad(const checker *c, const char *format, ...) ACCEL_PRINTF(2, 3);
static accel_status bad(const checker *c, const char *format, ...) {
  char what[300];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(what, sizeof what, format, arguments);
  va_end(arguments);
  if (!c->n) return accel__fail(ACCEL_ERROR_FORMAT, "%s: %s", c->file, what);
  return accel__fail(ACCEL_ERROR_FORMAT, "%s: field '%s' %s", c->file, c->path, what);
}

static size_t entered(checker *c, int written) {
  size_t before = c->n;
  if (written > 0)
    c->n += (size_t)written < sizeof c->path - c->n ? (size_t)written : sizeof c->path - c->n - 1;
  return before;
}

static size_t enter_member(checker *c, const char *name) {
  return entered(c, snprintf(c->path + c->n, sizeof c->path - c->n, "%s%s", c->n ? "." : "", name));
}

static size_t enter_item(checker *c, int index) {
  return entered(c, snprintf(c->path + c->n, sizeof c->path - c->n, "[%d]", index));
}

static void leave(checker *c, size_t before) {
  c->n = before;
  c->path[before] = 0;
}

static const char *type_name(const accel__json *value) {
  if (cJSON_IsObject(value)) return "object";
  if (cJSON_IsArray(value)) return "array";
  if (cJSON_IsString(value)) return "string";
  if (cJSON_IsBool(value)) return "boolean";
  if (cJSON_IsNull(value)) return "null";
  return isfinite(value->valuedouble) && value->valuedouble == trunc(value->valuedouble) ? "integer"
                                                                                         : "number";
}

static accel_status check(checker *c, const accel__json *schema, const accel__json *value);

static const accel__json *definition(const checker *c, const char *reference) {
  static const char prefix[] = "#/definitions/";
  return accel__starts_with(reference, prefix)
             ? accel__json_get(c->definitions, reference + sizeof prefix - 1)
             : NULL;
}

static accel_status check_type(checker *c, const accel__json *wanted, const accel__json *value) {
  const char *is = type_name(value);
  if (strcmp(is, wanted->valuestring) == 0 ||
      (strcmp(is, "integer") == 0 && strcmp(wanted->valuestring, "number") == 0))
    return ACCEL_OK;
  return bad(c, "is of type %s, expected %s", is, wanted->valuestring);
}

static accel_status check_enum(checker *c, const accel__json *list, const char *text) {
  accel__buffer known = {0};
  ACCEL_JSON_EACH(item, list) {
    if (cJSON_IsString(item) && text && strcmp(item->valuestring, text) == 0) {
      accel__buffer_free(&known);
      return ACCEL_OK;
    }
    accel__buffer_printf(&known, "%s%s", known.n ? ", " : "",
                         cJSON_IsString(item) ? item->valuestring : "?");
  }
  accel_status status = bad(c, "is '%.60s', expected one of: %s", text ? text : "(no string)",
                            known.data ? known.data : "");
  accel__buffer_free(&known);
  return status;
}

static accel_status check_pattern(checker *c, const char *pattern, const char *text) {
  regex_t compiled;
  if (regcomp(&compiled, pattern, REG_EXTENDED | REG_NOSUB) != 0)
    return bad(c, "has a schema pattern that cannot be compiled: %s", pattern);
  int no_match = regexec(&compiled, text, 0, NULL, 0);
  regfree(&compiled);
  return no_match ? bad(c, "is '%.60s', which does not match %s", text, pattern) : ACCEL_OK;
}

static accel_status check_string(checker *c, const accel__json *keyword, const accel__json *value) {
  const char *key = keyword->string;
  if (!cJSON_IsString(value)) return ACCEL_OK;
  size_t n = strlen(value->valuestring);
  if (strcmp(key, "minLength") == 0 && (double)n < keyword->valuedouble)
    return bad(c, "is too short");
  if (strcmp(key, "maxLength") == 0 && (double)n > keyword->valuedouble)
    return bad(c, "is longer than %g bytes", keyword->valuedouble);
  if (strcmp(key, "pattern") == 0)
    return check_pattern(c, keyword->valuestring, value->valuestring);
  return ACCEL_OK;
}

static accel_status check_number(checker *c, const accel__json *keyword, const accel__json *value) {
  if (!cJSON_IsNumber(value)) return ACCEL_OK;
  if (strcmp(keyword->string, "minimum") == 0 && !(value->valuedouble >= keyword->valuedouble))
    return bad(c, "is %g, expected at least %g", value->valuedouble, keyword->valuedouble);
  if (strcmp(keyword->string, "maximum") == 0 && !(value->valuedouble <= keyword->valuedouble))
    return bad(c, "is %g, expected at most %g", value->valuedouble, keyword->valuedouble);
  return ACCEL_OK;
}

static accel_status check_array(checker *c, const accel__json *keyword, const accel__json *value) {
  if (!cJSON_IsArray(value)) return ACCEL_OK;
  int n = cJSON_GetArraySize(value), i = 0;
  if (strcmp(keyword->string, "minItems") == 0 && n < keyword->valuedouble)
    return bad(c, "has %d items, expected at least %g", n, keyword->valuedouble);
  if (strcmp(keyword->string, "maxItems") == 0 && n > keyword->valuedouble)
    return bad(c, "has %d items, expected at most %g", n, keyword->valuedouble);
  if (strcmp(keyword->string, "items") != 0) return ACCEL_OK;
  ACCEL_JSON_EACH(item, value) {
    size_t before = enter_item(c, i++);
    ACCEL_TRY(check(c, keyword, item));
    leave(c, before);
  }
  return ACCEL_OK;
}

static accel_status check_required(checker *c, const accel__json *required,
                                   const accel__json *value) {
  ACCEL_JSON_EACH(name, required) {
    if (cJSON_IsString(name) && !cJSON_GetObjectItemCaseSensitive(value, name->valuestring))
      return bad(c, "lacks '%s'", name->valuestring);
  }
  return ACCEL_OK;
}

/* properties, propertyNames and additionalProperties together: each member goes to its own schema,
 * or to additionalProperties. */
static accel_status check_members(checker *c, const accel__json *schema, const accel__json *value) {
  const accel__json *properties = accel__json_get(schema, "properties"),
                    *names = accel__json_get(schema, "propertyNames");
  const accel__json *others = cJSON_GetObjectItemCaseSensitive(schema, "additionalProperties");
  ACCEL_JSON_EACH(member, value) {
    const accel__json *own = accel__json_get(properties, member->string);
    const cJSON name = {.type = cJSON_String, .valuestring = member->string};
    size_t before = enter_member(c, member->string);
    if (names) ACCEL_TRY(check(c, names, &name));
    if (own)
      ACCEL_TRY(check(c, own, member));
    else if (cJSON_IsFalse(others))
      return bad(c, "is not a field of the format");
    else if (cJSON_IsObject(others))
      ACCEL_TRY(check(c, others, member));
    leave(c, before);
  }
  return ACCEL_OK;
}

static accel_status check(checker *c, const accel__json *schema, const accel__json *value) {
  ACCEL_JSON_EACH(keyword, schema) {
    const char *key = keyword->string;
    if (strcmp(key, "$ref") == 0) {
      const accel__json *target = definition(c, keyword->valuestring);
      if (!target)
        return bad(c, "has a schema reference that leads nowhere: %s", keyword->valuestring);
      ACCEL_TRY(check(c, target, value));
    } else if (strcmp(key, "type") == 0) {
      ACCEL_TRY(check_type(c, keyword, value));
    } else if (strcmp(key, "enum") == 0) {
      ACCEL_TRY(check_enum(c, keyword, cJSON_IsString(value) ? value->valuestring : NULL));
    } else if (strcmp(key, "required") == 0 && cJSON_IsObject(value)) {
      ACCEL_TRY(check_required(c, keyword, value));
    }
    ACCEL_TRY(check_string(c, keyword, value));
    ACCEL_TRY(check_number(c, keyword, value));
    ACCEL_TRY(check_array(c, keyword, value));
  }
  return cJSON_IsObject(value) ? check_members(c, schema, value) : ACCEL_OK;
}

accel_status accel__schema_check(const accel__json *schema, const char *name,
                                 const accel__json *value, const char *file) {
  checker c = {.definitions = accel__json_get(schema, "definitions"), .file = file};
  const accel__json *found = accel__json_get(c.definitions, name);
  if (!found)
    return accel__fail(ACCEL_ERROR_INTERNAL, "%s: the schema has no definition '%s'", file, name);
  return check(&c, found, value);
}

/* ---- the schema itself ---- */

static bool one_of(const char *text, const char *const *list) {
  for (; *list; list++) {
    if (strcmp(text, *list) == 0) return true;
  }
  return false;
}

static accel_status check_schema(checker *c, const accel__json *schema);

static accel_status check_keyword(checker *c, const accel__json *keyword) {
  static const char *const texts[] = {"type",  "pattern",     "$schema",  "$id",
                                      "title", "description", "$comment", NULL};
  static const char *const numbers[] = {"minimum",  "maximum",  "minLength", "maxLength",
                                        "minItems", "maxItems", NULL};
  static const char *const lists[] = {"enum", "required", "examples", NULL};
  const char *key = keyword->string;
  if (strcmp(key, "$ref") == 0)
    return cJSON_IsString(keyword) && definition(c, keyword->valuestring) ? ACCEL_OK
                                                                          : bad(c, "leads nowhere");
  if (one_of(key, texts)) return cJSON_IsString(keyword) ? ACCEL_OK : bad(c, "is no string");
  if (one_of(key, numbers)) return cJSON_IsNumber(keyword) ? ACCEL_OK : bad(c, "is no number");
  if (one_of(key, lists)) return cJSON_IsArray(keyword) ? ACCEL_OK : bad(c, "is no array");
  if (strcmp(key, "properties") == 0 || strcmp(key, "definitions") == 0) {
    ACCEL_JSON_EACH(member, keyword) {
      size_t before = enter_member(c, member->string);
      ACCEL_TRY(check_schema(c, member));
      leave(c, before);
    }
    return cJSON_IsObject(keyword) ? ACCEL_OK : bad(c, "is no object");
  }
  if (strcmp(key, "additionalProperties") == 0 && cJSON_IsBool(keyword)) return ACCEL_OK;
  if (strcmp(key, "items") == 0 || strcmp(key, "propertyNames") == 0 ||
      strcmp(key, "additionalProperties") == 0)
    return check_schema(c, keyword);
  return bad(c, "is a keyword that the checker does not know");
}

static accel_status check_schema(checker *c, const accel__json *schema) {
  if (!cJSON_IsObject(schema)) return bad(c, "is no schema object");
  ACCEL_JSON_EACH(keyword, schema) {
    size_t before = enter_member(c, keyword->string);
    ACCEL_TRY(check_keyword(c, keyword));
    leave(c, before);
  }
  return ACCEL_OK;
}

accel_status accel__schema_check_itself(const accel__json *schema, const char *file) {
  checker c = {.definitions = accel__json_get(schema, "definitions"), .file = file};
  return check_schema(&c, schema);
}
