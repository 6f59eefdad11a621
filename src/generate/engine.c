/* engine.c - steps of the active requests: what is fed together, what comes of it, who leaves. */
#include "generate/engine.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
  ENCODED_TOGETHER = 32,
  PIECE = ACCEL__PIECE_TOKENS,
  FIRST_PIECE = 256, /* tokens of a bounded piece before its rate is known */
};

/* Requests whose encoders run together. */
typedef struct encode_group {
  accel__encode_item item[ENCODED_TOGETHER];
  accel__request *request[ENCODED_TOGETHER];
  uint32_t n, tokens;
} encode_group;

/* Where a step's item comes from. */
typedef struct accel__fed {
  accel__request *request;
  uint32_t running; /* index */
} accel__fed;

double accel__now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

const char *accel__finish_name(accel__finish finish) {
  static const char *const names[] = {"", "eos", "stop", "length", "time", "cancelled"};
  return names[finish];
}

bool accel__is_eos(const accel__generate_config *c, int32_t token) {
  for (uint32_t i = 0; i < c->eos.n; i++)
    if (c->eos.id[i] == token) return true;
  return false;
}

/* ---- hypotheses ---- */

accel_status accel__hypothesis_reserve(accel__hypothesis *h, uint32_t tokens) {
  if (tokens <= h->capacity) return ACCEL_OK;
  const uint32_t capacity = tokens + tokens / 2 + 32;
  int32_t *ids = realloc(h->ids, capacity * sizeof *ids);
  if (!ids) return accel__no_memory(capacity * sizeof *ids);
  h->ids = ids;
  h->capacity = capacity;
  return ACCEL_OK;
}

accel_status accel__hypothesis_add(accel__hypothesis *h, int32_t token) {
  ACCEL_TRY(accel__hypothesis_reserve(h, h->n + 1));
  h->ids[h->n++] = token;
  return ACCEL_OK;
}

accel__step_item accel__hypothesis_item(const accel__hypothesis *h, uint32_t most) {
  const uint32_t rows = h->n + h->drafted - h->past_len;
  return (accel__step_item){.sequence = h->sequence,
                            .ids = h->ids + h->past_len,
                            .n = rows < most ? rows : most,
                            .past_len = h->past_len,
                            .total_len = h->n + h->drafted,
                            .past_total_len = h->total_len,
                            .rows = h->drafted ? h->drafted + 1 : 0};
}

void accel__hypothesis_fed(accel__hypothesis *h, const accel__step_item *item) {
  h->past_len += item->n;
  h->total_len = item->total_len;
}

accel_status accel__hypothesis_new(const accel__request *r, uint32_t number,
                                   accel__hypothesis *out) {
  const accel__generate_config *c = r->options.config;
  uint32_t capacity =
      r->input.prompt.n + (r->options.new_tokens < 256 ? r->options.new_tokens : 256);
  *out = (accel__hypothesis){.ids = malloc(capacity * sizeof *out->ids),
                             .n = r->input.prompt.n,
                             .capacity = capacity,
                             .sequence = -1,
                             .number = number,
                             .random = accel__random_new(c->seed, number),
                             .text = {.tokenizer = r->options.tokenizer,
                                      .keep_special_tokens = r->options.keep_special_tokens,
                                      .keep_stop = r->options.keep_stop,
                                      .no_clean_up = r->options.no_clean_up,
                                      .stop = c->stop,
                                      .n_stop = c->n_stop}};
  if (!out->ids) return accel__no_memory(capacity * sizeof *out->ids);
  memcpy(out->ids, r->input.prompt.id, r->input.prompt.n * sizeof *out->ids);
  return ACCEL_OK;
}

void accel__hypothesis_free(accel__hypothesis *h) {
  free(h->ids);
  free(h->logprob);
  free(h->highest);
  free(h->ms);
  accel__text_stream_free(&h->text);
  *h = (accel__hypothesis){.sequence = -1};
}

