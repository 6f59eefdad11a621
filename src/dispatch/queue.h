/* queue.h - an endpoint's queue: a ring of requests and one thread that runs them in order. */
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
  void (*step)(void *state);
  /* *status: how it ended; the message of a failure is this thread's, as accel__fail leaves it. */
  bool (*finished)(void *state, void *work, accel_status *status);
  void (*close)(void *state); /* when none is left */
} accel__group;

accel_status accel__queue_new(accel_endpoint *ep, uint32_t capacity,
                              accel_queue **out); /* the thread starts with the first request */
/* runs what waits, then stops; tickets not waited for stay valid */
void accel__queue_free(accel_queue *queue);
/* ACCEL_ERROR_QUEUE_FULL (work is freed) when `capacity` requests wait. */
accel_status accel__queue_submit(accel_queue *queue, accel__work_fn fn, void *work,
                                 void (*work_free)(void *), accel_ticket **out);
/* The same for a request of a group: one group a queue.  What it answers is taken from `work` by
 * accel__queue_wait_work. */
accel_status accel__queue_submit_group(accel_queue *queue, const accel__group *group, void *work,
                                       void (*work_free)(void *), accel_ticket **out);
accel_endpoint *accel__queue_endpoint(accel_queue *queue);
uint32_t accel__queue_capacity(const accel_queue *queue);
uint32_t accel__queue_waiting(accel_queue *queue); /* submitted, not yet begun */
/* returns when nothing waits and nothing is being done */
void accel__queue_drain(accel_queue *queue);
/* timeout_ms < 0: for ever.  ACCEL_ERROR_TIMEOUT leaves the ticket; any other answer frees it. */
accel_status accel__queue_wait(accel_ticket **ticket, int64_t timeout_ms, accel_tensors **outputs);
/* Of a group's request: `take` is called with its work, before that is freed.  A ticket of the
 * other kind is ACCEL_ERROR_ARGUMENT in both, and stays valid. */
accel_status accel__queue_wait_work(accel_ticket **ticket, int64_t timeout_ms,
                                    accel_status (*take)(void *work, void *user), void *user);

#endif
