/* queue.c - a ring of tickets and one worker thread per endpoint; requests of a group go on
 * together between the others. */
#include "dispatch/queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dispatch/pack.h"

/* Shared by the queue's thread and the waiter; freed by accel__queue_wait. */
struct accel_ticket {
  pthread_mutex_t lock;
  pthread_cond_t finished;
  bool done;
  accel_status status;
  char *message, *remedy; /* of the failure, for the waiter's thread */
  accel_tensors *outputs;
  accel__work_fn fn;         /* NULL: of a group */
  const accel__group *group; /* NULL: alone */
  void *work;
  void (*work_free)(void *);
  accel_ticket *next; /* of those begun */
};

struct accel_queue {
  accel_endpoint *ep;
  uint32_t capacity, first, waiting; /* ring: slots first .. first+waiting-1 */
  accel_ticket **ring;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  pthread_t thread;
  bool started, stop, busy; /* busy: the thread is at a request */
  /* of the thread alone */
  const accel__group *group; /* of those begun; NULL: none is */
  void *state;
  accel_ticket *begun;
  uint32_t n_begun; /* never more than capacity */
};

static void free_ticket(accel_ticket *t) {
  if (t->work_free) t->work_free(t->work);
  accel__tensors_free(&t->outputs);
  free(t->message);
  free(t->remedy);
  pthread_cond_destroy(&t->finished);
  pthread_mutex_destroy(&t->lock);
  free(t);
}

static void complete(accel_ticket *t, accel_status status) {
  pthread_mutex_lock(&t->lock);
  t->status = status;
  if (status != ACCEL_OK) {
    t->message = strdup(accel__message());
    t->remedy = strdup(accel__remedy_text());
  }
  t->done = true;
  pthread_cond_broadcast(&t->finished);
  pthread_mutex_unlock(&t->lock);
}

/* A request of the group begins: from the next step on it goes on with the others. */
static void begin(accel_queue *q, accel_ticket *t) {
  accel_status status = q->group ? ACCEL_OK : t->group->open(q->ep, &q->state);
  if (status == ACCEL_OK) {
    q->group = t->group;
    status = q->group->join(q->state, t->work);
  }
  if (status != ACCEL_OK) {
    complete(t, status);
    return;
  }
  accel_ticket **last = &q->begun;
  while (*last) last = &(*last)->next;
  t->next = NULL;
  *last = t;
  q->n_begun++;
}

/* One step of all that have begun; whoever is done leaves. */
static void step(accel_queue *q) {
  accel__clear_error();
  if (q->begun) q->group->step(q->state);
  for (accel_ticket **link = &q->begun; *link;) {
    accel_ticket *t = *link;
    accel_status status;
    accel__clear_error();
    if (q->group->finished(q->state, t->work, &status)) {
      *link = t->next;
      q->n_begun--;
      complete(t, status); /* from here on the waiter may free it */
    } else {
      link = &t->next;
    }
  }
  if (q->begun || !q->group) return;
  q->group->close(q->state);
  q->group = NULL;
}

static void take_up(accel_queue *q, accel_ticket *t) {
  accel__clear_error();
  if (t->group)
    begin(q, t);
  else
    complete(t, t->fn(q->ep, t->work, &t->outputs));
}

static void *worker(void *arg) {
  accel_queue *q = arg;
  pthread_mutex_lock(&q->lock);
  for (;;) {
    while (!q->waiting && !q->group && !q->stop) pthread_cond_wait(&q->changed, &q->lock);
    if (!q->waiting && !q->group) break;
    accel_ticket *t = q->waiting ? q->ring[q->first] : NULL;
    if (t && t->group && q->n_begun >= q->capacity) t = NULL; /* enough go on at once */
    if (t) {
      q->first = (q->first + 1) % q->capacity;
      q->waiting--;
    }
    q->busy = true;
    pthread_mutex_unlock(&q->lock);
    if (t)
      take_up(q, t); /* all that wait begin before the next step */
    else
      step(q);
    pthread_mutex_lock(&q->lock);
    q->busy = q->group != NULL;
    if (!q->busy && !q->waiting) pthread_cond_broadcast(&q->changed);
  }
  pthread_mutex_unlock(&q->lock);
  return NULL;
}

accel_status accel__queue_new(accel_endpoint *ep, uint32_t capacity, accel_queue **out) {
  accel_queue *q = calloc(1, sizeof *q);
  *out = NULL;
  if (!q) return accel__no_memory(sizeof *q);
  q->ring = calloc(capacity, sizeof *q->ring);
  if (!q->ring) {
    free(q);
    return accel__no_memory(capacity * sizeof *q->ring);
  }
  q->ep = ep;
  q->capacity = capacity;
  pthread_mutex_init(&q->lock, NULL);
  pthread_cond_init(&q->changed, NULL);
  *out = q;
  return ACCEL_OK;
}

void accel__queue_free(accel_queue *q) {
  if (!q) return;
  pthread_mutex_lock(&q->lock);
  q->stop = true;
  pthread_cond_broadcast(&q->changed);
  bool started = q->started;
  pthread_mutex_unlock(&q->lock);
  if (started) pthread_join(q->thread, NULL);
  pthread_cond_destroy(&q->changed);
  pthread_mutex_destroy(&q->lock);
  free(q->ring);
  free(q);
}

