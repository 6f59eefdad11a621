/* logits.c - the processors: what repetition, length and forced tokens make of the scores. */
#include "generate/logits.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void accel__logits_scratch_free(accel__logits_scratch *s) {
  free(s->ranked);
  free(s->seen);
  free(s->key);
  free(s->padded);
  *s = (accel__logits_scratch){0};
}

accel_status accel__logits_reserve(accel__logits_scratch *s, size_t vocab) {
  if (vocab <= s->capacity) return ACCEL_OK;
  accel__logits_scratch more = {.ranked = malloc(vocab * sizeof *more.ranked),
                                .seen = calloc(vocab / 64 + 1, sizeof *more.seen),
                                .key = malloc(vocab * sizeof *more.key),
                                .capacity = vocab,
                                .padded = s->padded,
                                .n_padded = s->n_padded};
  s->padded = NULL;
  if (!more.ranked || !more.seen || !more.key) {
    accel__logits_scratch_free(&more);
    return accel__no_memory(vocab * sizeof *more.ranked);
  }
  accel__logits_scratch_free(s);
  *s = more;
  return ACCEL_OK;
}

/* ---- tokens that were there ---- */

/* True at the first call for `id`; forget() undoes it for all of a list. */
static bool first_time(accel__logits_scratch *s, int32_t id, size_t vocab) {
  if (id < 0 || (size_t)id >= vocab) return false;
  uint64_t bit = UINT64_C(1) << (id % 64), *word = &s->seen[id / 64];
  if (*word & bit) return false;
  *word |= bit;
  return true;
}
static void forget(accel__logits_scratch *s, accel__ids ids, size_t vocab) {
  for (uint32_t i = 0; i < ids.n; i++)
    if (ids.id[i] >= 0 && (size_t)ids.id[i] < vocab) s->seen[ids.id[i] / 64] = 0;
}

static void scale_seen(accel__ids ids, float penalty, accel__logits_scratch *s, float *scores,
                       size_t vocab) {
  for (uint32_t i = 0; i < ids.n; i++) {
    if (!first_time(s, ids.id[i], vocab)) continue;
    float *x = &scores[ids.id[i]];
    *x = *x < 0 ? *x * penalty : *x / penalty;
  }
  forget(s, ids, vocab);
}

static void lower_generated(const accel__generate_config *c, accel__ids generated,
                            accel__logits_scratch *s, float *scores, size_t vocab) {
  for (uint32_t i = 0; i < generated.n; i++) {
    int32_t id = generated.id[i];
    if (id < 0 || (size_t)id >= vocab) continue;
    scores[id] -= (float)c->frequency_penalty;
    if (first_time(s, id, vocab)) scores[id] -= (float)c->presence_penalty;
  }
  forget(s, generated, vocab);
}

/* ---- sequences of tokens ---- */

static void forbid(float *scores, size_t vocab, int32_t id) {
  if (id >= 0 && (size_t)id < vocab) scores[id] = -INFINITY;
}
static void forbid_all(float *scores, size_t vocab, accel__ids ids) {
  for (uint32_t i = 0; i < ids.n; i++) forbid(scores, vocab, ids.id[i]);
}
/* Only `ids` may come. */
static void force(float *scores, size_t vocab, accel__ids ids) {
  for (size_t i = 0; i < vocab; i++) scores[i] = -INFINITY;
  for (uint32_t i = 0; i < ids.n; i++)
    if (ids.id[i] >= 0 && (size_t)ids.id[i] < vocab) scores[ids.id[i]] = 0;
}

static bool ends_with(accel__ids ids, const int32_t *tail, uint32_t n) {
  return n <= ids.n && (n == 0 || !memcmp(ids.id + ids.n - n, tail, n * sizeof *tail));
}

static void add_biases(const accel__biased *list, uint32_t n, accel__ids ids, float *scores,
                       size_t vocab) {
  for (uint32_t i = 0; i < n; i++) {
    uint32_t before = list[i].ids.n - 1;
    int32_t last = list[i].ids.id[before];
    if (ends_with(ids, list[i].ids.id, before) && last >= 0 && (size_t)last < vocab)
      scores[last] += list[i].bias;
  }
}

static bool contains(accel__ids ids, int32_t id) {
  for (uint32_t i = 0; i < ids.n; i++)
    if (ids.id[i] == id) return true;
  return false;
}

