/* serve_table.c - the routes, in a file of their own: the tests' server has others. */
#include "serve/serve.h"

const serve_route serve_routes[] = {
#define ROUTE(method, path, handler, summary) {method, path, handler, summary},
#include "serve/routes.def"
};
const size_t serve_route_count = sizeof serve_routes / sizeof serve_routes[0];
