/* logits.h - from a model's scores to the scores a token is chosen by: transformers' logits
 * processors and warpers.
 *
 * The order is GenerationMixin._get_logits_processor's: sequence bias, encoder repetition penalty,
 * repetition penalty (then presence and frequency penalty, which transformers does not have),
 * n-grams, bad words, minimum lengths, forced and suppressed tokens, Whisper's timestamps, what a
 * grammar allows (which transformers does not have), then, when sampling, temperature, top-h, top-k, top-p, min-p, typical, epsilon, eta, and the
 * normalisation at the end.  Scores are fp32 and are changed in place; a token that may not come
 * has -infinity.
 */
#ifndef ACCEL_GENERATE_LOGITS_H
#define ACCEL_GENERATE_LOGITS_H

#include "generate/generate_config.h"

/* What the processors look at. */
typedef struct accel__logits_input {
  accel__ids ids;  /* the sequence so far: prompt, then generated tokens */
  uint32_t prompt; /* of these, the prompt's */
  /* tokens of left padding that transformers would have had before them: they count in lengths, and
   * for all but the repetition penalty as tokens that were there; none for encoder-decoders */
  accel__ids padding;
  int64_t max_length; /* at which the sequence will end, padding counted */
  accel__ids encoder; /* input of the encoder, of decoders the prompt */
  /* a bit a token: what a grammar allows; ids from n_allowed on may not come.  NULL: no grammar */
  const uint64_t *allowed;
  size_t n_allowed;
} accel__logits_input;

typedef struct accel__ranked {
  float value;
  uint32_t index;
} accel__ranked;
/* The k highest of x[n] in falling order, ties to the lower index; only what is above -infinity
 * counts.  Returns how many there are, at most k; out[min(k, n)].  One pass over x with a heap of
 * k. */
uint32_t accel__highest(const float *x, size_t n, uint32_t k, accel__ranked *out);

/* Memory that steps share: made once, grown on demand. {0} is empty. */
typedef struct accel__logits_scratch {
  accel__ranked *ranked;
  uint64_t *seen; /* a bit per token; all 0 between calls */
  float *key;
  size_t capacity;   /* tokens */
  int32_t *padded;   /* a sequence behind its padding */
  uint32_t n_padded; /* tokens that it has memory for */
} accel__logits_scratch;
accel_status accel__logits_reserve(accel__logits_scratch *scratch, size_t vocab);
void accel__logits_scratch_free(accel__logits_scratch *scratch);

/* scores[vocab], fp32. */
accel_status accel__logits_process(const accel__generate_config *config,
                                   const accel__logits_input *input, accel__logits_scratch *scratch,
                                   float *scores, size_t vocab);
/* The two halves of it. */
accel_status accel__logits_processors(const accel__generate_config *config,
                                      const accel__logits_input *input,
                                      accel__logits_scratch *scratch, float *scores, size_t vocab);
accel_status accel__logits_warpers(const accel__generate_config *config,
                                   accel__logits_scratch *scratch, float *scores, size_t vocab);
/* Whether there is anything to do: greedy decoding of plain models reads the scores where they
 * are. */
bool accel__logits_change(const accel__generate_config *config);

/* Log of the sum of exponentials; x[i] - that is log_softmax. */
double accel__log_sum_exp(const float *x, size_t n);

/* ---- chance ---- */

/* SplitMix64 (Steele, Lea and Flood 2014): one stream per sequence, started from the caller's seed
 * and the number of the sequence among those of its prompt, so that a result depends on nothing
 * else: not on the other prompts of a call. */
typedef struct accel__random {
  uint64_t state;
} accel__random;
accel__random accel__random_new(uint64_t seed, uint32_t sequence);
uint64_t accel__random_next(accel__random *r);
double accel__random_unit(accel__random *r); /* [0, 1), 53 bits */
/* A token by softmax(scores): the first whose cumulated probability, in the order of ids, passes a
 * unit number.  -1 when no score is finite. */
int64_t accel__draw(accel__random *r, const float *scores, size_t n);

#endif
