/* http_routes.c - which route a request is for. */
#include <stdio.h>
#include <string.h>

#include "serve/http_server.h"

/* What of `path` is behind the route's; NULL: it is another. */
static const char *match(const char *route, const char *path) {
  const size_t n = strlen(route);
  if (route[n - 1] != '*') return strcmp(route, path) ? NULL : path + n;
  return !strncmp(route, path, n - 1) && path[n - 1] ? path + n - 1 : NULL;
}

size_t http_route_find(const char *method, const char *path, const char **rest, int *status,
                       char allow[32]) {
  const char *wanted = strcmp(method, "HEAD") ? method : "GET";
  bool get = false, post = false;
  *rest = "";
  for (size_t i = 0; i < serve_route_count; ++i) {
    const char *behind = match(serve_routes[i].path, path);
    if (!behind) continue;
    if (!strcmp(serve_routes[i].method, wanted)) {
      *rest = behind;
      return i;
    }
    get |= !strcmp(serve_routes[i].method, "GET");
    post |= !strcmp(serve_routes[i].method, "POST");
  }
  *status = get || post ? 405 : 404;
  snprintf(allow, 32, "%s%s%s", get ? "GET, HEAD" : "", get && post ? ", " : "",
           post ? "POST" : "");
  return serve_route_count;
}

bool http_route_open(size_t route) {
  static const char *const open[] = {"/", "/page/*", "/health", "/ready"};
  if (route >= serve_route_count || strcmp(serve_routes[route].method, "GET")) return false;
  for (size_t i = 0; i < sizeof open / sizeof open[0]; ++i)
    if (!strcmp(serve_routes[route].path, open[i])) return true;
  return false;
}

bool http_path_of_sounds(const char *path) {
  return !strncmp(path, "/v1/audio/", 10) || !strncmp(path, "/audio/", 7);
}

uint64_t http_route_max_body(const serve_config *config, const char *path) {
  return http_path_of_sounds(path) ? config->max_audio_body : config->max_body;
}