accel_status accel__reassign_sequences(const accel__stepper *model, accel__hypothesis *old,
                                       uint32_t n_old, accel__hypothesis *next,
                                       const uint32_t *parent, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    accel__hypothesis *from = &old[parent[i]];
    uint32_t first = 0;
    while (parent[first] != parent[i]) first++;
    next[i].past_len = from->past_len;
    next[i].total_len = from->total_len;
    next[i].sequence = first == i ? from->sequence : model->number(model->self);
    if (next[i].sequence < 0) return accel__no_memory(0);
    if (first != i) ACCEL_TRY(model->copy(model->self, from->sequence, next[i].sequence));
  }
  for (uint32_t k = 0; k < n_old; k++) {
    bool wanted = false;
    for (uint32_t i = 0; i < n; i++) wanted |= parent[i] == k;
    if (!wanted && old[k].sequence >= 0) model->drop(model->self, old[k].sequence);
    old[k].sequence = -1;
  }
  return ACCEL_OK;
}

/* ---- requests ---- */

/* Is the token behind `n` others the forced one that says in which language the text is? */
static bool comes_before_text(const accel__request *r, uint32_t n) {
  return r->options.config->forced_bos >= 0 && r->input.padding.n + n == 1;
}

accel_status accel__request_logits_input(const accel__request *r, const accel__hypothesis *h,
                                         accel__logits_input *out) {
  accel__constraint *c = r->progress.constraint;
  *out = (accel__logits_input){
      .ids = {h->ids, h->n},
      .prompt = r->input.prompt.n,
      .padding = r->input.padding,
      .max_length = (int64_t)r->input.padding.n + r->input.prompt.n + r->options.new_tokens,
      .encoder = !r->input.encodes        ? r->input.prompt
                 : r->input.encoder.row.n ? r->input.encoder.row
                                          : r->input.encoder.ids};
  if (!c || comes_before_text(r, h->n)) return ACCEL_OK;
  ACCEL_TRY(accel__constraint_allow(c, h->match, r->options.config->eos));
  out->allowed = c->allowed;
  out->n_allowed = c->n_tokens;
  return ACCEL_OK;
}

accel_status accel__request_match(const accel__request *r, accel__hypothesis *h, int32_t token) {
  if (!r->progress.constraint || accel__is_eos(r->options.config, token) ||
      comes_before_text(r, h->n - 1))
    return ACCEL_OK;
  return accel__constraint_advance(r->progress.constraint, token, &h->match);
}

accel_status accel__request_begin(accel__request *r) {
  const accel__generate_config *c = r->options.config;
  uint32_t n = c->num_beams > 1 ? c->num_beams : c->num_return;
  accel_status status = ACCEL_OK;
  r->progress.begin_ms = accel__now_ms();
  r->progress.shared = true;
  r->progress.running = calloc(n, sizeof *r->progress.running);
  r->outcome.done = calloc(n, sizeof *r->outcome.done);
  if (!r->progress.running || !r->outcome.done)
    ACCEL_GOTO(accel__no_memory(n * sizeof *r->progress.running));
  for (; r->progress.n_running < n; r->progress.n_running++)
    ACCEL_GOTO(accel__hypothesis_new(r, r->progress.n_running,
                                     &r->progress.running[r->progress.n_running]));
  r->progress.running[0].sequence = r->start.forks ? -1 : r->start.sequence;
  r->progress.running[0].past_len = r->start.sequence >= 0 ? r->start.past_len : 0;
  r->progress.running[0].total_len = r->start.sequence >= 0 ? r->start.total_len : 0;
  if (c->num_beams > 1) ACCEL_GOTO(accel__beam_begin(r));
  if (r->options.grammar)
    ACCEL_GOTO(accel__constraint_new(r->options.grammar, r->options.tokenizer, c->eos,
                                     &r->progress.constraint));
  if (r->options.speculate.most) ACCEL_GOTO(accel__speculation_begin(r));
done:
  if (status != ACCEL_OK) accel__request_end(r, NULL);
  return status;
}

void accel__request_end(accel__request *r, const accel__stepper *model) {
  for (uint32_t i = 0; i < r->progress.n_running; i++) {
    if (model && r->progress.running[i].sequence >= 0 &&
        r->progress.running[i].sequence != r->start.sequence)
      model->drop(model->self, r->progress.running[i].sequence);
    accel__hypothesis_free(&r->progress.running[i]);
  }
  for (uint32_t i = 0; i < r->outcome.n_done; i++) accel__hypothesis_free(&r->outcome.done[i]);
  accel__beam_free(r);
  accel__constraint_free(&r->progress.constraint);
  accel__speculation_end(r);
  accel__prompt_images_free(&r->input.images);
  free(r->progress.running);
  free(r->outcome.done);
  r->progress.running = r->outcome.done = NULL;
  r->progress.n_running = r->outcome.n_done = 0;
}

