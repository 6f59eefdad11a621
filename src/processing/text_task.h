/* text_task.h - a task over texts in two halves around its run of the model: prepared (tokens,
 * pieces), and finished (the result).  What calls of several requests have prepared can so go
 * through the model together. */
#ifndef ACCEL_PROCESSING_TEXT_TASK_H
#define ACCEL_PROCESSING_TEXT_TASK_H

#include "processing/processor.h"

/* What `result` of a task is. */
typedef enum accel__text_kind {
  ACCEL__TEXT_EMBEDDINGS,      /* accel_embeddings */
  ACCEL__TEXT_CLASSIFICATIONS, /* accel_classifications */
  ACCEL__TEXT_RANKING          /* accel_ranking */
} accel__text_kind;

/* The first member of each task's own struct. */
typedef struct accel__text_task {
  accel__text_kind kind;
  accel__piece_run run;
  /* What runs in place of the pieces, of which there are none, where the model is asked in another
   * way; NULL otherwise. */
  accel_status (*run_alone)(struct accel__text_task *task);
  /* Behind the run: makes `result`. */
  accel_status (*finish)(struct accel__text_task *task);
  void (*free)(struct accel__text_task *task); /* all but `result` */
  void *result; /* as accel__task_result; whoever frees the task takes it first, or frees it */
} accel__text_task;

/* The end of what prepares a task: hands it out, or on failure frees it. */
accel_status accel__text_task_made(accel__text_task *task, accel_status status,
                                   accel__text_task **out);
/* Gives the task back, with a result that nobody took; NULL-safe. */
void accel__text_task_free(accel__text_task *task);
/* Runs a task that was prepared with `status`, hands its result out and frees it; `task` may be NULL
 * where `status` is a failure. */
accel_status accel__text_task_run(accel_endpoint *ep, accel_status status, accel__text_task *task,
                                  void **result);

#endif
