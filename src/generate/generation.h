/* generation.h - from a caller's wishes to requests of the engine, and from finished requests to
 * results.
 *
 * What accel_generate, sessions, the queue and `accel verify` share.
 */
#ifndef ACCEL_GENERATE_GENERATION_H
#define ACCEL_GENERATE_GENERATION_H

#include "generate/engine.h"
#include "generate/model_stepper.h"

/* A configuration with its memory. */
typedef struct accel__generate_plan {
  accel__arena arena;
  accel__generate_config config;
  bool asked_length;       /* the caller, not the model, says how many tokens there may be */
  bool no_clean_up;        /* see accel__text_stream */
  bool continue_on_error;  /* accel_generate_params.continue_on_error */
  accel__grammar *grammar; /* what texts must be; NULL: any */
  accel_plugin_adapter_use adapter; /* {NULL}: none */
  int64_t context;                  /* tokens of a sequence, accel__context_length */
  /* private: whether any layer so far says how many beams there are, how many tokens may come */
  bool says_beams, says_length;
} accel__generate_plan;

/* A task's part of the configuration, between the model's and the caller's. */
typedef struct accel__task_settings {
  /* object with fields of a generation configuration and others; NULL: none */
  const accel__json *fields;
  uint32_t num_beams;     /* where no layer says; 0: as ever */
  int64_t max_new_tokens; /* likewise; 0 */
  int64_t forced_bos;     /* -1: as the layers say */
} accel__task_settings;

accel_generate_params accel__generate_defaults(void); /* nothing is set */
/* The model's configuration with the caller's on top, checked.  Free with
 * accel__generate_plan_free, after a failure, too.
 */
accel_status accel__generate_plan_make(const accel_endpoint *ep,
                                       const accel_generate_params *params,
                                       accel__generate_plan *plan);
accel_status accel__generate_plan_for(const accel_endpoint *ep, const accel__task_settings *task,
                                      const accel_generate_params *params,
                                      accel__generate_plan *plan);
void accel__generate_plan_free(accel__generate_plan *plan);

/* The ids of a text as a prompt: an empty one begins with the BOS token, where there is one.  The
 * result points into *enc or at *bos. */
accel__ids accel__prompt_of(const accel_endpoint *ep, const accel__encoding *enc, int32_t *bos);
/* Fills what the request is given: prompt[n] (of an encoder-decoder: the encoder's input), limits.
 * `prompt` and `plan` must outlive it.  context: tokens a sequence may have, 0 no limit.
 * ACCEL_ERROR_LIMIT when it would be passed. */
accel_status accel__generate_request(const accel_endpoint *ep, const accel__generate_plan *plan,
                                     const accel_generate_params *params, accel__ids prompt,
                                     uint32_t number, int64_t context, accel__request *out);
/* The same for an encoder-decoder, whatever its encoder reads.  decoder: what it begins with; none:
 * decoder_start_token_id. `encoder` is copied, its arrays are not. */
accel_status accel__generate_encoded(const accel_endpoint *ep, const accel__generate_plan *plan,
                                     const accel_generate_params *params,
                                     const accel__encoder_input *encoder, accel__ids decoder,
                                     uint32_t number, int64_t context, accel__request *out);
/* Steps until the n requests (joined here) are finished.  The status of the first that failed, with
 * its message. */
accel_status accel__generate_run(accel_endpoint *ep, accel__engine *engine,
                                 accel__request *requests, uint32_t n);
/* The result of finished requests; frees nothing of theirs. */
accel_status accel__generate_collect(accel__request *requests, uint32_t n, accel_generations **out);
/* Makes request `number` (zeroed on entry). */
typedef accel_status (*accel__request_fn)(void *user, const accel__generate_plan *plan,
                                          uint32_t number, int64_t context, accel__request *out);
/* Requests as `make` makes them, the loop and the result under a plan; under precision "auto" again
 * when a result is not finite. */
accel_status accel__generate_with(accel_endpoint *ep, const accel__generate_plan *plan,
                                  const accel_generate_params *params, uint32_t n,
                                  accel__request_fn make, void *user, accel_generations **out);
/* The same for prompts of token ids. */
accel_status accel__generate_planned(accel_endpoint *ep, const accel__generate_plan *plan,
                                     const accel__ids *prompts, uint32_t n,
                                     const accel_generate_params *params, accel_generations **out);
/* The whole way from token ids. */
accel_status accel__generate_prompts(accel_endpoint *ep, const accel__ids *prompts, uint32_t n,
                                     const accel_generate_params *params, accel_generations **out);

/* Behind the public functions of the same names (the public headers say what they do); arguments
 * are already checked. */
accel_status accel__generate(accel_endpoint *ep, const char *const *texts, uint32_t n,
                             const accel_generate_params *params, accel_generations **out);

#endif