void accel__request_fail(accel__request *r, accel_status status) {
  accel__failure_keep(&r->outcome.failure, status);
  r->outcome.finished = true;
}

/* How many tokens a sequence may have under the memory limit, as a remedy. */
static void name_limit(const accel__run_limits *l, accel_status status) {
  if (status != ACCEL_ERROR_LIMIT || !l->state_bytes || !l->per_token || *accel__remedy_text())
    return;
  const uint64_t page = l->page_rows * l->per_token,
                 left = l->state_bytes > l->per_sequence ? l->state_bytes - l->per_sequence : 0;
  accel__remedy(
      status,
      "under this memory limit a sequence has memory for %llu tokens, prompt and new ones "
      "together: shorten the prompt, ask for fewer new tokens, or raise the limit",
      (unsigned long long)(left / page * l->page_rows));
}

/* The request has failed alone: what it holds in the model is given back. */
static void fail_request(accel__engine *e, accel__request *r, accel_status status) {
  name_limit(&e->model->limits, status);
  accel__request_fail(r, status);
  for (uint32_t i = 0; i < r->progress.n_running; i++) {
    int32_t sequence = r->progress.running[i].sequence;
    if (sequence >= 0 && sequence != r->start.sequence) e->model->drop(e->model->self, sequence);
    r->progress.running[i].sequence = -1;
  }
}

static uint32_t step_tokens(const accel__engine *e) {
  const uint32_t limit = e->model->limits.step_tokens;
  return e->step_tokens ? e->step_tokens : limit ? limit : ACCEL__STEP_TOKENS;
}

/* Steps are bounded in time. */
static bool is_bounded(const accel__engine *e) {
  return e->piece_ms && !e->model->limits.run_bytes;
}

static accel_status reserve(accel__engine *e, uint32_t n) {
  if (!e->work) e->work = malloc(e->model->vocab * sizeof *e->work);
  if (!e->work) return accel__no_memory(e->model->vocab * sizeof *e->work);
  if (n <= e->capacity) return ACCEL_OK;
  accel__step_item *item = realloc(e->item, n * sizeof *item);
  if (item) e->item = item;
  accel__fed *fed = realloc(e->fed, n * sizeof *fed);
  if (fed) e->fed = fed;
  if (!item || !fed) return accel__no_memory(n * sizeof *item);
  e->capacity = n;
  return ACCEL_OK;
}

/* It has a sequence, and takes part in steps. */
static bool is_admitted(const accel__request *r) {
  return !r->outcome.finished && r->progress.running[0].sequence >= 0;
}

/* Bytes of states that a request may come to, all its tokens generated; sequences that share pages
 * write into copies of their last ones. */
static uint64_t states_of(const accel__engine *e, const accel__request *r) {
  const accel__run_limits *l = &e->model->limits;
  const accel__generate_config *c = r->options.config;
  const uint32_t n = c->num_beams > 1 ? c->num_beams : c->num_return ? c->num_return : 1;
  const uint64_t own = (uint64_t)r->input.prompt.n + r->options.new_tokens,
                 read = r->input.encodes ? r->input.encoder.ids.n : 0,
                 tokens = own > read ? own : read;
  return accel__run_limits_need(l, n > 1 ? tokens + l->page_rows : tokens, n);
}

/* ---- prompts that begin alike ---- */

/* Tokens and pictures alone decide on the states of the prompt. */
static bool shares(const accel__engine *e, const accel__request *r) {
  return e->prefixes && r->start.sequence < 0 && !r->input.encodes &&
         (!r->input.images || r->input.images->hashed) && !r->options.adapter.adapter;
}

static accel__prefix_key key_of(const accel__request *r) {
  return (accel__prefix_key){r->input.prompt, r->input.images};
}

/* Bytes of the memory limit that requests leave. */
static uint64_t bytes_left(const accel__engine *e) {
  uint64_t left = e->model->limits.state_bytes;
  if (!left) return UINT64_MAX;
  for (const accel__request *r = e->active; r; r = r->next) {
    const uint64_t taken = is_admitted(r) ? states_of(e, r) : 0;
    left -= taken < left ? taken : left;
  }
  return left;
}

static void keep_prompt(accel__engine *e, accel__request *r) {
  const accel__hypothesis *h = &r->progress.running[0];
  const accel__prefix_key key = key_of(r);
  if (shares(e, r))
    accel__prefix_cache_keep(e->prefixes, &key, h->sequence, h->total_len, bytes_left(e));
}

