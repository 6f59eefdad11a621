/* serve.h - what the routes of `accel serve` are written against.
 *
 * The server links the public interface only, like the rest of the tool.  http_*.c own the
 * connections (libmicrohttpd) and the threads; routes_*.c own one group of routes each: a handler is
 * called on a thread of its own, reads the request, submits to the queue of a model, waits, and
 * answers exactly once.  It may block: the connection is suspended meanwhile, and a client that
 * leaves cancels the tickets that the handler watches.  Handlers of several requests run at once;
 * they share nothing but the server.
 */
#ifndef ACCEL_SERVE_SERVE_H
#define ACCEL_SERVE_SERVE_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "accel/accel.h"

typedef struct serve_request serve_request; /* one HTTP request and its answer */

/* A handler answers before it returns; a request without an answer gets 500. */
typedef void (*serve_handler)(serve_request *request);

/* One line of routes.def. */
typedef struct serve_route {
  const char *method; /* "GET" or "POST" */
  const char *path;   /* a trailing '*' stands for any rest: "/v1/models/" and serve_path_rest() */
  serve_handler handler;
  const char *summary; /* for openapi.json */
} serve_route;
extern const serve_route serve_routes[];
extern const size_t serve_route_count;

#define ROUTE(method, path, handler, summary) void handler(serve_request *request);
#include "serve/routes.def"

/* ---- the request: everything is valid until the handler returns -------------------------------
 */

const char *serve_method(const serve_request *request);
/* What stands for the '*' of the route's path, decoded; "" without one. */
const char *serve_path_rest(const serve_request *request);
/* Value of a header, its name in any case, or of a query argument, decoded; NULL: absent. */
const char *serve_header(const serve_request *request, const char *name);
const char *serve_query(const serve_request *request, const char *name);
/* The body, zero-terminated behind *n bytes. */
const char *serve_body(const serve_request *request, size_t *n);
/* The body as a JSON object, parsed once.  NULL: it is none, and 400 has been answered. */
const cJSON *serve_json(serve_request *request);

/* A field of a form (multipart/form-data or urlencoded). */
typedef struct serve_part {
  const char *name;
  const char *file_name; /* NULL: not a file */
  const char *type;      /* media type that the client gave; NULL: none */
  const char *data;      /* zero-terminated behind n bytes */
  size_t n;
} serve_part;
/* [*n] the fields of the body in their order.  NULL: it is no form, and 400 has been answered. */
const serve_part *serve_form(serve_request *request, uint32_t *n);

/* ---- the answer -------------------------------------------------------------------------------
 */

/* Adds a header to the answer; before the answer. */
void serve_add_header(serve_request *request, const char *name, const char *value);
/* Answers with n bytes at body, which malloc gave and the server frees. */
void serve_answer(serve_request *request, int status, const char *type, char *body, size_t n);
/* Answers with `json`, which is deleted; NULL: out of memory, 500. */
void serve_answer_json(serve_request *request, int status, cJSON *json);
/* Answers with an error as OpenAI writes it: {"error": {message, type, param, code}}.  param: the
 * field at fault, or NULL; code: as "context_length_exceeded", or NULL. */
void serve_fail(serve_request *request, int status, const char *param, const char *code,
                const char *format, ...) __attribute__((format(printf, 5, 6)));
/* The same for what the library answered last on this thread: the HTTP status follows from
 * `status`, the message from accel_last_error(). */
void serve_fail_with(serve_request *request, accel_status status, const char *param);

/* Begins an answer that is written bit by bit (type as "text/event-stream").  serve_write() may be
 * called from any thread until serve_end(), before serve_begin(), too (then it is kept until that, or
 * forgotten when the answer is another); it never blocks, and returns false once the request is to
 * end: the client is gone, or reads so slowly that more than 1 MiB waits for it. */
bool serve_begin(serve_request *request, const char *type);
bool serve_write(serve_request *request, const char *data, size_t n);
void serve_end(serve_request *request);
/* One server-sent event of `json`, which is deleted: "data: {...}\n\n". */
bool serve_write_event(serve_request *request, cJSON *json);

/* ---- ends before the end ----------------------------------------------------------------------
 */

/* The client has left, or the server will not wait for this request any longer. */
bool serve_gone(const serve_request *request);
/* Tickets that a request may have under way. */
enum { SERVE_TICKETS = 16 };
/* Cancels `ticket` when that happens, at once when it has.  Until serve_unwatch(), which must come
 * before an accel_wait_...() that may take the result: a ticket that is freed can not be cancelled.
 * serve_submit() and serve_wait() do all of it.  false: SERVE_TICKETS are watched already. */
bool serve_watch(serve_request *request, accel_ticket *ticket);
void serve_unwatch(serve_request *request, accel_ticket *ticket);

/* The usual way, for requests to a queue: submits `what`, whose `done` and `user` the server sets,
 * and watches the ticket.  ACCEL_ERROR_LIMIT: the request has SERVE_TICKETS under way already.  Else as
 * accel_submit_request(). */
accel_status serve_submit(serve_request *request, accel_queue *queue, accel_request *what,
                          accel_ticket **ticket);
/* Blocks until the ticket of serve_submit() is done, however it ended, and watches it no longer: the
 * accel_wait_...() that goes with it, which must follow, answers at once. */
void serve_wait(serve_request *request, accel_ticket *ticket);

/* ---- models -----------------------------------------------------------------------------------
 */

/* A model that a request has taken; it stays loaded until the request is over. */
typedef struct serve_model {
  const char *name; /* as clients call it */
  /* accel_endpoint's task, as "text-generation", "text-ranking" for a head of one label; "" when it
   * has none */
  const char *task;
  accel_endpoint *endpoint;
  accel_queue *queue; /* all requests of this model go through it */
  const char *path;   /* as it was named on the command line */
  const char *device; /* where it was placed, "cpu", and at what precision, "fp32"; under "auto" */
  const char *precision; /* it may go on at another one, which nobody looks up here */
  /* "MODEL:ADAPTER": the adapter that its requests run with, and what scales it; NULL: none.  A route
   * sets them in its parameters with serve_use_adapter(), or refuses the model. */
  const accel_adapter *adapter;
  double adapter_scale;
} serve_model;

/* Sets .adapter and .adapter_scale of the parameters of a request to `model`. */
#define serve_use_adapter(params, model) \
  ((params)->adapter = (model)->adapter, (params)->adapter_scale = (model)->adapter_scale)

/* The model `name` (NULL or "": the first one that serves one of `tasks`, a list closed by NULL;
 * tasks NULL: the first one).  It stays loaded until the handler returns.  NULL: there is none, or
 * it does not serve any of `tasks`, or it could not be loaded, and 404, 400 or 503 has been
 * answered.  Where memory is short (serve_config.pool_memory) the call loads it, and waits for
 * others to give theirs back. */
const serve_model *serve_take_model(serve_request *request, const char *name,
                                    const char *const *tasks);

/* ---- what is counted --------------------------------------------------------------------------
 */

/* Adds to the counts of the request's model that /metrics gives; call once, at the end. */
typedef struct serve_counts {
  uint64_t prompt_tokens, generated_tokens;
  double first_token_s; /* from the request's arrival; 0: does not apply */
  double token_s;       /* mean time between tokens; 0: does not apply */
} serve_counts;
void serve_count(serve_request *request, const serve_counts *counts);
/* Seconds since the request's head was read. */
double serve_age(const serve_request *request);

#endif
