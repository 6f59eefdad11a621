/* http_workers.c - the threads that run handlers. */
#include <stdlib.h>

#include "serve/http_server.h"
#include "serve/serve_log.h"

static void run_handler(serve_request *r) {
  serve_server *server = r->server;
  r->began = serve_now();
  serve_routes[r->route].handler(r);
  if (!r->status) serve_fail(r, 500, NULL, NULL, "this route gave no answer");
  serve_request_finish(r);
  serve_log(ACCEL_LOG_INFO, "request %llu: %s %s %d, waited %.1f ms, ran %.1f ms%s",
            (unsigned long long)r->number, r->method, serve_routes[r->route].path, r->status,
            1e3 * (r->began - r->arrived), 1e3 * (serve_now() - r->began),
            atomic_load(&r->expired) ? ", out of time"
            : atomic_load(&r->gone)  ? ", the client left"
                                     : "");
  serve_metrics_answer(server->metrics, r->route, r->status);
}

static void *work(void *user) {
  http_workers *w = user;
  pthread_mutex_lock(&w->lock);
  for (;;) {
    while (!w->first && !w->stop) pthread_cond_wait(&w->changed, &w->lock);
    serve_request *r = w->first;
    if (!r) break;
    w->first = r->next;
    if (!w->first) w->last = NULL;
    --w->waiting;
    ++w->running;
    pthread_mutex_unlock(&w->lock);
    run_handler(r);
    serve_request_release(r);
    pthread_mutex_lock(&w->lock);
    --w->running;
  }
  pthread_mutex_unlock(&w->lock);
  return NULL;
}

bool http_workers_open(http_workers *workers, serve_server *server, uint32_t max_threads,
                       uint32_t max_waiting) {
  *workers =
      (http_workers){.server = server, .max_threads = max_threads, .max_waiting = max_waiting};
  workers->thread = calloc(max_threads, sizeof *workers->thread);
  pthread_mutex_init(&workers->lock, NULL);
  pthread_cond_init(&workers->changed, NULL);
  return workers->thread != NULL;
}

void http_workers_stop(http_workers *workers) {
  if (!workers->server) return;
  pthread_mutex_lock(&workers->lock);
  workers->stop = true;
  pthread_cond_broadcast(&workers->changed);
  pthread_mutex_unlock(&workers->lock);
  for (uint32_t i = 0; i < workers->threads; ++i) pthread_join(workers->thread[i], NULL);
}

void http_workers_free(http_workers *workers) {
  if (!workers->server) return;
  free(workers->thread);
  pthread_cond_destroy(&workers->changed);
  pthread_mutex_destroy(&workers->lock);
  *workers = (http_workers){0};
}

bool http_workers_push(http_workers *workers, serve_request *request) {
  pthread_mutex_lock(&workers->lock);
  /* each that runs has a thread; those without one wait */
  const uint32_t idle = workers->threads - workers->running;
  if (idle <= workers->waiting && workers->threads < workers->max_threads &&
      !pthread_create(&workers->thread[workers->threads], NULL, work, workers))
    ++workers->threads;
  const uint32_t free_threads = workers->threads - workers->running;
  const bool taken =
      workers->threads && !workers->stop && workers->waiting < free_threads + workers->max_waiting;
  if (taken) {
    request->next = NULL;
    if (workers->last)
      workers->last->next = request;
    else
      workers->first = request;
    workers->last = request;
    ++workers->waiting;
    pthread_cond_signal(&workers->changed);
  }
  pthread_mutex_unlock(&workers->lock);
  return taken;
}

bool http_workers_drop(http_workers *workers, serve_request *request) {
  bool found = false;
  pthread_mutex_lock(&workers->lock);
  serve_request *before = NULL;
  for (serve_request *r = workers->first; r && !found; before = r, r = r->next) {
    if (r != request) continue;
    found = true;
    if (before)
      before->next = r->next;
    else
      workers->first = r->next;
    if (workers->last == r) workers->last = before;
    --workers->waiting;
  }
  pthread_mutex_unlock(&workers->lock);
  return found;
}

void http_workers_counts(http_workers *workers, uint32_t *running, uint32_t *waiting) {
  pthread_mutex_lock(&workers->lock);
  *running = workers->running;
  *waiting = workers->waiting;
  pthread_mutex_unlock(&workers->lock);
}
