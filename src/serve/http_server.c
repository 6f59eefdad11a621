/* http_server.c - what libmicrohttpd calls: connections, heads, bodies. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "serve/http_server.h"
#include "serve/http_target.h"
#include "serve/serve_log.h"

double serve_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- connections ---- */

static enum MHD_Result on_connect(void *user, const struct sockaddr *address, socklen_t n) {
  (void)n;
  return http_watch_admit(user, address) ? MHD_YES : MHD_NO;
}

static void on_connection(void *user, struct MHD_Connection *connection, void **own,
                          enum MHD_ConnectionNotificationCode code) {
  if (code == MHD_CONNECTION_NOTIFY_STARTED) {
    *own = http_watch_add(user, connection);
  } else {
    http_watch_remove(user, *own);
    *own = NULL;
  }
}

static http_connection *connection_of(struct MHD_Connection *connection) {
  const union MHD_ConnectionInfo *own =
      MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  return own ? own->socket_context : NULL;
}

/* ---- requests: begin and end ---- */

/* The request line has been read; its target is not decoded yet. */
static void *on_target(void *user, const char *target, struct MHD_Connection *connection) {
  (void)connection;
  return serve_request_new(user, target);
}

static void on_completed(void *user, struct MHD_Connection *connection, void **own,
                         enum MHD_RequestTerminationCode code) {
  serve_request *r = *own;
  http_connection *c = connection_of(connection);
  (void)code;
  *own = NULL;
  if (r) serve_reply_detach(r);
  /* before the release: who finds it by its connection takes a reference */
  if (c) http_watch_phase(user, c, HTTP_HEAD, 0, NULL);
  if (r) serve_request_release(r);
}

/* ---- the head ---- */

enum { MOST_FIELDS = 128 };
typedef struct fields {
  http_field field[MOST_FIELDS];
  size_t n;
} fields;

static enum MHD_Result add_field(void *user, enum MHD_ValueKind kind, const char *name,
                                 size_t n_name, const char *value, size_t n_value) {
  fields *f = user;
  (void)kind;
  if (f->n == MOST_FIELDS) return MHD_NO;
  f->field[f->n++] = (http_field){name, value ? value : "", n_name, value ? n_value : 0};
  return MHD_YES;
}

/* Copies of the headers, which the handler reads while the connection may end.  false: no memory. */
static bool keep_fields(serve_request *r, const http_head *head) {
  r->method = strdup(head->method);
  r->header = calloc(head->n + !head->n, sizeof *r->header);
  if (!r->method || !r->header) return false;
  for (size_t i = 0; i < head->n; ++i) {
    http_pair *pair = &r->header[r->n_header++];
    pair->name = strndup(head->field[i].name, head->field[i].n_name);
    pair->value = strndup(head->field[i].value, head->field[i].n_value);
    if (!pair->name || !pair->value) return false;
  }
  return true;
}

static void refuse(serve_request *r, int status, const char *message) {
  r->close_after = true;
  serve_fail(r, status, NULL, NULL, "%s", message);
}

static void refuse_route(serve_request *r, int status, const char *allow) {
  /* what is left of a body is not read */
  r->close_after = strcmp(r->method, "GET") != 0;
  if (*allow) serve_add_header(r, "Allow", allow);
  if (status == 405)
    serve_fail(r, 405, NULL, NULL, "%.200s takes %s, not %.20s", r->path, allow, r->method);
  else
    serve_fail(r, 404, NULL, NULL, "there is nothing at %.200s: GET /openapi.json lists the paths",
               r->path);
}

/* A browser asks whether a page of another origin, which is allowed, may send a request. */
static void answer_preflight(serve_request *r) {
  const char *asked = serve_header(r, "Access-Control-Request-Headers");
  serve_add_header(r, "Access-Control-Allow-Methods", "GET, HEAD, POST");
  serve_add_header(r, "Access-Control-Allow-Headers",
                   asked ? asked : "Authorization, Content-Type");
  serve_add_header(r, "Access-Control-Max-Age", "600");
  serve_answer(r, 204, NULL, NULL, 0);
}

