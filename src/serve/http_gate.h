/* http_gate.h - what the head of a request must be before a byte of its body is read.
 *
 * libmicrohttpd takes heads that two servers behind each other would read in two ways (it goes by
 * the first of two Content-Length, and takes Content-Length beside Transfer-Encoding), and knows
 * nothing of browsers.  The gate refuses these.  It looks at a head alone: no connection, no
 * allocation, so it can be fuzzed.
 */
#ifndef ACCEL_SERVE_HTTP_GATE_H
#define ACCEL_SERVE_HTTP_GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One header; the texts need no NUL behind them. */
typedef struct http_field {
  const char *name, *value;
  size_t n_name, n_value;
} http_field;

typedef struct http_head {
  const char *method;  /* "POST" */
  const char *target;  /* as it was sent: "/a%20b?c=d" */
  const char *version; /* "HTTP/1.1" */
  const http_field *field;
  size_t n;
} http_head;

/* What a server lets in. */
typedef struct http_rules {
  const char *const *host;   /* [n_host] names beside localhost and addresses; "*" is any */
  const char *const *origin; /* [n_origin] "https://a.example": pages that may call; "*" is any */
  size_t n_host, n_origin;
} http_rules;

typedef struct http_verdict {
  int status;          /* 0: goes on; else what is answered, with the connection closed behind it */
  const char *message; /* why; a constant */
  uint64_t length;     /* Content-Length; 0 without one */
  bool chunked;        /* a body without a length: the connection is closed behind the answer */
  bool cross_origin;   /* sent by a page of another origin, which is allowed */
} http_verdict;

/* Judges a head.  max_body: the most that Content-Length may be. */
http_verdict http_gate(const http_head *head, const http_rules *rules, uint64_t max_body);

#endif
