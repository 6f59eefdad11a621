/* queue.c - tickets in the order of their priority and one worker thread per endpoint; requests of a
 * group go on together between the others. */
#include "dispatch/queue.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/monotonic.h"
#include "dispatch/context.h"
#include "dispatch/pack.h"

typedef enum ticket_state { WAITING, BEGUN, DONE } ticket_state;

/* Shared by the queue's thread and the waiter; freed by accel__queue_wait. */
struct accel_ticket {
  _Atomic(accel_queue *) queue; /* changes under the lock of the one before, and that of the new */
  accel__submission what;
  uint64_t deadline_ns,
      number;         /* of the monotonic clock, UINT64_MAX none; in order of submission */
  accel_ticket *next; /* in the queue's list of those waiting, or of a group's begun */
  /* under the queue's lock */
  ticket_state state;
  atomic_bool cancelled; /* not wanted any more; also read without the lock */
  bool told;             /* of the queue's thread alone: its group knows that it is cancelled */
  /* under `lock` */
  pthread_mutex_t lock;
  pthread_cond_t finished;
  bool done;
  accel__failure failure; /* for the waiter's thread */
  accel_tensors *outputs;
};

/* A group that has requests, and its state.  Of the queue's thread, but for the list of those begun,
 * which others look at under the queue's lock. */
typedef struct active_group {
  const accel__group *group; /* NULL: this place is free */
  void *state;
  accel_ticket *begun;
} active_group;

struct accel_queue {
  accel_endpoint *ep;
  uint32_t capacity, waiting;
  uint64_t submitted;
  accel_ticket *first; /* of those waiting */
  pthread_mutex_t lock;
  pthread_cond_t changed;
  pthread_t thread;
  bool started, stop, busy; /* busy: the thread is at a request */
  active_group active[ACCEL__GROUPS];
  uint32_t turn, n_begun; /* whose step is next; in all groups, never more than capacity */
  /* what the thread is at: one ticket alone, or a step of a group */
  const accel_ticket *alone;
  const active_group *stepping;
  atomic_bool abandon; /* nobody wants what the thread is at: its run of the model is left */
  /* Of the queue's thread: requests that the last step has answered, and until when those who asked
   * may come again for the next one. */
  uint32_t answered;
  uint64_t until_ns;
  accel_queue *more; /* the endpoint's next; under the context's endpoints_lock */
  uint32_t watched;  /* calls of accel__queue_watch that have not drained yet */
};

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- tickets ---- */

static void free_ticket(accel_ticket *t) {
  if (t->what.work_free) t->what.work_free(t->what.work);
  accel__tensors_free(&t->outputs);
  pthread_cond_destroy(&t->finished);
  pthread_mutex_destroy(&t->lock);
  free(t);
}

/* From here on the waiter may free it. */
static void complete(accel_ticket *t, accel_status status) {
  const accel_done_fn done = t->what.options.done;
  void *user = t->what.options.user;
  pthread_mutex_lock(&t->lock);
  if (status != ACCEL_OK) accel__failure_keep(&t->failure, status);
  t->done = true;
  pthread_cond_broadcast(&t->finished);
  pthread_mutex_unlock(&t->lock);
  if (done) done(user);
}

static accel_status cancelled(void) {
  return accel__fail(ACCEL_ERROR_CANCELLED, "the request was cancelled");
}

static accel_status expired(const accel_ticket *t) {
  return accel__remedy(
      accel__fail(ACCEL_ERROR_TIMEOUT, "%s: the request had not begun after %u ms, its deadline",
                  atomic_load(&t->queue)->ep->name, t->what.options.deadline_ms),
      "give it a later deadline or a higher priority, or submit fewer at once");
}

/* ---- the list of those that wait ---- */

