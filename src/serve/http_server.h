/* http_server.h - the inside of the server: connections, requests, threads.
 *
 * Threads: libmicrohttpd's one (the connections' thread) accepts, reads heads and bodies and writes
 * answers; workers run handlers; the watcher, which is the thread of serve_run(), sees clients
 * leave, deadlines pass and signals come.
 *
 * A request is shared by the connection (until its answer is out), by the worker (until the handler
 * has returned) and by a streamed answer that libmicrohttpd reads; the last of them frees it.
 *
 * Locks, each of which may be held while one behind it is taken: serve_request.lock,
 * http_watch.lock, that of the metrics.  libmicrohttpd's own come behind serve_request.lock.  The
 * library's come behind tickets_lock, which no callback of the library takes; done_lock stands
 * alone.
 */
#ifndef ACCEL_SERVE_HTTP_SERVER_H
#define ACCEL_SERVE_HTTP_SERVER_H

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

#include "serve/http_gate.h"
#include "serve/http_keys.h"
#include "serve/http_listen.h"
#include "serve/serve_metrics.h"
#include "serve/serve_models.h"

/* ---- connections (http_watch.c) ---------------------------------------------------------------
 */

/* What a connection does; each but BUSY has a time by which it must be over. */
typedef enum http_phase {
  HTTP_HEAD,  /* a request's head is waited for */
  HTTP_BODY,  /* its body is read */
  HTTP_BUSY,  /* it waits or runs: the client is watched for leaving */
  HTTP_ANSWER /* what is left of the answer is written */
} http_phase;

typedef struct http_connection {
  struct http_connection *next, *previous;
  int fd;
  uint64_t number; /* never used twice */
  http_phase phase;
  double since, until;       /* seconds of serve_now() */
  bool local, closing;       /* of this machine; shut down, and soon removed */
  unsigned char address[16]; /* of the client, IPv4 mapped; zeros of Unix sockets */
  serve_request *request;    /* BUSY */
} http_connection;

typedef struct http_watch {
  pthread_mutex_t lock;
  int epoll; /* fds of busy connections */
  http_connection *first;
  uint32_t n, closing; /* connections; those of them that are shut down */
  uint64_t numbers;
} http_watch;

typedef struct serve_server serve_server;

bool http_watch_open(http_watch *watch);
void http_watch_close(http_watch *watch);
/* Whether a client at `address` may connect; makes room by closing the connection that has been idle
 * for longest. */
bool http_watch_admit(serve_server *server, const struct sockaddr *address);
/* NULL: no memory. */
http_connection *http_watch_add(serve_server *server, struct MHD_Connection *connection);
void http_watch_remove(serve_server *server, http_connection *c);
/* BUSY: `request` is what is told when the client leaves.  n: bytes of the body so far, or of the
 * answer that is left. */
void http_watch_phase(serve_server *server, http_connection *c, http_phase phase, uint64_t n,
                      serve_request *request);
/* The client of connection `number` has left; then what is late. */
void http_watch_left(serve_server *server, uint64_t number);
void http_watch_tick(serve_server *server);
/* All requests are to end. */
void http_watch_stop(serve_server *server);
/* Waits for answers that are being sent, for `seconds` at the most. */
void http_watch_flush(serve_server *server, double seconds);

/* ---- workers (http_workers.c) -----------------------------------------------------------------
 */

/* Requests that wait for a thread, first come first served, and threads that are made as they are
 * needed and stay. */
typedef struct http_workers {
  pthread_mutex_t lock;
  pthread_cond_t changed; /* a request waits, or `stop` */
  serve_request *first, *last;
  uint32_t waiting, running, threads, max_threads, max_waiting;
  pthread_t *thread;
  serve_server *server;
  bool stop;
} http_workers;

bool http_workers_open(http_workers *workers, serve_server *server, uint32_t max_threads,
                       uint32_t max_waiting);
/* Takes no more requests, and waits until the handlers of those that are there have returned. */
void http_workers_stop(http_workers *workers);
void http_workers_free(http_workers *workers);
/* Hands over a reference to `request`; false: too many wait. */
bool http_workers_push(http_workers *workers, serve_request *request);
/* Takes a request out of the list, with its reference; false: it is not there any more. */
bool http_workers_drop(http_workers *workers, serve_request *request);
void http_workers_counts(http_workers *workers, uint32_t *running, uint32_t *waiting);

