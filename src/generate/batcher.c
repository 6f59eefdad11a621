/* batcher.c - the group of generations that a queue's thread steps: one session and one engine for
 * all of them. */
#include "generate/batcher.h"

#include <stdlib.h>
#include <string.h>

#include "dispatch/replicas.h"
#include "generate/image_text.h"
#include "processing/processor.h"
#include "processing/result.h"

/* Of a prompt in one step: nobody waits longer for a token, or to join. */
enum { PIECE_MS = 250 };

typedef struct batcher {
  accel__parked parked; /* first: with the endpoint while nothing is generated */
  accel_endpoint *ep;
  accel__session *session;
  accel__model_stepper stepper;
  accel__engine engine;
  accel__prefix_cache prefixes;
} batcher;

/* One submitted request. */
typedef struct job {
  accel__generate_plan plan;
  accel_generate_params params;
  int32_t *ids; /* [n_ids] the prompt, without pictures */
  uint32_t n_ids;
  accel__image_text pictured; /* the prompt, with pictures */
  accel__request request;
  accel_generations *result;
} job;

const char *accel__no_prefix_cache(const accel_endpoint *ep) {
  if (accel__can_generate(ep) != ACCEL_OK) {
    accel__clear_error();
    return "the model does not generate";
  }
  if (!ep->prefix_cache_bytes) return "prefix_cache_bytes is 0";
  if (ep->model->is_encoder_decoder) return "an encoder reads the prompt";
  if (accel__fixed_state(ep)) return "states of the model cannot go back to fewer tokens";
  if (accel__rotates_by_length(ep) && ep->model->generation.recompute_kv_above <= 0)
    return "rotations depend on the length of the whole prompt";
  return NULL;
}

accel_queue_stats accel__queue_statistics(accel_queue *queue) {
  accel_endpoint *ep = accel__queue_endpoint(queue);
  accel_queue_stats now = {.size = sizeof(accel_queue_stats),
                           .waiting = accel__queue_waiting(queue),
                           .no_cache = accel__no_prefix_cache(ep)};
  for (uint32_t i = 0; i < accel__replicas_count(ep); i++) {
    const accel_endpoint *replica = accel__replica(ep, i);
    const accel__queue_counters *c = &replica->counters;
    if (i) now.waiting += accel__queue_waiting(replica->queue);
    now.prompt_tokens += atomic_load(&c->prompt_tokens);
    now.cached_tokens += atomic_load(&c->cached_tokens);
    now.cache_hits += atomic_load(&c->cache_hits);
    now.cache_prompts += atomic_load(&c->cache_prompts);
    now.cache_bytes += atomic_load(&c->cache_bytes);
    now.draft_tokens += atomic_load(&c->draft_tokens);
    now.accepted_tokens += atomic_load(&c->accepted_tokens);
  }
  return now;
}

static void free_batcher(accel__parked *parked) {
  batcher *b = (batcher *)parked;
  accel__engine_free(&b->engine);
  accel__prefix_cache_free(&b->prefixes);
  accel__model_stepper_close(&b->stepper);
  accel__session_close(&b->session);
  atomic_store(&b->ep->counters.cache_bytes, 0);
  atomic_store(&b->ep->counters.cache_prompts, 0);
  free(b);
}

/* With prompts that are kept it stays with the endpoint. */
static void close_batcher(void *state) {
  batcher *b = state;
  if (b->prefixes.n)
    accel__endpoint_park(b->ep, &b->parked);
  else
    free_batcher(&b->parked);
}

/* The one that was left with the endpoint, unless a device was lost since. */
static batcher *parked_batcher(accel_endpoint *ep) {
  accel__parked *parked = accel__endpoint_unpark(ep);
  batcher *b = (batcher *)parked;
  if (!parked || b->session->n_replaced == ep->n_replaced) return b;
  free_batcher(parked);
  return NULL;
}

static accel_status open_batcher(accel_endpoint *ep, void **state) {
  batcher *b = parked_batcher(ep);
  if (b) return *state = b, ACCEL_OK;
  b = calloc(1, sizeof *b);
  if (!b) return accel__no_memory(sizeof *b);
  b->parked.close = free_batcher;
  b->ep = ep;
  accel_status status = accel__session_open(ep, &b->session);
  if (status == ACCEL_OK) status = accel__model_stepper_open(b->session, &b->stepper);
  b->engine.model = &b->stepper.stepper;
  b->engine.piece_ms = PIECE_MS;
  b->prefixes = (accel__prefix_cache){.model = b->engine.model, .most = ep->prefix_cache_bytes};
  if (!accel__no_prefix_cache(ep)) b->engine.prefixes = &b->prefixes;
  if (status == ACCEL_OK)
    *state = b;
  else
    free_batcher(&b->parked);
  return status;
}

