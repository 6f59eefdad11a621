/* serve_test_server.c - `accel serve` with routes that test the server itself: handlers that wait,
 * generate for long, read forms, or forget to answer.  tests/python/test_serve_core.py drives it.
 *
 *   serve_test_server CONFIG.json
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "serve/serve.h"
#include "serve/serve_run.h"

void test_wait(serve_request *request);
void test_echo(serve_request *request);
void test_form(serve_request *request);
void test_silent(serve_request *request);
void test_generate(serve_request *request);
void test_counts(serve_request *request);
void test_chat(serve_request *request);
void route_health(serve_request *request);
void route_ready(serve_request *request);
void route_metrics(serve_request *request);
void route_models(serve_request *request);

const serve_route serve_routes[] = {
    {"GET", "/health", route_health, "health"},
    {"GET", "/ready", route_ready, "ready"},
    {"GET", "/metrics", route_metrics, "metrics"},
    {"GET", "/v1/models", route_models, "models"},
    {"GET", "/test/counts", test_counts, "what handlers have seen"},
    {"POST", "/test/wait", test_wait, "waits until it is not wanted any more"},
    {"POST", "/test/echo", test_echo, "the JSON object of the body"},
    {"POST", "/test/form", test_form, "the fields of a form"},
    {"POST", "/v1/audio/form", test_form, "the same with the limit of sounds"},
    {"POST", "/test/silent", test_silent, "gives no answer"},
    {"POST", "/test/chat", test_chat, "opens a chat"},
    {"POST", "/test/generate", test_generate, "generates, whole or streamed"},
};
const size_t serve_route_count = sizeof serve_routes / sizeof serve_routes[0];

/* Handlers that run, and those that saw their client leave; generations that were cancelled. */
static _Atomic int running, left, cancelled, tokens;

static void answer_number(serve_request *r, const char *name, double value) {
  cJSON *json = cJSON_CreateObject();
  cJSON_AddNumberToObject(json, name, value);
  serve_answer_json(r, 200, json);
}

static double number_of(const cJSON *json, const char *name, double otherwise) {
  const cJSON *node = cJSON_GetObjectItemCaseSensitive(json, name);
  return cJSON_IsNumber(node) ? node->valuedouble : otherwise;
}

void test_counts(serve_request *request) {
  cJSON *json = cJSON_CreateObject();
  cJSON_AddNumberToObject(json, "running", running);
  cJSON_AddNumberToObject(json, "left", left);
  cJSON_AddNumberToObject(json, "cancelled", cancelled);
  cJSON_AddNumberToObject(json, "tokens", tokens);
  serve_answer_json(request, 200, json);
}

void test_wait(serve_request *request) {
  const cJSON *json = serve_json(request);
  if (!json) return;
  const double seconds = number_of(json, "seconds", 1);
  ++running;
  while (!serve_gone(request) && serve_age(request) < seconds) usleep(2000);
  left += serve_gone(request);
  --running;
  if (serve_gone(request))
    serve_fail_with(request, ACCEL_ERROR_CANCELLED, NULL);
  else
    answer_number(request, "seconds", serve_age(request));
}

void test_echo(serve_request *request) {
  const cJSON *json = serve_json(request);
  if (json) serve_answer_json(request, 200, cJSON_Duplicate(json, 1));
}

void test_form(serve_request *request) {
  uint32_t n;
  const serve_part *part = serve_form(request, &n);
  if (!part) return;
  cJSON *list = cJSON_CreateArray();
  for (uint32_t i = 0; i < n; ++i) {
    cJSON *field = cJSON_CreateObject();
    cJSON_AddStringToObject(field, "name", part[i].name);
    if (part[i].file_name) cJSON_AddStringToObject(field, "file_name", part[i].file_name);
    if (part[i].type) cJSON_AddStringToObject(field, "type", part[i].type);
    cJSON_AddNumberToObject(field, "n", (double)part[i].n);
    uint32_t sum = 0;
    for (size_t k = 0; k < part[i].n; ++k) sum = sum * 31 + (unsigned char)part[i].data[k];
    cJSON_AddNumberToObject(field, "sum", sum);
    cJSON_AddItemToArray(list, field);
  }
  serve_answer_json(request, 200, list);
}

void test_silent(serve_request *request) { (void)serve_method(request); }

typedef struct listener {
  serve_request *request;
  char *padding; /* of each event */
} listener;

/* accel_generate_params.on_token of a stream: ends the generation when nobody reads it. */
static int on_token(void *user, const accel_token_event *event) {
  const listener *l = user;
  cJSON *json = cJSON_CreateObject();
  cJSON_AddNumberToObject(json, "id", event->id);
  cJSON_AddStringToObject(json, "padding", l->padding);
  ++tokens;
  return !serve_write_event(l->request, json);
}

void test_generate(serve_request *request) {
  const cJSON *json = serve_json(request);
  const serve_model *model = json ? serve_take_model(request, NULL, NULL) : NULL;
  if (!model) return;
  const uint32_t n = (uint32_t)number_of(json, "prompt", 4);
  const bool stream = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(json, "stream"));
  int32_t *ids = malloc(n * sizeof *ids);
  for (uint32_t i = 0; ids && i < n; ++i) ids[i] = (int32_t)(3 + i % 200);
  accel_generate_params how = accel_generate_params_default();
  how.max_new_tokens = (int32_t)number_of(json, "new", 4);
  how.ignore_eos = 1;
  listener l = {request, calloc(1, 1 + (size_t)number_of(json, "padding", 0))};
  if (l.padding) memset(l.padding, 'x', (size_t)number_of(json, "padding", 0));
  if (stream) how.on_token = on_token, how.on_token_user = &l;
  accel_request what = accel_request_default(ACCEL_REQUEST_GENERATE);
  what.ids = ids;
  what.n = n;
  what.generate = &how;
  accel_ticket *ticket = NULL;
  accel_generations *found = NULL;
  ++running;
  accel_status status = serve_submit(request, model->queue, &what, &ticket);
  free(ids);
  if (!status) {
    if (stream) serve_begin(request, "text/event-stream");
    serve_wait(request, ticket);
    status = accel_wait_generations(&ticket, -1, &found);
  }
  free(l.padding);
  --running;
  cancelled +=
      status == ACCEL_ERROR_CANCELLED || (!status && !strcmp(found->item->finish, "cancelled"));
  if (status)
    serve_fail_with(request, status, NULL);
  else if (stream)
    serve_end(request);
  else
    answer_number(request, "tokens", found->item->n);
  accel_generations_free(&found);
}

void test_chat(serve_request *request) {
  const serve_model *model = serve_take_model(request, NULL, NULL);
  accel_chat *chat = NULL;
  const accel_status status = model ? accel_chat_open(model->endpoint, NULL, &chat) : ACCEL_OK;
  if (status) serve_fail_with(request, status, "messages");
  accel_chat_close(&chat);
}

int main(int argc, char **argv) {
  serve_config config = serve_config_default();
  const accel_init_params how = accel_init_params_default();
  const accel_status status =
      argc == 2 ? serve_config_read(&config, argv[1], &how) : ACCEL_ERROR_ARGUMENT;
  const int code = status ? 2 : serve_run(&config);
  serve_config_free(&config);
  return code;
}
