/* http_reply.c - answers: whole ones, errors, streams. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/http_server.h"
#include "serve/serve_log.h"
#include "tool/tool_markup.h"

/* ---- handing an answer over to the connection ---- */

void serve_add_header(serve_request *r, const char *name, const char *value) {
  http_pair *list = realloc(r->added, (r->n_added + 1) * sizeof *list);
  if (!list) return;
  r->added = list;
  http_pair pair = {strdup(name), strdup(value)};
  if (pair.name && pair.value) {
    r->added[r->n_added++] = pair;
    return;
  }
  free(pair.name);
  free(pair.value);
}

static void add_headers(const serve_request *r, struct MHD_Response *response, const char *type) {
  char number[32];
  snprintf(number, sizeof number, "req-%llu", (unsigned long long)r->number);
  if (type) MHD_add_response_header(response, "Content-Type", type);
  MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
  MHD_add_response_header(response, "X-Request-Id", number);
  if (r->allowed_origin) {
    MHD_add_response_header(response, "Access-Control-Allow-Origin", r->allowed_origin);
    MHD_add_response_header(response, "Vary", "Origin");
  }
  if (r->close_after || atomic_load(&r->server->draining))
    MHD_add_response_header(response, "Connection", "close");
  for (size_t i = 0; i < r->n_added; ++i)
    MHD_add_response_header(response, r->added[i].name, r->added[i].value);
}

/* n: bytes of an answer that is whole, UINT64_MAX: it is streamed.  response NULL: there was no
 * memory for one, and the connection is closed.  false: there was an answer before, or the
 * connection has ended, and the response is still the caller's. */
static bool hand_over(serve_request *r, int status, struct MHD_Response *response, uint64_t n) {
  pthread_mutex_lock(&r->lock);
  const bool first = !r->status && r->connection;
  if (!r->status) r->status = status;
  if (first) {
    r->response = response;
    if (r->watched && r->suspended && n != UINT64_MAX)
      http_watch_phase(r->server, r->watched, HTTP_ANSWER, n, NULL);
    if (r->suspended) MHD_resume_connection(r->connection);
    r->suspended = false;
  }
  pthread_mutex_unlock(&r->lock);
  return first;
}

struct MHD_Response *serve_reply_take(serve_request *request, int *status) {
  pthread_mutex_lock(&request->lock);
  struct MHD_Response *response = request->response;
  request->response = NULL;
  *status = request->status;
  pthread_mutex_unlock(&request->lock);
  return response;
}

void serve_reply_detach(serve_request *r) {
  pthread_mutex_lock(&r->lock);
  const bool cut = r->stream.on && !r->stream.ended;
  struct MHD_Response *response = r->response;
  r->connection = NULL;
  r->watched = NULL;
  r->response = NULL;
  r->suspended = r->stream.waiting = false;
  pthread_mutex_unlock(&r->lock);
  if (response) MHD_destroy_response(response);
  if (cut) serve_request_leave(r, true);
}

/* ---- whole answers ---- */

void serve_answer(serve_request *request, int status, const char *type, char *body, size_t n) {
  struct MHD_Response *response = MHD_create_response_from_buffer(n, body, MHD_RESPMEM_MUST_FREE);
  if (!response) {
    free(body);
    serve_log(ACCEL_LOG_ERROR, "out of memory");
    hand_over(request, 500, NULL, 0);
    return;
  }
  add_headers(request, response, type);
  if (!hand_over(request, status, response, n)) MHD_destroy_response(response);
}

/* `json` as text, malloc'd; it is deleted.  U+0000 of the library's texts, which is C0 80 in a C string
 * and nothing else is, becomes \u0000.  NULL: no memory, or json is. */
static char *print_json(cJSON *json) {
  static const char nul[] = "\xC0\x80", escaped[] = "\\u0000";
  char *text = json ? cJSON_PrintUnformatted(json) : NULL;
  size_t count = 0;
  cJSON_Delete(json);
  for (const char *at = text; at && (at = strstr(at, nul)) != NULL; at += 2) ++count;
  if (!count) return text;
  char *whole = malloc(strlen(text) + count * (sizeof escaped - sizeof nul) + 1), *to = whole;
  const char *from = text;
  for (const char *at; whole && (at = strstr(from, nul)) != NULL; from = at + 2) {
    to = (char *)mempcpy(to, from, (size_t)(at - from));
    to = (char *)mempcpy(to, escaped, sizeof escaped - 1);
  }
  if (whole) strcpy(to, from);
  free(text);
  return whole;
}

