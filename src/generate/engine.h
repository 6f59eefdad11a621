/* engine.h - the generation loop: requests that join and leave at token boundaries, whatever their
 * number and kind.
 *
 * A request is one prompt with its configuration.  Each step of an engine feeds every active
 * request's new tokens in one run of the model (prompts whole or in parts, running sequences one
 * token each), then lets each request choose from its scores. A request's outcome does not depend
 * on its company: rows do not, chance has a stream per sequence, and when a joint run fails each
 * request is run by itself, so that only the one that cannot be run fails.
 *
 * Kinds: sampling (num_beams 1; greedy is sampling without chance; several sequences of one prompt
 * share its prefill) and beam search (transformers' _beam_search, scores included).
 */
#ifndef ACCEL_GENERATE_ENGINE_H
#define ACCEL_GENERATE_ENGINE_H

#include "generate/constraint.h"
#include "generate/logits.h"
#include "generate/prefix_cache.h"
#include "generate/prompt_images.h"
#include "generate/speculate.h"
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
  uint32_t n, capacity;
  int32_t sequence;   /* of the stepper; -1 none */
  uint32_t past_len;  /* how many of `ids` that sequence has in its KV cache */
  uint32_t total_len; /* the length that their rotations assume: accel__step_item.past_total_len */
  uint32_t number;    /* among the sequences of the request */
  uint32_t match;     /* where its text stands in the request's grammar */
  /* guesses at the next tokens in this step, which stand behind ids[n); length of the n-gram that
   * they follow, 0 of an assistant */
  uint32_t drafted, ngram;
  uint32_t draft_tokens, accepted_tokens; /* guesses in all, and those that were right */
  accel__random random;
  accel__text_stream text;
  float *logprob; /* [generated] of the model's own distribution, when asked for */
  /* [generated][request.options.logprobs] of it, best first; id -1 where there are fewer */
  accel_token_logprob *highest;
  double *ms;                /* [generated] since the request began */
  uint32_t details_capacity; /* tokens that logprob, highest and ms have memory for */
  /* of log probabilities of the tokens as they were chosen: after the processors, without the
   * temperature */
  double sum;
  float score; /* beam search: sum of log probabilities, then divided by length^penalty */
  accel__finish finish;
} accel__hypothesis;

/* What a request reads before its first token. */
typedef struct accel__request_input {
  accel__ids prompt;            /* of the decoder; at least one token */
  accel__encoder_input encoder; /* what the encoder reads, when `encodes` */
  bool encodes;                 /* the encoder runs first */
  /* What a decoder's prompt shows; the request's, accel__request_end frees it.  NULL: none. */
  accel__prompt_images *images;
  /* Added to the row numbers of tokens behind such a prompt to get their positions
   * (accel__image_tokens.mrope_positions). */
  int32_t rope_delta;
  /* The tokens in front of the prompt in a padded batch, where processors are to see what
   * transformers' would; the model does not read them. */
  accel__ids padding;
  uint32_t number; /* of the prompt among those of the call, for `on_token` and the results */
} accel__request_input;

/* How a request generates and what it reports. */
typedef struct accel__request_options {
  const accel__generate_config *config;
  const accel__tokenizer *tokenizer; /* NULL: no texts and no stop strings */
  uint32_t new_tokens;               /* at most so many are generated */
  uint32_t logprobs;                 /* alternatives reported for each token */
  bool want_logprobs;                /* accel__hypothesis.logprob and highest are filled */
  bool want_sum;                     /* accel__hypothesis.sum is filled when sampling, too */
  bool keep_special_tokens, keep_stop, no_clean_up; /* of the text: accel__text_stream */
  bool hide_end; /* the token that ends a sequence is not in the text */
  /* The call goes on without this request when it fails (accel_generate_params.continue_on_error). */
  bool fails_alone;
  accel__grammar *grammar; /* what texts must be; NULL: any */
  accel__speculate_options speculate;
  accel_plugin_adapter_use adapter; /* {NULL}: none */
  accel_token_fn on_token;          /* called for each token; may be NULL */
  void *on_token_user;
} accel__request_options;

/* The sequence of the stepper that a request continues. */
typedef struct accel__request_start {
  /* Holds the first `past_len` tokens of the prompt, and keeps what the request adds; past_len and
   * total_len are updated when the request finishes.  -1: a sequence is made, and dropped at the
   * end. */
  int32_t sequence;
  uint32_t past_len;  /* tokens in its KV cache */
  uint32_t total_len; /* the length that their rotations assume: accel__step_item.past_total_len */
  /* `sequence` itself stays as it is and a copy is continued: several requests share encoder states
   * or a prompt. */
  bool forks;
} accel__request_start;

