/* http_keys.h - who may call: keys of --api-key-file. */
#ifndef ACCEL_SERVE_HTTP_KEYS_H
#define ACCEL_SERVE_HTTP_KEYS_H

#include <stdbool.h>
#include <stddef.h>

enum { HTTP_KEY_LEAST = 16, HTTP_KEY_MOST = 255 }; /* characters of a key */

typedef struct http_keys {
  char (*key)[HTTP_KEY_MOST + 1]; /* [n] behind it zeros */
  size_t n;
} http_keys; /* {0}: none */

/* Reads a key a line; empty lines and those that begin with '#' are left out.  false: the file can
 * not be read, holds no key, or a line is no key of 16 to 255 visible characters; why[n] tells. */
bool http_keys_read(const char *path, http_keys *out, char *why, size_t n);
void http_keys_free(http_keys *keys);
/* Whether the header "Bearer KEY" (NULL: absent) has one of the keys.  How long it takes does not
 * tell how much of a key is right. */
bool http_keys_match(const http_keys *keys, const char *authorization);

#endif