static accel_status join(void *state, void *work) {
  batcher *b = state;
  job *j = work;
  ACCEL_TRY(accel__request_begin(&j->request));
  accel__engine_join(&b->engine, &j->request);
  return ACCEL_OK;
}

static void cancel(void *state, void *work) {
  accel__engine_cancel(&((batcher *)state)->engine, &((job *)work)->request);
}

static uint32_t active_requests(const batcher *b) {
  uint32_t n = 0;
  for (const accel__request *r = b->engine.active; r; r = r->next) n++;
  return n ? n : 1;
}

static void step(void *state) {
  batcher *b = state;
  accel__scheduled_run run;
  accel__replica_step_begin(b->ep, active_requests(b), &run);
  accel__engine_step(&b->engine);
  accel__replica_step_end(b->ep, &run);
  atomic_store(&b->ep->counters.cache_bytes, b->prefixes.bytes);
  atomic_store(&b->ep->counters.cache_prompts, b->prefixes.n);
}

static void count(accel_endpoint *ep, const accel__request *r) {
  accel__queue_counters *counters = &ep->counters;
  if (r->outcome.failure.status == ACCEL_OK)
    accel__replica_generated(ep, r->input.prompt.n + r->progress.steps);
  atomic_fetch_add(&counters->prompt_tokens, r->input.prompt.n);
  atomic_fetch_add(&counters->cached_tokens, r->progress.cached);
  atomic_fetch_add(&counters->cache_hits, r->progress.cached > 0);
  for (uint32_t i = 0; i < r->outcome.n_done; i++) {
    atomic_fetch_add(&counters->draft_tokens, r->outcome.done[i].draft_tokens);
    atomic_fetch_add(&counters->accepted_tokens, r->outcome.done[i].accepted_tokens);
  }
}

static bool finished(void *state, void *work, accel_status *status) {
  batcher *b = state;
  job *j = work;
  accel__request *r = &j->request;
  if (!r->outcome.finished) return false;
  *status = accel__failure_raise(&r->outcome.failure);
  if (*status == ACCEL_OK) *status = accel__generate_collect(r, 1, &j->result);
  if (*status == ACCEL_OK && j->pictured.pixels)
    *status = accel__image_text_finish(b->ep, &j->pictured, j->params.keep_special_tokens != 0,
                                       j->result);
  count(b->ep, r);
  accel__request_end(r, &b->stepper.stepper);
  return true;
}

static const accel__group group = {.open = open_batcher,
                                   .join = join,
                                   .cancel = cancel,
                                   .step = step,
                                   .finished = finished,
                                   .close = close_batcher};

static void free_job(void *work) {
  job *j = work;
  if (!j) return;
  accel__request_end(&j->request, NULL);
  accel__generate_plan_free(&j->plan);
  accel__task_free(j->result);
  accel__image_text_free(&j->pictured);
  free(j->ids);
  free(j);
}

/* Stop strings outlive the caller's. */
static accel_status copy_params(job *j, const accel_generate_params *params) {
  j->params = *params;
  if (!params->stop) return ACCEL_OK;
  accel__arena *arena = &j->plan.arena;
  accel_strings *stop = accel__arena_alloc(arena, sizeof *stop);
  const char **item = accel__arena_array(arena, params->stop->n, sizeof *item);
  if (!stop || !item) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < params->stop->n; i++)
    if (params->stop->item[i] && !(item[i] = accel__arena_string(arena, params->stop->item[i])))
      return ACCEL_ERROR_OUT_OF_MEMORY;
  *stop = (accel_strings){.n = params->stop->n, .item = item};
  j->params.stop = stop;
  return ACCEL_OK;
}

static accel_status read_prompt(accel_endpoint *ep, job *j, const accel__generate_prompt *from,
                                accel__ids *prompt) {
  accel__encoding enc = {0};
  int32_t bos;
  accel__encode_options how = {.add_special_tokens = !j->params.no_special_tokens};
  accel__ids ids = {from->ids, from->n};
  if (from->text) {
    ACCEL_TRY(accel__processor_check(ep, ep->model->task));
    ACCEL_TRY(accel__encode_texts(ep, &from->text, NULL, 1, &how, &enc));
    ids = accel__prompt_of(ep, &enc, &bos);
  }
  j->ids = malloc((ids.n + 1u) * sizeof *j->ids);
  if (j->ids && ids.n) memcpy(j->ids, ids.id, ids.n * sizeof *j->ids);
  accel__encoding_free(&enc);
  j->n_ids = ids.n;
  *prompt = (accel__ids){j->ids, ids.n};
  return j->ids ? ACCEL_OK : accel__no_memory(ids.n * sizeof *j->ids);
}

