/* http_keys.c - see http_keys.h. */
#include "serve/http_keys.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool valid(const char *key, size_t n) {
  for (size_t i = 0; i < n; ++i)
    if (key[i] <= ' ' || key[i] > '~') return false;
  return n >= HTTP_KEY_LEAST && n <= HTTP_KEY_MOST;
}

/* false: no memory. */
static bool add(http_keys *keys, const char *key, size_t n) {
  void *list = realloc(keys->key, (keys->n + 1) * sizeof *keys->key);
  if (!list) return false;
  keys->key = list;
  memset(keys->key[keys->n], 0, sizeof *keys->key);
  memcpy(keys->key[keys->n++], key, n);
  return true;
}

static bool read_lines(FILE *file, http_keys *out, char *why, size_t size) {
  char line[HTTP_KEY_MOST + 64];
  for (int number = 1; fgets(line, sizeof line, file); ++number) {
    size_t n = strlen(line);
    while (n && (line[n - 1] == '\n' || line[n - 1] == '\r' || line[n - 1] == ' ')) --n;
    if (!n || line[0] == '#') continue;
    if (!valid(line, n)) {
      snprintf(why, size, "line %d: a key is 16 to 255 visible characters: openssl rand -hex 32",
               number);
      return false;
    }
    if (!add(out, line, n)) {
      snprintf(why, size, "out of memory");
      return false;
    }
  }
  if (ferror(file))
    snprintf(why, size, "%s", strerror(errno));
  else if (!out->n)
    snprintf(why, size, "it holds no key: openssl rand -hex 32 writes one");
  return !ferror(file) && out->n;
}

bool http_keys_read(const char *path, http_keys *out, char *why, size_t n) {
  *out = (http_keys){0};
  FILE *file = fopen(path, "re");
  if (!file) {
    snprintf(why, n, "%s", strerror(errno));
    return false;
  }
  const bool good = read_lines(file, out, why, n);
  fclose(file);
  if (!good) http_keys_free(out);
  return good;
}

void http_keys_free(http_keys *keys) {
  if (keys->key) explicit_bzero(keys->key, keys->n * sizeof *keys->key);
  free(keys->key);
  *keys = (http_keys){0};
}

bool http_keys_match(const http_keys *keys, const char *authorization) {
  char given[HTTP_KEY_MOST + 1] = {0};
  const char *key = authorization && !strncasecmp(authorization, "bearer ", 7)
                        ? authorization + 7 + strspn(authorization + 7, " ")
                        : "";
  const size_t n = strlen(key);
  if (n > HTTP_KEY_MOST) return false;
  memcpy(given, key, n);
  unsigned found = 0;
  for (size_t k = 0; k < keys->n; ++k) {
    volatile unsigned differs = 0;
    for (size_t i = 0; i < sizeof given; ++i)
      differs |= (unsigned char)given[i] ^ (unsigned char)keys->key[k][i];
    found |= differs == 0;
  }
  return found;
}
