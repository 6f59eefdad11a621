/* generation.c - accel_generate: configuration, prompts, the loop, the result. */
#include "generate/generation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/replicas.h"
#include "generate/assistant_draft.h"
#include "processing/processor.h"
#include "processing/result.h"
#include "models/model_build.h"

enum { DEFAULT_NEW_TOKENS = 256 };

/* ---- configuration ---- */

accel_generate_params accel__generate_defaults(void) {
  return (accel_generate_params){.size = sizeof(accel_generate_params),
                                 .max_new_tokens = -1,
                                 .min_new_tokens = -1,
                                 .do_sample = -1,
                                 .temperature = NAN,
                                 .top_p = NAN,
                                 .min_p = NAN,
                                 .typical_p = NAN,
                                 .top_k = -1,
                                 .repetition_penalty = NAN,
                                 .presence_penalty = NAN,
                                 .frequency_penalty = NAN,
                                 .no_repeat_ngram_size = -1,
                                 .logprobs = -1,
                                 .adapter_scale = 1};
}

/* What a layer says of beams and lengths; max_length 20 is what transformers 4 puts where nobody
 * says anything. */
static void note(accel__generate_plan *plan, const accel__json *object) {
  const accel__json *length = accel__json_get(object, "max_length");
  plan->says_beams |= accel__json_get(object, "num_beams") != NULL;
  plan->says_length |= accel__json_get(object, "max_new_tokens") ||
                       (cJSON_IsNumber(length) && length->valuedouble != 20);
}

/* End and padding as the architecture has them. */
static accel_status take_ends(const accel_endpoint *ep, accel__generate_plan *plan) {
  int32_t *id = accel__arena_array(&plan->arena, ep->model->n_eos, sizeof *id);
  if (!id) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < ep->model->n_eos; i++) id[i] = (int32_t)ep->model->eos_ids[i];
  plan->config.eos = (accel__ids){id, ep->model->n_eos};
  plan->config.pad = ep->model->pad_id;
  return ACCEL_OK;
}

/* The model's: generation_config.json, or what config.json says; where neither names an end, that of
 * the config class, or of the text inside a model that also takes pictures. */
static accel_status read_model(const accel_endpoint *ep, accel__generate_plan *plan) {
  const bool inside = ep->model->generation.text_config;
  const accel__json *text = inside ? accel__json_get(ep->config.root, "text_config") : NULL;
  const accel__json_file config = {.root = text ? (accel__json *)text : ep->config.root,
                                   .name = ep->config.name};
  accel__json_file file = {0};
  if (!inside) ACCEL_TRY(accel__generation_file(ep->directory, &file));
  accel_status status =
      accel__generate_config_read(file.root ? &file : NULL, &config, &plan->arena, &plan->config);
  note(plan, file.root ? file.root : config.root);
  const bool silent = file.root == NULL && plan->config.eos.n == 0;
  if (status == ACCEL_OK && (inside || silent)) status = take_ends(ep, plan);
  accel__json_free(&file);
  return status;
}

static accel_status read_callers(const char *text, accel__generate_plan *plan) {
  accel__json_file file = {0};
  accel_status status = accel__json_parse(text, strlen(text), "generation config", &file);
  if (status == ACCEL_OK)
    status = accel__generate_config_overlay(&file, true, &plan->arena, &plan->config);
  if (status == ACCEL_OK)
    plan->asked_length =
        accel__json_get(file.root, "max_new_tokens") || accel__json_get(file.root, "max_length");
  note(plan, file.root);
  accel__json_free(&file);
  return status;
}

static accel_status apply_task(const accel_endpoint *ep, const accel__task_settings *task,
                               accel__generate_plan *plan) {
  const accel__json_file part = {.root = (accel__json *)task->fields, .name = ep->config.name};
  if (task->forced_bos >= 0) plan->config.forced_bos = task->forced_bos;
  if (!task->fields) return ACCEL_OK;
  note(plan, task->fields);
  return accel__generate_config_overlay(&part, false, &plan->arena, &plan->config);
}

