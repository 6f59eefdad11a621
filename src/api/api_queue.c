/* api_queue.c - an endpoint's queue: argument checks, copies of what is submitted, tickets. */
#include <string.h>

#include "api/api_check.h"
#include "dispatch/pack.h"
#include "dispatch/queue.h"
#include "dispatch/run_clock.h"
#include "generate/batcher.h"
#include "tasks/classify.h"
#include "tasks/embed.h"
#include "tasks/rerank.h"
#include "tasks/text_batch.h"

accel_queue *accel_queue_of(accel_endpoint *endpoint) { return endpoint ? endpoint->queue : NULL; }
uint32_t accel_queue_capacity(const accel_queue *queue) {
  return queue ? accel__queue_capacity(queue) : 0;
}
uint32_t accel_queue_waiting(const accel_queue *queue) {
  return queue ? accel__queue_waiting((accel_queue *)queue) : 0;
}

accel_status accel_queue_statistics(accel_queue *queue, accel_queue_stats *out) {
  API_BEGIN();
  API_NEED(queue);
  API_NEED(out);
  const accel_queue_stats now = accel__queue_statistics(queue);
  API_FILL(out, now);
}

accel_request accel_request_default(accel_request_kind kind) {
  return (accel_request){.size = sizeof(accel_request), .kind = kind};
}

/* ---- submitting ---- */

static accel_status run_copied(accel_endpoint *ep, void *work, accel_tensors **outputs) {
  return accel__run_padded(ep, work, NULL, 0, outputs);
}

static void free_copied(void *work) {
  accel_tensors *list = work;
  accel__tensors_free(&list);
}

static accel_status submit_run(const char *caller, accel_queue *queue, const accel_tensors *inputs,
                               const accel__submit_options *options, accel_ticket **out) {
  accel_tensors *copy;
  ACCEL_TRY(accel__check_tensors(caller, inputs));
  ACCEL_TRY(accel__tensors_new(inputs->item, inputs->n, &copy));
  for (uint32_t i = 0; i < inputs->n; i++)
    memcpy(copy->item[i].data, inputs->item[i].data, accel__tensor_bytes(&inputs->item[i]));
  const accel__submission what = {
      .fn = run_copied, .work = copy, .work_free = free_copied, .options = *options};
  return accel__queue_submit(queue, &what, out);
}

accel_status accel_submit(accel_queue *queue, const accel_tensors *inputs, accel_ticket **out) {
  API_CALL(queue, out);
  return submit_run(__func__, queue, inputs, &(accel__submit_options){0}, out);
}

accel_status accel_submit_texts(accel_queue *queue, const char *const *texts, uint32_t n,
                                accel_ticket **out) {
  API_CALL(queue, out);
  API_NEED(texts);
  ACCEL_TRY(accel__check_texts(__func__, "texts", texts, n));
  const accel_embed_params params = accel_embed_params_default();
  accel__text_task *task;
  ACCEL_TRY(accel__embed_prepare(accel__queue_endpoint(queue), texts, n, &params, &task));
  return accel__submit_text_task(queue, task, &(accel__submit_options){0}, out);
}

accel_status accel_submit_generate(accel_queue *queue, const char *text, const int32_t *ids,
                                   uint32_t n, const accel_generate_params *params,
                                   accel_ticket **out) {
  API_CALL(queue, out);
  API_GENERATE_PARAMS(mine, params);
  if (!text && n) API_NEED(ids);
  const accel__generate_prompt prompt = {.text = text, .ids = ids, .n = n};
  return accel__submit_generate(queue, &prompt, &mine, &(accel__submit_options){0}, out);
}

/* The task of a request for embeddings, classes or a ranking. */
static accel_status prepare_texts(const char *caller, accel_endpoint *ep, const accel_request *r,
                                  accel__text_task **out) {
  if (r->n && !r->texts) return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: 'texts' is NULL", caller);
  ACCEL_TRY(accel__check_texts(caller, "texts", r->texts, r->n));
  accel_embed_params embed = accel_embed_params_default();
  accel_classify_params classify = accel_classify_params_default();
  accel_rerank_params rerank = accel_rerank_params_default();
  ACCEL_TRY(accel__overlay_params(caller, r->embed, sizeof embed, &embed));
  ACCEL_TRY(accel__overlay_params(caller, r->classify, sizeof classify, &classify));
  ACCEL_TRY(accel__overlay_params(caller, r->rerank, sizeof rerank, &rerank));
  if (r->kind == ACCEL_REQUEST_EMBED) return accel__embed_prepare(ep, r->texts, r->n, &embed, out);
  if (r->kind == ACCEL_REQUEST_CLASSIFY)
    return accel__classify_prepare(ep, r->texts, r->pairs, r->n, &classify, out);
  if (!r->query) return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: 'query' is NULL", caller);
  return accel__rerank_prepare(ep, r->query, r->texts, r->n, &rerank, out);
}