/* Whether a begins before b: by priority, then by deadline, then in order. */
static bool before(const accel_ticket *a, const accel_ticket *b) {
  if (a->what.options.priority != b->what.options.priority)
    return a->what.options.priority > b->what.options.priority;
  if (a->deadline_ns != b->deadline_ns) return a->deadline_ns < b->deadline_ns;
  return a->number < b->number;
}

/* With the queue's lock held. */
static void insert(accel_queue *q, accel_ticket *t) {
  accel_ticket **link = &q->first;
  while (*link && !before(t, *link)) link = &(*link)->next;
  t->next = *link;
  *link = t;
  q->waiting++;
}

static void take_out(accel_queue *q, accel_ticket *t, ticket_state state) {
  accel_ticket **link = &q->first;
  while (*link != t) link = &(*link)->next;
  *link = t->next;
  t->next = NULL;
  t->state = state;
  q->waiting--;
}

/* One whose deadline has passed, taken out; NULL: none has.  With the queue's lock held. */
static accel_ticket *take_expired(accel_queue *q) {
  uint64_t now = 0;
  for (accel_ticket *t = q->first; t; t = t->next) {
    if (t->deadline_ns == UINT64_MAX) continue;
    if (!now) now = now_ns();
    if (t->deadline_ns > now) continue;
    take_out(q, t, DONE);
    return t;
  }
  return NULL;
}

/* The next that can begin, taken out; NULL: none.  With the queue's lock held. */
static accel_ticket *take_first(accel_queue *q) {
  accel_ticket *t = q->first;
  if (!t || (t->what.group && q->n_begun >= q->capacity)) return NULL; /* enough go on at once */
  take_out(q, t, BEGUN);
  return t;
}

/* ---- the thread ---- */

/* Nobody wants what the thread is at.  With the queue's lock held. */
static bool unwanted(const accel_queue *q) {
  if (q->alone) return q->alone->cancelled;
  if (!q->stepping || !q->stepping->begun) return false;
  for (const accel_ticket *t = q->stepping->begun; t; t = t->next)
    if (!t->cancelled) return false;
  return true;
}

/* The thread turns to a ticket alone, to a group, or to neither. */
static void turn_to(accel_queue *q, const accel_ticket *alone, const active_group *stepping) {
  pthread_mutex_lock(&q->lock);
  q->alone = alone;
  q->stepping = stepping;
  atomic_store(&q->abandon, unwanted(q));
  pthread_mutex_unlock(&q->lock);
}

/* The place of a group, which is opened with its first request. */
static accel_status place_of(accel_queue *q, const accel__group *group, active_group **out) {
  active_group *place = NULL;
  for (int i = 0; i < ACCEL__GROUPS; i++) {
    if (q->active[i].group == group) return *out = &q->active[i], ACCEL_OK;
    if (!q->active[i].group) place = &q->active[i];
  }
  *out = place;
  if (!place) return accel__fail(ACCEL_ERROR_INTERNAL, "more than %d groups", ACCEL__GROUPS);
  ACCEL_TRY(group->open(q->ep, &place->state));
  place->group = group;
  return ACCEL_OK;
}

static void close_if_empty(active_group *a) {
  if (!a->group || a->begun) return;
  a->group->close(a->state);
  a->group = NULL;
}

/* With the queue's lock held. */
static accel_status start_thread(accel_queue *q);

/* Its device was lost, and another queue takes the request, which is that one's from then on. */
static bool move_ticket(accel_queue *q, accel_ticket *t, accel_status status) {
  accel__failure failure;
  if (status != ACCEL_ERROR_DEVICE_LOST || !t->what.elsewhere || atomic_load(&t->cancelled))
    return false;
  accel__failure_keep(&failure, status);
  accel_queue *to = t->what.elsewhere(q, t->what.work);
  bool moved = false;
  if (to) {
    pthread_mutex_lock(&to->lock);
    moved = !to->stop && start_thread(to) == ACCEL_OK;
    if (moved) {
      t->number = to->submitted++;
      t->state = WAITING;
      t->told = false;
      atomic_store(&t->queue, to);
      insert(to, t);
      pthread_cond_broadcast(&to->changed);
    }
    pthread_mutex_unlock(&to->lock);
  }
  if (!moved) accel__failure_raise(&failure);
  return moved;
}

