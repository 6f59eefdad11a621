/* beam.c - beam search as transformers 5 does it (GenerationMixin._beam_search), step by step, with
 * its scores.
 *
 * Of each step the best max(2, 1 + EOS tokens) * num_beams continuations of all beams are looked
 * at.  Those that end and are among the num_beams best may enter the finished ones, by their score
 * divided by length^length_penalty; the best that do not end run on.  The search is over when no
 * running beam can be expected to do better (early_stopping says how that is judged) or when
 * everything ends.  Scores are fp32, as there.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "generate/engine.h"

static const float NEVER = -1e9f; /* what transformers adds to scores that may not win */

typedef struct candidate {
  float score, rank; /* rank: the score; when sampling, the score and Gumbel's noise */
  uint32_t beam;     /* it goes on with */
  int32_t token;
  bool ends;
} candidate;

struct accel__beams {
  uint32_t n, look; /* num_beams, continuations looked at */
  candidate *best;  /* [look], best first */
  /* [n]; finished ones best first, those without ids are empty slots */
  accel__hypothesis *next, *finished;
  uint32_t *parent; /* [n] */
  float *top;       /* [n] scores of the finished ones */
};

accel_status accel__beam_begin(accel__request *r) {
  const accel__generate_config *c = r->options.config;
  uint32_t n = c->num_beams, look = (c->eos.n + 1 > 2 ? c->eos.n + 1 : 2) * n;
  struct accel__beams *b = calloc(1, sizeof *b);
  if (!b) return accel__no_memory(sizeof *b);
  r->progress.beams = b;
  *b = (struct accel__beams){.n = n,
                             .look = look,
                             .best = calloc(look, sizeof *b->best),
                             .next = calloc(n, sizeof *b->next),
                             .finished = calloc(n, sizeof *b->finished),
                             .parent = calloc(n, sizeof *b->parent),
                             .top = calloc(n, sizeof *b->top)};
  if (!b->best || !b->next || !b->finished || !b->parent || !b->top)
    return accel__no_memory(look * sizeof *b->best);
  for (uint32_t i = 0; i < n; i++) {
    b->top[i] = NEVER;
    r->progress.running[i].score = i ? NEVER : 0; /* the prompt goes on from one beam only */
  }
  return ACCEL_OK;
}

void accel__beam_free(accel__request *r) {
  struct accel__beams *b = r->progress.beams;
  if (!b) return;
  for (uint32_t i = 0; i < b->n && b->next; i++) accel__hypothesis_free(&b->next[i]);
  for (uint32_t i = 0; i < b->n && b->finished; i++) accel__hypothesis_free(&b->finished[i]);
  free(b->best);
  free(b->next);
  free(b->finished);
  free(b->parent);
  free(b->top);
  free(b);
  r->progress.beams = NULL;
}

/* ---- continuations ---- */

static bool ahead(const candidate *a, const candidate *b) {
  if (a->rank != b->rank) return a->rank > b->rank;
  return a->beam != b->beam ? a->beam < b->beam : a->token < b->token;
}

/* best[n_best] is sorted; puts `x` where it belongs, dropping the last one of a full list. */
static uint32_t insert(candidate *best, uint32_t n_best, uint32_t capacity, const candidate *x) {
  if (n_best == capacity && !ahead(x, &best[capacity - 1])) return n_best;
  uint32_t at = n_best < capacity ? n_best : capacity - 1;
  for (; at > 0 && ahead(x, &best[at - 1]); at--) best[at] = best[at - 1];
  best[at] = *x;
  return n_best < capacity ? n_best + 1 : n_best;
}

static double gumbel(accel__random *random) {
  return -log(-log(accel__random_unit(random) + 0x1p-54));
}

