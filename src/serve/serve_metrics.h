/* serve_metrics.h - what /metrics tells, in Prometheus' text format. */
#ifndef ACCEL_SERVE_METRICS_H
#define ACCEL_SERVE_METRICS_H

#include <stdbool.h>

#include "serve/serve.h"

typedef struct serve_metrics serve_metrics;

/* Of models names[n] (kept, not copied) and the routes of serve_routes; NULL: no memory. */
serve_metrics *serve_metrics_new(const char *const *names, uint32_t n);
void serve_metrics_free(serve_metrics *metrics);

/* What is true at the moment, for serve_metrics_text(). */
typedef struct serve_gauges {
  uint32_t connections, running, waiting;
  const accel_queue_stats *queue; /* [models]; .size 0: an adapter, which has none of its own */
  accel_pool_stats pool;
  const char *pool_json; /* of accel_pool_json(); NULL: not known */
  bool ready;
} serve_gauges;

/* A request of a model begins, and ends: seconds it waited for a thread and ran, whether it was
 * cancelled.  All of these may be called from any thread. */
void serve_metrics_begin(serve_metrics *metrics, uint32_t model);
void serve_metrics_end(serve_metrics *metrics, uint32_t model, double waited_s, double ran_s,
                       bool cancelled);
void serve_metrics_count(serve_metrics *metrics, uint32_t model, const serve_counts *counts);
/* An answer with `status`; route: a number of serve_routes, serve_route_count: none. */
void serve_metrics_answer(serve_metrics *metrics, size_t route, int status);
/* A connection that was refused or closed by a limit. */
void serve_metrics_refused(serve_metrics *metrics);

/* The page, malloc'd; NULL: no memory. */
char *serve_metrics_text(serve_metrics *metrics, const serve_gauges *now, size_t *n);

#endif
