/* tool_grammar.c - the grammar of a family's calls, as a structural tag. */
#include <stdlib.h>
#include <string.h>

#include "text/grammar/sources.h"
#include "text/tool_calls.h"

typedef struct writer {
  const accel_tools *tools;
  const accel__tool_family *family;
  accel__buffer out;
} writer;

static void add(writer *w, const char *text) { accel__buffer_text(&w->out, text); }

static void add_string(writer *w, const char *text) {
  accel__buffer_json_string(&w->out, text, strlen(text));
}

/* Three texts, one behind the other, as one string. */
static void add_joined(writer *w, const char *a, const char *b, const char *c) {
  accel__buffer text = {0};
  accel__buffer_printf(&text, "%s%s%s", accel__tool_text(a), accel__tool_text(b),
                       accel__tool_text(c));
  if (text.data)
    accel__buffer_json_string(&w->out, text.data, text.n);
  else
    w->out.failed = true;
  accel__buffer_free(&text);
}

/* ---- schemas ---- */

/* Can it be a grammar?  ACCEL_ERROR_UNSUPPORTED and the like say why not. */
static accel_status try_schema(const accel__json *schema) {
  accel__rules rules = {0};
  accel__json_parts parts = {.rules = &rules};
  accel__rule *made;
  const accel_status status = accel__schema_add(&parts, schema, &made);
  accel__rules_free(&rules);
  return status;
}

static accel_status add_schema(writer *w, const accel__json *schema) {
  char *text = cJSON_PrintUnformatted(schema);
  if (!text) return accel__no_memory(0);
  add(w, "{\"type\":\"json_schema\",\"json_schema\":");
  add(w, text);
  add(w, "}");
  cJSON_free(text);
  return ACCEL_OK;
}

static accel_status add_arguments(writer *w, const accel__tool *tool) {
  if (!tool->parameters) {
    add(w, "{\"type\":\"json_schema\",\"json_schema\":{\"type\":\"object\",\"properties\":{}}}");
    return ACCEL_OK;
  }
  const accel_status status = try_schema(tool->parameters);
  if (status == ACCEL_OK) return add_schema(w, tool->parameters);
  if (tool->strict) return accel__wrap(status, "tool '%s'", tool->name);
  add(w, "{\"type\":\"json_schema\",\"json_schema\":{\"type\":\"object\"}}");
  return ACCEL_OK;
}

/* ---- parameters by themselves ---- */

/* The values of one parameter: strings as they are, everything else as JSON. */
static accel_status add_value(writer *w, const accel__json *schema) {
  const accel__json *type = accel__json_get(schema, "type"),
                    *listed = accel__json_get(schema, "enum");
  const bool text = accel__tool_is_text(schema);
  if (type && text && cJSON_IsArray(listed) && listed->child) {
    add(w, "{\"type\":\"or\",\"elements\":[");
    ACCEL_JSON_EACH(item, listed) {
      if (item != listed->child) add(w, ",");
      add(w, "{\"type\":\"const_string\",\"value\":");
      add_string(w, cJSON_IsString(item) ? item->valuestring : "");
      add(w, "}");
    }
    add(w, "]}");
    return ACCEL_OK;
  }
  if (text) {
    const char *close = w->family->parameter_close;
    while (accel__is_blank(*close)) close++;
    const size_t n = strcspn(close, "\n");
    add(w, "{\"type\":\"any_text\",\"excludes\":[");
    accel__buffer_json_string(&w->out, close, n);
    add(w, "]}");
    return ACCEL_OK;
  }
  if (try_schema(schema) == ACCEL_OK) return add_schema(w, schema);
  add(w, "{\"type\":\"json_schema\",\"json_schema\":{}}");
  return ACCEL_OK;
}

static bool is_required(const accel__json *parameters, const char *name) {
  ACCEL_JSON_EACH(item, accel__json_get(parameters, "required"))
  if (cJSON_IsString(item) && !strcmp(item->valuestring, name)) return true;
  return false;
}

static accel_status add_parameters(writer *w, const accel__tool *tool) {
  const accel__tool_family *f = w->family;
  bool first = true;
  add(w, "{\"type\":\"sequence\",\"elements\":[");
  ACCEL_JSON_EACH(item, accel__json_get(tool->parameters, "properties")) {
    const bool required = is_required(tool->parameters, item->string);
    if (!first) add(w, ",");
    first = false;
    if (!required) add(w, "{\"type\":\"optional\",\"content\":");
    add(w, "{\"type\":\"tag\",\"begin\":");
    add_joined(w, f->parameter_open, item->string,
               f->parameter_json_end && !accel__tool_is_text(item) ? f->parameter_json_end
                                                                   : f->parameter_name_end);
    add(w, ",\"content\":");
    ACCEL_TRY(add_value(w, item));
    add(w, ",\"end\":");
    add_string(w, f->parameter_close);
    add(w, required ? "}" : "}}");
  }
  add(w, "]}");
  return ACCEL_OK;
}

