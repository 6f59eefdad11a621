/* http_listen.h - the socket that the server listens at. */
#ifndef ACCEL_SERVE_HTTP_LISTEN_H
#define ACCEL_SERVE_HTTP_LISTEN_H

#include <stdbool.h>

#include "serve/serve_config.h"

typedef struct http_listener {
  int fd;           /* -1: none */
  bool local;       /* a Unix socket, or an address of the loopback interface */
  bool unix_socket; /* of the file system, where its permissions say who may connect */
  bool handed_over; /* by systemd, which goes on listening at it */
  char url[160];    /* "http://127.0.0.1:8000", "unix:/run/x.sock" */
  const char *path; /* of a Unix socket that is removed at the end; NULL: none */
} http_listener;

/* Opens what the config says, or takes the one socket that systemd hands over (LISTEN_FDS).  ACCEL_OK,
 * or a failure that is logged. */
accel_status http_listen(const serve_config *config, http_listener *out);
/* From here on clients are refused, but wait at a socket of systemd's for the next server.  The
 * descriptor stays, since the connections' thread may be looking at it. */
void http_listener_stop(http_listener *listener);
void http_listener_close(http_listener *listener);

#endif