static void set(double *field, double value) {
  if (!isnan(value)) *field = value;
}

static void apply(const accel_generate_params *p, accel__generate_plan *plan) {
  accel__generate_config *c = &plan->config;
  if (p->max_new_tokens >= 0) c->max_new_tokens = p->max_new_tokens;
  plan->asked_length |= p->max_new_tokens >= 0;
  if (p->min_new_tokens >= 0) c->min_new_tokens = p->min_new_tokens;
  if (p->top_k >= 0) c->top_k = p->top_k;
  if (p->no_repeat_ngram_size >= 0) c->no_repeat_ngram = p->no_repeat_ngram_size;
  if (p->num_beams) c->num_beams = p->num_beams;
  if (p->num_return_sequences) c->num_return = p->num_return_sequences;
  set(&c->temperature, p->temperature);
  set(&c->top_p, p->top_p);
  set(&c->min_p, p->min_p);
  set(&c->typical_p, p->typical_p);
  set(&c->repetition_penalty, p->repetition_penalty);
  set(&c->presence_penalty, p->presence_penalty);
  set(&c->frequency_penalty, p->frequency_penalty);
  bool wants_chance = p->top_k >= 0 || !isnan(p->temperature) || !isnan(p->top_p) ||
                      !isnan(p->min_p) || !isnan(p->typical_p);
  if (p->do_sample >= 0)
    c->do_sample = p->do_sample != 0;
  else if (wants_chance)
    c->do_sample = true;
  if (p->temperature == 0) c->do_sample = false;
  if (p->seed) c->seed = p->seed;
  if (p->ignore_eos) c->eos.n = 0;
  if (p->stop) {
    c->stop = p->stop->item;
    c->n_stop = p->stop->n;
  }
}

static accel_status check_stop(const accel_endpoint *ep, const accel__generate_config *c) {
  for (uint32_t i = 0; i < c->n_stop; i++)
    if (!c->stop[i] || !*c->stop[i])
      return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: stop string %u is empty", ep->name, i);
  if (c->n_stop && !accel__processor_for(ep)->tokenizer)
    return accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: stop strings need a tokenizer", ep->name);
  return ACCEL_OK;
}

/* Clean-up would change the text that the grammar has allowed. */
static accel_status take_grammar(const accel_endpoint *ep, const accel_generate_params *params,
                                 accel__generate_plan *plan) {
  const accel__tokenizer *tokenizer = accel__processor_for(ep)->tokenizer;
  if (params->grammar_kind == ACCEL_GRAMMAR_NONE) return ACCEL_OK;
  if (!tokenizer)
    return accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: a grammar needs a tokenizer", ep->name);
  const char *text = params->grammar ? params->grammar : "";
  plan->no_clean_up = true;
  plan->config.forced_eos.n = 0; /* a text that is cut is not one that has ended */
  ACCEL_TRY_AS(accel__vocabulary_grammar(tokenizer, (accel_grammar_kind)params->grammar_kind, text,
                                         strlen(text), &plan->grammar),
               "%s", ep->name);
  return ACCEL_OK;
}

/* Why sequences of the model, so configured, check no guesses. */
static accel_status check_speculation(const accel_endpoint *ep, const accel__generate_config *c) {
  const char *state = accel__fixed_state(ep);
  if (c->num_beams > 1)
    return accel__remedy(accel__fail(ACCEL_ERROR_UNSUPPORTED,
                                     "%s: speculation is not for beam search (num_beams %u)",
                                     ep->name, c->num_beams),
                         "leave num_beams, or prompt_lookup_num_tokens and assistant_model, out");
  if (state)
    return accel__fail(ACCEL_ERROR_UNSUPPORTED,
                       "%s: no speculation: state '%s' cannot go back to fewer tokens", ep->name,
                       state);
  if (accel__rotates_by_length(ep))
    return accel__fail(ACCEL_ERROR_UNSUPPORTED,
                       "%s: no speculation: rotations depend on the length of the whole sequence",
                       ep->name);
  return ACCEL_OK;
}

