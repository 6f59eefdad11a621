/* verify.h - golden files, between the files that run them. */
#ifndef ACCEL_VERIFY_VERIFY_H
#define ACCEL_VERIFY_VERIFY_H

#include "dispatch/endpoint.h"

typedef struct accel__golden {
  const char *path;
  accel__checkpoint *file;
  accel_tensors inputs;
  const char **names;                /* [n] output fields */
  const accel__tensor_info **wanted; /* [n] */
  uint32_t n;
  bool generates; /* mode "generate" */
  bool speaks;    /* mode "speech" */
} accel__golden;

/* Mode "generate": transformers' generate() on the golden's inputs, greedy unless its arguments say
 * otherwise.  *out gets "sequences" [rows, width] int64 in transformers' layout and
 * "sequences_scores" [rows] (beam search). */
accel_status accel__verify_generate(accel_endpoint *ep, const accel__golden *g,
                                    accel_tensors **out);
/* The same for Whisper, whose generate takes more arguments and gives back sequences without their
 * first tokens (with them under return_dict_in_generate: where the golden's begin with
 * decoder_start_token_id). */
accel_status accel__verify_whisper(accel_endpoint *ep, const accel__golden *g, accel_tensors **out);
/* Mode "speech": VitsModel's forward after torch.manual_seed, whose arguments are `args`.  *out gets the
 * golden's outputs in order: waveform, sequence_lengths, spectrogram, log_duration, duration.  The
 * golden's own durations are taken at other precisions than fp32, where rounding would make sounds of
 * other lengths. */
accel_status accel__verify_speech(accel_endpoint *ep, const accel__golden *g, accel_tensors **out);
/* One JSON object of all arguments of generate; what only says what is returned is left out. */
accel_status accel__verify_arguments(const accel__golden *g, accel__buffer *out);
/* Sequences must be the same at fp32; elsewhere the agreeing prefix is reported (to->note). */
accel_status accel__verify_sequences(const accel__golden *g, const accel__tensor_info *want,
                                     const accel_tensor *got, const char *precision,
                                     accel__arena *arena, accel_verify_output *to);

/* Behind the public functions of the same names (the public headers say what they do); arguments
 * are already checked. */
accel_status accel__verify(accel *ctx, const char *model, const accel_init_params *how,
                           const char *golden, accel_verify_report **out);
void accel__verify_report_free(accel_verify_report *report); /* may be NULL */

#endif