static void finish_ticket(accel_queue *q, accel_ticket *t, accel_status status) {
  if (move_ticket(q, t, status)) return;
  pthread_mutex_lock(&q->lock);
  t->state = DONE;
  pthread_mutex_unlock(&q->lock);
  complete(t, status);
}

/* A request of a group begins: from the next step on it goes on with the others. */
static void begin(accel_queue *q, accel_ticket *t) {
  active_group *a;
  turn_to(q, t, NULL);
  accel_status status = place_of(q, t->what.group, &a);
  if (status == ACCEL_OK) status = a->group->join(a->state, t->what.work);
  turn_to(q, NULL, NULL);
  if (status != ACCEL_OK) {
    finish_ticket(q, t, status);
    if (a) close_if_empty(a);
    return;
  }
  pthread_mutex_lock(&q->lock);
  accel_ticket **last = &a->begun;
  while (*last) last = &(*last)->next;
  *last = t;
  q->n_begun++;
  pthread_mutex_unlock(&q->lock);
}

/* The group hears of those that were cancelled since. */
static void tell_cancelled(active_group *a) {
  for (accel_ticket *t = a->begun; t; t = t->next) {
    const bool now = atomic_load(&t->cancelled) && !t->told;
    if (now) a->group->cancel(a->state, t->what.work);
    t->told |= now;
  }
}

/* After a step that has answered several: a twentieth of its time, at most a millisecond, so that
 * those who ask again at once come together, and not the first of them alone. */
static void note_answered(accel_queue *q, uint32_t answered, uint64_t begin_ns) {
  const uint64_t now = now_ns(), share = (now - begin_ns) / 20, most = 1000000;
  q->answered = answered;
  q->until_ns = now + (share < most ? share : most);
}

/* With the queue's lock held. */
static void wait_for_answered(accel_queue *q) {
  const struct timespec until = {.tv_sec = (time_t)(q->until_ns / 1000000000u),
                                 .tv_nsec = (long)(q->until_ns % 1000000000u)};
  while (!q->n_begun && !q->stop && q->waiting < q->answered)
    if (pthread_cond_timedwait(&q->changed, &q->lock, &until)) break;
  q->answered = 0;
}

/* One step of all that have begun in a group; whoever is done leaves. */
static void step(accel_queue *q, active_group *a) {
  const uint64_t begin_ns = now_ns();
  uint32_t answered = 0;
  accel__clear_error();
  tell_cancelled(a);
  turn_to(q, NULL, a);
  a->group->step(a->state);
  turn_to(q, NULL, NULL);
  for (accel_ticket **link = &a->begun; *link;) {
    accel_ticket *t = *link;
    accel_status status;
    accel__clear_error();
    if (!a->group->finished(a->state, t->what.work, &status)) {
      link = &t->next;
      continue;
    }
    accel__failure failure = {0};
    if (status != ACCEL_OK) accel__failure_keep(&failure, status);
    pthread_mutex_lock(&q->lock);
    *link = t->next;
    q->n_begun--;
    pthread_mutex_unlock(&q->lock);
    close_if_empty(a); /* who waits for the last one finds all of it given back */
    if (status != ACCEL_OK) accel__failure_raise(&failure);
    finish_ticket(q, t, status);
    answered++;
  }
  note_answered(q, answered, begin_ns);
}

static void take_up(accel_queue *q, accel_ticket *t) {
  accel__clear_error();
  if (t->what.group) {
    begin(q, t);
    return;
  }
  turn_to(q, t, NULL);
  const accel_status status = t->what.fn(q->ep, t->what.work, &t->outputs);
  turn_to(q, NULL, NULL);
  finish_ticket(q, t, status);
}

