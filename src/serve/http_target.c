/* http_target.c - see http_target.h. */
#include "serve/http_target.h"

#include <stdlib.h>
#include <string.h>

static int digit(char c) {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                : -1;
}

bool http_decode(const char *from, size_t n, bool plus, char *to) {
  size_t at = 0;
  for (size_t i = 0; i < n; ++i) {
    char c = from[i];
    if (c == '%') {
      const int high = n - i > 2 ? digit(from[i + 1]) : -1;
      const int low = high >= 0 ? digit(from[i + 2]) : -1;
      if (low < 0) return false;
      c = (char)(high * 16 + low);
      i += 2;
    } else if (plus && c == '+') {
      c = ' ';
    }
    if (!c) return false;
    to[at++] = c;
  }
  to[at] = 0;
  return true;
}

bool http_target_valid(const char *target) {
  enum { MOST = 8192 };
  size_t n = 0;
  if (target[0] != '/') return false;
  for (; target[n]; ++n)
    if (n == MOST || target[n] <= ' ' || target[n] > '~') return false;
  return true;
}

char *http_target_path(const char *target) {
  const size_t n = strcspn(target, "?#");
  char *path = malloc(n + 1);
  if (path && http_decode(target, n, false, path)) return path;
  free(path);
  return NULL;
}

char *http_target_query(const char *target, const char *name) {
  const char *at = strchr(target, '?');
  while (at && *at && *at != '#') {
    const char *begin = at + 1;
    const size_t all = strcspn(begin, "&#");
    const char *equals = memchr(begin, '=', all);
    const size_t n_name = equals ? (size_t)(equals - begin) : all;
    char *text = malloc(all + 1);
    if (!text) return NULL;
    const bool found = http_decode(begin, n_name, true, text) && !strcmp(text, name);
    const size_t skip = equals ? n_name + 1 : n_name;
    if (found && http_decode(begin + skip, all - skip, true, text)) return text;
    free(text);
    if (found) return NULL;
    at = begin + all;
  }
  return NULL;
}