static accel_status share_prompt(accel__engine *e, accel__request *r) {
  accel__hypothesis *h = &r->progress.running[0];
  const accel__prefix_key key = key_of(r);
  if (!shares(e, r)) return ACCEL_OK;
  ACCEL_TRY(accel__prefix_cache_share(e->prefixes, &key, h->sequence, &h->past_len, &h->total_len));
  r->progress.cached = h->past_len;
  return ACCEL_OK;
}

/* The next tokens of all that runs of a request, from their scores: rows[r->n_running], or `row`
 * for all of them. */
static accel_status choose(accel__engine *e, accel__request *r, float **rows, float *row) {
  float *few[16], **own = NULL;
  if (!rows) {
    rows = r->progress.n_running > 16 ? own = malloc(r->progress.n_running * sizeof *own) : few;
    if (!rows) return accel__no_memory(r->progress.n_running * sizeof *own);
    for (uint32_t i = 0; i < r->progress.n_running; i++) rows[i] = row;
  }
  const bool first = r->progress.shared;
  r->progress.steps++;
  if (first) keep_prompt(e, r);
  accel_status status =
      r->progress.beams ? accel__beam_advance(e, r, rows) : accel__sample_advance(e, r, rows);
  if (first) r->progress.prefill_ms = accel__now_ms();
  free(own);
  return status;
}

/* Runs the encoder over the group's requests and empties the group.  Where the joint run fails each
 * request is run by itself, so that only the request that cannot be encoded fails. */
static void run_group(accel__engine *e, encode_group *g) {
  const uint32_t n = g->n;
  const accel_status all = n ? e->model->encode(e->model->self, g->item, n) : ACCEL_OK;
  g->n = g->tokens = 0;
  for (uint32_t i = 0; i < n; i++) {
    accel__request *r = g->request[i];
    const accel_status status =
        all == ACCEL_OK || n == 1 ? all : e->model->encode(e->model->self, &g->item[i], 1);
    if (status != ACCEL_OK) fail_request(e, r, status);
  }
}

static bool is_encoded_alone(const accel__request *r) {
  return r->input.encodes && r->input.encoder.n_tensors > 0;
}

/* Sequences that read tokens alone are encoded together, as many tokens at a time as a step has;
 * others one by one. */
static void add_to_group(accel__engine *e, encode_group *g, accel__request *r) {
  const uint32_t most = step_tokens(e), tokens = r->input.encoder.ids.n;
  const bool alone = is_encoded_alone(r);
  if (alone || g->n == ENCODED_TOGETHER || (g->n && g->tokens + (uint64_t)tokens > most))
    run_group(e, g);
  g->item[g->n] =
      (accel__encode_item){r->progress.running[0].sequence, &r->input.encoder, r->options.adapter};
  g->request[g->n++] = r;
  g->tokens += tokens;
  if (alone) run_group(e, g);
}

static accel_status admit(accel__engine *e, accel__request *r, encode_group *g) {
  accel__hypothesis *h = &r->progress.running[0];
  if (h->sequence >= 0) return ACCEL_OK;
  h->sequence = e->model->number(e->model->self);
  if (h->sequence < 0) return accel__no_memory(0);
  if (r->start.forks) return e->model->copy(e->model->self, r->start.sequence, h->sequence);
  if (r->input.encodes) add_to_group(e, g, r);
  return share_prompt(e, r);
}

/* Gives requests that have none a sequence, in the order in which they came, as long as the states
 * of all have memory; the first always gets one.  In bounded time one encoder of a picture or sound
 * runs in a step.  Answers how many take part. */
static uint32_t admit_all(accel__engine *e) {
  encode_group g;
  uint32_t left = 0;
  uint64_t taken = 0;
  bool full = false, encoded = false;
  const uint64_t most = e->model->limits.state_bytes;
  g.n = g.tokens = 0;
  for (accel__request *r = e->active; most && r; r = r->next)
    if (is_admitted(r)) taken += states_of(e, r), left++;
  for (accel__request *r = e->active; r; r = r->next) {
    if (r->outcome.finished || is_admitted(r)) continue;
    const uint64_t more = most ? states_of(e, r) : 0;
    if (most && e->prefixes)
      accel__prefix_cache_shrink(e->prefixes, most > taken + more ? most - taken - more : 0);
    full |= most && left && (more > most || taken > most - more);
    r->progress.waited |= full;
    const bool alone = is_encoded_alone(r);
    if (full || (alone && encoded && is_bounded(e))) continue;
    encoded |= alone;
    accel_status status = admit(e, r, &g);
    if (status != ACCEL_OK)
      fail_request(e, r, status);
    else
      taken += more, left++;
  }
  run_group(e, &g);
  left = 0;
  for (accel__request *r = e->active; r; r = r->next) left += is_admitted(r);
  return left;
}