/* The group whose turn it is. */
static active_group *next_group(accel_queue *q) {
  for (uint32_t i = 0; i < ACCEL__GROUPS; i++) {
    active_group *a = &q->active[q->turn++ % ACCEL__GROUPS];
    if (a->group) return a;
  }
  return NULL;
}

/* One thing of those that are to be done, without the lock. */
static void do_next(accel_queue *q, accel_ticket *late, accel_ticket *t) {
  active_group *a = late || t ? NULL : next_group(q);
  if (late)
    complete(late, expired(late));
  else if (t)
    take_up(q, t); /* all that wait begin before the next step */
  else if (a)
    step(q, a);
}

static void *worker(void *arg) {
  accel_queue *q = arg;
  accel__thread_cancel(&q->abandon);
  pthread_mutex_lock(&q->lock);
  for (;;) {
    while (!q->waiting && !q->n_begun && !q->stop) pthread_cond_wait(&q->changed, &q->lock);
    if (!q->waiting && !q->n_begun) break;
    wait_for_answered(q);
    accel_ticket *late = take_expired(q), *t = late ? NULL : take_first(q);
    q->busy = true;
    pthread_mutex_unlock(&q->lock);
    do_next(q, late, t);
    pthread_mutex_lock(&q->lock);
    q->busy = q->n_begun > 0;
    if (!q->busy && !q->waiting) pthread_cond_broadcast(&q->changed);
  }
  pthread_mutex_unlock(&q->lock);
  return NULL;
}

static accel_status start_thread(accel_queue *q) {
  if (!q->started && pthread_create(&q->thread, NULL, worker, q))
    return accel__fail(ACCEL_ERROR_OUT_OF_MEMORY, "%s: no thread for the queue", q->ep->name);
  q->started = true;
  return ACCEL_OK;
}

/* ---- the queue ---- */

accel_status accel__queue_new(accel_endpoint *ep, uint32_t capacity, accel_queue **out) {
  accel_queue *q = calloc(1, sizeof *q);
  *out = q;
  if (!q) return accel__no_memory(sizeof *q);
  q->ep = ep;
  q->capacity = capacity;
  pthread_mutex_init(&q->lock, NULL);
  accel__cond_init(&q->changed);
  return ACCEL_OK;
}

accel_status accel__queue_add(accel_endpoint *ep, uint32_t capacity, accel_queue **out) {
  ACCEL_TRY(accel__queue_new(ep, capacity, out));
  pthread_mutex_lock(&ep->ctx->endpoints_lock);
  (*out)->more = ep->queue->more;
  ep->queue->more = *out;
  pthread_mutex_unlock(&ep->ctx->endpoints_lock);
  return ACCEL_OK;
}

void accel__queue_free(accel_queue *q) {
  if (!q) return;
  accel__queue_free(q->more);
  pthread_mutex_lock(&q->lock);
  q->stop = true;
  pthread_cond_broadcast(&q->changed);
  bool started = q->started;
  pthread_mutex_unlock(&q->lock);
  if (started) pthread_join(q->thread, NULL);
  pthread_mutex_lock(&q->lock);
  while (q->watched) pthread_cond_wait(&q->changed, &q->lock);
  pthread_mutex_unlock(&q->lock);
  pthread_cond_destroy(&q->changed);
  pthread_mutex_destroy(&q->lock);
  free(q);
}

static accel_status new_ticket(accel_queue *q, const accel__submission *what, accel_ticket **out) {
  accel_ticket *t = calloc(1, sizeof *t);
  *out = t;
  if (!t) return accel__no_memory(sizeof *t);
  accel__cond_init(&t->finished);
  pthread_mutex_init(&t->lock, NULL);
  atomic_init(&t->queue, q);
  t->what = *what;
  t->deadline_ns = what->options.deadline_ms
                       ? now_ns() + UINT64_C(1000000) * what->options.deadline_ms
                       : UINT64_MAX;
  return ACCEL_OK;
}