static void forbid_words(const accel__generate_config *c, accel__ids ids, float *scores,
                         size_t vocab) {
  for (uint32_t i = 0; i < c->n_bad_words; i++) {
    accel__ids word = c->bad_words[i].ids;
    /* as transformers has it: EOS is no bad word */
    if (word.n == 1 && contains(c->eos, word.id[0])) continue;
    if (ends_with(ids, word.id, word.n - 1)) forbid(scores, vocab, word.id[word.n - 1]);
  }
}

/* Forbids what would complete an n-gram of `where` that `ids` ends with the beginning of. */
static void forbid_ngrams(accel__ids where, accel__ids ids, int64_t size, float *scores,
                          size_t vocab) {
  if (size <= 0 || ids.n + 1 < size) return;
  uint32_t before = (uint32_t)size - 1;
  const int32_t *tail = ids.id + ids.n - before;
  for (uint32_t i = 0; i + before < where.n; i++)
    if (!before || !memcmp(where.id + i, tail, before * sizeof *tail))
      forbid(scores, vocab, where.id[i + before]);
}

/* ---- lengths ---- */

static void decay(const accel__generate_config *c, int64_t beyond, float *scores, size_t vocab) {
  if (beyond <= 0) return;
  double grown = pow(c->decay_factor, (double)beyond) - 1;
  for (uint32_t i = 0; i < c->eos.n; i++) {
    int32_t id = c->eos.id[i];
    if (id >= 0 && (size_t)id < vocab && isfinite(scores[id]))
      scores[id] += fabsf(scores[id]) * (float)grown;
  }
}

static void keep_finite(float *scores, size_t vocab) {
  for (size_t i = 0; i < vocab; i++) {
    if (isnan(scores[i])) scores[i] = 0;
    if (isinf(scores[i])) scores[i] = scores[i] > 0 ? FLT_MAX : -FLT_MAX;
  }
}

static void force_and_suppress(const accel__generate_config *c, const accel__logits_input *in,
                               float *scores, size_t vocab) {
  const int64_t length = in->ids.n, prompt = in->prompt;
  const bool early =
      c->min_new_tokens >= 0 ? length - prompt < c->min_new_tokens : length < c->min_length;
  if (early) forbid_all(scores, vocab, c->eos);
  int32_t bos = (int32_t)c->forced_bos;
  if (c->forced_bos >= 0 && length == 1) force(scores, vocab, (accel__ids){&bos, 1});
  if (c->forced_eos.n && length == in->max_length - 1) force(scores, vocab, c->forced_eos);
  if (c->remove_invalid) keep_finite(scores, vocab);
  if (c->decays) decay(c, length - c->decay_start - prompt, scores, vocab);
  forbid_all(scores, vocab, c->suppress);
  bool late = prompt <= 1 && c->forced_bos >= 0; /* the forced token is not yet the beginning */
  if (length == prompt + late) forbid_all(scores, vocab, c->begin_suppress);
}

/* ---- timestamps (WhisperTimeStampLogitsProcessor) ---- */

static void forbid_range(float *scores, size_t vocab, int64_t from, int64_t to) {
  if (to > (int64_t)vocab) to = (int64_t)vocab;
  for (int64_t i = from < 0 ? 0 : from; i < to; i++) scores[i] = -INFINITY;
}

/* All timestamps together against the likeliest of the other tokens. */
static bool timestamp_is_likelier(const float *scores, size_t vocab, size_t begin) {
  float text = -INFINITY;
  if (begin >= vocab) return false;
  for (size_t i = 0; i < begin; i++) text = scores[i] > text ? scores[i] : text;
  return accel__log_sum_exp(scores + begin, vocab - begin) > text;
}

static void follow_timestamps(const accel__generate_config *c, const accel__logits_input *in,
                              float *scores, size_t vocab) {
  const int64_t begin = c->first_timestamp, end = (int64_t)vocab;
  const int32_t *said = in->ids.id + in->prompt;
  const uint32_t n = in->ids.n - in->prompt;
  const bool last = n >= 1 && said[n - 1] >= begin, before = n < 2 || said[n - 2] >= begin;
  int64_t lowest = begin;
  forbid(scores, vocab, (int32_t)begin - 1);
  if (last && before) forbid_range(scores, vocab, begin, end);
  if (last && !before) forbid_range(scores, vocab, 0, c->eos.n ? c->eos.id[0] : c->bos);
  uint32_t i = n;
  while (i > 0 && said[i - 1] < begin) i--;
  /* the same again only as the second of a pair */
  if (i > 0) lowest = said[i - 1] + !(last && !before);
  forbid_range(scores, vocab, begin, lowest);
  if (n == 0) forbid_range(scores, vocab, 0, begin);
  if (n == 0 && c->max_initial_timestamp >= 0)
    forbid_range(scores, vocab, begin + c->max_initial_timestamp + 1, end);
  if (timestamp_is_likelier(scores, vocab, (size_t)begin)) forbid_range(scores, vocab, 0, begin);
}

