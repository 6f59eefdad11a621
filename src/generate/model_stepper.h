/* model_stepper.h - the stepper of a real model: entries "decode" and "encode", or "image_features"
 * and "decode_image", of its program over a session. */
#ifndef ACCEL_GENERATE_MODEL_STEPPER_H
#define ACCEL_GENERATE_MODEL_STEPPER_H

#include "dispatch/kv_session.h"
#include "generate/stepper.h"

typedef struct accel__model_stepper {
  accel__stepper stepper; /* self is this struct: it must stay where it is */
  accel__session *session;
  uint32_t decode;
  int32_t all_logits; /* output of "decode" with the scores of all rows; -1: there is none */
  int32_t encode;     /* entry of this name; -1: there is none */
  /* likewise; "decode_image" is there where "image_features" is */
  int32_t image_features;
  uint32_t decode_image;
  accel__result scores; /* memory of one step's logits [sequences, vocab], used again by the next */
  int32_t *ids, *lengths, *past_len, *sequence, *total_len, *rope_delta;
  accel_plugin_adapter_use *adapter; /* [capacity] */
  uint64_t ids_capacity;
  uint32_t capacity;
} accel__model_stepper;

/* ACCEL_ERROR_UNSUPPORTED for classes that do not generate. */
accel_status accel__can_generate(const accel_endpoint *ep);
accel_status accel__model_stepper_open(accel__session *session, accel__model_stepper *out);
void accel__model_stepper_close(accel__model_stepper *s); /* not the session */
/* Tokens of n sequences, as in a step, through entry `entry` of the model, which takes what
 * "decode" takes. */
accel_status accel__model_stepper_run(accel__model_stepper *s, uint32_t entry,
                                      const accel__step_item *items, uint32_t n,
                                      const uint32_t *outputs, uint32_t n_outputs,
                                      accel__result *results);
/* A state of the model that cannot go back to fewer tokens; NULL: all can. */
const char *accel__fixed_state(const accel_endpoint *ep);
/* Whether rotations depend on the length of the whole sequence. */
bool accel__rotates_by_length(const accel_endpoint *ep);
/* Tokens that a sequence may have; 0: no limit. */
int64_t accel__context_length(const accel_endpoint *ep);

#endif
