/* engine.h - the generation loop: requests that join and leave at token boundaries, whatever their
 * number and kind.
 *
 * A request is one prompt with its configuration.  Each step of an engine feeds every active
 * request's new tokens in one run of the model (prompts whole or in parts, running sequences one
 * token each), then lets each request choose from its scores. A request's outcome does not depend
 * on its company: rows do not, chance has a stream per sequence, and when a joint run fails each
 * request is run alone, so that the one to blame fails alone.
 *
 * Kinds: sampling (num_beams 1; greedy is sampling without chance; several sequences of one prompt
 * share its prefill) and beam search (transformers' _beam_search, scores included).
 */
#ifndef ACCEL_GENERATE_ENGINE_H
#define ACCEL_GENERATE_ENGINE_H

#include "generate/logits.h"
#include "generate/stepper.h"
#include "generate/text_stream.h"

typedef enum accel__finish {
  ACCEL__FINISH_NONE,
  ACCEL__FINISH_EOS,
  ACCEL__FINISH_STOP,
  ACCEL__FINISH_LENGTH,
  ACCEL__FINISH_TIME,
  ACCEL__FINISH_CANCELLED
} accel__finish;
/* "eos", "stop", "length", "time", "cancelled" */
const char *accel__finish_name(accel__finish finish);

/* One sequence on its way: the prompt's tokens, then those generated. */
typedef struct accel__hypothesis {
  int32_t *ids;
  uint32_t n, room;
  int32_t sequence;   /* of the stepper; -1 none */
  uint32_t past_len;  /* tokens it has there, */
  uint32_t total_len; /* read when it had so many (accel__step_item.past_total_len) */
  uint32_t number;    /* among the sequences of the request */
  accel__random random;
  accel__text_stream text;
  float *logprob; /* [generated] of the model's own distribution, when asked for */
  /* [generated][request.logprobs] of it, best first; id -1 where there are fewer */
  accel_token_logprob *highest;
  double *ms; /* [generated] since the request began */
  uint32_t room_told;
  /* of log probabilities of the tokens as they were chosen: after the processors, without the
   * temperature */
  double sum;
  float score; /* beam search: sum of log probabilities, then divided by length^penalty */
  accel__finish finish;
} accel__hypothesis;

typedef struct accel__request {
  /* given */
  const accel__generate_config *config;
  const accel__tokenizer *tokenizer; /* NULL: no texts and no stop strings */
  accel__ids prompt;                 /* of the decoder; at least one token */
  accel__encoder_input encoder;      /* what the encoder reads, when */
  bool encodes;                      /* it has to run first */
  /* what runs first is the decoder itself: encoder.ids are the beginning of `prompt`, read with
   * pictures */
  bool prefills;
  int32_t
      rope_delta; /* what positions behind those have more than row numbers (accel__image_tokens.place) */
  uint32_t padding;    /* see accel__logits_input */
  uint32_t new_tokens; /* at most */
  uint32_t logprobs;   /* alternatives to tell for each token */
  bool want_logprobs, keep_special_tokens, keep_stop, no_clean_up;
  bool want_sum;           /* accel__hypothesis.sum, of sampling */
  uint32_t number;         /* of the prompt, for `told` */
  accel_token_fn on_token; /* may be NULL */
  void *on_token_user;
  /* of the stepper, with `held` tokens of the prompt: gone on with, and kept at the end, */
  int32_t sequence;
  /* when `held` counts what it has then; -1: one is made, and dropped at the end */
  uint32_t past_len;
  uint32_t total_len; /* of what is held, likewise */
  /* its failure is its own: others of the call go on, and the call does not fail */
  bool alone;
  /* only a copy of `sequence` is gone on with: encoder states and prompts that several requests
   * share */
  bool forks;
  /* state and outcome */
  /* done[0 .. n_done): in order of their numbers; of beams, best first */
  accel__hypothesis *running, *done;
  uint32_t n_running, n_done;
  struct accel__beams *beams; /* NULL when sampling */
  bool shared;                /* the running ones still share the prompt's sequence */
  bool finished;
  accel_status status; /* of this request alone; the message is kept */
  char *message, *remedy;
  /* joined, first token chosen, finished; on the monotonic clock */
  double begin_ms, prefill_ms, end_ms;
  uint32_t steps;
  struct accel__request *next;
} accel__request;

/* Takes what is given (config, prompt ... must outlive it) and sets up the rest.  On failure
 * nothing is left behind. */
accel_status accel__request_begin(accel__request *r);
/* It has failed: the message is kept for whoever asked. */
void accel__request_fail(accel__request *r, accel_status status);
/* Gives all memory back; sequences it still has in `model` are dropped. */
void accel__request_end(accel__request *r, const accel__stepper *model);

typedef struct accel__engine {
  const accel__stepper *model;
  accel__request *active; /* in the order in which they joined */
  uint32_t step_tokens;   /* most tokens of one run; 0: 2048.  Longer prompts are fed in parts */
  /* private */
  accel__logits_scratch scratch;
  float *work; /* [vocab] */
  accel__step_item *item;
  struct accel__fed *fed;
  uint32_t room;
} accel__engine;

void accel__engine_join(accel__engine *e, accel__request *r);
/* One token boundary for all active requests; those that finish or fail leave the list (finished is
 * set).  Only what concerns no request in particular is a failure: all active requests then carry
 * it and leave, too. */
void accel__engine_step(accel__engine *e);
void accel__engine_free(accel__engine *e); /* active requests are left as they are */

/* ---- between engine.c, sample.c and beam.c ---- */

double accel__now_ms(void); /* monotonic */
/* Copies row to `work` where it must stay as it is. */
accel_status accel__sample_advance(accel__engine *e, accel__request *r, float *const *rows);
accel_status accel__beam_begin(accel__request *r);
accel_status accel__beam_advance(accel__engine *e, accel__request *r, float *const *rows);
void accel__beam_free(accel__request *r);
accel_status accel__hypothesis_new(const accel__request *r, uint32_t number,
                                   accel__hypothesis *out);
accel_status accel__hypothesis_add(accel__hypothesis *h, int32_t token);
/* The next tokens to feed, at most `most`; and what follows from their having been fed. */
accel__step_item accel__hypothesis_item(const accel__hypothesis *h, uint32_t most);
void accel__hypothesis_fed(accel__hypothesis *h, const accel__step_item *item);
void accel__hypothesis_free(accel__hypothesis *h);
/* Gives each of next[n] the sequence of old[parent[i]]: the first child takes it over, others get
 * copies; what nobody wants is dropped. */
accel_status accel__reassign_sequences(const accel__stepper *model, accel__hypothesis *old,
                                       uint32_t n_old, accel__hypothesis *next,
                                       const uint32_t *parent, uint32_t n);
bool accel__is_eos(const accel__generate_config *c, int32_t token);
accel__logits_input accel__request_input(const accel__request *r, const accel__hypothesis *h);

#endif