static uint32_t count_of(uint32_t asked, int64_t configured, uint32_t otherwise) {
  const int64_t n = asked ? (int64_t)asked : configured ? configured : (int64_t)otherwise;
  return n < ACCEL__MOST_DRAFTS ? (uint32_t)n : ACCEL__MOST_DRAFTS;
}

/* What the caller asks for must be possible; what a file asks for is done where it is. */
static accel_status take_speculation(const accel_endpoint *ep, const accel_generate_params *params,
                                     accel__generate_plan *plan) {
  const accel__generate_config *c = &plan->config;
  const bool looks_up = params->prompt_lookup_num_tokens || c->prompt_lookup,
             asked = params->prompt_lookup_num_tokens || params->assistant_model;
  if (!looks_up && !params->assistant_model) return ACCEL_OK;
  const accel_status status = check_speculation(ep, c);
  if (status != ACCEL_OK && asked) return status;
  accel__clear_error();
  if (status != ACCEL_OK) return ACCEL_OK;
  if (params->assistant_model) ACCEL_TRY(accel__assistant_check(ep, params->assistant_model));
  plan->speculate = (accel__speculate_options){
      .most = params->assistant_model
                  ? count_of(params->num_assistant_tokens, c->assistant_tokens, 8)
                  : count_of(params->prompt_lookup_num_tokens, c->prompt_lookup, 0),
      .ngram = count_of(params->max_matching_ngram_size, c->matching_ngram, ACCEL__NGRAM),
      .assistant = params->assistant_model};
  return ACCEL_OK;
}

accel_status accel__generate_plan_make(const accel_endpoint *ep,
                                       const accel_generate_params *params,
                                       accel__generate_plan *plan) {
  return accel__generate_plan_for(ep, &(accel__task_settings){.forced_bos = -1}, params, plan);
}

accel_status accel__generate_plan_for(const accel_endpoint *ep, const accel__task_settings *task,
                                      const accel_generate_params *params,
                                      accel__generate_plan *plan) {
  *plan = (accel__generate_plan){.context = accel__context_length(ep),
                                 .continue_on_error = params->continue_on_error != 0};
  ACCEL_TRY(accel__can_generate(ep));
  ACCEL_TRY(read_model(ep, plan));
  ACCEL_TRY(apply_task(ep, task, plan));
  if (params->config) ACCEL_TRY(read_callers(params->config, plan));
  if (task->num_beams && !plan->says_beams) plan->config.num_beams = task->num_beams;
  if (task->max_new_tokens && !plan->says_length)
    plan->config.max_new_tokens = task->max_new_tokens;
  apply(params, plan);
  ACCEL_TRY(check_stop(ep, &plan->config));
  ACCEL_TRY(take_grammar(ep, params, plan));
  ACCEL_TRY(take_speculation(ep, params, plan));
  ACCEL_TRY(accel__run_adapter_use(ep, params->adapter, params->adapter_scale, &plan->adapter));
  return accel__generate_config_check(&plan->config, ep->name, ep->model->vocab_size);
}

void accel__generate_plan_free(accel__generate_plan *plan) {
  accel__grammar_release(&plan->grammar);
  accel__arena_free(&plan->arena);
}

/* ---- requests ---- */

/* The token of pictures may lie behind the vocabulary (PaliGemma): its rows are the pictures'. */
static accel_status check_ids(const accel_endpoint *ep, accel__ids prompt, int64_t vocab,
                              uint32_t number) {
  const accel__image_tokens *pictures = ep->model->image_tokens;
  if (!prompt.n)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: prompt %u holds no token", ep->name, number);
  for (uint32_t i = 0; i < prompt.n; i++)
    if ((prompt.id[i] < 0 || prompt.id[i] >= vocab) &&
        !(pictures && prompt.id[i] == pictures->token))
      return accel__fail(ACCEL_ERROR_ARGUMENT,
                         "%s: prompt %u: token %u is %d; the model's are 0 to %lld", ep->name,
                         number, i, prompt.id[i], (long long)vocab - 1);
  return ACCEL_OK;
}