/* Pictures are decoded here, on the caller's thread. */
static accel_status read_pictured(accel_endpoint *ep, job *j, const accel_image_prompt *from) {
  accel__image_reader reader;
  accel_status status = accel__image_reader_open(ep, j->params.no_special_tokens != 0, &reader);
  if (status == ACCEL_OK) status = accel__image_text_read(&reader, from, 0, &j->pictured);
  accel__image_reader_close(&reader);
  return status;
}

/* What the prefix cache tells pictures by is made here, on the caller's thread, too. */
static accel_status pictured_request(const accel_endpoint *ep, job *j, int64_t context) {
  ACCEL_TRY(
      accel__image_text_request(ep, &j->plan, &j->params, &j->pictured, 0, context, &j->request));
  if (j->request.input.images && !accel__no_prefix_cache(ep) &&
      ep->model->generation.recompute_kv_above <= 0)
    accel__prompt_images_hash(j->request.input.images);
  return ACCEL_OK;
}

static accel_status prepare(accel_endpoint *ep, job *j, const accel__generate_prompt *from,
                            const accel_generate_params *params) {
  const int64_t context = accel__context_length(ep);
  accel__ids prompt;
  ACCEL_TRY(accel__generate_plan_make(ep, params, &j->plan));
  ACCEL_TRY(copy_params(j, params));
  if (j->params.stop) j->plan.config.stop = j->params.stop->item;
  if (from->pictured) {
    ACCEL_TRY(read_pictured(ep, j, from->pictured));
    return pictured_request(ep, j, context);
  }
  ACCEL_TRY(read_prompt(ep, j, from, &prompt));
  return accel__generate_request(ep, &j->plan, &j->params, prompt, 0, context, &j->request);
}

/* The request as it was before it began; not where somebody has heard tokens that would come
 * again. */
static accel_queue *begin_elsewhere(accel_queue *queue, void *work) {
  job *j = work;
  const accel_endpoint *ep = accel__queue_endpoint(queue);
  const int64_t context = accel__context_length(ep);
  const accel__ids prompt = {j->ids, j->n_ids};
  accel__replica_lost(accel__queue_endpoint(queue));
  if (j->request.options.on_token && j->request.progress.steps) return NULL;
  accel_queue *to = accel__replica_queue(queue);
  if (!to || to == queue) return NULL;
  accel__task_free(j->result);
  j->result = NULL;
  accel__request_end(&j->request, NULL);
  j->request = (accel__request){0};
  const accel_status status =
      j->pictured.pixels
          ? pictured_request(ep, j, context)
          : accel__generate_request(ep, &j->plan, &j->params, prompt, 0, context, &j->request);
  return status == ACCEL_OK ? to : NULL;
}

accel_status accel__submit_generate(accel_queue *queue, const accel__generate_prompt *prompt,
                                    const accel_generate_params *params,
                                    const accel__submit_options *options, accel_ticket **out) {
  accel_queue *to = accel__replica_queue(queue);
  if (!to)
    return accel__fail(ACCEL_ERROR_DEVICE_LOST, "%s: all devices are lost",
                       accel__queue_endpoint(queue)->name);
  job *j = calloc(1, sizeof *j);
  if (!j) return accel__no_memory(sizeof *j);
  accel_status status = prepare(accel__queue_endpoint(queue), j, prompt, params);
  const accel__submission what = {.group = &group,
                                  .work = j,
                                  .work_free = free_job,
                                  .options = *options,
                                  .elsewhere = begin_elsewhere};
  if (status == ACCEL_OK) return accel__queue_submit(to, &what, out);
  free_job(j);
  return status;
}

static accel_status take(void *work, void *user) {
  job *j = work;
  *(accel_generations **)user = j->result;
  j->result = NULL;
  return ACCEL_OK;
}

accel_status accel__wait_generations(accel_ticket **ticket, int64_t timeout_ms,
                                     accel_generations **out) {
  return accel__queue_wait_work(ticket, timeout_ms, take, out);
}

bool accel__is_generation(const accel_ticket *ticket) {
  return accel__ticket_work(ticket, &group) != NULL;
}