static accel_status new_ticket(accel__work_fn fn, const accel__group *group, void *work,
                               void (*work_free)(void *), accel_ticket **out) {
  accel_ticket *t = calloc(1, sizeof *t);
  *out = t;
  if (!t) return accel__no_memory(sizeof *t);
  pthread_condattr_t clock;
  pthread_condattr_init(&clock);
  pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
  pthread_cond_init(&t->finished, &clock);
  pthread_condattr_destroy(&clock);
  pthread_mutex_init(&t->lock, NULL);
  t->fn = fn;
  t->group = group;
  t->work = work;
  t->work_free = work_free;
  return ACCEL_OK;
}

/* With the queue's lock held. */
static accel_status enqueue(accel_queue *q, accel_ticket *t) {
  if (q->waiting == q->capacity)
    return accel__remedy(
        accel__fail(ACCEL_ERROR_QUEUE_FULL, "%s: the queue holds %u requests, its capacity",
                    q->ep->name, q->capacity),
        "wait for a ticket, or initialise the endpoint with a larger queue_capacity");
  if (!q->started) {
    if (pthread_create(&q->thread, NULL, worker, q))
      return accel__fail(ACCEL_ERROR_OUT_OF_MEMORY, "%s: no thread for the queue", q->ep->name);
    q->started = true;
  }
  q->ring[(q->first + q->waiting++) % q->capacity] = t;
  pthread_cond_broadcast(&q->changed);
  return ACCEL_OK;
}

static accel_status submit(accel_queue *q, accel__work_fn fn, const accel__group *group, void *work,
                           void (*work_free)(void *), accel_ticket **out) {
  accel_ticket *t;
  *out = NULL;
  accel_status status = new_ticket(fn, group, work, work_free, &t);
  if (status != ACCEL_OK) {
    work_free(work);
    return status;
  }
  pthread_mutex_lock(&q->lock);
  status = enqueue(q, t);
  pthread_mutex_unlock(&q->lock);
  if (status == ACCEL_OK)
    *out = t;
  else
    free_ticket(t);
  return status;
}

accel_status accel__queue_submit(accel_queue *q, accel__work_fn fn, void *work,
                                 void (*work_free)(void *), accel_ticket **out) {
  return submit(q, fn, NULL, work, work_free, out);
}

accel_status accel__queue_submit_group(accel_queue *q, const accel__group *group, void *work,
                                       void (*work_free)(void *), accel_ticket **out) {
  return submit(q, NULL, group, work, work_free, out);
}

void accel__queue_drain(accel_queue *q) {
  pthread_mutex_lock(&q->lock);
  while (q->waiting || q->busy) pthread_cond_wait(&q->changed, &q->lock);
  pthread_mutex_unlock(&q->lock);
}

accel_endpoint *accel__queue_endpoint(accel_queue *q) { return q->ep; }
uint32_t accel__queue_capacity(const accel_queue *q) { return q->capacity; }

uint32_t accel__queue_waiting(accel_queue *q) {
  pthread_mutex_lock(&q->lock);
  uint32_t n = q->waiting;
  pthread_mutex_unlock(&q->lock);
  return n;
}

static struct timespec deadline_after(int64_t ms) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  t.tv_sec += ms / 1000;
  t.tv_nsec += (ms % 1000) * 1000000;
  if (t.tv_nsec >= 1000000000) t.tv_sec++, t.tv_nsec -= 1000000000;
  return t;
}

/* ACCEL_OK when it is done. */
static accel_status wait_for(accel_ticket *t, int64_t timeout_ms) {
  struct timespec until = deadline_after(timeout_ms < 0 ? 0 : timeout_ms);
  pthread_mutex_lock(&t->lock);
  int rc = 0;
  while (!t->done && rc != ETIMEDOUT)
    rc = timeout_ms < 0 ? pthread_cond_wait(&t->finished, &t->lock)
                        : pthread_cond_timedwait(&t->finished, &t->lock, &until);
  bool done = t->done;
  pthread_mutex_unlock(&t->lock);
  return done ? ACCEL_OK
              : accel__fail(ACCEL_ERROR_TIMEOUT, "not done after %lld ms", (long long)timeout_ms);
}

/* The request's own failure, in the waiter's thread. */
static accel_status tell_status(const accel_ticket *t) {
  if (t->status == ACCEL_OK) return ACCEL_OK;
  accel__fail(t->status, "%s", t->message ? t->message : accel_status_text(t->status));
  if (t->remedy && *t->remedy) accel__remedy(t->status, "%s", t->remedy);
  return t->status;
}

accel_status accel__queue_wait(accel_ticket **ticket, int64_t timeout_ms, accel_tensors **outputs) {
  accel_ticket *t = *ticket;
  if (t->group)
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "the ticket of a generation is for accel_wait_generations");
  ACCEL_TRY(wait_for(t, timeout_ms));
  accel_status status = tell_status(t);
  if (status == ACCEL_OK) {
    *outputs = t->outputs;
    t->outputs = NULL;
  }
  free_ticket(t);
  *ticket = NULL;
  return status;
}

accel_status accel__queue_wait_work(accel_ticket **ticket, int64_t timeout_ms,
                                    accel_status (*take)(void *work, void *user), void *user) {
  accel_ticket *t = *ticket;
  if (!t->group)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "the ticket is of no generation: accel_wait takes it");
  ACCEL_TRY(wait_for(t, timeout_ms));
  accel_status status = tell_status(t);
  if (status == ACCEL_OK) status = take(t->work, user);
  free_ticket(t);
  *ticket = NULL;
  return status;
}
