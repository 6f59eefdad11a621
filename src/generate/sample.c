/* sample.c - requests that choose one token at a time for each sequence: greedily, or by chance. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "generate/engine.h"

/* Room for one more generated token's log probabilities and time. */
static accel_status reserve_details(const accel__request *r, accel__hypothesis *h,
                                    uint32_t generated) {
  if (generated < h->details_capacity) return ACCEL_OK;
  uint32_t capacity = h->details_capacity * 2 + 32;
  double *ms = realloc(h->ms, capacity * sizeof *ms);
  if (ms) h->ms = ms;
  float *logprob =
      r->options.want_logprobs ? realloc(h->logprob, capacity * sizeof *logprob) : NULL;
  if (logprob) h->logprob = logprob;
  accel_token_logprob *highest =
      r->options.logprobs
          ? realloc(h->highest, (size_t)capacity * r->options.logprobs * sizeof *highest)
          : NULL;
  if (highest) h->highest = highest;
  if (!ms || (r->options.want_logprobs && !logprob) || (r->options.logprobs && !highest))
    return accel__no_memory(capacity * sizeof *ms);
  h->details_capacity = capacity;
  return ACCEL_OK;
}

/* What the model itself thinks, before anything changes the scores. */
static accel_status note_logprobs(accel__engine *e, const accel__request *r, accel__hypothesis *h,
                                  const float *row, uint32_t at) {
  ACCEL_TRY(accel__logits_reserve(&e->scratch, e->model->vocab));
  double all = accel__log_sum_exp(row, e->model->vocab);
  h->logprob[at] = (float)-all; /* the chosen token's score comes on top */
  uint32_t n = accel__highest(row, e->model->vocab, r->options.logprobs, e->scratch.ranked);
  for (uint32_t k = 0; k < r->options.logprobs; k++)
    h->highest[(size_t)at * r->options.logprobs + k] =
        k < n ? (accel_token_logprob){(int32_t)e->scratch.ranked[k].index,
                                      (float)(e->scratch.ranked[k].value - all)}
              : (accel_token_logprob){-1, -INFINITY};
  return ACCEL_OK;
}

/* The first of the highest scores; blocks without a higher one, which nearly all are, are passed by
 * as a whole. */
static int64_t highest(const float *scores, size_t n) {
  enum { BLOCK = 32 };
  size_t best = 0;
  for (size_t from = 0; from < n; from += BLOCK) {
    const float most = scores[best], *x = scores + from;
    const bool whole = n - from >= BLOCK;
    int above = !whole;
    for (int i = 0; whole && i < BLOCK; i++) above |= x[i] > most;
    for (size_t i = from; above && i < n && i < from + BLOCK; i++)
      if (scores[i] > scores[best]) best = i;
  }
  return isfinite(scores[best]) ? (int64_t)best : -1;
}

/* Of a token under scores[n], once they are multiplied by `scale`. */
static double log_probability(const float *scores, size_t n, size_t token, double scale) {
  double most = -INFINITY, sum = 0;
  for (size_t i = 0; i < n; i++) most = scores[i] > most ? scores[i] : most;
  for (size_t i = 0; i < n; i++) sum += exp(scale * (scores[i] - most));
  return scale * (scores[token] - most) - log(sum);
}

accel_status accel__sample_choose(accel__engine *e, accel__request *r, accel__hypothesis *h,
                                  float *row, int64_t *token, float *raw) {
  const accel__generate_config *c = r->options.config;
  float *scores = row;
  if (accel__logits_change(c) || r->progress.constraint) {
    accel__logits_input input;
    if (r->progress.shared || r->options.want_logprobs)
      scores = memcpy(e->work, row, e->model->vocab * sizeof *row);
    ACCEL_TRY(accel__request_logits_input(r, h, &input));
    ACCEL_TRY(accel__logits_process(c, &input, &e->scratch, scores, e->model->vocab));
  }
  *token = c->do_sample ? accel__draw(&h->random, scores, e->model->vocab)
                        : highest(scores, e->model->vocab);
  if (*token < 0)
    return accel__constraint_no_token(r->progress.constraint, scores, e->model->vocab,
                                      h->n - r->input.prompt.n, r->input.number);
  if (r->options.want_sum)
    h->sum +=
        log_probability(scores, e->model->vocab, (size_t)*token, c->do_sample ? c->temperature : 1);
  *raw = row[*token];
  return ACCEL_OK;
}

static bool out_of_time(const accel__request *r) {
  return r->options.config->max_time > 0 &&
         accel__now_ms() - r->progress.begin_ms > 1e3 * r->options.config->max_time;
}

static accel__finish finish_of(const accel__request *r, const accel__hypothesis *h, int32_t token) {
  if (accel__is_eos(r->options.config, token)) return ACCEL__FINISH_EOS;
  if (h->text.stopped) return ACCEL__FINISH_STOP;
  if (h->n - r->input.prompt.n >= r->options.new_tokens) return ACCEL__FINISH_LENGTH;
  return out_of_time(r) ? ACCEL__FINISH_TIME : ACCEL__FINISH_NONE;
}

