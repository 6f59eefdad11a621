/* serve_run.c - see serve_run.h. */
#include "serve/serve_run.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "serve/http_server.h"
#include "serve/serve_log.h"

/* Numbers of connections begin at 1 and do not come as far. */
enum { SIGNALS = 0 };
static const uint64_t loader_done = UINT64_MAX;
static const double tick_s = 0.25, flush_s = 2; /* at the end, for answers that are being sent */

typedef struct run_state {
  serve_server server;
  accel *ctx;
  int signals, loaded; /* a signalfd; an eventfd that the loader writes to */
  pthread_t loader;
  bool loading;             /* there is such a thread */
  accel_status load_status; /* once `loaded` is readable */
  _Atomic bool cancel;      /* calls of the context are to end */
} run_state;

static accel_status failed(const char *what) {
  serve_log(ACCEL_LOG_ERROR, "%s: %s", what, strerror(errno));
  return ACCEL_ERROR_IO;
}

/* ---- parts ---- */

/* SIGINT and SIGTERM are read, in no thread handled; SIGPIPE is no more than a failed write. */
static accel_status open_signals(run_state *s) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  s->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  sigaddset(&set, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  s->loaded = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  return s->signals < 0 || s->loaded < 0 ? failed("signals") : ACCEL_OK;
}

static accel_status listen_to(const run_state *s, int fd, uint64_t number) {
  struct epoll_event event = {.events = EPOLLIN, .data.u64 = number};
  return epoll_ctl(s->server.watch.epoll, EPOLL_CTL_ADD, fd, &event) ? failed("epoll") : ACCEL_OK;
}

static int is_cancelled(void *user) {
  const run_state *s = user;
  return atomic_load(&s->cancel);
}

static accel_status open_keys(serve_server *server) {
  const char *path = server->config->api_key_file;
  char why[160];
  if (!path || http_keys_read(path, &server->keys, why, sizeof why)) return ACCEL_OK;
  serve_log(ACCEL_LOG_ERROR, "%s: %s", path, why);
  return ACCEL_ERROR_ARGUMENT;
}

/* By which names the server may be called: that of --host, and those of --allow-host.  No name leads
 * a browser to a Unix socket. */
static accel_status open_rules(serve_server *server) {
  const serve_config *config = server->config;
  const char **names = malloc((config->allow_host.n + 1) * sizeof *names);
  if (!names) {
    serve_log(ACCEL_LOG_ERROR, "out of memory");
    return ACCEL_ERROR_OUT_OF_MEMORY;
  }
  names[0] = server->listener.unix_socket ? "*" : config->host;
  for (uint32_t i = 0; i < config->allow_host.n; ++i) names[i + 1] = config->allow_host.item[i];
  server->rules = (http_rules){names, config->allow_origin.item, config->allow_host.n + 1,
                               config->allow_origin.n};
  return ACCEL_OK;
}

static accel_status open_context(run_state *s) {
  const serve_config *config = s->server.config;
  accel_params params = config->context;
  params.log = serve_log_library;
  params.progress = NULL;
  params.cancel = is_cancelled;
  params.cancel_user = s;
  const accel_status status = accel_create(&params, &s->ctx);
  if (status) serve_log(ACCEL_LOG_ERROR, "%s", accel_last_error());
  return status ? status : serve_models_new(s->ctx, config, &s->server.models);
}

static accel_status open_server(run_state *s) {
  serve_server *server = &s->server;
  const serve_config *config = server->config;
  accel_status status = open_signals(s);
  if (!http_watch_open(&server->watch)) return failed("epoll");
  if (!status) status = open_keys(server);
  if (!status) status = http_listen(config, &server->listener);
  if (!status) status = open_rules(server);
  if (!status) status = open_context(s);
  if (status) return status;
  server->metrics =
      serve_metrics_new(serve_models_names(server->models), serve_models_count(server->models));
  const bool workers =
      http_workers_open(&server->workers, server, config->max_requests, config->max_waiting);
  if (!http_workers_open(&server->quick, server, 2, 64) || !workers || !server->metrics) {
    serve_log(ACCEL_LOG_ERROR, "out of memory");
    return ACCEL_ERROR_OUT_OF_MEMORY;
  }
  status = listen_to(s, s->signals, SIGNALS);
  if (!status) status = listen_to(s, s->loaded, loader_done);
  if (status) return status;
  if (http_server_start(server)) return ACCEL_OK;
  serve_log(ACCEL_LOG_ERROR, "libmicrohttpd does not start");
  return ACCEL_ERROR_INTERNAL;
}

