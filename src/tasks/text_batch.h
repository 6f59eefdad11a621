/* text_batch.h - requests of an endpoint's queue for embeddings, classes and rankings: what waits at
 * the same time goes through the model together, and each gets what it would get alone. */
#ifndef ACCEL_TASKS_TEXT_BATCH_H
#define ACCEL_TASKS_TEXT_BATCH_H

#include "dispatch/queue.h"
#include "processing/text_task.h"

/* Submits a prepared task, which belongs to the queue from here on, even on failure. */
accel_status accel__submit_text_task(accel_queue *queue, accel__text_task *task,
                                     const accel__submit_options *options, accel_ticket **out);
/* The task of such a ticket, whose `kind` may be looked at; NULL for other tickets. */
const accel__text_task *accel__ticket_text_task(const accel_ticket *ticket);
/* Waits as accel__queue_wait_work, and takes the result of the task. */
accel_status accel__wait_text_task(accel_ticket **ticket, int64_t timeout_ms, void **result);

#endif