accel_status accel__tell_token(accel__request *r, accel__hypothesis *h, uint32_t at) {
  size_t bytes;
  if (!r->options.on_token) return ACCEL_OK;
  const char *piece = accel__text_stream_take(&h->text, &bytes);
  char few[256], *text = 2 * bytes < sizeof few ? few : malloc(2 * bytes + 1);
  if (!text) return accel__no_memory(2 * bytes + 1);
  accel__text_to_c(text, piece, bytes);
  accel_token_event event = {.size = sizeof event,
                             .prompt = r->input.number,
                             .sequence = h->number,
                             .id = h->ids[r->input.prompt.n + at],
                             .text = text,
                             .logprob = h->logprob ? h->logprob[at] : NAN,
                             .finish = h->finish ? accel__finish_name(h->finish) : NULL};
  if (h->highest) {
    event.alternatives = r->options.logprobs;
    event.alternative = h->highest + (size_t)at * r->options.logprobs;
  }
  if (r->options.on_token(r->options.on_token_user, &event) && !h->finish)
    h->finish = ACCEL__FINISH_CANCELLED;
  if (text != few) free(text);
  return ACCEL_OK;
}

static accel_status add_token(accel__engine *e, accel__request *r, accel__hypothesis *h,
                              float *row) {
  int64_t token;
  float raw = 0;
  uint32_t at = h->n - r->input.prompt.n;
  ACCEL_TRY(reserve_details(r, h, at));
  if (r->options.want_logprobs) ACCEL_TRY(note_logprobs(e, r, h, row, at));
  ACCEL_TRY(accel__sample_choose(e, r, h, row, &token, &raw));
  if (r->options.want_logprobs) h->logprob[at] += raw;
  ACCEL_TRY(accel__hypothesis_add(h, (int32_t)token));
  ACCEL_TRY(accel__request_match(r, h, (int32_t)token));
  h->ms[at] = accel__now_ms() - r->progress.begin_ms;
  const bool hidden = r->options.hide_end && accel__is_eos(r->options.config, (int32_t)token);
  const uint32_t told = hidden ? at : at + 1;
  ACCEL_TRY(accel__text_stream_add(&h->text, h->ids + r->input.prompt.n, told));
  h->finish = finish_of(r, h, (int32_t)token);
  if (h->finish) ACCEL_TRY(accel__text_stream_end(&h->text, h->ids + r->input.prompt.n, told));
  return accel__tell_token(r, h, at);
}

/* From rows[1 + guesses][vocab]: a token, and one more for each guess that was right; the states of
 * the others go. */
static accel_status add_tokens(accel__engine *e, accel__request *r, accel__hypothesis *h,
                               float *rows) {
  const uint32_t drafted = h->drafted;
  uint32_t right = 0;
  h->drafted = 0;
  for (;; right++) {
    const int32_t guess = right < drafted ? h->ids[h->n] : -1;
    ACCEL_TRY(add_token(e, r, h, rows + right * e->model->vocab));
    if (h->finish || right == drafted || h->ids[h->n - 1] != guess) break;
  }
  if (!drafted) return ACCEL_OK;
  accel__speculation_checked(r, h, drafted, right);
  h->past_len -= drafted - right;
  const bool goes = h->finish && h->sequence != r->start.sequence;
  return right == drafted || goes ? ACCEL_OK
                                  : e->model->truncate(e->model->self, h->sequence, h->past_len);
}

/* Sequences that ended leave the running ones; done[] keeps the order of their numbers. */
static void retire(accel__engine *e, accel__request *r) {
  uint32_t left = 0;
  for (uint32_t i = 0; i < r->progress.n_running; i++) {
    accel__hypothesis *h = &r->progress.running[i];
    if (!h->finish) {
      r->progress.running[left++] = *h;
      continue;
    }
    if (h->sequence >= 0 && h->sequence == r->start.sequence)
      r->start.past_len = h->past_len, r->start.total_len = h->total_len;
    else if (h->sequence >= 0)
      e->model->drop(e->model->self, h->sequence);
    h->sequence = -1;
    uint32_t at = r->outcome.n_done++;
    for (; at > 0 && r->outcome.done[at - 1].number > h->number; at--)
      r->outcome.done[at] = r->outcome.done[at - 1];
    r->outcome.done[at] = *h;
  }
  r->progress.n_running = left;
  r->outcome.finished = left == 0;
}

accel_status accel__sample_advance(accel__engine *e, accel__request *r, float *const *rows) {
  if (r->progress.shared) /* the others get the prompt of the first */
    for (uint32_t i = 1; i < r->progress.n_running; i++) {
      accel__hypothesis *h = &r->progress.running[i];
      h->sequence = e->model->number(e->model->self);
      if (h->sequence < 0) return accel__no_memory(0);
      ACCEL_TRY(e->model->copy(e->model->self, r->progress.running[0].sequence, h->sequence));
      h->past_len = r->progress.running[0].past_len;
      h->total_len = r->progress.running[0].total_len;
    }
  for (uint32_t i = 0; i < r->progress.n_running; i++)
    ACCEL_TRY(add_tokens(e, r, &r->progress.running[i], rows[i]));
  r->progress.shared = false;
  retire(e, r);
  return ACCEL_OK;
}