/* ---- literals ---- */

static void add_const(writer *w, const char *text) {
  add(w, "{\"type\":\"const_string\",\"value\":");
  add_string(w, text);
  add(w, "}");
}

/* A text in the family's quotes, one of those listed. */
static void add_quoted(writer *w, const accel__json *listed) {
  const char *quote = w->family->quote;
  if (cJSON_IsArray(listed) && listed->child) {
    add(w, "{\"type\":\"or\",\"elements\":[");
    ACCEL_JSON_EACH(item, listed) {
      if (item != listed->child) add(w, ",");
      add(w, "{\"type\":\"const_string\",\"value\":");
      add_joined(w, quote, cJSON_IsString(item) ? item->valuestring : "", quote);
      add(w, "}");
    }
    add(w, "]}");
    return;
  }
  add(w, "{\"type\":\"tag\",\"begin\":");
  add_string(w, quote);
  add(w, ",\"content\":{\"type\":\"any_text\",\"excludes\":[");
  add_string(w, quote);
  if (w->family->python) add(w, ",\"\\\\\"");
  add(w, "]},\"end\":");
  add_string(w, quote);
  add(w, "}");
}

static accel_status add_literal(writer *w, const accel__json *schema) {
  const accel__json *type = accel__json_get(schema, "type"),
                    *listed = accel__json_get(schema, "enum");
  const char *name = type && cJSON_IsString(type) ? type->valuestring : "";
  const bool quotes = w->family->python && !listed; /* those that the text may not have, too */
  if (!strcmp(name, "boolean") && w->family->python) {
    add(w, "{\"type\":\"or\",\"elements\":[");
    add_const(w, "True");
    add(w, ",");
    add_const(w, "False");
    add(w, "]}");
    return ACCEL_OK;
  }
  if (!strcmp(name, "string")) {
    if (quotes) add(w, "{\"type\":\"or\",\"elements\":[");
    add_quoted(w, listed);
    if (quotes) add(w, ",{\"type\":\"json_schema\",\"json_schema\":{\"type\":\"string\"}}]}");
    return ACCEL_OK;
  }
  if (try_schema(schema) == ACCEL_OK) return add_schema(w, schema);
  accel__clear_error();
  add(w, "{\"type\":\"json_schema\",\"json_schema\":{}}");
  return ACCEL_OK;
}

/* One parameter, with the separator in front where another one has come. */
static accel_status add_named_literal(writer *w, const accel__json *item, bool separates) {
  const accel__tool_family *f = w->family;
  accel__buffer head = {0};
  accel__buffer_printf(&head, "%s%s", separates ? f->parameter_separator : "", item->string);
  add(w, "{\"type\":\"tag\",\"begin\":");
  add_joined(w, head.data, f->parameter_name_end, NULL);
  w->out.failed |= head.failed;
  accel__buffer_free(&head);
  add(w, ",\"content\":");
  ACCEL_TRY(add_literal(w, item));
  add(w, ",\"end\":\"\"}");
  return ACCEL_OK;
}

/* Parameters in their order, of which `first` is the first that is there. */
static accel_status add_literals_from(writer *w, const accel__tool *tool,
                                      const accel__json *first) {
  add(w, "{\"type\":\"sequence\",\"elements\":[");
  ACCEL_TRY(add_named_literal(w, first, false));
  for (const accel__json *item = first->next; item; item = item->next) {
    const bool required = is_required(tool->parameters, item->string);
    add(w, required ? "," : ",{\"type\":\"optional\",\"content\":");
    ACCEL_TRY(add_named_literal(w, item, true));
    if (!required) add(w, "}");
  }
  add(w, "]}");
  return ACCEL_OK;
}

/* Any of the parameters up to the first required one may be the first that is there. */
static accel_status add_literals(writer *w, const accel__tool *tool) {
  bool required = false, any = false;
  add(w, "{\"type\":\"or\",\"elements\":[");
  ACCEL_JSON_EACH(item, accel__json_get(tool->parameters, "properties")) {
    if (required) break;
    if (any) add(w, ",");
    any = true;
    ACCEL_TRY(add_literals_from(w, tool, item));
    required = is_required(tool->parameters, item->string);
  }
  if (!required) {
    if (any) add(w, ",");
    add_const(w, "");
  }
  add(w, "]}");
  return ACCEL_OK;
}

/* ---- calls ---- */

/* What stands in front of a call's arguments: in two parts, where a number stands between them. */
static void write_head(const accel__tool_family *f, const char *name, accel__buffer *head,
                       accel__buffer *behind_number) {
  accel__buffer *to = f->number_open ? behind_number : head;
  if (f->style == ACCEL__TOOLS_JSON) {
    accel__buffer_printf(head, "%s{%s", f->open, accel__tool_text(f->number_open));
    if (f->number_open) accel__buffer_text(to, "\", ");
    accel__buffer_printf(to, "\"%s\": \"%s\", \"%s\": ", f->name_key ? f->name_key : "name", name,
                         f->arguments);
  } else {
    accel__buffer_printf(head, "%s%s%s", f->open, name, accel__tool_text(f->number_open));
    accel__buffer_text(to, f->name_end);
  }
}

