/* batcher.c - the group of generations that a queue's thread steps: one session and one engine for
 * all of them. */
#include "generate/batcher.h"

#include <stdlib.h>
#include <string.h>

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
  int32_t *ids;
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
  const accel_endpoint *ep = accel__queue_endpoint(queue);
  const accel__queue_counters *c = &ep->counters;
  return (accel_queue_stats){.size = sizeof(accel_queue_stats),
                             .waiting = accel__queue_waiting(queue),
                             .prompt_tokens = atomic_load(&c->prompt_tokens),
                             .cached_tokens = atomic_load(&c->cached_tokens),
                             .cache_hits = atomic_load(&c->cache_hits),
                             .cache_prompts = atomic_load(&c->cache_prompts),
                             .cache_bytes = atomic_load(&c->cache_bytes),
                             .draft_tokens = atomic_load(&c->draft_tokens),
                             .accepted_tokens = atomic_load(&c->accepted_tokens),
                             .no_cache = accel__no_prefix_cache(ep)};
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

static void step(void *state) {
  batcher *b = state;
  accel__engine_step(&b->engine);
  atomic_store(&b->ep->counters.cache_bytes, b->prefixes.bytes);
  atomic_store(&b->ep->counters.cache_prompts, b->prefixes.n);
}

static void count(accel__queue_counters *counters, const accel__request *r) {
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
  count(&b->ep->counters, r);
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

static accel_status read_prompt(accel_endpoint *ep, job *j, const char *text, const int32_t *ids,
                                uint32_t n, accel__ids *prompt) {
  accel__encoding enc = {0};
  int32_t bos;
  accel__encode_options how = {.add_special_tokens = !j->params.no_special_tokens};
  if (text) {
    ACCEL_TRY(accel__processor_check(ep, ep->model->task));
    ACCEL_TRY(accel__encode_texts(ep, &text, NULL, 1, &how, &enc));
    const accel__ids found = accel__prompt_of(ep, &enc, &bos);
    ids = found.id;
    n = found.n;
  }
  j->ids = malloc((n + 1u) * sizeof *j->ids);
  if (j->ids && n) memcpy(j->ids, ids, n * sizeof *ids);
  accel__encoding_free(&enc);
  *prompt = (accel__ids){j->ids, n};
  return j->ids ? ACCEL_OK : accel__no_memory(n * sizeof *ids);
}

static accel_status prepare(accel_endpoint *ep, job *j, const char *text, const int32_t *ids,
                            uint32_t n, const accel_generate_params *params) {
  accel__ids prompt;
  ACCEL_TRY(accel__generate_plan_make(ep, params, &j->plan));
  ACCEL_TRY(copy_params(j, params));
  if (j->params.stop) j->plan.config.stop = j->params.stop->item;
  ACCEL_TRY(read_prompt(ep, j, text, ids, n, &prompt));
  return accel__generate_request(ep, &j->plan, &j->params, prompt, 0, accel__context_length(ep),
                                 &j->request);
}

accel_status accel__submit_generate(accel_queue *queue, const char *text, const int32_t *ids,
                                    uint32_t n, const accel_generate_params *params,
                                    const accel__submit_options *options, accel_ticket **out) {
  job *j = calloc(1, sizeof *j);
  if (!j) return accel__no_memory(sizeof *j);
  accel_status status = prepare(accel__queue_endpoint(queue), j, text, ids, n, params);
  const accel__submission what = {
      .group = &group, .work = j, .work_free = free_job, .options = *options};
  if (status == ACCEL_OK) return accel__queue_submit(queue, &what, out);
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