void accel__engine_join(accel__engine *e, accel__request *r) {
  accel__request **last = &e->active;
  while (*last) last = &(*last)->next;
  r->next = NULL;
  *last = r;
}

/* ---- a step ---- */

/* Adds what `r` has to feed, at most `tokens`; the sequences of a prompt that is not yet fed share
 * the first one's. */
static uint32_t collect(accel__engine *e, accel__request *r, uint32_t at, uint32_t tokens,
                        uint32_t *left) {
  uint32_t n = r->progress.shared ? 1 : r->progress.n_running;
  for (uint32_t i = 0; i < n && *left; i++) {
    accel__hypothesis *h = &r->progress.running[i];
    if (!r->progress.shared) accel__speculate(e, r, h, e->drafts);
    e->item[at] = accel__hypothesis_item(h, tokens < *left ? tokens : *left);
    e->item[at].rope_delta = r->input.rope_delta;
    if (r->input.images) e->item[at].past_total_len = 0; /* tokens alone do not make it again */
    if (r->progress.shared) e->item[at].images = r->input.images;
    e->item[at].adapter = r->options.adapter;
    *left -= e->item[at].n;
    e->fed[at++] = (accel__fed){r, i};
  }
  return at;
}

/* The most tokens of prompts in a step. */
static uint32_t prompt_tokens(const accel__engine *e) {
  const uint32_t most = step_tokens(e);
  if (!is_bounded(e)) return most;
  const double n = e->ms_per_token > 0 ? e->piece_ms / e->ms_per_token : FIRST_PIECE;
  const uint32_t bounded = n < 2 * PIECE ? 2 * PIECE : n < most ? (uint32_t)n : most;
  return bounded < most ? bounded : most;
}

static uint32_t unread(const accel__request *r) {
  return r->progress.running[0].n - r->progress.running[0].past_len;
}

static bool prefilling(const accel__request *r) {
  return r->progress.shared && unread(r) > (r->input.images ? 0 : 1);
}

/* Tokens of the next piece of a prompt that has `rest` to read, at most `most`: a multiple of PIECE
 * that leaves none or at least PIECE, so that kernels, and with them all bits, are those of the
 * prompt alone.  Where there is no room for that, `most`. */
static uint32_t piece_of(uint32_t rest, uint32_t most) {
  if (rest <= most || most < 2 * PIECE) return rest < most ? rest : most;
  const uint32_t n = most / PIECE * PIECE;
  return rest - n < PIECE ? n - PIECE : n;
}

/* The same of a request, whose pictures may forbid some cuts: then a smaller piece, or else the
 * smallest that may be, which can be more than `most`. */
static uint32_t next_piece(const accel__request *r, uint32_t most) {
  const uint32_t past = r->progress.running[0].past_len, rest = unread(r),
                 by = most < 2 * PIECE ? 1 : PIECE, wanted = piece_of(rest, most);
  uint32_t n = wanted;
  for (; n < rest && accel__prompt_images_cut(r->input.images, past + n) < past + n; n -= by)
    if (n <= by) break;
  if (n == rest || accel__prompt_images_cut(r->input.images, past + n) == past + n) return n;
  for (n = wanted; n < rest; n += by)
    if (rest - n >= by && accel__prompt_images_cut(r->input.images, past + n) == past + n) return n;
  return rest;
}

/* Of the prompts that are not in the step yet, the one that is read next: the shortest, every second
 * step the oldest, so that neither waits for all the others. */
static accel__request *next_prompt(const accel__engine *e, const accel__request *only, uint32_t n) {
  accel__request *best = NULL;
  for (accel__request *r = e->active; r; r = r->next) {
    bool there = !is_admitted(r) || !prefilling(r) || (only && r != only);
    for (uint32_t i = 0; i < n && !there; i++) there = e->fed[i].request == r;
    if (there || (best && (e->oldest_first || unread(r) >= unread(best)))) continue;
    best = r;
  }
  return best;
}