static accel_status too_long(const accel_endpoint *ep, uint32_t number, uint64_t tokens,
                             uint64_t more, int64_t context) {
  return accel__remedy(
      accel__fail(ACCEL_ERROR_LIMIT,
                  "%s: prompt %u has %llu tokens; with %llu more it passes the context of %lld",
                  ep->name, number, (unsigned long long)tokens, (unsigned long long)more,
                  (long long)context),
      "shorten the prompt, or ask for fewer new tokens");
}

/* How many tokens may come after `n`, which counts padding. */
static accel_status new_tokens(const accel_endpoint *ep, const accel__generate_plan *plan,
                               uint32_t number, uint64_t n, uint64_t tokens, int64_t context,
                               uint32_t *out) {
  const accel__generate_config *c = &plan->config;
  int64_t most = c->max_new_tokens >= 0 ? c->max_new_tokens
                 : c->max_length >= 0   ? c->max_length - (int64_t)n
                                        : DEFAULT_NEW_TOKENS;
  if (most < 1)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: prompt %u has %llu tokens, max_length is %lld",
                       ep->name, number, (unsigned long long)n, (long long)c->max_length);
  if (context > 0 && (int64_t)tokens + most > context) {
    const bool fixed = plan->asked_length && most != INT32_MAX;
    if (fixed || (int64_t)tokens >= context)
      return too_long(ep, number, tokens, fixed ? (uint64_t)most : 1, context);
    most = context - (int64_t)tokens;
  }
  *out = (uint32_t)most;
  return ACCEL_OK;
}

static accel__request request_of(const accel_endpoint *ep, const accel__generate_plan *plan,
                                 const accel_generate_params *params, accel__ids prompt,
                                 uint32_t number) {
  return (accel__request){.options.config = &plan->config,
                          .options.tokenizer = accel__processor_for(ep)->tokenizer,
                          .input.prompt = prompt,
                          .options.logprobs = params->logprobs > 0 ? (uint32_t)params->logprobs : 0,
                          .options.want_logprobs = params->logprobs >= 0,
                          .options.keep_special_tokens = params->keep_special_tokens != 0,
                          .options.hide_end = params->keep_special_tokens == 2,
                          .options.keep_stop = params->keep_stop != 0,
                          .options.no_clean_up = plan->no_clean_up,
                          .options.grammar = plan->grammar,
                          .options.speculate = plan->speculate,
                          .options.adapter = plan->adapter,
                          .input.number = number,
                          .options.on_token = params->on_token,
                          .options.on_token_user = params->on_token_user,
                          .start.sequence = -1};
}

/* decoder_start_token_id alone. */
static accel_status start_of(const accel_endpoint *ep, const accel__generate_plan *plan,
                             accel__ids *out) {
  int32_t *start = accel__arena_alloc((accel__arena *)&plan->arena, sizeof *start);
  const bool own =
      ep->model->generation.text_config; /* BLIP begins with its own, whatever is said */
  int64_t id = plan->config.decoder_start >= 0 && !own ? plan->config.decoder_start
                                                       : ep->model->decoder_start_id;
  if (!start) return ACCEL_ERROR_OUT_OF_MEMORY;
  if (id < 0 || id >= ep->model->vocab_size)
    return accel__fail(ACCEL_ERROR_FORMAT,
                       "%s: no decoder_start_token_id, or one beyond the vocabulary", ep->name);
  *start = (int32_t)id;
  *out = (accel__ids){start, 1};
  return ACCEL_OK;
}