/* Adds the continuations of beam `i`, whose scores are log probabilities, processed. */
static uint32_t look_at(accel__engine *e, accel__request *r, uint32_t i, const float *scores,
                        uint32_t n_best) {
  struct accel__beams *b = r->progress.beams;
  float before = r->progress.running[i].score;
  /* without replacement: the order of noisy scores is the order of the draws */
  if (r->options.config->do_sample) {
    for (size_t t = 0; t < e->model->vocab; t++) {
      if (!(scores[t] > -INFINITY)) continue;
      candidate x = {.score = scores[t] + before, .beam = i, .token = (int32_t)t};
      x.rank = (float)(x.score + gumbel(&r->progress.running[0].random));
      n_best = insert(b->best, n_best, b->look, &x);
    }
    return n_best;
  }
  uint32_t n = accel__highest(scores, e->model->vocab,
                              b->look < e->model->vocab ? b->look : (uint32_t)e->model->vocab,
                              e->scratch.ranked);
  for (uint32_t k = 0; k < n; k++) {
    accel__ranked *one = &e->scratch.ranked[k];
    candidate x = {.score = one->value + before, .beam = i, .token = (int32_t)one->index};
    x.rank = x.score;
    n_best = insert(b->best, n_best, b->look, &x);
  }
  return n_best;
}

static accel_status find_best(accel__engine *e, accel__request *r, float *const *rows,
                              uint32_t *n_best) {
  size_t vocab = e->model->vocab;
  *n_best = 0;
  ACCEL_TRY(accel__logits_reserve(&e->scratch, vocab));
  for (uint32_t i = 0; i < r->progress.n_running; i++) {
    double all = accel__log_sum_exp(rows[i], vocab);
    if (!isfinite(all))
      return accel__fail(ACCEL_ERROR_NONFINITE,
                         "token %u of prompt %u: scores hold NaN or infinity",
                         r->progress.running[i].n - r->input.prompt.n, r->input.number);
    for (size_t t = 0; t < vocab; t++) e->work[t] = (float)(rows[i][t] - all);
    accel__logits_input input;
    ACCEL_TRY(accel__request_logits_input(r, &r->progress.running[i], &input));
    ACCEL_TRY(accel__logits_process(r->options.config, &input, &e->scratch, e->work, vocab));
    *n_best = look_at(e, r, i, e->work, *n_best);
  }
  return *n_best ? ACCEL_OK
                 : accel__fail(ACCEL_ERROR_ARGUMENT,
                               "prompt %u: no token may come: everything is suppressed",
                               r->input.number);
}

/* ---- endings ---- */

/* Does a stop string end with `token`?  Beams change their past, so the text is made anew. */
static accel_status stops(const accel__request *r, const accel__hypothesis *h, int32_t token,
                          accel__finish *why) {
  uint32_t generated = h->n - r->input.prompt.n;
  accel__text_stream text = {.tokenizer = r->options.tokenizer,
                             .keep_special_tokens = r->options.keep_special_tokens,
                             .no_clean_up = r->options.no_clean_up,
                             .stop = r->options.config->stop,
                             .n_stop = r->options.config->n_stop};
  int32_t *ids = malloc((generated + 1) * sizeof *ids);
  if (!ids) return accel__no_memory(generated * sizeof *ids);
  memcpy(ids, h->ids + r->input.prompt.n, generated * sizeof *ids);
  ids[generated] = token;
  accel_status status = accel__text_stream_add(&text, ids, generated + 1);
  if (text.stopped) *why = ACCEL__FINISH_STOP;
  accel__text_stream_free(&text);
  free(ids);
  return status;
}

/* Why the sequence of `x` ends with it. */
static accel_status judge(const accel__request *r, candidate *x, accel__finish *why) {
  const accel__hypothesis *h = &r->progress.running[x->beam];
  uint32_t generated = h->n + 1 - r->input.prompt.n;
  *why = ACCEL__FINISH_NONE;
  if (accel__is_eos(r->options.config, x->token)) {
    *why = ACCEL__FINISH_EOS;
  } else if (generated >= r->options.new_tokens) {
    *why = ACCEL__FINISH_LENGTH;
  } else if (r->options.config->max_time > 0 &&
             accel__now_ms() - r->progress.begin_ms > 1e3 * r->options.config->max_time) {
    *why = ACCEL__FINISH_TIME;
  } else if (r->options.config->n_stop && r->options.tokenizer) {
    ACCEL_TRY(stops(r, h, x->token, why));
  }
  x->ends = *why != ACCEL__FINISH_NONE;
  return ACCEL_OK;
}