void serve_answer_json(serve_request *request, int status, cJSON *json) {
  char *text = print_json(json);
  if (!text) {
    static const char none[] =
        "{\"error\":{\"message\":\"out of memory\","
        "\"type\":\"server_error\",\"param\":null,\"code\":null}}";
    status = 500;
    text = strdup(none);
  }
  if (text)
    serve_answer(request, status, "application/json", text, strlen(text));
  else
    hand_over(request, 500, NULL, 0);
}

/* ---- errors ---- */

/* Clients' bytes in a message: what is no UTF-8, and controls, become '?'. */
static void clean(char *text) {
  for (unsigned char *at = (unsigned char *)text; *at;) {
    const int n = tool_utf8_length(at);
    if (!n || *at < ' ' || *at == 0x7F) *at = '?';
    at += n ? n : 1;
  }
}

static const char *error_type(int status) {
  return status == 401   ? "authentication_error"
         : status == 403 ? "permission_error"
         : status == 404 ? "not_found_error"
         : status == 429 ? "rate_limit_error"
         : status >= 500 ? "server_error"
                         : "invalid_request_error";
}

static void add_text(cJSON *to, const char *name, const char *text) {
  if (text)
    cJSON_AddStringToObject(to, name, text);
  else
    cJSON_AddNullToObject(to, name);
}

void serve_fail(serve_request *request, int status, const char *param, const char *code,
                const char *format, ...) {
  char message[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  /* the cut may be inside of a character */
  clean(message);
  cJSON *json = cJSON_CreateObject(), *error = cJSON_AddObjectToObject(json, "error");
  add_text(error, "message", message);
  add_text(error, "type", error_type(status));
  add_text(error, "param", param);
  add_text(error, "code", code);
  if (!request->stream.on) {
    serve_answer_json(request, status, json);
    return;
  }
  /* its status is out: the error is the last event */
  serve_write_event(request, json);
  serve_end(request);
}

typedef struct failure {
  accel_status status;
  int http;
  const char *code;
} failure;

/* Every other status is 500, and what happened is told by the log alone.  FORMAT: the files that are
 * read for a request came with it. */
static const failure failures[] = {{ACCEL_ERROR_ARGUMENT, 400, NULL},
                                   {ACCEL_ERROR_FORMAT, 400, NULL},
                                   {ACCEL_ERROR_UNSUPPORTED, 400, "unsupported"},
                                   {ACCEL_ERROR_LIMIT, 400, "context_length_exceeded"},
                                   {ACCEL_ERROR_NOT_FOUND, 404, NULL},
                                   {ACCEL_ERROR_QUEUE_FULL, 429, "queue_full"},
                                   {ACCEL_ERROR_CANCELLED, 499, "cancelled"},
                                   {ACCEL_ERROR_DOES_NOT_FIT, 503, "does_not_fit"},
                                   {ACCEL_ERROR_TIMEOUT, 504, "timeout"}};

/* A request that was cancelled, by whom. */
static void fail_cancelled(serve_request *r) {
  if (atomic_load(&r->expired))
    serve_fail(r, 504, NULL, "timeout", "the request took longer than this server allows");
  else if (atomic_load(&r->server->stopping))
    serve_fail(r, 503, NULL, "stopping", "the server stops");
  else
    serve_fail(r, 499, NULL, "cancelled", "the client left");
}

/* In `message`, `path` becomes `name`. */
static void replace_path(char message[1024], const char *path, const char *name) {
  char out[1024];
  size_t n = 0;
  for (const char *at = message; *at && n < sizeof out - 1;) {
    if (strncmp(at, path, strlen(path))) {
      out[n++] = *at++;
      continue;
    }
    at += strlen(path);
    n += (size_t)snprintf(out + n, sizeof out - n, "%s", name);
    if (n > sizeof out - 1) n = sizeof out - 1;
  }
  out[n] = 0;
  memcpy(message, out, n + 1);
}

/* Clients are not told where models lie, those that could not be taken among them. */
static void hide_paths(const serve_request *r, char message[1024]) {
  for (uint32_t i = 0; i < SERVE_TAKEN; ++i) {
    const serve_model *model = &r->taken[i].model;
    if (model->path && strchr(model->path, '/')) replace_path(message, model->path, model->name);
  }
}

void serve_fail_with(serve_request *request, accel_status status, const char *param) {
  const failure *f = NULL;
  char message[1024];
  snprintf(message, sizeof message, "%s", accel_last_error());
  for (size_t i = 0; i < sizeof failures / sizeof failures[0]; ++i)
    if (failures[i].status == status) f = &failures[i];
  if (status == ACCEL_ERROR_CANCELLED) {
    fail_cancelled(request);
  } else if (f) {
    if (f->http == 429) serve_add_header(request, "Retry-After", "1");
    hide_paths(request, message);
    serve_fail(request, f->http, param, f->code, "%s",
               *message ? message : accel_status_text(status));
  } else {
    serve_log(ACCEL_LOG_ERROR, "request %llu: %s: %s", (unsigned long long)request->number,
              accel_status_name(status), message);
    if (*accel_last_remedy()) serve_log(ACCEL_LOG_ERROR, "%s", accel_last_remedy());
    serve_fail(request, 500, NULL, NULL,
               "the server could not answer: its log tells why, at request %llu",
               (unsigned long long)request->number);
  }
}

/* ---- streams ---- */

/* Asked by the connections' thread for more of the answer. */
static ssize_t read_stream(void *user, uint64_t at, char *to, size_t most) {
  serve_request *r = user;
  http_stream *s = &r->stream;
  (void)at;
  pthread_mutex_lock(&r->lock);
  size_t n = s->end - s->begin < most ? s->end - s->begin : most;
  ssize_t given = (ssize_t)n;
  if (n) {
    memcpy(to, s->data + s->begin, n);
    s->begin += n;
  } else if (s->ended) {
    given = atomic_load(&r->lost) ? MHD_CONTENT_READER_END_WITH_ERROR
                                  : MHD_CONTENT_READER_END_OF_STREAM;
  } else {
    s->waiting = true;
    MHD_suspend_connection(r->connection);
  }
  pthread_mutex_unlock(&r->lock);
  return given;
}

static void release_stream(void *user) { serve_request_release(user); }

bool serve_begin(serve_request *r, const char *type) {
  r->references++;
  struct MHD_Response *response =
      MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16384, read_stream, r, release_stream);
  if (!response) {
    serve_request_release(r);
    return false;
  }
  add_headers(r, response, type);
  MHD_add_response_header(response, "Cache-Control", "no-cache");
  MHD_add_response_header(response, "X-Accel-Buffering", "no");
  pthread_mutex_lock(&r->lock);
  r->stream.on = !r->status;
  pthread_mutex_unlock(&r->lock);
  if (hand_over(r, 200, response, UINT64_MAX)) return !serve_gone(r);
  MHD_destroy_response(response);
  return false;
}