static void check_access(serve_request *r) {
  const serve_server *server = r->server;
  if (!server->config->api_key_file || http_route_open(r->route)) return;
  if (http_keys_match(&server->keys, serve_header(r, "Authorization"))) return;
  r->close_after = true;
  serve_add_header(r, "WWW-Authenticate", "Bearer");
  serve_fail(r, 401, NULL, "invalid_api_key",
             "a key is missing or wrong: Authorization: Bearer KEY");
}

static void check_load(serve_request *r) {
  uint32_t running, waiting;
  if (strcmp(r->method, "POST")) return;
  if (atomic_load(&r->server->draining)) {
    serve_add_header(r, "Retry-After", "5");
    refuse(r, 503, "the server stops");
    return;
  }
  http_workers_counts(&r->server->workers, &running, &waiting);
  if (waiting < r->server->config->max_waiting || running < r->server->config->max_requests) return;
  serve_add_header(r, "Retry-After", "1");
  refuse(r, 429, "too many requests wait already");
}

/* Judges the head; afterwards there is an answer, or the request has a route. */
static void judge(serve_request *r, const http_head *head) {
  int status = 0;
  char allow[32];
  r->path = http_target_path(r->target);
  if (!r->path || !keep_fields(r, head)) {
    refuse(r, r->path ? 500 : 400, r->path ? "out of memory" : "the path is malformed");
    return;
  }
  r->max_body = http_route_max_body(r->server->config, r->path);
  const http_verdict v = http_gate(head, &r->server->rules, r->max_body);
  r->close_after = v.chunked;
  r->length = v.length;
  if (v.status) {
    refuse(r, v.status, v.message);
    return;
  }
  if (v.cross_origin) r->allowed_origin = serve_header(r, "Origin");
  if (v.cross_origin && !strcmp(r->method, "OPTIONS")) {
    answer_preflight(r);
    return;
  }
  r->route = http_route_find(r->method, r->path, &r->rest, &status, allow);
  if (status) {
    refuse_route(r, status, allow);
    return;
  }
  check_access(r);
  if (!r->status) check_load(r);
}

/* ---- the body ---- */

/* What does not fit is read and forgotten, as answers are possible only behind it; MHD_NO: it goes
 * on for too long. */
static enum MHD_Result take_body(serve_request *r, const char *data, size_t n) {
  const uint64_t all = r->n_body + n;
  if (!r->body_status && all > r->max_body) r->body_status = 413;
  if (all > 2 * r->max_body + 65536) return MHD_NO;
  if (!r->body_status && all >= r->body_capacity) {
    size_t capacity = all < 4096 ? 8192 : 2 * all;
    if (r->length >= all && r->length < capacity) capacity = r->length + 1;
    char *body =
        serve_request_charge(r, capacity - r->body_capacity) ? realloc(r->body, capacity) : NULL;
    if (!body) r->body_status = 503;
    if (body) r->body = body, r->body_capacity = capacity;
  }
  if (!r->body_status) {
    memcpy(r->body + r->n_body, data, n);
    r->body[all] = 0;
  }
  r->n_body = all;
  http_watch_phase(r->server, r->watched, HTTP_BODY, all, NULL);
  return MHD_YES;
}

static void fail_body(serve_request *r) {
  if (r->body_status == 503) {
    serve_add_header(r, "Retry-After", "1");
    refuse(r, 503, "the server has no memory for more requests at the moment");
  } else {
    refuse(r, 413, "the body is larger than this route takes");
  }
}