/* A hypothesis with the ids of beam `x->beam` and x's token. */
static accel_status extend(const accel__request *r, const candidate *x, accel__hypothesis *out) {
  const accel__hypothesis *from = &r->progress.running[x->beam];
  accel__hypothesis_free(out);
  ACCEL_TRY(accel__hypothesis_new(r, 0, out));
  for (uint32_t i = out->n; i < from->n; i++) ACCEL_TRY(accel__hypothesis_add(out, from->ids[i]));
  out->score = x->score;
  out->random = r->progress.running[0].random;
  out->match = from->match;
  ACCEL_TRY(accel__hypothesis_add(out, x->token));
  return accel__request_match(r, out, x->token);
}

/* Puts x among the finished ones when its score is better than the worst of them. */
static accel_status finish(accel__request *r, const candidate *x, accel__finish why) {
  struct accel__beams *b = r->progress.beams;
  uint32_t length = r->progress.running[x->beam].n + 1 - r->input.prompt.n, at = b->n;
  float score = x->score / (float)pow(length, r->options.config->length_penalty);
  while (at > 0 && score > b->top[at - 1]) at--;
  if (at == b->n) return ACCEL_OK;
  accel__hypothesis replaced = b->finished[b->n - 1];
  memmove(b->finished + at + 1, b->finished + at, (b->n - 1 - at) * sizeof *b->finished);
  memmove(b->top + at + 1, b->top + at, (b->n - 1 - at) * sizeof *b->top);
  b->finished[at] = replaced;
  b->top[at] = score;
  ACCEL_TRY(extend(r, x, &b->finished[at]));
  b->finished[at].score = score;
  b->finished[at].finish = why;
  return ACCEL_OK;
}

static bool all_finished(const struct accel__beams *b) {
  for (uint32_t i = 0; i < b->n; i++)
    if (!b->finished[i].ids) return false;
  return true;
}

/* Can the best running beam still come out ahead of the worst finished one? */
static bool hopeful(const accel__request *r, float best, uint32_t length) {
  const struct accel__beams *b = r->progress.beams;
  const accel__generate_config *c = r->options.config;
  if (c->early_stopping == ACCEL__EARLY_NEVER && c->length_penalty > 0)
    length = r->options.new_tokens;
  float possible = best / (float)pow(length, c->length_penalty);
  float worst = all_finished(b) ? b->top[b->n - 1] : NEVER;
  return possible > worst;
}

/* ---- a step ---- */

/* The listener hears a sequence of the result, token by token, as if it were chosen now. */
static accel_status tell(accel__request *r, accel__hypothesis *h) {
  const int32_t *ids = h->ids + r->input.prompt.n;
  const accel__finish finish = h->finish;
  const uint32_t n = h->n - r->input.prompt.n,
                 in_text = n - (r->options.hide_end && finish == ACCEL__FINISH_EOS);
  if (!r->options.on_token) return ACCEL_OK;
  h->finish = ACCEL__FINISH_NONE;
  for (uint32_t at = 0; at < n && !h->finish; at++) {
    h->n = r->input.prompt.n + at + 1;
    ACCEL_TRY(accel__text_stream_add(&h->text, ids, at < in_text ? at + 1 : in_text));
    if (at + 1 == n) {
      ACCEL_TRY(accel__text_stream_end(&h->text, ids, in_text));
      h->finish = finish;
    }
    ACCEL_TRY(accel__tell_token(r, h, at));
  }
  return ACCEL_OK;
}