/* ---- the server -------------------------------------------------------------------------------
 */

struct serve_server {
  const serve_config *config;
  http_rules rules;
  http_keys keys;
  http_listener listener;
  struct MHD_Daemon *daemon;
  http_watch watch;
  http_workers workers; /* of POST */
  http_workers quick;   /* of GET: health and metrics do not wait behind generations */
  serve_models *models;
  serve_metrics *metrics;
  _Atomic uint64_t body_bytes; /* of all requests */
  _Atomic uint64_t requests;   /* so far */
  _Atomic bool draining;       /* no new requests */
  _Atomic bool stopping;       /* running ones are to end */
};

double serve_now(void); /* seconds, monotonic */

/* Starts and ends the daemon; the rest of the server is there. */
bool http_server_start(serve_server *server);
void http_server_stop(serve_server *server);

/* ---- one request ------------------------------------------------------------------------------
 */

enum { SERVE_TAKEN = 4 };

typedef struct serve_slot {
  serve_request *request;
  accel_ticket *ticket;  /* watched; NULL: not (any more) */
  accel_ticket *awaited; /* of serve_submit(); NULL: the slot is free, or of serve_watch() */
  bool used, done;
} serve_slot;

/* The bytes of a streamed answer that the connection has not taken yet. */
typedef struct http_stream {
  char *data;
  size_t begin, end, capacity;
  bool on, waiting, ended; /* waiting: the connection is suspended until there is more */
} http_stream;

typedef struct http_pair {
  char *name, *value;
} http_pair;

struct serve_request {
  serve_server *server;
  serve_request *next; /* in the list of workers */
  _Atomic uint32_t references;
  uint64_t number;
  double arrived, began; /* seconds of serve_now() */

  /* the head: the connections' thread writes it, then it stays */
  char *target, *path, *method;
  const char *rest;
  size_t route; /* serve_route_count: none */
  http_pair *header;
  size_t n_header;
  bool judged, close_after;
  const char *allowed_origin; /* NULL: no page of another origin asks */

  /* the body */
  char *body;
  size_t n_body, body_capacity;
  uint64_t length, max_body, charged; /* Content-Length; the route's; of serve_server.body_bytes */
  int body_status;                    /* why it is not taken: 413, 503; 0 */
  cJSON *json;
  serve_part *part;
  uint32_t n_part;
  char **query; /* [n_query] values that were asked for */
  size_t n_query;

  /* the answer, and who has a part in it */
  pthread_mutex_t lock;
  struct MHD_Connection *connection; /* NULL: it has ended */
  http_connection *watched;
  http_pair *added;
  size_t n_added;
  struct MHD_Response *response;
  bool suspended; /* the connection waits for `response` */
  int status;     /* 0: no answer yet */
  http_stream stream;

  /* it is to end; nobody reads its answer; its time is over */
  _Atomic bool gone, lost, expired;
  pthread_mutex_t tickets_lock;
  pthread_mutex_t done_lock;
  pthread_cond_t done_changed;
  serve_slot slot[SERVE_TICKETS];

  serve_taken taken[SERVE_TAKEN];
  uint32_t n_taken;
};

/* http_request.c */
serve_request *serve_request_new(serve_server *server, const char *target);
void serve_request_release(serve_request *request);
/* Counts `bytes` more of the memory that all bodies may take; false: there is no more. */
bool serve_request_charge(serve_request *request, uint64_t bytes);
/* Cancels what is watched; lost: nobody reads the answer either. */
void serve_request_leave(serve_request *request, bool lost);
/* Ends what a handler has left: tickets, models. */
void serve_request_finish(serve_request *request);

/* http_reply.c: takes the response that waits, NULL: none.  On the connections' thread. */
struct MHD_Response *serve_reply_take(serve_request *request, int *status);
/* The connection has ended. */
void serve_reply_detach(serve_request *request);

/* http_routes.c: the number of the route; serve_route_count and *status 404 or 405 with the methods
 * that there are in `allow`. */
size_t http_route_find(const char *method, const char *path, const char **rest, int *status,
                       char allow[32]);
/* Whether it may be called without a key. */
bool http_route_open(size_t route);
/* Whether its requests are forms with sounds. */
bool http_path_of_sounds(const char *path);
uint64_t http_route_max_body(const serve_config *config, const char *path);

#endif