static accel_status submit_generation(const char *caller, accel_queue *queue,
                                      const accel_request *r, const accel__submit_options *options,
                                      accel_ticket **out) {
  accel_generate_params mine = accel_generate_params_default();
  ACCEL_TRY(accel__overlay_params(caller, r->generate, sizeof mine, &mine));
  ACCEL_TRY(accel__check_generate_params(caller, &mine));
  if (r->image_prompt) ACCEL_TRY(accel__check_image_prompts(caller, r->image_prompt, 1));
  if (!r->image_prompt && !r->prompt && r->n && !r->ids)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: 'prompt' and 'ids' are NULL", caller);
  const accel__generate_prompt prompt = {r->image_prompt, r->prompt, r->ids, r->n};
  return accel__submit_generate(queue, &prompt, &mine, options, out);
}

accel_status accel_submit_request(accel_queue *queue, const accel_request *request,
                                  accel_ticket **out) {
  API_CALL(queue, out);
  API_NEED(request);
  accel_request r = accel_request_default(request->kind);
  ACCEL_TRY(accel__overlay_params(__func__, request, sizeof r, &r));
  const accel__submit_options options = {r.priority, r.deadline_ms, r.done, r.user};
  accel__text_task *task;
  switch (r.kind) {
    case ACCEL_REQUEST_RUN:
      return submit_run(__func__, queue, r.inputs, &options, out);
    case ACCEL_REQUEST_GENERATE:
      return submit_generation(__func__, queue, &r, &options, out);
    case ACCEL_REQUEST_EMBED:
    case ACCEL_REQUEST_CLASSIFY:
    case ACCEL_REQUEST_RERANK:
      ACCEL_TRY(prepare_texts(__func__, accel__queue_endpoint(queue), &r, &task));
      return accel__submit_text_task(queue, task, &options, out);
  }
  return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: kind %d is none of accel_request_kind", __func__,
                     (int)r.kind);
}

void accel_ticket_cancel(accel_ticket *ticket) {
  if (ticket) accel__queue_cancel(ticket);
}

/* ---- waiting ---- */

/* The ticket is of a text task of this kind. */
static bool is_text(const accel_ticket *ticket, accel__text_kind kind) {
  const accel__text_task *task = accel__ticket_text_task(ticket);
  return task && task->kind == kind;
}

static accel_status wrong_ticket(const char *caller, const accel_ticket *ticket) {
  static const char *const waits[] = {"accel_wait_embeddings", "accel_wait_classifications",
                                      "accel_wait_ranking"};
  const accel__text_task *task = accel__ticket_text_task(ticket);
  return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: the ticket is for %s", caller,
                     task                           ? waits[task->kind]
                     : accel__is_generation(ticket) ? "accel_wait_generations"
                                                    : "accel_wait");
}

static accel_status wait_text(const char *caller, accel_ticket **ticket, accel__text_kind kind,
                              int64_t timeout_ms, void *out) {
  return is_text(*ticket, kind) ? accel__wait_text_task(ticket, timeout_ms, out)
                                : wrong_ticket(caller, *ticket);
}

accel_status accel_wait_embeddings(accel_ticket **ticket, int64_t timeout_ms,
                                   accel_embeddings **out) {
  API_CALL(ticket, out);
  API_NEED(*ticket);
  return wait_text(__func__, ticket, ACCEL__TEXT_EMBEDDINGS, timeout_ms, out);
}

accel_status accel_wait_classifications(accel_ticket **ticket, int64_t timeout_ms,
                                        accel_classifications **out) {
  API_CALL(ticket, out);
  API_NEED(*ticket);
  return wait_text(__func__, ticket, ACCEL__TEXT_CLASSIFICATIONS, timeout_ms, out);
}

accel_status accel_wait_ranking(accel_ticket **ticket, int64_t timeout_ms, accel_ranking **out) {
  API_CALL(ticket, out);
  API_NEED(*ticket);
  return wait_text(__func__, ticket, ACCEL__TEXT_RANKING, timeout_ms, out);
}

accel_status accel_wait_generations(accel_ticket **ticket, int64_t timeout_ms,
                                    accel_generations **out) {
  API_CALL(ticket, out);
  API_NEED(*ticket);
  if (!accel__is_generation(*ticket)) return wrong_ticket(__func__, *ticket);
  return accel__wait_generations(ticket, timeout_ms, out);
}

/* Embeddings as one tensor. */
static accel_status wait_tensor(accel_ticket **ticket, int64_t timeout_ms, accel_tensors **out) {
  void *result;
  ACCEL_TRY(accel__wait_text_task(ticket, timeout_ms, &result));
  const accel_embeddings *found = result;
  accel_tensor like = {.name = "embeddings",
                       .dtype = ACCEL_F32,
                       .rank = 2,
                       .dim = {(int64_t)found->row_start[found->n], found->dim}};
  const accel_status status = accel__tensors_new(&like, 1, out);
  if (status == ACCEL_OK) memcpy((*out)->item[0].data, found->data, accel__tensor_bytes(&like));
  accel__task_free(result);
  return status;
}

accel_status accel_wait(accel_ticket **ticket, int64_t timeout_ms, accel_tensors **outputs) {
  API_CALL(ticket, outputs);
  API_NEED(*ticket);
  if (is_text(*ticket, ACCEL__TEXT_EMBEDDINGS)) return wait_tensor(ticket, timeout_ms, outputs);
  if (accel__ticket_text_task(*ticket) || accel__is_generation(*ticket))
    return wrong_ticket(__func__, *ticket);
  return accel__queue_wait(ticket, timeout_ms, outputs);
}