/* The finished ones become the result. */
static accel_status conclude(accel__engine *e, accel__request *r) {
  struct accel__beams *b = r->progress.beams;
  for (uint32_t i = 0; i < r->progress.n_running; i++) {
    if (r->progress.running[i].sequence >= 0 &&
        r->progress.running[i].sequence != r->start.sequence)
      e->model->drop(e->model->self, r->progress.running[i].sequence);
    accel__hypothesis_free(&r->progress.running[i]);
  }
  r->progress.n_running = 0;
  for (uint32_t i = 0; i < b->n && r->outcome.n_done < r->options.config->num_return; i++) {
    if (!b->finished[i].ids) continue;
    r->outcome.done[r->outcome.n_done] = b->finished[i];
    r->outcome.done[r->outcome.n_done].number = r->outcome.n_done;
    r->outcome.n_done++;
    b->finished[i] = (accel__hypothesis){.sequence = -1};
  }
  for (uint32_t i = 0; i < r->outcome.n_done; i++) ACCEL_TRY(tell(r, &r->outcome.done[i]));
  r->outcome.finished = true;
  return ACCEL_OK;
}

/* The best that do not end run on; best[] is scanned in order, ended ones come last, as their score
 * sinks by 1e9. */
static accel_status run_on(accel__engine *e, accel__request *r, uint32_t n_best) {
  struct accel__beams *b = r->progress.beams;
  uint32_t n = 0;
  for (int ended = 0; ended < 2; ended++)
    for (uint32_t k = 0; k < n_best && n < b->n; k++) {
      if (b->best[k].ends != (ended == 1)) continue;
      ACCEL_TRY(extend(r, &b->best[k], &b->next[n]));
      if (ended) b->next[n].score += NEVER;
      b->parent[n++] = b->best[k].beam;
    }
  uint32_t old = r->progress.shared ? 1 : r->progress.n_running;
  if (r->progress.shared)
    for (uint32_t i = 0; i < n; i++) b->parent[i] = 0;
  ACCEL_TRY(accel__reassign_sequences(e->model, r->progress.running, old, b->next, b->parent, n));
  for (uint32_t i = 0; i < r->progress.n_running; i++)
    accel__hypothesis_free(&r->progress.running[i]);
  memcpy(r->progress.running, b->next, n * sizeof *b->next);
  memset(b->next, 0, b->n * sizeof *b->next);
  r->progress.n_running = n;
  return ACCEL_OK;
}

static void by_score(candidate *best, uint32_t n) {
  for (uint32_t i = 1; i < n; i++)
    for (uint32_t k = i; k > 0 && best[k].score > best[k - 1].score; k--) {
      candidate x = best[k];
      best[k] = best[k - 1];
      best[k - 1] = x;
    }
}

accel_status accel__beam_advance(accel__engine *e, accel__request *r, float *const *rows) {
  struct accel__beams *b = r->progress.beams;
  uint32_t n_best, ends = 0;
  ACCEL_TRY(find_best(e, r, rows, &n_best));
  bool full = all_finished(b) && r->options.config->early_stopping == ACCEL__EARLY_TRUE;
  for (uint32_t k = 0; k < n_best; k++) {
    accel__finish why;
    ACCEL_TRY(judge(r, &b->best[k], &why));
    ends += b->best[k].ends;
    if (b->best[k].ends && k < b->n && !full) ACCEL_TRY(finish(r, &b->best[k], why));
  }
  uint32_t length = r->progress.running[0].n + 1 - r->input.prompt.n;
  if (r->options.config->do_sample)
    by_score(b->best, n_best); /* they were in the order of their draws */
  if (ends == n_best) return conclude(e, r);
  ACCEL_TRY(run_on(e, r, n_best));
  r->progress.shared = false;
  full = all_finished(b) && r->options.config->early_stopping == ACCEL__EARLY_TRUE;
  if (full || !hopeful(r, r->progress.running[0].score, length)) return conclude(e, r);
  return ACCEL_OK;
}
