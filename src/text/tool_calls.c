/* tool_calls.c - which family a template belongs to, and the tools of a request. */
#include "text/tool_calls.h"

#include <stdlib.h>
#include <string.h>

const accel__tool_family accel__tool_families[] = {
#define FAMILY(name_, ...) {.name = name_, __VA_ARGS__},
#include "text/tool_families.def"
};
const size_t accel__tool_family_count = sizeof accel__tool_families / sizeof *accel__tool_families;

/* ---- families ---- */

static bool has_marks(const char *text, const accel__tool_family *f) {
  if (f->also && strstr(text, f->also)) return true;
  for (size_t i = 0; i < sizeof f->marks / sizeof *f->marks && f->marks[i]; i++)
    if (!strstr(text, f->marks[i])) return false;
  return !f->unless || !strstr(text, f->unless);
}

bool accel__tool_is_text(const accel__json *schema) {
  const accel__json *type = accel__json_get(schema, "type");
  return !type || (cJSON_IsString(type) && !strcmp(type->valuestring, "string"));
}

static accel_status unknown_family(const char *what) {
  accel__buffer names = {0};
  for (size_t i = 0; i < accel__tool_family_count; i++)
    accel__buffer_printf(&names, "%s%s", i ? ", " : "", accel__tool_families[i].name);
  const accel_status status =
      accel__remedy(accel__fail(ACCEL_ERROR_UNSUPPORTED, "tools: %s; known are %s", what,
                                names.data ? names.data : ""),
                    "name the family that the model was trained for");
  accel__buffer_free(&names);
  return status;
}

static accel_status find_family(const accel__chat_template *chat, const char *name,
                                const accel__tool_family **out) {
  const char *text = chat ? accel__chat_template_for_tools(chat) : "";
  for (size_t i = 0; i < accel__tool_family_count; i++) {
    const accel__tool_family *f = &accel__tool_families[i];
    if (name ? strcmp(f->name, name) != 0 : !has_marks(text, f)) continue;
    *out = f;
    return ACCEL_OK;
  }
  return unknown_family(name ? "no family has this name"
                             : "the chat template shows none of the families that write calls");
}

/* ---- tools ---- */

static bool is_name(const char *text) {
  const size_t n = strlen(text);
  return n && n <= 64 &&
         strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.") == n;
}

const accel__tool *accel__tools_find(const accel_tools *tools, const char *name, size_t n) {
  for (uint32_t i = 0; i < tools->n; i++)
    if (strlen(tools->tool[i].name) == n && !memcmp(tools->tool[i].name, name, n))
      return &tools->tool[i];
  return NULL;
}

static accel_status add_tool(accel_tools *t, const accel__json *item, uint32_t number) {
  const accel__json *type = accel__json_get(item, "type"),
                    *function = accel__json_get(item, "function");
  if (type && cJSON_IsString(type) && strcmp(type->valuestring, "function") != 0)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "tools[%u]: type '%s' is not supported, only function",
                       number, type->valuestring);
  if (!function) function = item; /* the function by itself, as transformers takes it, too */
  const accel__json *name = accel__json_get(function, "name"),
                    *parameters = accel__json_get(function, "parameters");
  if (!name || !cJSON_IsString(name) || !is_name(name->valuestring))
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "tools[%u]: function.name must be 1 to 64 letters, digits, '_', '-' or '.'",
                       number);
  if (parameters && !cJSON_IsObject(parameters))
    return accel__fail(ACCEL_ERROR_ARGUMENT, "tools[%u]: function.parameters is no object", number);
  if (accel__tools_find(t, name->valuestring, strlen(name->valuestring)))
    return accel__fail(ACCEL_ERROR_ARGUMENT, "tools[%u]: '%s' is there twice", number,
                       name->valuestring);
  t->tool[t->n++] = (accel__tool){.name = name->valuestring,
                                  .parameters = parameters,
                                  .strict = cJSON_IsTrue(accel__json_get(function, "strict"))};
  return ACCEL_OK;
}

static accel_status read_tools(accel_tools *t, const char *json, const accel_tools_params *params) {
  accel_status status = accel__json_parse(json, strlen(json), "tools", &t->file);
  if (status == ACCEL_ERROR_FORMAT) status = accel__wrap(ACCEL_ERROR_ARGUMENT, "accel_tools_open");
  ACCEL_TRY(status);
  if (!cJSON_IsArray(t->file.root) || !t->file.root->child)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "tools: expected an array of functions");
  const uint32_t n = (uint32_t)cJSON_GetArraySize(t->file.root);
  uint32_t number = 0;
  t->tool = calloc(n, sizeof *t->tool);
  if (!t->tool) return accel__no_memory(n * sizeof *t->tool);
  ACCEL_JSON_EACH(item, t->file.root) ACCEL_TRY(add_tool(t, item, number++));
  if (!params->name) return ACCEL_OK;
  const accel__tool *one = accel__tools_find(t, params->name, strlen(params->name));
  if (!one) return accel__fail(ACCEL_ERROR_ARGUMENT, "tools: none of them is '%s'", params->name);
  t->tool[0] = *one;
  t->n = 1;
  return ACCEL_OK;
}

accel_status accel__tools_make(const accel__chat_template *chat, const char *json,
                               const accel_tools_params *params, accel_tools **out) {
  accel_tools *t = calloc(1, sizeof *t);
  if (!t) return accel__no_memory(sizeof *t);
  accel_status status = find_family(chat, params->family, &t->family);
  if (status == ACCEL_OK) status = read_tools(t, json, params);
  if (status == ACCEL_OK) status = accel__tools_write_grammar(t, params, &t->grammar);
  if (status == ACCEL_OK)
    *out = t;
  else
    accel__tools_free(t);
  return status;
}

void accel__tools_free(accel_tools *t) {
  if (!t) return;
  accel__json_free(&t->file);
  free(t->tool);
  free(t->grammar);
  free(t);
}
