/* http_watch.c - the connections: how many, how long in what phase, and whether their clients are
 * still there. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "serve/http_server.h"

/* Bodies and answers pass at least as fast, in bytes a second, behind the time that all have. */
static const double least_rate = 16384;

bool http_watch_open(http_watch *watch) {
  *watch = (http_watch){.epoll = epoll_create1(EPOLL_CLOEXEC)};
  pthread_mutex_init(&watch->lock, NULL);
  return watch->epoll >= 0;
}

void http_watch_close(http_watch *watch) {
  if (watch->epoll >= 0) close(watch->epoll);
  pthread_mutex_destroy(&watch->lock);
}

/* ---- limits ---- */

/* IPv4 as IPv6 writes it; false: the client is on this machine. */
static bool read_address(const struct sockaddr *from, unsigned char to[16]) {
  static const unsigned char mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
  memset(to, 0, 16);
  if (from && from->sa_family == AF_INET) {
    memcpy(to, mapped, 12);
    memcpy(to + 12, &((const struct sockaddr_in *)(const void *)from)->sin_addr, 4);
    return to[12] != 127;
  }
  if (!from || from->sa_family != AF_INET6) return false;
  const struct in6_addr *v6 = &((const struct sockaddr_in6 *)(const void *)from)->sin6_addr;
  memcpy(to, v6, 16);
  return !IN6_IS_ADDR_LOOPBACK(v6) && !(!memcmp(to, mapped, 12) && to[12] == 127);
}

/* The connections' thread sees the end of it and closes it. */
static void shut(serve_server *server, http_connection *c) {
  if (c->closing) return;
  shutdown(c->fd, SHUT_RDWR);
  c->closing = true;
  ++server->watch.closing;
  serve_metrics_refused(server->metrics);
}

static http_connection *longest_idle(const http_watch *watch) {
  http_connection *found = NULL;
  for (http_connection *c = watch->first; c; c = c->next)
    if (c->phase == HTTP_HEAD && !c->closing && (!found || c->since < found->since)) found = c;
  return found;
}

bool http_watch_admit(serve_server *server, const struct sockaddr *address) {
  http_watch *watch = &server->watch;
  unsigned char from[16];
  const bool remote = read_address(address, from);
  uint32_t same = 0;
  pthread_mutex_lock(&watch->lock);
  for (const http_connection *c = watch->first; remote && c; c = c->next)
    same += !c->local && !c->closing && !memcmp(c->address, from, sizeof from);
  bool admitted = !remote || same < server->config->connections_per_address;
  if (admitted && watch->n - watch->closing >= server->config->max_connections) {
    http_connection *idle = longest_idle(watch);
    if (idle) shut(server, idle);
    admitted = idle != NULL;
  }
  pthread_mutex_unlock(&watch->lock);
  if (!admitted) serve_metrics_refused(server->metrics);
  return admitted;
}

/* ---- the list ---- */

http_connection *http_watch_add(serve_server *server, struct MHD_Connection *connection) {
  http_watch *watch = &server->watch;
  const union MHD_ConnectionInfo *fd =
      MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  const union MHD_ConnectionInfo *address =
      MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
  http_connection *c = fd ? calloc(1, sizeof *c) : NULL;
  if (!c) return NULL;
  c->fd = fd->connect_fd;
  c->local = !read_address(address ? address->client_addr : NULL, c->address);
  c->since = serve_now();
  c->until = c->since + server->config->header_timeout;
  pthread_mutex_lock(&watch->lock);
  c->number = ++watch->numbers;
  c->next = watch->first;
  if (c->next) c->next->previous = c;
  watch->first = c;
  ++watch->n;
  pthread_mutex_unlock(&watch->lock);
  return c;
}

/* From now on nobody is told when the client leaves; within `lock`. */
static void stop_watching(http_watch *watch, http_connection *c) {
  if (c->request) epoll_ctl(watch->epoll, EPOLL_CTL_DEL, c->fd, NULL);
  c->request = NULL;
}

void http_watch_remove(serve_server *server, http_connection *c) {
  http_watch *watch = &server->watch;
  if (!c) return;
  pthread_mutex_lock(&watch->lock);
  stop_watching(watch, c);
  if (c->next) c->next->previous = c->previous;
  if (c->previous)
    c->previous->next = c->next;
  else
    watch->first = c->next;
  --watch->n;
  watch->closing -= c->closing;
  pthread_mutex_unlock(&watch->lock);
  free(c);
}

