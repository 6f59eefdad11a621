/* routes_server.c - what the server tells of itself: health, metrics, models, its routes, its page. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/http_server.h"
#include "serve/serve_page.h"

/* ---- health ---- */

static void answer_state(serve_request *r, int status, const char *state) {
  cJSON *json = cJSON_CreateObject();
  cJSON_AddStringToObject(json, "status", state);
  serve_answer_json(r, status, json);
}

void route_health(serve_request *request) { answer_state(request, 200, "ok"); }

void route_ready(serve_request *request) {
  const serve_server *server = request->server;
  const bool draining = atomic_load(&server->draining);
  const bool loaded = serve_models_ready(server->models);
  answer_state(request, loaded && !draining ? 200 : 503,
               draining ? "stopping"
               : loaded ? "ready"
                        : "loading");
}

void route_version(serve_request *request) {
  cJSON *json = cJSON_CreateObject();
  cJSON_AddStringToObject(json, "version", accel_version());
  serve_answer_json(request, 200, json);
}

void route_metrics(serve_request *request) {
  serve_server *server = request->server;
  serve_gauges now = {.ready = serve_models_ready(server->models),
                      .pool = serve_models_pool(server->models)};
  const uint32_t n_models = serve_models_count(server->models);
  accel_queue_stats *queues = calloc(n_models, sizeof *queues);
  size_t n = 0;
  pthread_mutex_lock(&server->watch.lock);
  now.connections = server->watch.n;
  pthread_mutex_unlock(&server->watch.lock);
  http_workers_counts(&server->workers, &now.running, &now.waiting);
  for (uint32_t i = 0; queues && i < n_models; ++i)
    queues[i] = serve_models_queue(server->models, i);
  now.queue = queues;
  char *pool = serve_models_json(server->models);
  now.pool_json = pool;
  char *text = queues ? serve_metrics_text(server->metrics, &now, &n) : NULL;
  accel_string_free(&pool);
  free(queues);
  if (text)
    serve_answer(request, 200, "text/plain; version=0.0.4; charset=utf-8", text, n);
  else
    serve_fail(request, 500, NULL, NULL, "out of memory");
}

/* ---- models ---- */

static cJSON *describe_model(const serve_models *models, uint32_t model) {
  cJSON *json = cJSON_CreateObject();
  cJSON_AddStringToObject(json, "id", serve_models_names(models)[model]);
  cJSON_AddStringToObject(json, "object", "model");
  cJSON_AddNumberToObject(json, "created", (double)serve_models_loaded_at(models, model));
  cJSON_AddStringToObject(json, "owned_by", "accel");
  cJSON_AddStringToObject(json, "task", serve_models_task(models, model));
  const char *parent = serve_models_parent(models, model);
  if (parent) cJSON_AddStringToObject(json, "parent", parent);
  return json;
}

void route_models(serve_request *request) {
  const serve_models *models = request->server->models;
  cJSON *json = cJSON_CreateObject();
  cJSON_AddStringToObject(json, "object", "list");
  cJSON *data = cJSON_AddArrayToObject(json, "data");
  for (uint32_t i = 0; i < serve_models_count(models); ++i)
    cJSON_AddItemToArray(data, describe_model(models, i));
  serve_answer_json(request, 200, json);
}

void route_model(serve_request *request) {
  const serve_models *models = request->server->models;
  const int64_t found = serve_models_find(models, serve_path_rest(request));
  if (found >= 0)
    serve_answer_json(request, 200, describe_model(models, (uint32_t)found));
  else
    serve_fail(request, 404, "model", "model_not_found",
               "there is no model '%.200s' here: GET /v1/models lists them",
               serve_path_rest(request));
}

/* ---- OpenAPI ---- */

/* The star of a path as OpenAPI names it, "/v1/models/{rest}"; in `into`. */
static const char *path_template(const char *path, char *into, size_t size) {
  const size_t n = strlen(path);
  const bool star = path[n - 1] == '*';
  snprintf(into, size, "%.*s%s", (int)(n - star), path, star ? "{rest}" : "");
  return into;
}