static accel_status add_tag(writer *w, const accel__tool *tool) {
  const accel__tool_family *f = w->family;
  accel__buffer head = {0}, behind = {0};
  write_head(f, tool->name, &head, &behind);
  add(w, "{\"type\":\"tag\",\"begin\":");
  add_joined(w, head.data, NULL, NULL);
  add(w, ",\"content\":");
  if (f->number_open) {
    add(w,
        "{\"type\":\"sequence\",\"elements\":[{\"type\":\"regex\",\"pattern\":\"[0-9]+\"},"
        "{\"type\":\"const_string\",\"value\":");
    add_joined(w, behind.data, NULL, NULL);
    add(w, "},");
  }
  w->out.failed |= head.failed || behind.failed;
  accel__buffer_free(&head);
  accel__buffer_free(&behind);
  ACCEL_TRY(f->style == ACCEL__TOOLS_PARAMETERS ? add_parameters(w, tool)
            : f->style == ACCEL__TOOLS_LITERALS ? add_literals(w, tool)
                                                : add_arguments(w, tool));
  if (f->number_open) add(w, "]}");
  add(w, ",\"end\":");
  add_joined(w, f->style == ACCEL__TOOLS_JSON ? "}" : "", f->close, NULL);
  add(w, "}");
  return ACCEL_OK;
}

static accel_status add_all_tags(writer *w) {
  add(w, "\"tags\":[");
  for (uint32_t i = 0; i < w->tools->n; i++) {
    if (i) add(w, ",");
    ACCEL_TRY(add_tag(w, &w->tools->tool[i]));
  }
  add(w, "]");
  return ACCEL_OK;
}

/* Calls and nothing else. */
static accel_status add_calls(writer *w, bool single) {
  const accel__tool_family *f = w->family;
  if (accel__tool_has_section(f)) {
    add(w, "{\"type\":\"tag\",\"begin\":");
    add_string(w, f->begin);
    add(w, ",\"content\":");
  }
  add(w, "{\"type\":\"tags_with_separator\",\"at_least_one\":true,\"separator\":");
  add_string(w, f->separator);
  if (single) add(w, ",\"stop_after_first\":true");
  add(w, ",");
  ACCEL_TRY(add_all_tags(w));
  add(w, "}");
  if (!accel__tool_has_section(f)) return ACCEL_OK;
  add(w, ",\"end\":");
  add_string(w, accel__tool_text(f->end));
  add(w, "}");
  return ACCEL_OK;
}

static void add_trigger(writer *w) {
  size_t n;
  const char *text = accel__tool_trigger(w->family, &n);
  accel__buffer_json_string(&w->out, text, n);
}

static accel_status add_text_or_calls(writer *w, const accel_tools_params *params) {
  const accel__tool_family *f = w->family;
  if (params->schema || f->whole) {
    add(w, "{\"type\":\"or\",\"elements\":[");
    ACCEL_TRY(add_calls(w, params->single != 0));
    add(w, ",");
    if (params->schema) {
      add(w, "{\"type\":\"json_schema\",\"json_schema\":");
      add(w, params->schema);
      add(w, "}]}");
    } else { /* a text that does not begin as a call does */
      add(w, "{\"type\":\"regex\",\"pattern\":\"([^{ \\\\t\\\\r\\\\n][^\\\\u0001]*)?\"}]}");
    }
    return ACCEL_OK;
  }
  add(w, "{\"type\":\"triggered_tags\",\"triggers\":[");
  add_trigger(w);
  add(w, "],");
  if (accel__tool_has_section(f)) {
    add(w, "\"stop_after_first\":true,\"tags\":[");
    ACCEL_TRY(add_calls(w, params->single != 0));
    add(w, "]}");
    return ACCEL_OK;
  }
  if (params->single) add(w, "\"stop_after_first\":true,");
  ACCEL_TRY(add_all_tags(w));
  add(w, "}");
  return ACCEL_OK;
}

accel_status accel__tools_write_grammar(const accel_tools *tools, const accel_tools_params *params,
                                        char **out) {
  const accel__tool_family *f = tools->family;
  writer w = {.tools = tools, .family = f};
  add(&w, "{\"type\":\"structural_tag\",\"special_tokens\":[");
  for (size_t i = 0; i < sizeof f->special / sizeof *f->special && f->special[i]; i++) {
    if (i) add(&w, ",");
    add_string(&w, f->special[i]);
  }
  add(&w, "],\"format\":");
  accel_status status = params->required || params->name
                            ? add_calls(&w, params->single || params->name)
                            : add_text_or_calls(&w, params);
  add(&w, "}");
  if (status == ACCEL_OK) status = accel__buffer_status(&w.out);
  if (status == ACCEL_OK)
    *out = w.out.data;
  else
    accel__buffer_free(&w.out);
  return status;
}