/* ---- grammars ---- */

static void keep_allowed(const accel__logits_input *in, float *scores, size_t vocab) {
  for (size_t i = 0; i < vocab; i += 64) {
    const size_t n = vocab - i < 64 ? vocab - i : 64;
    const uint64_t word = i < in->n_allowed ? in->allowed[i / 64] : 0;
    if (word == UINT64_MAX) continue;
    for (size_t k = 0; k < n; k++)
      if (!(word >> k & 1)) scores[i + k] = -INFINITY;
  }
}

/* ---- all of them ---- */

bool accel__logits_change(const accel__generate_config *c) {
  return c->n_bias || c->n_bad_words || c->repetition_penalty != 1 ||
         c->encoder_repetition_penalty != 1 || c->presence_penalty != 0 ||
         c->frequency_penalty != 0 || c->no_repeat_ngram > 0 || c->encoder_no_repeat_ngram > 0 ||
         c->min_length > 0 || c->min_new_tokens > 0 || c->forced_bos >= 0 || c->forced_eos.n ||
         c->remove_invalid || c->decays || c->first_timestamp > 0 || c->suppress.n ||
         c->begin_suppress.n || c->renormalize || c->do_sample;
}

/* The input whose padding is part of its sequence. */
static accel_status with_padding(const accel__logits_input *in, accel__logits_scratch *s,
                                 accel__logits_input *out) {
  const uint32_t before = in->padding.n, n = before + in->ids.n;
  *out = *in;
  if (!before) return ACCEL_OK;
  if (n > s->n_padded) {
    int32_t *more = realloc(s->padded, 2 * n * sizeof *more);
    if (!more) return accel__no_memory(2 * n * sizeof *more);
    s->padded = more;
    s->n_padded = 2 * n;
  }
  memcpy(s->padded, in->padding.id, before * sizeof *s->padded);
  memcpy(s->padded + before, in->ids.id, in->ids.n * sizeof *s->padded);
  out->padding = (accel__ids){0};
  out->ids = (accel__ids){s->padded, n};
  out->prompt = before + in->prompt;
  out->encoder = (accel__ids){s->padded, out->prompt};
  return ACCEL_OK;
}

accel_status accel__logits_processors(const accel__generate_config *c,
                                      const accel__logits_input *given, accel__logits_scratch *s,
                                      float *scores, size_t vocab) {
  accel__logits_input padded, *in = &padded;
  ACCEL_TRY(accel__logits_reserve(s, vocab));
  ACCEL_TRY(with_padding(given, s, &padded));
  add_biases(c->bias, c->n_bias, in->ids, scores, vocab);
  if (c->encoder_repetition_penalty != 1)
    scale_seen(in->encoder, (float)(1 / c->encoder_repetition_penalty), s, scores, vocab);
  if (c->repetition_penalty != 1)
    scale_seen(given->ids, (float)c->repetition_penalty, s, scores, vocab); /* no padding */
  if (c->presence_penalty != 0 || c->frequency_penalty != 0)
    lower_generated(c, (accel__ids){in->ids.id + in->prompt, in->ids.n - in->prompt}, s, scores,
                    vocab);
  forbid_ngrams(in->ids, in->ids, c->no_repeat_ngram, scores, vocab);
  forbid_ngrams(in->encoder, in->ids, c->encoder_no_repeat_ngram, scores, vocab);
  forbid_words(c, in->ids, scores, vocab);
  force_and_suppress(c, in, scores, vocab);
  if (c->first_timestamp > 0) follow_timestamps(c, in, scores, vocab);
  if (in->allowed) keep_allowed(in, scores, vocab);
  return ACCEL_OK;
}

accel_status accel__logits_process(const accel__generate_config *c, const accel__logits_input *in,
                                   accel__logits_scratch *s, float *scores, size_t vocab) {
  ACCEL_TRY(accel__logits_processors(c, in, s, scores, vocab));
  if (c->do_sample) ACCEL_TRY(accel__logits_warpers(c, s, scores, vocab));
  if (c->renormalize) {
    double all = accel__log_sum_exp(scores, vocab);
    for (size_t i = 0; i < vocab; i++) scores[i] = (float)(scores[i] - all);
  }
  return ACCEL_OK;
}