/* Hands the request to a worker; the connection waits for its answer. */
static void dispatch(serve_request *r) {
  serve_server *server = r->server;
  http_workers *workers = strcmp(r->method, "POST") ? &server->quick : &server->workers;
  pthread_mutex_lock(&r->lock);
  r->suspended = true;
  MHD_suspend_connection(r->connection);
  pthread_mutex_unlock(&r->lock);
  http_watch_phase(server, r->watched, HTTP_BUSY, 0, r);
  r->references++;
  if (http_workers_push(workers, r)) return;
  serve_request_release(r);
  serve_add_header(r, "Retry-After", "1");
  serve_fail(r, 429, NULL, NULL, "too many requests wait already");
  serve_metrics_answer(server->metrics, r->route, r->status);
}

/* ---- what libmicrohttpd calls for each piece of a request ---- */

/* Queues the answer that is there. */
static enum MHD_Result answer(serve_request *r, struct MHD_Connection *connection) {
  int status;
  struct MHD_Response *response = serve_reply_take(r, &status);
  if (!response) return MHD_NO;
  const enum MHD_Result queued = MHD_queue_response(connection, (unsigned)status, response);
  MHD_destroy_response(response);
  return queued;
}

static enum MHD_Result answer_now(serve_request *r, struct MHD_Connection *connection) {
  http_watch_phase(r->server, r->watched, HTTP_ANSWER, 0, NULL);
  serve_metrics_answer(r->server->metrics, r->route, r->status);
  serve_log(ACCEL_LOG_INFO, "request %llu: refused with %d", (unsigned long long)r->number,
            r->status);
  return answer(r, connection);
}

static enum MHD_Result on_head(serve_request *r, struct MHD_Connection *connection,
                               const char *method, const char *version) {
  fields f;
  f.n = 0;
  r->judged = true;
  r->connection = connection;
  r->watched = connection_of(connection);
  if (!r->watched) return MHD_NO; /* no memory for it */
  MHD_get_connection_values_n(connection, MHD_HEADER_KIND, add_field, &f);
  const http_head head = {method, r->target, version, f.field, f.n};
  judge(r, &head);
  if (r->status) return answer_now(r, connection);
  http_watch_phase(r->server, r->watched, HTTP_BODY, 0, NULL);
  return MHD_YES;
}

static enum MHD_Result on_request(void *user, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *n_upload, void **own) {
  serve_request *r = *own;
  (void)user;
  (void)url;
  if (!r) return MHD_NO; /* there was no memory for it */
  if (!r->judged) return on_head(r, connection, method, version);
  if (r->status) return answer(r, connection);
  if (*n_upload) {
    const enum MHD_Result taken = take_body(r, upload, *n_upload);
    *n_upload = 0;
    return taken;
  }
  if (r->body_status) {
    fail_body(r);
    return answer_now(r, connection);
  }
  dispatch(r);
  return MHD_YES;
}

/* ---- the daemon ---- */

static void on_message(void *user, const char *format, va_list arguments) {
  char line[512];
  (void)user;
  vsnprintf(line, sizeof line, format, arguments);
  line[strcspn(line, "\n")] = 0;
  serve_log(ACCEL_LOG_DEBUG, "libmicrohttpd: %s", line);
}

bool http_server_start(serve_server *server) {
  const unsigned flags =
      MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC | MHD_USE_ERROR_LOG;
  server->daemon = MHD_start_daemon(
      flags, 0, on_connect, server, on_request, server, MHD_OPTION_EXTERNAL_LOGGER, on_message,
      NULL, MHD_OPTION_LISTEN_SOCKET, server->listener.fd, MHD_OPTION_CONNECTION_LIMIT,
      server->config->max_connections + 64, MHD_OPTION_NOTIFY_CONNECTION, on_connection, server,
      MHD_OPTION_NOTIFY_COMPLETED, on_completed, server, MHD_OPTION_URI_LOG_CALLBACK, on_target,
      server, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
  return server->daemon != NULL;
}

void http_server_stop(serve_server *server) {
  if (server->daemon) MHD_stop_daemon(server->daemon);
  server->daemon = NULL;
}
