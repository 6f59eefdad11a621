/* http_request.c - one request: what it holds, its tickets, its end. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "serve/http_form.h"
#include "serve/http_server.h"
#include "serve/http_target.h"
#include "serve/serve_log.h"
#include "tool/tool_markup.h"

/* ---- begin and end ---- */

serve_request *serve_request_new(serve_server *server, const char *target) {
  serve_request *r = calloc(1, sizeof *r);
  if (!r) return NULL;
  r->server = server;
  r->references = 1;
  r->route = serve_route_count;
  r->rest = "";
  r->arrived = serve_now();
  r->number = ++server->requests;
  pthread_mutex_init(&r->lock, NULL);
  pthread_mutex_init(&r->tickets_lock, NULL);
  pthread_mutex_init(&r->done_lock, NULL);
  pthread_cond_init(&r->done_changed, NULL);
  r->target = strdup(target);
  if (r->target) return r;
  serve_request_release(r);
  return NULL;
}

static void free_pairs(http_pair *pair, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    free(pair[i].name);
    free(pair[i].value);
  }
  free(pair);
}

void serve_request_release(serve_request *r) {
  if (--r->references) return;
  atomic_fetch_sub(&r->server->body_bytes, r->charged);
  free_pairs(r->header, r->n_header);
  free_pairs(r->added, r->n_added);
  for (size_t i = 0; i < r->n_query; ++i) free(r->query[i]);
  free(r->query);
  cJSON_Delete(r->json);
  free(r->part);
  free(r->body);
  free(r->target);
  free(r->path);
  free(r->method);
  free(r->stream.data);
  pthread_mutex_destroy(&r->lock);
  pthread_mutex_destroy(&r->tickets_lock);
  pthread_mutex_destroy(&r->done_lock);
  pthread_cond_destroy(&r->done_changed);
  free(r);
}

bool serve_request_charge(serve_request *r, uint64_t bytes) {
  const uint64_t most = UINT64_C(1) << 30;
  if (atomic_fetch_add(&r->server->body_bytes, bytes) + bytes > most) {
    atomic_fetch_sub(&r->server->body_bytes, bytes);
    return false;
  }
  r->charged += bytes;
  return true;
}

/* ---- what it says ---- */

const char *serve_method(const serve_request *request) { return request->method; }
const char *serve_path_rest(const serve_request *request) { return request->rest; }

const char *serve_header(const serve_request *request, const char *name) {
  for (size_t i = 0; i < request->n_header; ++i)
    if (!strcasecmp(request->header[i].name, name)) return request->header[i].value;
  return NULL;
}

const char *serve_query(const serve_request *request, const char *name) {
  serve_request *r = (serve_request *)request; /* it keeps the value */
  char *value = http_target_query(r->target, name);
  if (!value) return NULL;
  char **list = realloc(r->query, (r->n_query + 1) * sizeof *list);
  if (!list) {
    free(value);
    return NULL;
  }
  r->query = list;
  return r->query[r->n_query++] = value;
}

const char *serve_body(const serve_request *request, size_t *n) {
  if (n) *n = request->n_body;
  return request->body ? request->body : "";
}

double serve_age(const serve_request *request) { return serve_now() - request->arrived; }

/* ---- JSON ---- */

static const char *check_utf8(const char *text, size_t n) {
  for (size_t at = 0; at < n;) {
    const int length = tool_utf8_length((const unsigned char *)text + at);
    if (!text[at] || !length) return "the body is no UTF-8 text";
    at += (size_t)length;
  }
  return NULL;
}

/* NULs, which would cut texts short; and how many values there are at most. */
static const char *check_json(const char *text, size_t n, size_t *values) {
  bool quoted = false;
  *values = 1;
  for (size_t i = 0; i < n; ++i) {
    const char c = text[i];
    if (c == '"') quoted = !quoted;
    if (!quoted && (c == ',' || c == '[' || c == '{')) ++*values;
    if (c != '\\') continue;
    if (!strncmp(text + i, "\\u0000", 6)) return "a text of the body holds \\u0000";
    ++i;
  }
  return NULL;
}