accel_status accel__generate_encoded(const accel_endpoint *ep, const accel__generate_plan *plan,
                                     const accel_generate_params *params,
                                     const accel__encoder_input *encoder, accel__ids decoder,
                                     uint32_t number, int64_t context, accel__request *out) {
  if (encoder->ids.n || !encoder->n_tensors)
    ACCEL_TRY(check_ids(ep, encoder->ids, ep->model->encoder_vocab_size, number));
  if (context > 0 && encoder->ids.n > context)
    return too_long(ep, number, encoder->ids.n, 0, context);
  if (decoder.n)
    ACCEL_TRY(check_ids(ep, decoder, ep->model->vocab_size, number));
  else
    ACCEL_TRY(start_of(ep, plan, &decoder));
  *out = request_of(ep, plan, params, decoder, number);
  out->input.encoder = *encoder;
  out->input.encodes = true;
  return new_tokens(ep, plan, number, decoder.n, decoder.n, context, &out->options.new_tokens);
}

accel_status accel__generate_request(const accel_endpoint *ep, const accel__generate_plan *plan,
                                     const accel_generate_params *params, accel__ids prompt,
                                     uint32_t number, int64_t context, accel__request *out) {
  if (ep->model->is_encoder_decoder)
    return accel__generate_encoded(ep, plan, params, &(accel__encoder_input){.ids = prompt},
                                   (accel__ids){0}, number, context, out);
  const accel__ids padding = out->input.padding;
  *out = request_of(ep, plan, params, prompt, number);
  out->input.padding = padding;
  ACCEL_TRY(check_ids(ep, prompt, ep->model->vocab_size, number));
  return new_tokens(ep, plan, number, (uint64_t)out->input.padding.n + out->input.prompt.n,
                    out->input.prompt.n, context, &out->options.new_tokens);
}

/* What concerns one prompt; others, such as a cancelled call or a lost device, concern all. */
static bool fails_alone(accel_status status) {
  return status == ACCEL_ERROR_LIMIT || status == ACCEL_ERROR_ARGUMENT ||
         status == ACCEL_ERROR_OUT_OF_MEMORY;
}

/* Tokens of those that may come, finished sequences as if all theirs had. */
static void tell_progress(const accel_endpoint *ep, const accel__request *requests, uint32_t n) {
  uint64_t done = 0, all = 0;
  if (ep->first_replica) return; /* others have the other prompts */
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t tokens = requests[i].options.new_tokens, now = requests[i].progress.steps;
    done += requests[i].outcome.finished || now > tokens ? tokens : now;
    all += tokens;
  }
  if (!requests[0].options.on_token && all)
    accel__report_progress(ep->ctx, "generating", done, all);
}

accel_status accel__generate_run(accel_endpoint *ep, accel__engine *engine,
                                 accel__request *requests, uint32_t n) {
  accel_status status = ACCEL_OK;
  for (uint32_t i = 0; i < n && status == ACCEL_OK; i++) {
    if (requests[i].outcome.finished) continue;
    status = accel__request_begin(&requests[i]);
    if (status == ACCEL_OK) accel__engine_join(engine, &requests[i]);
  }
  while (status == ACCEL_OK && engine->active) {
    accel__engine_step(engine);
    if (engine->active) tell_progress(ep, requests, n);
  }
  tell_progress(ep, requests, n);
  engine->active = NULL;
  for (uint32_t i = 0; i < n && status == ACCEL_OK; i++) {
    if (requests[i].outcome.failure.status == ACCEL_OK ||
        (requests[i].options.fails_alone && fails_alone(requests[i].outcome.failure.status)))
      continue;
    status = accel__failure_raise(&requests[i].outcome.failure);
  }
  return status;
}

/* ---- results ---- */