static void add_body(cJSON *operation, const char *path) {
  const bool audio = http_path_of_sounds(path);
  cJSON *body = cJSON_AddObjectToObject(operation, "requestBody");
  cJSON *content = cJSON_AddObjectToObject(body, "content");
  cJSON *media =
      cJSON_AddObjectToObject(content, audio ? "multipart/form-data" : "application/json");
  cJSON_AddStringToObject(cJSON_AddObjectToObject(media, "schema"), "type", "object");
  cJSON_AddTrueToObject(body, "required");
}

static void add_rest(cJSON *operation) {
  cJSON *list = cJSON_AddArrayToObject(operation, "parameters"), *rest = cJSON_CreateObject();
  cJSON_AddItemToArray(list, rest);
  cJSON_AddStringToObject(rest, "name", "rest");
  cJSON_AddStringToObject(rest, "in", "path");
  cJSON_AddTrueToObject(rest, "required");
  cJSON_AddStringToObject(cJSON_AddObjectToObject(rest, "schema"), "type", "string");
}

static void add_operation(cJSON *item, const serve_route *route) {
  const bool post = !strcmp(route->method, "POST");
  cJSON *operation = cJSON_AddObjectToObject(item, post ? "post" : "get");
  cJSON_AddStringToObject(operation, "summary", route->summary);
  if (strchr(route->path, '*')) add_rest(operation);
  if (post) add_body(operation, route->path);
  cJSON *responses = cJSON_AddObjectToObject(operation, "responses");
  cJSON_AddStringToObject(cJSON_AddObjectToObject(responses, "200"), "description", "The answer.");
  cJSON *failure = cJSON_AddObjectToObject(responses, "default");
  cJSON_AddStringToObject(failure, "description", "An error, as OpenAI writes it.");
}

void route_openapi(serve_request *request) {
  char path[256];
  cJSON *json = cJSON_CreateObject();
  cJSON_AddStringToObject(json, "openapi", "3.1.0");
  cJSON *info = cJSON_AddObjectToObject(json, "info");
  cJSON_AddStringToObject(info, "title", "accel serve");
  cJSON_AddStringToObject(info, "version", accel_version());
  cJSON *paths = cJSON_AddObjectToObject(json, "paths");
  for (size_t i = 0; i < serve_route_count; ++i) {
    path_template(serve_routes[i].path, path, sizeof path);
    cJSON *item = cJSON_GetObjectItemCaseSensitive(paths, path);
    if (!item) item = cJSON_AddObjectToObject(paths, path);
    add_operation(item, &serve_routes[i]);
  }
  serve_answer_json(request, 200, json);
}

/* ---- the page ---- */

static const char *media_type(const char *name) {
  const char *end = strrchr(name, '.');
  return end && !strcmp(end, ".js")    ? "text/javascript; charset=utf-8"
         : end && !strcmp(end, ".css") ? "text/css; charset=utf-8"
         : end && !strcmp(end, ".svg") ? "image/svg+xml"
                                       : "text/html; charset=utf-8";
}

static void answer_file(serve_request *r, const char *name) {
  const serve_page_file *file = NULL;
  for (size_t i = 0; i < serve_page_file_count && !file; ++i)
    if (!strcmp(serve_page_files[i].name, name)) file = &serve_page_files[i];
  char *copy = file ? strdup(file->text) : NULL;
  if (!copy) {
    serve_fail(r, file ? 500 : 404, NULL, NULL, file ? "out of memory" : "there is no such file");
    return;
  }
  serve_add_header(r, "Content-Security-Policy",
                   "default-src 'self'; frame-ancestors 'none'; base-uri 'none'");
  serve_add_header(r, "Referrer-Policy", "no-referrer");
  serve_answer(r, 200, media_type(name), copy, strlen(copy));
}

void route_page(serve_request *request) { answer_file(request, "index.html"); }
void route_page_file(serve_request *request) { answer_file(request, serve_path_rest(request)); }