void http_watch_phase(serve_server *server, http_connection *c, http_phase phase, uint64_t n,
                      serve_request *request) {
  http_watch *watch = &server->watch;
  const double now = serve_now(), grace = server->config->header_timeout;
  pthread_mutex_lock(&watch->lock);
  stop_watching(watch, c);
  if (phase != c->phase) c->since = now;
  c->phase = phase;
  c->until = phase == HTTP_HEAD   ? c->since + grace
             : phase == HTTP_BODY ? c->since + grace + (double)n / least_rate
                                  : now + 2 * grace + (double)n / least_rate;
  if (phase == HTTP_BUSY) {
    struct epoll_event event = {.events = EPOLLRDHUP, .data.u64 = c->number};
    c->request = epoll_ctl(watch->epoll, EPOLL_CTL_ADD, c->fd, &event) ? NULL : request;
  }
  pthread_mutex_unlock(&watch->lock);
}

/* ---- clients that leave, and what is late ---- */

/* What waits is not begun, what runs is cancelled.  Takes over a reference. */
static void give_up(serve_server *server, serve_request *r, bool lost) {
  serve_request_leave(r, lost);
  if (http_workers_drop(&server->workers, r) || http_workers_drop(&server->quick, r)) {
    serve_fail_with(r, ACCEL_ERROR_CANCELLED, NULL);
    serve_metrics_answer(server->metrics, r->route, r->status);
    serve_request_release(r);
  }
  serve_request_release(r);
}

void http_watch_left(serve_server *server, uint64_t number) {
  http_watch *watch = &server->watch;
  serve_request *r = NULL;
  pthread_mutex_lock(&watch->lock);
  for (http_connection *c = watch->first; c && !r; c = c->next) {
    if (c->number != number || !c->request) continue;
    r = c->request;
    ++r->references;
    stop_watching(watch, c);
  }
  pthread_mutex_unlock(&watch->lock);
  if (r) give_up(server, r, true);
}

/* One request whose time is over, with a reference; NULL: none. */
static serve_request *take_late(serve_server *server, double now) {
  http_watch *watch = &server->watch;
  const double most = server->config->request_timeout;
  serve_request *late = NULL;
  pthread_mutex_lock(&watch->lock);
  for (http_connection *c = watch->first; most > 0 && c && !late; c = c->next) {
    if (!c->request || now - c->request->arrived < most || atomic_load(&c->request->expired))
      continue;
    late = c->request;
    atomic_store(&late->expired, true);
    ++late->references;
  }
  pthread_mutex_unlock(&watch->lock);
  return late;
}

void http_watch_tick(serve_server *server) {
  http_watch *watch = &server->watch;
  const double now = serve_now();
  pthread_mutex_lock(&watch->lock);
  for (http_connection *c = watch->first; c; c = c->next)
    if (c->phase != HTTP_BUSY && now > c->until) shut(server, c);
  pthread_mutex_unlock(&watch->lock);
  for (serve_request *r; (r = take_late(server, now)) != NULL;) give_up(server, r, false);
}

void http_watch_stop(serve_server *server) {
  http_watch *watch = &server->watch;
  atomic_store(&server->stopping, true);
  for (;;) {
    serve_request *r = NULL;
    pthread_mutex_lock(&watch->lock);
    for (http_connection *c = watch->first; c && !r; c = c->next)
      if (c->request && !atomic_load(&c->request->gone)) r = c->request;
    if (r) ++r->references;
    pthread_mutex_unlock(&watch->lock);
    if (!r) break;
    give_up(server, r, false);
  }
}

void http_watch_flush(serve_server *server, double seconds) {
  const struct timespec pause = {.tv_nsec = 2000000};
  const double until = serve_now() + seconds;
  for (bool sends = true; sends && serve_now() < until;) {
    sends = false;
    pthread_mutex_lock(&server->watch.lock);
    for (const http_connection *c = server->watch.first; c; c = c->next)
      sends |= c->phase == HTTP_ANSWER;
    pthread_mutex_unlock(&server->watch.lock);
    if (sends) nanosleep(&pause, NULL);
  }
}
