/* run_clock.c - the time in which at least one run is under way. */
#include "dispatch/run_clock.h"

#include "core/threads.h"

void accel__run_clock_init(accel__run_clock *c) {
  *c = (accel__run_clock){0};
  pthread_mutex_init(&c->lock, NULL);
}

void accel__run_clock_destroy(accel__run_clock *c) { pthread_mutex_destroy(&c->lock); }

void accel__run_clock_begin(accel__run_clock *c) {
  pthread_mutex_lock(&c->lock);
  if (!c->active++) c->since_ns = accel__now_ns();
  c->runs++;
  pthread_mutex_unlock(&c->lock);
}

void accel__run_clock_end(accel__run_clock *c) {
  pthread_mutex_lock(&c->lock);
  if (!--c->active) c->ns += accel__now_ns() - c->since_ns;
  pthread_mutex_unlock(&c->lock);
}

void accel__run_clock_read(accel__run_clock *c, uint64_t *runs, uint64_t *ns) {
  pthread_mutex_lock(&c->lock);
  *runs = c->runs;
  *ns = c->ns + (c->active ? accel__now_ns() - c->since_ns : 0);
  pthread_mutex_unlock(&c->lock);
}
