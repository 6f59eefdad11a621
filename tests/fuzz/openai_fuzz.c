/* openai_fuzz.c - bodies of OpenAI's requests: fields, settings and messages of each route. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/openai.h"

/* The server's part: a request is a number of answers. */
struct serve_request {
  int answers;
};

void serve_fail(serve_request *request, int status, const char *param, const char *code,
                const char *format, ...) {
  char text[1024];
  va_list arguments;
  (void)status, (void)param, (void)code;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  request->answers++;
}

void serve_add_header(serve_request *request, const char *name, const char *value) {
  (void)request, (void)name;
  for (; *value; value++)
    if (*value < ' ' || *value > '~') abort(); /* no header may have it */
}

/* Bodies are given, not asked for. */
const cJSON *serve_json(serve_request *request) {
  (void)request;
  return NULL;
}

const serve_part *serve_form(serve_request *request, uint32_t *n) {
  (void)request;
  *n = 0;
  return NULL;
}

/* A failure is answered once, a success not at all. */
static bool check(const serve_request *request, bool ok) {
  if (request->answers != (ok ? 0 : 1)) abort();
  return ok;
}

static void read_body(const cJSON *body, unsigned route) {
  serve_request request = {0};
  openai_fields fields;
  openai_settings settings = {0};
  openai_messages messages = {0};
  if (!check(&request, openai_read_fields(&request, body, route, &fields))) return;
  if (check(&request, openai_settings_make(&request, &fields, &settings)) && route == OPENAI_CHAT &&
      check(&request, openai_messages_read(&request, fields.messages, &messages))) {
    cJSON *again = cJSON_Parse(messages.json);
    if (!cJSON_IsArray(again)) abort();
    cJSON_Delete(again);
  }
  openai_messages_free(&messages);
  openai_settings_free(&settings);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static const unsigned routes[] = {OPENAI_CHAT, OPENAI_COMPLETIONS, OPENAI_EMBEDDINGS};
  cJSON *body = cJSON_ParseWithLength((const char *)data, n);
  for (int i = 0; cJSON_IsObject(body) && i < 3; i++) read_body(body, routes[i]);
  cJSON_Delete(body);
  return 0;
}
