/* api_template.c - chat templates by themselves: messages to the text a model was trained on. */
#include "text/chat_template.h"

#include <stdlib.h>
#include <string.h>

#include "accel/accel.h"
#include "api/api_check.h"
#include "dispatch/endpoint.h"
#include "dispatch/locate.h"

/* The public handle is the template itself. */
static accel__chat_template *inner(accel_template *template) {
  return (accel__chat_template *)template;
}

accel_template_params accel_template_params_default(void) {
  return (accel_template_params){.size = sizeof(accel_template_params), .add_generation_prompt = 1};
}

accel_status accel_template_open(accel *ctx, const char *path_or_model, accel_template **out) {
  API_CALL(ctx, out);
  API_NEED(path_or_model);
  accel__arena arena = {0};
  accel__chat_template *template = NULL;
  const char *path;
  accel_status status = accel__locate_file(ctx, path_or_model, &arena, &path);
  if (status == ACCEL_OK) status = accel__chat_template_load(path, &template);
  if (status == ACCEL_OK) *out = (accel_template *)template;
  accel__arena_free(&arena);
  return status;
}

accel_status accel_template_of(accel_endpoint *endpoint, accel_template **out) {
  API_CALL(endpoint, out);
  accel__chat_template *template = NULL;
  ACCEL_TRY(accel__endpoint_template(endpoint, &template));
  *out = (accel_template *)template;
  return ACCEL_OK;
}

void accel_template_close(accel_template **template) {
  if (!template) return;
  accel__chat_template *t = inner(*template);
  accel__chat_template_free(&t);
  *template = NULL;
}

static accel_status parse(const char *json, const char *name, accel__json_file *file) {
  if (!json) return ACCEL_OK;
  accel_status status = accel__json_parse(json, strlen(json), name, file);
  return status == ACCEL_ERROR_FORMAT ? accel__wrap(ACCEL_ERROR_ARGUMENT, "accel_template_render")
                                      : status;
}

static accel_status render(accel_template *template, const char *messages,
                           const accel_template_params *how, accel__buffer *out) {
  accel__json_file file[4] = {{0}};
  accel_status status = parse(messages, "messages", &file[0]);
  if (status == ACCEL_OK) status = parse(how->tools, "tools", &file[1]);
  if (status == ACCEL_OK) status = parse(how->documents, "documents", &file[2]);
  if (status == ACCEL_OK) status = parse(how->variables, "variables", &file[3]);
  const accel__json *tools = cJSON_IsNull(file[1].root) ? NULL : file[1].root;
  const accel__json *documents = cJSON_IsNull(file[2].root) ? NULL : file[2].root;
  accel__chat_request request = {
      .messages = file[0].root,
      .tools = tools,
      .documents = documents,
      .variables = file[3].root,
      .name = how->name,
      .add_generation_prompt = how->add_generation_prompt != 0 && !how->continue_final_message,
      .continue_final_message = how->continue_final_message != 0};
  if (status == ACCEL_OK)
    status = accel__chat_template_render(inner(template), &request, out, NULL);
  for (int i = 0; i < 4; ++i) accel__json_free(&file[i]);
  return status;
}

accel_status accel_template_render(accel_template *template, const char *messages,
                                   const accel_template_params *params, char **text) {
  API_CALL(template, text);
  API_NEED(messages);
  API_PARAMS(accel_template_params, mine, params);
  accel__buffer out = {0};
  accel_status status = render(template, messages, &mine, &out);
  if (status == ACCEL_OK)
    *text = out.data;
  else
    accel__buffer_free(&out);
  return status;
}