typedef struct accel__request_progress {
  accel__hypothesis *running; /* [n_running] sequences that are still extended */
  uint32_t n_running;
  bool shared;                /* all of them still share the sequence of running[0]: the prompt */
  struct accel__beams *beams; /* NULL when sampling */
  accel__constraint *constraint;   /* NULL without a grammar */
  accel__speculation *speculation; /* NULL without guesses */
  uint32_t steps;                  /* times that next tokens were chosen */
  uint32_t cached;                 /* tokens of the prompt that a kept one was shared for */
  bool waited;                     /* for memory of its states */
  /* joined, first token chosen, finished; milliseconds of the monotonic clock */
  double begin_ms, prefill_ms, end_ms;
} accel__request_progress;

typedef struct accel__request_outcome {
  bool finished; /* it has left the engine, or failed before it joined */
  /* [n_done] finished sequences in order of their numbers; of beams, best first */
  accel__hypothesis *done;
  uint32_t n_done;
  accel__failure failure; /* of this request alone */
} accel__request_outcome;

/* Whoever makes a request fills input, options and start; the engine does the rest. */
typedef struct accel__request {
  accel__request_input input;
  accel__request_options options;
  accel__request_start start;
  accel__request_progress progress;
  accel__request_outcome outcome;
  struct accel__request *next; /* in the engine's list */
} accel__request;

/* Sets up progress and outcome.  What input and options point to must outlive the request.  On
 * failure nothing is left to free. */
accel_status accel__request_begin(accel__request *r);
/* It has failed: the message is kept for whoever asked. */
void accel__request_fail(accel__request *r, accel_status status);
/* Gives all memory back; sequences it still has in `model` are dropped. */
void accel__request_end(accel__request *r, const accel__stepper *model);

typedef struct accel__engine {
  const accel__stepper *model;
  accel__request *active; /* in the order in which they joined */
  /* Most tokens of one run; 0: the stepper's limit, else 2048.  Longer prompts are fed in parts. */
  uint32_t step_tokens;
  /* Milliseconds that a piece of a prompt should take, so that others go on and join in between; 0:
   * as long as it takes.  A step with pictures reads no text of prompts then.  Without effect under
   * a memory limit, where a step may read all weights. */
  uint32_t piece_ms;
  accel__prefix_cache *prefixes; /* of `model`; NULL: prompts share nothing */
  /* private */
  double ms_per_token;   /* of prompts, as last measured; 0: not yet */
  accel__step_cost cost; /* of steps without prompts */
  uint32_t drafts;       /* guesses of each sequence in this step, at most */
  bool no_drafts;        /* there was no memory for their rows */
  bool oldest_first;     /* which prompt this step begins with; turns with each step */
  accel__logits_scratch scratch;
  float *work; /* [vocab] */
  accel__step_item *item;
  struct accel__fed *fed;
  uint32_t capacity;
} accel__engine;

void accel__engine_join(accel__engine *e, accel__request *r);
/* An active request leaves: it is finished, with ACCEL_ERROR_CANCELLED. */
void accel__engine_cancel(accel__engine *e, accel__request *r);
/* One token boundary for all active requests; those that finish or fail leave the list (finished is
 * set).  Only what concerns no request in particular is a failure: all active requests then carry
 * it and leave, too. */
void accel__engine_step(accel__engine *e);
void accel__engine_free(accel__engine *e); /* active requests are left as they are */

/* ---- between engine.c, sample.c and beam.c ---- */

double accel__now_ms(void); /* monotonic */
/* Copies row to `work` where it must stay as it is. */
accel_status accel__sample_advance(accel__engine *e, accel__request *r, float *const *rows);
/* The next token of `h` by row[vocab]; *raw gets its score as the model gave it. */
accel_status accel__sample_choose(accel__engine *e, accel__request *r, accel__hypothesis *h,
                                  float *row, int64_t *token, float *raw);
/* Tells the listener, where there is one, of the generated token `at` of h and of what text h->text
 * has ready; h is cancelled where the listener says so. */
accel_status accel__tell_token(accel__request *r, accel__hypothesis *h, uint32_t at);
accel_status accel__beam_begin(accel__request *r);
accel_status accel__beam_advance(accel__engine *e, accel__request *r, float *const *rows);
void accel__beam_free(accel__request *r);
accel_status accel__hypothesis_new(const accel__request *r, uint32_t number,
                                   accel__hypothesis *out);
accel_status accel__hypothesis_add(accel__hypothesis *h, int32_t token);
accel_status accel__hypothesis_reserve(accel__hypothesis *h, uint32_t tokens);
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
/* With what the request's grammar allows behind `h`: valid until the next call for the request. */
accel_status accel__request_logits_input(const accel__request *r, const accel__hypothesis *h,
                                         accel__logits_input *out);
/* Follows the grammar by `token`, which was added to `h`. */
accel_status accel__request_match(const accel__request *r, accel__hypothesis *h, int32_t token);

#endif
