/* queue.h - an endpoint's queue: a ring of requests and one thread that runs them in order. */
#ifndef ACCEL_DISPATCH_QUEUE_H
#define ACCEL_DISPATCH_QUEUE_H

#include "dispatch/endpoint.h"

/* What a request does on the queue's thread; the outputs go to the ticket.  `work` is freed by `work_free` afterwards. */
typedef accel_status (*accel__work_fn)(accel_endpoint *ep, void *work, accel_tensors **outputs);

accel_status accel__queue_new(accel_endpoint *ep, uint32_t capacity,
                              accel_queue **out); /* the thread starts with the first request */
void accel__queue_free(accel_queue *queue);       /* runs what waits, then stops; tickets not waited for stay valid */
/* ACCEL_ERROR_QUEUE_FULL (work is freed) when `capacity` requests wait. */
accel_status accel__queue_submit(accel_queue *queue, accel__work_fn fn, void *work, void (*work_free)(void *),
                                 accel_ticket **out);
accel_endpoint *accel__queue_endpoint(accel_queue *queue);
uint32_t accel__queue_capacity(const accel_queue *queue);
uint32_t accel__queue_waiting(accel_queue *queue); /* submitted, not yet begun */
/* timeout_ms < 0: for ever.  ACCEL_ERROR_TIMEOUT leaves the ticket; any other answer frees it. */
accel_status accel__queue_wait(accel_ticket **ticket, int64_t timeout_ms, accel_tensors **outputs);

#endif