/* With the queue's lock held. */
static accel_status enqueue(accel_queue *q, accel_ticket *t) {
  if (q->waiting == q->capacity)
    return accel__remedy(
        accel__fail(ACCEL_ERROR_QUEUE_FULL, "%s: the queue holds %u requests, its capacity",
                    q->ep->name, q->capacity),
        "wait for a ticket, or initialise the endpoint with a larger queue_capacity");
  ACCEL_TRY(start_thread(q));
  t->number = q->submitted++;
  insert(q, t);
  pthread_cond_broadcast(&q->changed);
  return ACCEL_OK;
}

accel_status accel__queue_submit(accel_queue *q, const accel__submission *what,
                                 accel_ticket **out) {
  accel_ticket *t;
  *out = NULL;
  accel_status status = new_ticket(q, what, &t);
  if (status != ACCEL_OK) {
    what->work_free(what->work);
    return status;
  }
  pthread_mutex_lock(&q->lock);
  status = enqueue(q, t);
  if (status == ACCEL_OK) *out = t; /* before it can be done */
  pthread_mutex_unlock(&q->lock);
  if (status != ACCEL_OK) free_ticket(t);
  return status;
}

accel_queue *accel__queue_watch(accel_queue *q) {
  pthread_mutex_lock(&q->lock);
  q->watched++;
  pthread_mutex_unlock(&q->lock);
  return q->more;
}

void accel__queue_drain(accel_queue *q) {
  pthread_mutex_lock(&q->lock);
  while (q->waiting || q->busy) pthread_cond_wait(&q->changed, &q->lock);
  q->watched--;
  pthread_cond_broadcast(&q->changed);
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

uint32_t accel__queue_load(accel_queue *q) {
  pthread_mutex_lock(&q->lock);
  uint32_t n = q->waiting + q->n_begun;
  pthread_mutex_unlock(&q->lock);
  return n;
}

/* The ticket's queue, locked: it may be moved meanwhile. */
static accel_queue *lock_queue_of(accel_ticket *t) {
  for (;;) {
    accel_queue *q = atomic_load(&t->queue);
    pthread_mutex_lock(&q->lock);
    if (q == atomic_load(&t->queue)) return q;
    pthread_mutex_unlock(&q->lock);
  }
}

void accel__queue_cancel(accel_ticket *t) {
  pthread_mutex_lock(&t->lock);
  const bool done = t->done; /* the queue may be gone by now */
  pthread_mutex_unlock(&t->lock);
  if (done) return;
  accel_queue *q = lock_queue_of(t);
  const bool waits = t->state == WAITING;
  if (waits) {
    take_out(q, t, DONE);
    if (!q->busy && !q->waiting) pthread_cond_broadcast(&q->changed);
  }
  atomic_store(&t->cancelled, true);
  atomic_store(&q->abandon, unwanted(q));
  pthread_mutex_unlock(&q->lock);
  if (!waits) return;
  complete(t, cancelled());
  accel__clear_error(); /* it is the ticket's, not the caller's */
}

/* ---- waiting ---- */

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

const void *accel__ticket_work(const accel_ticket *t, const accel__group *group) {
  return t->what.group == group ? t->what.work : NULL;
}

accel_status accel__queue_wait(accel_ticket **ticket, int64_t timeout_ms, accel_tensors **outputs) {
  accel_ticket *t = *ticket;
  ACCEL_TRY(wait_for(t, timeout_ms));
  accel_status status = accel__failure_raise(&t->failure);
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
  ACCEL_TRY(wait_for(t, timeout_ms));
  accel_status status = accel__failure_raise(&t->failure);
  if (status == ACCEL_OK) status = take(t->what.work, user);
  free_ticket(t);
  *ticket = NULL;
  return status;
}