const cJSON *serve_json(serve_request *r) {
  enum { MOST_VALUES = 1000000 };
  size_t n, values;
  if (r->json) return r->json;
  const char *text = serve_body(r, &n), *end = NULL, *why = check_utf8(text, n);
  if (!why) why = check_json(text, n, &values);
  if (!why && values > MOST_VALUES) why = "the body has more than a million values";
  if (!why && !serve_request_charge(r, values * sizeof(cJSON))) {
    serve_add_header(r, "Retry-After", "1");
    serve_fail(r, 503, NULL, NULL, "the server has no memory for more requests at the moment");
    return NULL;
  }
  if (!why) r->json = cJSON_ParseWithLengthOpts(text, n + 1, &end, 1);
  if (cJSON_IsObject(r->json)) return r->json;
  if (!why && r->json) why = "the body is JSON, but no object";
  if (why)
    serve_fail(r, 400, NULL, NULL, "%s", why);
  else
    serve_fail(r, 400, NULL, NULL, "the body is no JSON, from byte %zu on",
               end ? (size_t)(end - text) : 0);
  cJSON_Delete(r->json);
  r->json = NULL;
  return NULL;
}

const serve_part *serve_form(serve_request *r, uint32_t *n) {
  *n = r->n_part;
  if (r->part) return r->part;
  const char *type = serve_header(r, "Content-Type");
  const char *why =
      r->body ? http_form_parse(type ? type : "", r->body, r->n_body, &r->part, &r->n_part)
              : "the body is empty: a form is expected";
  if (why) serve_fail(r, 400, NULL, NULL, "%s", why);
  *n = r->n_part;
  return r->part;
}

/* ---- tickets ---- */

bool serve_gone(const serve_request *request) {
  return atomic_load(&request->gone) || atomic_load(&request->server->stopping);
}

void serve_request_leave(serve_request *r, bool lost) {
  if (lost) atomic_store(&r->lost, true);
  atomic_store(&r->gone, true);
  pthread_mutex_lock(&r->tickets_lock);
  for (int i = 0; i < SERVE_TICKETS; ++i)
    if (r->slot[i].ticket) accel_ticket_cancel(r->slot[i].ticket);
  pthread_mutex_unlock(&r->tickets_lock);
}

/* A free slot, which is taken; NULL: there is none. */
static serve_slot *take_slot(serve_request *r) {
  serve_slot *slot = NULL;
  pthread_mutex_lock(&r->tickets_lock);
  for (int i = 0; i < SERVE_TICKETS && !slot; ++i)
    if (!r->slot[i].used) slot = &r->slot[i];
  if (slot) *slot = (serve_slot){.request = r, .used = true};
  pthread_mutex_unlock(&r->tickets_lock);
  return slot;
}

static void put_ticket(serve_slot *slot, accel_ticket *ticket, bool awaited) {
  serve_request *r = slot->request;
  pthread_mutex_lock(&r->tickets_lock);
  slot->ticket = ticket;
  if (awaited) slot->awaited = ticket;
  if (serve_gone(r)) accel_ticket_cancel(ticket);
  pthread_mutex_unlock(&r->tickets_lock);
}

static void free_slot(serve_slot *slot) {
  serve_request *r = slot->request;
  pthread_mutex_lock(&r->tickets_lock);
  *slot = (serve_slot){0};
  pthread_mutex_unlock(&r->tickets_lock);
}

static serve_slot *slot_of(serve_request *r, const accel_ticket *ticket) {
  for (int i = 0; i < SERVE_TICKETS; ++i)
    if (r->slot[i].used && r->slot[i].ticket == ticket) return &r->slot[i];
  return NULL;
}

bool serve_watch(serve_request *request, accel_ticket *ticket) {
  serve_slot *slot = take_slot(request);
  if (slot) put_ticket(slot, ticket, false);
  return slot != NULL;
}