/* How many tokens each sequence may guess in a step: none beside prompts, nor before it is known
 * what a step of as many sequences costs. */
static uint32_t drafts_each(const accel__engine *e, const accel__request *only) {
  uint32_t running = 0;
  for (const accel__request *r = e->active; r; r = r->next) {
    if (!is_admitted(r) || (only && r != only)) continue;
    if (prefilling(r)) return 0;
    running += r->progress.shared ? 1 : r->progress.n_running;
  }
  const bool known = e->cost.plain > 0 && e->cost.sequences == running;
  if (!known || e->no_drafts || step_tokens(e) < running + ACCEL__STEP_DRAFTS) return 0;
  const uint32_t each = ACCEL__STEP_DRAFTS / running;
  return each < ACCEL__MOST_DRAFTS ? each : ACCEL__MOST_DRAFTS;
}

/* There is no memory for a step, and something could be given up for it. */
static bool gives_way(accel__engine *e, accel_status status) {
  if (status != ACCEL_ERROR_OUT_OF_MEMORY && status != ACCEL_ERROR_LIMIT) return false;
  const bool guessed = e->drafts && !e->no_drafts;
  e->no_drafts |= guessed;
  if (guessed) return true;
  return e->prefixes && accel__prefix_cache_shrink(e->prefixes, 0);
}

static accel_status encode_image(accel__engine *e, accel__request *r, accel__prompt_image *image) {
  const accel__stepper *model = e->model;
  accel_status status;
  while ((status = model->encode_image(model->self, r->input.images, image, &r->options.adapter)) !=
             ACCEL_OK &&
         gives_way(e, status))
    accel__clear_error();
  return status;
}

/* Encodes the pictures that the next `n` tokens of a prompt show; in bounded time as many as it
 * has time for, at least one.  *read: whether the tokens can be read in this step. */
static accel_status encode_images(accel__engine *e, accel__request *r, uint32_t n, bool *read) {
  const uint32_t from = r->progress.running[0].past_len;
  const double begin = accel__now_ms();
  double last = begin, longest = 0;
  accel__prompt_image *image;
  *read = true;
  if (!r->input.images) return ACCEL_OK;
  while ((image = accel__prompt_images_next(r->input.images, from, from + n))) {
    if (is_bounded(e) && !*read && last - begin + longest > e->piece_ms) break;
    ACCEL_TRY(encode_image(e, r, image));
    const double now = accel__now_ms();
    if (now - last > longest) longest = now - last;
    last = now;
    *read = !is_bounded(e);
  }
  return ACCEL_OK;
}

/* Adds pieces of prompts to the *n items of a step that has `left` tokens for them.  A request whose
 * pictures cannot be encoded leaves alone. */
static accel_status gather_prompts(accel__engine *e, accel__request *only, uint32_t left,
                                   uint32_t *n) {
  bool read = true;
  for (accel__request *r; left && (r = next_prompt(e, only, *n));) {
    const uint32_t piece = next_piece(r, left);
    const accel_status status = encode_images(e, r, piece, &read);
    if (status != ACCEL_OK && accel__ends_all(status)) return status;
    if (status != ACCEL_OK) {
      fail_request(e, r, status);
      continue;
    }
    if (!read) break;
    if (left < piece) left = piece;
    *n = collect(e, r, *n, piece, &left);
  }
  return ACCEL_OK;
}

/* Running sequences first, one token each and what they guess; what is left of the budget goes to
 * prompts.  *n: items. */
static accel_status gather(accel__engine *e, accel__request *only, uint32_t *n) {
  uint32_t left = step_tokens(e);
  *n = 0;
  e->drafts = drafts_each(e, only);
  for (accel__request *r = e->active; r; r = r->next)
    if (is_admitted(r) && !prefilling(r) && (!only || r == only)) {
      /* running sequences of one request are never split between steps */
      const uint32_t need = r->progress.n_running;
      if (left < need) left = need;
      *n = collect(e, r, *n, left, &left);
    }
  const uint32_t most = prompt_tokens(e);
  e->oldest_first = !e->oldest_first;
  return gather_prompts(e, only, left < most ? left : most, n);
}

