/* text_task.c - a prepared task from its run to its result. */
#include "processing/text_task.h"

#include "processing/result.h"

accel_status accel__text_task_made(accel__text_task *task, accel_status status,
                                   accel__text_task **out) {
  *out = status == ACCEL_OK ? task : NULL;
  if (status != ACCEL_OK) accel__text_task_free(task);
  return status;
}

void accel__text_task_free(accel__text_task *task) {
  if (!task) return;
  accel__task_free(task->result);
  task->free(task);
}

accel_status accel__text_task_run(accel_endpoint *ep, accel_status status, accel__text_task *task,
                                  void **result) {
  *result = NULL;
  if (status == ACCEL_OK)
    status = task->run_alone ? task->run_alone(task) : accel__run_pieces(ep, &task->run);
  if (status == ACCEL_OK) status = task->finish(task);
  if (status == ACCEL_OK) {
    *result = task->result;
    task->result = NULL;
  }
  accel__text_task_free(task);
  return status;
}