static accel_status collect_one(const accel__request *r, accel__hypothesis *h, accel__arena *arena,
                                accel_generation *to) {
  uint32_t n = h->n - r->input.prompt.n;
  int32_t *ids = accel__arena_array(arena, n, sizeof *ids);
  if (!ids) return ACCEL_ERROR_OUT_OF_MEMORY;
  memcpy(ids, h->ids + r->input.prompt.n, n * sizeof *ids);
  if (h->finish == ACCEL__FINISH_CANCELLED) { /* the listener, who ended it, has heard all of it */
    h->text.text.n = h->text.emitted;
  } else {
    const uint32_t told = n - (r->options.hide_end && h->finish == ACCEL__FINISH_EOS);
    ACCEL_TRY(accel__text_stream_add(&h->text, ids, told));
    ACCEL_TRY(accel__text_stream_end(&h->text, ids, told));
  }
  char *text = accel__arena_alloc(arena, 2 * h->text.text.n + 1);
  if (!text) return ACCEL_ERROR_OUT_OF_MEMORY;
  accel__text_to_c(text, h->text.text.data ? h->text.text.data : "", h->text.text.n);
  *to = (accel_generation){.prompt = r->input.number,
                           .sequence = h->number,
                           .text = text,
                           .n = n,
                           .ids = ids,
                           .finish = accel__finish_name(h->finish),
                           .score = (double)h->score,
                           .prompt_tokens = r->input.prompt.n,
                           .cached_tokens = r->progress.cached,
                           .draft_tokens = h->draft_tokens,
                           .accepted_tokens = h->accepted_tokens,
                           .first_ms = r->progress.prefill_ms - r->progress.begin_ms};
  if (h->ms && !(to->token_ms = (const double *)accel__arena_copy(arena, (const char *)h->ms,
                                                                  n * sizeof *h->ms)))
    return ACCEL_ERROR_OUT_OF_MEMORY;
  if (h->logprob && !(to->logprob = (const float *)accel__arena_copy(
                          arena, (const char *)h->logprob, n * sizeof(float))))
    return ACCEL_ERROR_OUT_OF_MEMORY;
  if (!h->highest) return ACCEL_OK;
  to->alternatives = r->options.logprobs;
  size_t bytes = (size_t)n * r->options.logprobs * sizeof *h->highest;
  to->alternative =
      (const accel_token_logprob *)accel__arena_copy(arena, (const char *)h->highest, bytes);
  return to->alternative ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

static accel_status collect_error(const accel__request *r, accel__arena *arena,
                                  accel_generation *to) {
  const accel__failure *why = &r->outcome.failure;
  const char *error =
      accel__arena_printf(arena, "%s%s%s", why->message, *why->remedy ? "; " : "", why->remedy);
  *to = (accel_generation){.prompt = r->input.number,
                           .text = "",
                           .finish = "error",
                           .status = why->status,
                           .error = error};
  return error ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

accel_status accel__generate_collect(accel__request *requests, uint32_t n,
                                     accel_generations **out) {
  accel_generations *result = accel__task_result(sizeof *result);
  accel_status status = ACCEL_OK;
  double begin = INFINITY, first = 0, end = 0;
  uint32_t all = 0, at = 0;
  *out = NULL;
  if (!result) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < n; i++)
    all += requests[i].outcome.failure.status == ACCEL_OK ? requests[i].outcome.n_done : 1;
  accel_generation *item = accel__arena_array(accel__task_arena(result), all, sizeof *item);
  if (!item) ACCEL_GOTO(ACCEL_ERROR_OUT_OF_MEMORY);
  for (uint32_t i = 0; i < n; i++) {
    accel__request *r = &requests[i];
    if (r->outcome.failure.status != ACCEL_OK) {
      ACCEL_GOTO(collect_error(r, accel__task_arena(result), &item[at++]));
      continue;
    }
    for (uint32_t k = 0; k < r->outcome.n_done; k++, at++) {
      ACCEL_GOTO(collect_one(r, &r->outcome.done[k], accel__task_arena(result), &item[at]));
      result->new_tokens += item[at].n;
    }
    result->prompt_tokens += r->input.encoder.ids.n ? r->input.encoder.ids.n : r->input.prompt.n;
    result->steps = r->progress.steps > result->steps ? r->progress.steps : result->steps;
    begin = r->progress.begin_ms < begin ? r->progress.begin_ms : begin;
    if (!r->progress.waited && r->progress.prefill_ms > first) first = r->progress.prefill_ms;
    end = r->progress.end_ms > end ? r->progress.end_ms : end;
  }
  result->n = all;
  result->item = item;
  if (end > 0) result->prefill_ms = first - begin, result->decode_ms = end - first;
done:
  *out = accel__task_finish(result, status);
  return status;
}

/* ---- the whole way ---- */

static accel_status make_one(const accel__generate_plan *plan, uint32_t number,
                             accel__request_fn make, void *user, accel__request *out) {
  accel_status status = make(user, plan, number, plan->context, out);
  out->options.fails_alone = plan->continue_on_error;
  if (status == ACCEL_OK || !plan->continue_on_error || !fails_alone(status)) return status;
  *out = (accel__request){.input.number = number, .options.fails_alone = true};
  accel__request_fail(out, status);
  accel__clear_error();
  return ACCEL_OK;
}

/* The prompts of a call, which replicas share. */
typedef struct prompts_call {
  accel_endpoint *ep;
  const accel__generate_plan *plan;
  accel__request *requests;
  uint32_t n;
  accel__request_fn make;
  void *user;
  bool *began;       /* [n] a replica has had it */
  bool whole;        /* all in one run: a listener hears of one token at a time */
  atomic_bool final; /* a listener has heard tokens that would come again */
} prompts_call;

/* What an earlier replica left unfinished is made anew. */
static accel_status begin_prompts(prompts_call *c, uint32_t first, uint32_t n) {
  for (uint32_t i = first; i < first + n; i++) {
    accel__request *r = &c->requests[i];
    if (c->began[i]) {
      accel__request_end(r, NULL);
      *r = (accel__request){0};
      ACCEL_TRY(make_one(c->plan, i, c->make, c->user, r));
    }
    c->began[i] = true;
  }
  return ACCEL_OK;
}

/* Prompts [first, first + n) in a session of their own. */
static accel_status run_prompts(void *user, accel_endpoint *ep, uint32_t first, uint32_t n) {
  prompts_call *c = user;
  accel__session *session = NULL;
  accel__model_stepper stepper = {0};
  accel__engine engine = {.model = &stepper.stepper};
  if (c->whole) n = c->n;
  accel_status status = begin_prompts(c, first, n);
  if (status == ACCEL_OK) status = accel__session_open(ep, &session);
  if (status == ACCEL_OK) status = accel__model_stepper_open(session, &stepper);
  if (status == ACCEL_OK && c->requests[first].options.on_token) atomic_store(&c->final, true);
  if (status == ACCEL_OK) status = accel__generate_run(ep, &engine, c->requests + first, n);
  accel__engine_free(&engine);
  accel__model_stepper_close(&stepper);
  accel__session_close(&session);
  return status;
}

/* Tokens of a prompt, and those that may follow. */
static uint64_t tokens_of(void *user, uint32_t item) {
  const prompts_call *c = user;
  uint64_t tokens = 0;
  for (uint32_t i = item; i < (c->whole ? c->n : item + 1); i++)
    tokens += c->requests[i].input.prompt.n + c->requests[i].options.new_tokens;
  return tokens;
}

static void tell_prompts(void *user, uint32_t done) {
  const prompts_call *c = user;
  if (c->ep->replicas && !c->whole) accel__report_progress(c->ep->ctx, "generating", done, c->n);
}

static accel_status generate(accel_endpoint *ep, const accel__generate_plan *plan, uint32_t n,
                             accel__request_fn make, void *user, accel_generations **out) {
  prompts_call c = {.ep = ep, .plan = plan, .n = n, .make = make, .user = user};
  accel_status status = ACCEL_OK;
  c.requests = calloc((size_t)n + 1, sizeof *c.requests);
  c.began = calloc((size_t)n + 1, sizeof *c.began);
  if (!c.requests || !c.began) ACCEL_GOTO(accel__no_memory(n * sizeof *c.requests));
  for (uint32_t i = 0; i < n; i++) ACCEL_GOTO(make_one(plan, i, make, user, &c.requests[i]));
  c.whole = !ep->replicas || (n && c.requests[0].options.on_token);
  ACCEL_GOTO(accel__share_work(ep, &(accel__work){.kind = ACCEL__WORK_PROMPTS,
                                                  .n = c.whole && n ? 1 : n,
                                                  .cost = tokens_of,
                                                  .run = run_prompts,
                                                  .tell = tell_prompts,
                                                  .final = &c.final,
                                                  .user = &c}));
  status = accel__generate_collect(c.requests, n, out);
done:
  for (uint32_t i = 0; c.requests && i < n; i++) accel__request_end(&c.requests[i], NULL);
  free(c.requests);
  free(c.began);
  return status;
}

accel_status accel__generate_with(accel_endpoint *ep, const accel__generate_plan *plan,
                                  const accel_generate_params *params, uint32_t n,
                                  accel__request_fn make, void *user, accel_generations **out) {
  const accel_plugin_endpoint *used = ep->placed.handle;
  accel_status status = generate(ep, plan, n, make, user, out);
  /* a listener has heard tokens that would come again */
  if (params->on_token) return status;
  /* under "auto" once more in fp32 */
  if (status == ACCEL_ERROR_NONFINITE && ep->may_fall_back &&
      accel__endpoint_fall_back(ep, used) == ACCEL_OK)
    return generate(ep, plan, n, make, user, out);
  /* what an encoder or a picture left on a device that was lost cannot be fed again */
  if (status == ACCEL_ERROR_DEVICE_LOST && accel__endpoint_replace_lost(ep) == ACCEL_OK)
    return generate(ep, plan, n, make, user, out);
  return status;
}

typedef struct plain {
  const accel_endpoint *ep;
  const accel__ids *prompts;
  const accel_generate_params *params;
} plain;

static accel_status make_plain(void *user, const accel__generate_plan *plan, uint32_t number,
                               int64_t context, accel__request *out) {
  const plain *p = user;
  return accel__generate_request(p->ep, plan, p->params, p->prompts[number], number, context, out);
}

accel_status accel__generate_planned(accel_endpoint *ep, const accel__generate_plan *plan,
                                     const accel__ids *prompts, uint32_t n,
                                     const accel_generate_params *params, accel_generations **out) {
  return accel__generate_with(ep, plan, params, n, make_plain, &(plain){ep, prompts, params}, out);
}

accel_status accel__generate_prompts(accel_endpoint *ep, const accel__ids *prompts, uint32_t n,
                                     const accel_generate_params *params, accel_generations **out) {
  accel__generate_plan plan;
  *out = NULL;
  accel_status status = accel__generate_plan_make(ep, params, &plan);
  if (status == ACCEL_OK) status = accel__generate_planned(ep, &plan, prompts, n, params, out);
  accel__generate_plan_free(&plan);
  return status;
}

accel__ids accel__prompt_of(const accel_endpoint *ep, const accel__encoding *enc, int32_t *bos) {
  accel__ids ids = {enc->ids, (uint32_t)enc->n};
  if (ids.n || ep->model->bos_id < 0) return ids;
  *bos = (int32_t)ep->model->bos_id;
  return (accel__ids){bos, 1};
}

accel_status accel__generate(accel_endpoint *ep, const char *const *texts, uint32_t n,
                             const accel_generate_params *params, accel_generations **out) {
  accel__encoding *enc = calloc((size_t)n + 1, sizeof *enc);
  accel__ids *prompts = calloc((size_t)n + 1, sizeof *prompts);
  accel__encode_options how = {.add_special_tokens = !params->no_special_tokens};
  accel_status status = ACCEL_OK;
  int32_t bos;
  *out = NULL;
  if (!enc || !prompts) ACCEL_GOTO(accel__no_memory(n * sizeof *enc));
  ACCEL_GOTO(accel__can_generate(ep));
  ACCEL_GOTO(accel__processor_check(ep, ep->model->task));
  ACCEL_GOTO(accel__encode_texts(ep, texts, NULL, n, &how, enc));
  for (uint32_t i = 0; i < n; i++) prompts[i] = accel__prompt_of(ep, &enc[i], &bos);
  status = accel__generate_prompts(ep, prompts, n, params, out);
done:
  free(prompts);
  accel__encodings_free(enc, n);
  return status;
}