/* Room for n more bytes; false: no memory. */
static bool make_room(http_stream *s, size_t n) {
  const size_t used = s->end - s->begin;
  if (s->end + n <= s->capacity) return true;
  if (s->begin) memmove(s->data, s->data + s->begin, used);
  s->begin = 0;
  s->end = used;
  if (used + n <= s->capacity) return true;
  const size_t capacity = 2 * (used + n) + 1024;
  char *data = realloc(s->data, capacity);
  if (!data) return false;
  s->data = data;
  s->capacity = capacity;
  return true;
}

/* What waits has begun to be sent again; within `lock`. */
static void wake(serve_request *r) {
  if (r->stream.waiting && r->connection) MHD_resume_connection(r->connection);
  r->stream.waiting = false;
}

bool serve_write(serve_request *r, const char *data, size_t n) {
  enum { MOST = 1 << 20 }; /* bytes that may wait for a client */
  http_stream *s = &r->stream;
  pthread_mutex_lock(&r->lock);
  bool good = (s->on || !r->status) && !s->ended && r->connection && !atomic_load(&r->lost);
  if (good && (s->end - s->begin + n > MOST || !make_room(s, n))) {
    atomic_store(&r->lost, true);
    atomic_store(&r->gone, true);
    good = false;
  }
  if (good) {
    memcpy(s->data + s->end, data, n);
    s->end += n;
    wake(r);
  }
  pthread_mutex_unlock(&r->lock);
  return good && !serve_gone(r);
}

void serve_end(serve_request *r) {
  http_stream *s = &r->stream;
  pthread_mutex_lock(&r->lock);
  if (s->on && !s->ended) {
    s->ended = true;
    if (r->watched) http_watch_phase(r->server, r->watched, HTTP_ANSWER, s->end - s->begin, NULL);
    wake(r);
  }
  pthread_mutex_unlock(&r->lock);
}

bool serve_write_event(serve_request *request, cJSON *json) {
  char *text = print_json(json);
  if (!text) return false;
  const size_t n = strlen(text);
  char *event = realloc(text, n + 9);
  if (!event) {
    free(text);
    return false;
  }
  memmove(event + 6, event, n);
  memcpy(event, "data: ", 6);
  memcpy(event + 6 + n, "\n\n", 2);
  const bool good = serve_write(request, event, n + 8);
  free(event);
  return good;
}
