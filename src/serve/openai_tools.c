/* openai_tools.c - from tools and tool_choice to a grammar, and from a text to calls. */
#include "serve/openai_tools.h"

#include <stdlib.h>
#include <string.h>

typedef struct choice {
  bool none, required;
  const char *name; /* of the function that must be called; NULL: any */
} choice;

static bool read_choice(serve_request *request, const cJSON *item, choice *out) {
  const char *word = openai_string(item);
  *out = (choice){0};
  if (!item || (word && !strcmp(word, "auto"))) return true;
  out->none = word && !strcmp(word, "none");
  out->required = word && (!strcmp(word, "required") || !strcmp(word, "any"));
  const cJSON *function = cJSON_GetObjectItemCaseSensitive(item, "function");
  out->name = openai_string(cJSON_GetObjectItemCaseSensitive(function, "name"));
  if (out->none || out->required || out->name) return true;
  serve_fail(request, 400, "tool_choice", NULL,
             "tool_choice: expected \"none\", \"auto\", \"required\" or {\"type\": \"function\", "
             "\"function\": {\"name\": ...}}");
  return false;
}

bool openai_tools_read(serve_request *request, const serve_model *model, const openai_fields *f,
                       openai_settings *settings, openai_tools *out) {
  accel_template *template = NULL;
  accel_tools_params how = accel_tools_params_default();
  choice chosen;
  if (!read_choice(request, f->tool_choice, &chosen)) return false;
  if (!f->tools || !f->tools->child) {
    if (!chosen.required && !chosen.name) return true;
    serve_fail(request, 400, "tool_choice", NULL, "tool_choice: there are no tools");
    return false;
  }
  out->json = cJSON_PrintUnformatted(f->tools);
  if (chosen.none && out->json) return true;
  out->named = chosen.name != NULL;
  how.required = chosen.required || chosen.name;
  how.name = chosen.name;
  how.single = f->parallel_tool_calls == 0;
  if (settings->grammar_field && !how.required) {
    if (settings->params.grammar_kind != ACCEL_GRAMMAR_JSON_SCHEMA) {
      serve_fail(request, 400, settings->grammar_field, NULL,
                 "beside tools only JSON schemas can say what a text must be");
      return false;
    }
    how.schema = settings->grammar;
  }
  accel_status status =
      out->json ? accel_template_of(model->endpoint, &template) : ACCEL_ERROR_OUT_OF_MEMORY;
  if (status == ACCEL_OK) status = accel_tools_open(template, out->json, &how, &out->tools);
  if (status != ACCEL_OK) {
    serve_fail_with(request, status, "tools");
    return false;
  }
  settings->params.grammar = accel_tools_grammar(out->tools);
  settings->params.grammar_kind = ACCEL_GRAMMAR_STRUCTURAL_TAG;
  settings->params.keep_special_tokens = accel_tools_special_tokens(out->tools);
  settings->grammar_field = "tools";
  return true;
}

void openai_tools_free(openai_tools *t) {
  accel_tools_close(&t->tools);
  cJSON_free(t->json);
}

/* ---- calls ---- */

/* Mistral's templates take no other ids than of 9 letters and digits. */
enum { SHORT_ID = 9 };

bool openai_calls_begin(openai_calls *calls, const openai_tools *tools) {
  calls->short_ids = tools->tools && !strncmp(accel_tools_family(tools->tools), "mistral", 7);
  return !tools->tools || accel_tool_parser_open(tools->tools, &calls->parser) == ACCEL_OK;
}

static void on_event(void *user, const accel_tool_event *event) {
  openai_calls *calls = user;
  char id[SERVE_ID];
  switch (event->kind) {
    case ACCEL_TOOL_TEXT:
      calls->text(calls->user, event->text);
      break;
    case ACCEL_TOOL_CALL:
      calls->n++;
      reply_id(calls->short_ids ? "" : "call_", id);
      if (calls->short_ids) id[SHORT_ID] = 0;
      calls->call(calls->user, event->call, id, event->text, "");
      break;
    case ACCEL_TOOL_ARGUMENTS:
      calls->call(calls->user, event->call, NULL, NULL, event->text);
      break;
  }
}

/* A parser without memory for a piece leaves it out: the library says so, and nothing is made up. */
void openai_calls_feed(openai_calls *calls, const char *text) {
  if (calls->parser)
    (void)accel_tool_parser_feed(calls->parser, text, on_event, calls);
  else if (*text)
    calls->text(calls->user, text);
}

void openai_calls_end(openai_calls *calls) {
  if (calls->parser) (void)accel_tool_parser_end(calls->parser, on_event, calls);
}

void openai_calls_free(openai_calls *calls) { accel_tool_parser_close(&calls->parser); }
