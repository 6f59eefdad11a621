/* http_listen.c - see http_listen.h. */
#include "serve/http_listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "serve/serve_log.h"

enum { BACKLOG = 512 };

static accel_status failed(const char *what, const char *why) {
  serve_log(ACCEL_LOG_ERROR, "%s: %s", what, why);
  return ACCEL_ERROR_IO;
}

/* ---- what a socket is bound to ---- */

static bool loopback(const struct sockaddr_storage *address) {
  if (address->ss_family == AF_INET) {
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
    return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
  }
  const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
  return address->ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

/* Fills url, local and unix_socket. */
static accel_status describe(http_listener *listener) {
  struct sockaddr_storage address = {0};
  socklen_t n = sizeof address;
  char host[64], port[16];
  if (getsockname(listener->fd, (struct sockaddr *)&address, &n))
    return failed("the socket", strerror(errno));
  listener->unix_socket = address.ss_family == AF_UNIX;
  listener->local = listener->unix_socket || loopback(&address);
  if (listener->unix_socket) {
    const struct sockaddr_un *un = (const struct sockaddr_un *)&address;
    snprintf(listener->url, sizeof listener->url, "unix:%s", un->sun_path);
    return ACCEL_OK;
  }
  if (getnameinfo((const struct sockaddr *)&address, n, host, sizeof host, port, sizeof port,
                  NI_NUMERICHOST | NI_NUMERICSERV))
    return failed("the socket", "it has no address of the internet");
  const bool v6 = strchr(host, ':');
  snprintf(listener->url, sizeof listener->url, "http://%s%s%s:%s", v6 ? "[" : "", host,
           v6 ? "]" : "", port);
  return ACCEL_OK;
}

/* ---- systemd: file descriptor 3 ---- */

static bool handed_over(void) {
  const char *pid = getenv("LISTEN_PID"), *n = getenv("LISTEN_FDS");
  return pid && n && strtol(pid, NULL, 10) == (long)getpid() && strtol(n, NULL, 10) > 0;
}

static accel_status take_handed_over(http_listener *listener) {
  int listens = 0;
  socklen_t n = sizeof listens;
  if (strtol(getenv("LISTEN_FDS"), NULL, 10) != 1)
    return failed("LISTEN_FDS", "the server listens at one socket: one ListenStream= in its unit");
  if (getsockopt(3, SOL_SOCKET, SO_ACCEPTCONN, &listens, &n) || !listens)
    return failed("LISTEN_FDS", "it is no listening socket: Accept=no in its unit");
  fcntl(3, F_SETFD, FD_CLOEXEC);
  listener->fd = 3;
  listener->handed_over = true;
  return ACCEL_OK;
}

/* ---- Unix sockets ---- */

/* Removes a socket at which nobody listens any longer. */
static void remove_stale(const struct sockaddr_un *address) {
  struct stat about;
  if (lstat(address->sun_path, &about) || !S_ISSOCK(about.st_mode)) return;
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  if (connect(fd, (const struct sockaddr *)address, sizeof *address) && errno == ECONNREFUSED)
    unlink(address->sun_path);
  close(fd);
}

static accel_status open_unix(const char *path, http_listener *listener) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (strlen(path) >= sizeof address.sun_path) return failed(path, "the path is too long");
  memcpy(address.sun_path, path, strlen(path) + 1);
  remove_stale(&address);
  listener->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  /* for the server's user and group alone */
  const mode_t before = umask(0117);
  const bool bound =
      listener->fd >= 0 && !bind(listener->fd, (const struct sockaddr *)&address, sizeof address);
  const int why = errno;
  umask(before);
  if (!bound) return failed(path, strerror(why));
  listener->path = path;
  return listen(listener->fd, BACKLOG) ? failed(path, strerror(errno)) : ACCEL_OK;
}

/* ---- addresses ---- */

static int open_address(const struct addrinfo *address) {
  const int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
  if (fd < 0) return -1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (!bind(fd, address->ai_addr, address->ai_addrlen) && !listen(fd, BACKLOG)) return fd;
  const int why = errno;
  close(fd);
  errno = why;
  return -1;
}

static accel_status open_host(const serve_config *config, http_listener *listener) {
  const struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV,
                                 .ai_socktype = SOCK_STREAM};
  struct addrinfo *found = NULL;
  char port[16], what[128];
  snprintf(port, sizeof port, "%u", config->port);
  snprintf(what, sizeof what, "%.100s port %s", config->host, port);
  const int none = getaddrinfo(config->host, port, &hints, &found);
  if (none) return failed(what, gai_strerror(none));
  /* "localhost" is both: clients take 127.0.0.1 first or next */
  for (int family = AF_INET; listener->fd < 0; family = AF_INET6) {
    for (const struct addrinfo *a = found; a && listener->fd < 0; a = a->ai_next)
      if (a->ai_family == family) listener->fd = open_address(a);
    if (family == AF_INET6) break;
  }
  const int why = errno;
  freeaddrinfo(found);
  return listener->fd < 0 ? failed(what, strerror(why)) : ACCEL_OK;
}

accel_status http_listen(const serve_config *config, http_listener *out) {
  *out = (http_listener){.fd = -1};
  accel_status status = handed_over()    ? take_handed_over(out)
                        : config->socket ? open_unix(config->socket, out)
                                         : open_host(config, out);
  if (!status) status = describe(out);
  if (!status && !out->local && !config->api_key_file) {
    serve_log(ACCEL_LOG_ERROR,
              "%s can be reached by other machines: that needs --api-key-file FILE "
              "(openssl rand -hex 32 writes a key)",
              out->url);
    status = ACCEL_ERROR_ARGUMENT;
  }
  if (status) http_listener_close(out);
  return status;
}

void http_listener_stop(http_listener *listener) {
  if (listener->fd >= 0 && !listener->handed_over) shutdown(listener->fd, SHUT_RDWR);
  if (listener->path) unlink(listener->path);
  listener->path = NULL;
}

void http_listener_close(http_listener *listener) {
  http_listener_stop(listener);
  if (listener->fd >= 0) close(listener->fd);
  listener->fd = -1;
}
