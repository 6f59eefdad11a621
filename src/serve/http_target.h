/* http_target.h - percent-encoding: paths, query arguments, urlencoded forms. */
#ifndef ACCEL_SERVE_HTTP_TARGET_H
#define ACCEL_SERVE_HTTP_TARGET_H

#include <stdbool.h>
#include <stddef.h>

/* Decodes from[n] into `to`, which has n + 1 bytes (it may be `from`) and ends with NUL; `plus`: '+'
 * is a space.  false: a '%' without two hexadecimal digits, or one that gives NUL. */
bool http_decode(const char *from, size_t n, bool plus, char *to);
/* A request's target is a path of visible ASCII, "/a%20b?c=d", of at most 8192 bytes. */
bool http_target_valid(const char *target);
/* The path of a valid target, decoded; malloc'd.  NULL: its escapes are malformed, or no memory. */
char *http_target_path(const char *target);
/* The value of the query argument `name`, decoded; malloc'd.  NULL: absent or malformed. */
char *http_target_query(const char *target, const char *name);

#endif