/* Rows of one request, first item `at` of the step. */
static accel_status advance(accel__engine *e, accel__request *r, uint32_t at) {
  const uint32_t n = r->progress.shared ? 1 : r->progress.n_running;
  for (uint32_t i = 0; i < n; i++) accel__hypothesis_fed(&r->progress.running[i], &e->item[at + i]);
  if (r->input.images) accel__prompt_images_read(r->input.images, r->progress.running[0].past_len);
  if (r->progress.shared && r->progress.running[0].past_len < r->progress.running[0].n)
    return ACCEL_OK; /* a part of the prompt */
  if (r->progress.shared) return choose(e, r, NULL, e->item[at].scores);
  float *few[16], **rows = n > 16 ? malloc(n * sizeof *rows) : few;
  if (!rows) return accel__no_memory(n * sizeof *rows);
  for (uint32_t i = 0; i < n; i++) rows[i] = e->item[at + i].scores;
  accel_status status = choose(e, r, rows, NULL);
  if (rows != few) free(rows);
  return status;
}

/* What a step of so many items has taken. */
static void note_time(accel__engine *e, uint32_t fed, double ms) {
  uint32_t tokens = 0;
  bool prompts = false;
  for (uint32_t i = 0; i < fed; i++) {
    tokens += e->item[i].n;
    prompts |= e->fed[i].request->progress.shared;
  }
  if (tokens >= PIECE && prompts) e->ms_per_token = ms / tokens;
  if (!prompts) accel__step_cost_note(&e->cost, fed, tokens, ms);
}

/* One run of the model for the active requests, or for `only`. */
static accel_status run(accel__engine *e, accel__request *only, uint32_t *fed) {
  uint32_t capacity = 0;
  for (accel__request *r = e->active; r; r = r->next) capacity += r->progress.n_running;
  ACCEL_TRY(reserve(e, capacity));
  ACCEL_TRY(gather(e, only, fed));
  if (!*fed) return ACCEL_OK;
  const double begin = accel__now_ms();
  ACCEL_TRY(e->model->step(e->model->self, e->item, *fed));
  note_time(e, *fed, accel__now_ms() - begin);
  return ACCEL_OK;
}

/* Gives each request the scores of its items; one that fails leaves alone. */
static void deliver_scores(accel__engine *e, uint32_t fed) {
  for (uint32_t i = 0; i < fed;) {
    accel__request *r = e->fed[i].request;
    uint32_t n = 1;
    while (i + n < fed && e->fed[i + n].request == r) n++;
    accel_status status = advance(e, r, i);
    if (status != ACCEL_OK) fail_request(e, r, status);
    i += n;
  }
}

static void step_alone(accel__engine *e, accel__request *r) {
  uint32_t fed = 0;
  accel_status status = run(e, r, &fed);
  if (status == ACCEL_OK)
    deliver_scores(e, fed);
  else
    fail_request(e, r, status);
}

static void remove_finished(accel__engine *e) {
  for (accel__request **link = &e->active; *link;) {
    accel__request *r = *link;
    if (r->outcome.finished) {
      r->progress.end_ms = accel__now_ms();
      *link = r->next;
      r->next = NULL;
    } else {
      link = &r->next;
    }
  }
}

void accel__engine_cancel(accel__engine *e, accel__request *r) {
  if (r->outcome.finished) return;
  fail_request(e, r, accel__fail(ACCEL_ERROR_CANCELLED, "the request was cancelled"));
  remove_finished(e);
}

void accel__engine_step(accel__engine *e) {
  uint32_t fed = 0;
  const uint32_t several = admit_all(e);
  accel_status status = run(e, NULL, &fed);
  while (gives_way(e, status)) {
    accel__clear_error();
    status = run(e, NULL, &fed);
  }
  if (status == ACCEL_OK) {
    deliver_scores(e, fed);
  } else if (several > 1 && !accel__ends_all(status)) {
    /* each by itself: only the request that cannot be run fails, the others go on */
    for (accel__request *r = e->active; r; r = r->next)
      if (is_admitted(r)) step_alone(e, r);
  } else {
    for (accel__request *r = e->active; r; r = r->next)
      if (!r->outcome.finished && (is_admitted(r) || accel__ends_all(status)))
        fail_request(e, r, status);
  }
  remove_finished(e);
}

void accel__engine_free(accel__engine *e) {
  accel__logits_scratch_free(&e->scratch);
  free(e->work);
  free(e->item);
  free(e->fed);
  e->work = NULL;
  e->item = NULL;
  e->fed = NULL;
  e->capacity = 0;
}