/* ---- loading ---- */

static void *load(void *user) {
  run_state *s = user;
  const uint64_t one = 1;
  s->load_status = serve_models_load(s->server.models);
  if (write(s->loaded, &one, sizeof one) < 0) failed("eventfd");
  return NULL;
}

static accel_status start_loading(run_state *s) {
  s->loading = !pthread_create(&s->loader, NULL, load, s);
  return s->loading ? ACCEL_OK : failed("threads");
}

static void end_loading(run_state *s) {
  if (s->loading) pthread_join(s->loader, NULL);
  s->loading = false;
}

/* ---- the watcher ---- */

/* Handles one event; true: the server is to stop, *status says why. */
static bool on_event(run_state *s, uint64_t number, accel_status *status) {
  struct signalfd_siginfo signal;
  if (number == SIGNALS) {
    return read(s->signals, &signal, sizeof signal) == (ssize_t)sizeof signal;
  }
  if (number != loader_done) {
    http_watch_left(&s->server, number);
    return false;
  }
  end_loading(s);
  epoll_ctl(s->server.watch.epoll, EPOLL_CTL_DEL, s->loaded, NULL);
  *status = s->load_status;
  if (!*status) serve_say("ready: %s", s->server.listener.url);
  return *status != ACCEL_OK;
}

static bool is_idle(serve_server *server) {
  uint32_t running, waiting;
  http_workers_counts(&server->workers, &running, &waiting);
  return !running && !waiting;
}

/* Until a signal comes, a model cannot be loaded (true), or until `until`, a time of serve_now(), or,
 * where it is not 0, nothing runs any more (false). */
static bool watch(run_state *s, double until, accel_status *status) {
  struct epoll_event event[64];
  double ticked = 0;
  while (!until || serve_now() < until) {
    const int n = epoll_wait(s->server.watch.epoll, event, 64, (int)(1e3 * tick_s));
    for (int i = 0; i < n; ++i)
      if (on_event(s, event[i].data.u64, status)) return true;
    const double now = serve_now();
    if (now - ticked < tick_s) continue;
    ticked = now;
    http_watch_tick(&s->server);
    if (until && is_idle(&s->server)) return false;
  }
  return false;
}

/* No new connections and requests; what runs has `drain` seconds, then it is cancelled.  A second
 * signal ends the patience. */
static void drain(run_state *s) {
  serve_server *server = &s->server;
  uint32_t running, waiting;
  accel_status status;
  http_workers_counts(&server->workers, &running, &waiting);
  serve_say("stopping: %u requests run, %u wait", running, waiting);
  atomic_store(&server->draining, true);
  const MHD_socket listener = MHD_quiesce_daemon(server->daemon);
  if (listener != MHD_INVALID_SOCKET) http_listener_stop(&server->listener);
  if (running + waiting) watch(s, serve_now() + server->config->drain, &status);
  atomic_store(&s->cancel, true);
  http_watch_stop(server);
}

static void close_server(run_state *s) {
  serve_server *server = &s->server;
  /* in this order: behind the workers' end no connection is suspended */
  http_workers_stop(&server->workers);
  http_workers_stop(&server->quick);
  http_watch_flush(server, flush_s);
  http_server_stop(server);
  http_workers_free(&server->workers);
  http_workers_free(&server->quick);
  http_listener_close(&server->listener);
  serve_models_free(server->models);
  accel_destroy(&s->ctx);
  serve_metrics_free(server->metrics);
  http_keys_free(&server->keys);
  free((void *)server->rules.host);
  http_watch_close(&server->watch);
  if (s->signals >= 0) close(s->signals);
  if (s->loaded >= 0) close(s->loaded);
}

int serve_run(const serve_config *config) {
  run_state s = {.signals = -1, .loaded = -1};
  serve_server *server = &s.server;
  server->config = config;
  server->listener.fd = -1;
  server->watch.epoll = -1;
  serve_log_set_level(config->context.log_level);
  if (!config->n_model) {
    serve_log(ACCEL_LOG_ERROR, "which model?  --model PATH, or models in the file of --config");
    return accel_status_exit_code(ACCEL_ERROR_ARGUMENT);
  }
  accel_status status = open_server(&s);
  if (!status) serve_say("listening at %s, process %ld", server->listener.url, (long)getpid());
  if (!status) status = start_loading(&s);
  if (!status) watch(&s, 0, &status);
  if (server->daemon) drain(&s);
  end_loading(&s);
  close_server(&s);
  return accel_status_exit_code(status);
}
