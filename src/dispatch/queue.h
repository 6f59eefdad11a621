/* queue.h - an endpoint's queue: requests that wait, by priority, deadline and order, and one
 * thread that runs them. */
#ifndef ACCEL_DISPATCH_QUEUE_H
#define ACCEL_DISPATCH_QUEUE_H

#include "dispatch/endpoint.h"

/* What a request does on the queue's thread; the outputs go to the ticket.  `work` is freed by
 * `work_free` afterwards. */
typedef accel_status (*accel__work_fn)(accel_endpoint *ep, void *work, accel_tensors **outputs);

/* Requests that share runs of the model: begun in the order of the queue, then all begun ones go on
 * together, step by step, and each leaves when it is done.  All functions run on the queue's
 * thread. */
typedef struct accel__group {
  accel_status (*open)(accel_endpoint *ep, void **state); /* with the first of them */
  accel_status (*join)(void *state, void *work);
  /* A request that has joined is not wanted any more: it is finished, with
   * ACCEL_ERROR_CANCELLED. */
  void (*cancel)(void *state, void *work);
  void (*step)(void *state);
  /* *status: how it ended; the message of a failure is this thread's, as accel__fail leaves it. */
  bool (*finished)(void *state, void *work, accel_status *status);
  void (*close)(void *state); /* when none is left */
} accel__group;

/* Requests that may wait where the user does not say. */
enum { ACCEL__QUEUE_CAPACITY = 32 };

/* Groups of one queue: each has its own requests, and their steps alternate. */
enum { ACCEL__GROUPS = 2 };

/* How a request waits, and who is told. */
typedef struct accel__submit_options {
  int32_t priority;     /* larger ones begin first */
  uint32_t deadline_ms; /* from its submission: one that has not begun by then fails; 0 none */
  accel_done_fn done;   /* called when the ticket is done; may be NULL */
  void *user;
} accel__submit_options;

/* What is submitted: `fn` alone, or a request of `group`.  `work` belongs to the queue, even where
 * the submission fails. */
typedef struct accel__submission {
  accel__work_fn fn;
  const accel__group *group;
  void *work;
  void (*work_free)(void *);
  accel__submit_options options;
  /* The device was lost: the queue in which the request, made anew, waits again; NULL: it fails.
   * Called on the queue's thread, after the group has finished with it; may be NULL. */
  accel_queue *(*elsewhere)(accel_queue *queue, void *work);
} accel__submission;

accel_status accel__queue_new(accel_endpoint *ep, uint32_t capacity,
                              accel_queue **out); /* the thread starts with the first request */
/* Another queue of an endpoint that has one, behind which it is kept. */
accel_status accel__queue_add(accel_endpoint *ep, uint32_t capacity, accel_queue **out);
/* Runs what waits in it and in those that were added, then stops them; tickets not waited for stay
 * valid.  Its endpoint is in the context's list no more.  NULL-safe. */
void accel__queue_free(accel_queue *queue);
/* ACCEL_ERROR_QUEUE_FULL when `capacity` requests wait. */
accel_status accel__queue_submit(accel_queue *queue, const accel__submission *what,
                                 accel_ticket **out);
accel_endpoint *accel__queue_endpoint(accel_queue *queue);
uint32_t accel__queue_capacity(const accel_queue *queue);
uint32_t accel__queue_waiting(accel_queue *queue); /* submitted, not yet begun */
uint32_t accel__queue_load(accel_queue *queue);    /* these, and those that a group goes on with */
/* Makes accel__queue_free wait until the queue was drained.  With the context's endpoints_lock held;
 * answers the endpoint's next queue, NULL: there is none. */
accel_queue *accel__queue_watch(accel_queue *queue);
/* Of a queue that is watched: returns when nothing waits and nothing is being done. */
void accel__queue_drain(accel_queue *queue);
/* As accel_ticket_cancel. */
void accel__queue_cancel(accel_ticket *ticket);
/* The work of a ticket of `group`, whose constant parts may be looked at; NULL for other tickets. */
const void *accel__ticket_work(const accel_ticket *ticket, const accel__group *group);
/* Of a request alone.  timeout_ms < 0: for ever.  ACCEL_ERROR_TIMEOUT leaves the ticket; any other
 * answer frees it. */
accel_status accel__queue_wait(accel_ticket **ticket, int64_t timeout_ms, accel_tensors **outputs);
/* Of a group's request: `take` is called with its work, before that is freed. */
accel_status accel__queue_wait_work(accel_ticket **ticket, int64_t timeout_ms,
                                    accel_status (*take)(void *work, void *user), void *user);

#endif