void serve_unwatch(serve_request *request, accel_ticket *ticket) {
  serve_slot *slot = slot_of(request, ticket);
  if (slot) free_slot(slot);
}

/* accel_request.done, on a thread of the library. */
static void on_done(void *user) {
  serve_slot *slot = user;
  serve_request *r = slot->request;
  pthread_mutex_lock(&r->done_lock);
  slot->done = true;
  pthread_cond_broadcast(&r->done_changed);
  pthread_mutex_unlock(&r->done_lock);
}

accel_status serve_submit(serve_request *request, accel_queue *queue, accel_request *what,
                          accel_ticket **ticket) {
  serve_slot *slot = take_slot(request);
  if (!slot) return ACCEL_ERROR_LIMIT;
  what->done = on_done;
  what->user = slot;
  const accel_status status = accel_submit_request(queue, what, ticket);
  if (status)
    free_slot(slot);
  else
    put_ticket(slot, *ticket, true);
  return status;
}

static void wait_for(serve_slot *slot) {
  serve_request *r = slot->request;
  pthread_mutex_lock(&r->done_lock);
  while (!slot->done) pthread_cond_wait(&r->done_changed, &r->done_lock);
  pthread_mutex_unlock(&r->done_lock);
  free_slot(slot);
}

void serve_wait(serve_request *request, accel_ticket *ticket) {
  serve_slot *slot = slot_of(request, ticket);
  if (slot) wait_for(slot);
}

/* ---- models ---- */

static void fail_take(serve_request *r, accel_status status, const char *name) {
  if (status == ACCEL_ERROR_NOT_FOUND) {
    serve_fail(r, 404, "model", "model_not_found",
               "there is no model '%.200s' here: GET /v1/models lists them", name);
  } else if (status == ACCEL_ERROR_UNSUPPORTED) {
    serve_fail(r, 400, "model", "model_not_supported",
               name && *name ? "the model '%.200s' does not serve this route"
                             : "no model here serves this route",
               name);
  } else if (!serve_models_ready(r->server->models)) {
    serve_add_header(r, "Retry-After", "5");
    serve_fail(r, 503, NULL, "loading", "the models are being loaded");
  } else if (status == ACCEL_ERROR_TIMEOUT) {
    serve_add_header(r, "Retry-After", "5");
    serve_fail(r, 503, "model", "no_memory",
               "the memory of the server's models (--pool-memory) is in use by others");
  } else {
    serve_fail_with(r, status, "model");
  }
}

const serve_model *serve_take_model(serve_request *r, const char *name, const char *const *tasks) {
  serve_taken *taken = &r->taken[r->n_taken];
  accel_status status = ACCEL_ERROR_LIMIT;
  if (r->n_taken < SERVE_TAKEN) status = serve_models_take(r->server->models, name, tasks, taken);
  if (status) {
    fail_take(r, status, name);
    return NULL;
  }
  ++r->n_taken;
  serve_metrics_begin(r->server->metrics, taken->number);
  return &taken->model;
}

void serve_count(serve_request *request, const serve_counts *counts) {
  if (request->n_taken)
    serve_metrics_count(request->server->metrics, request->taken[0].number, counts);
}

void serve_request_finish(serve_request *r) {
  const double now = serve_now();
  if (r->stream.on) serve_end(r);
  for (int i = 0; i < SERVE_TICKETS; ++i) {
    if (!r->slot[i].used) continue;
    serve_log(ACCEL_LOG_ERROR, "%s has left a ticket behind", serve_routes[r->route].path);
    serve_request_leave(r, false);
    if (r->slot[i].awaited) wait_for(&r->slot[i]);
  }
  for (uint32_t i = 0; i < r->n_taken; ++i) {
    serve_metrics_end(r->server->metrics, r->taken[i].number, r->began - r->arrived, now - r->began,
                      atomic_load(&r->gone));
    serve_models_give_back(&r->taken[i]);
  }
}
