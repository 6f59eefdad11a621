/* whisper_align.h - when each token was said: cross attention of the heads that follow the sound,
 * and the way through it (transformers' WhisperForConditionalGeneration._extract_token_timestamps).
 *
 * Attention of the tokens to the frames is normalised over the tokens, smoothed over the frames by
 * a median filter, averaged over the heads; dynamic time warping finds the way from the first token
 * in the first frame to the last token in the last one that meets most of it.  A token begins where
 * the way first meets it.
 */
#ifndef ACCEL_SPEECH_WHISPER_ALIGN_H
#define ACCEL_SPEECH_WHISPER_ALIGN_H

#include "modeling/model.h"
#include "generate/model_stepper.h"

/* out[i] = median of x[i - width/2 .. i + width/2], mirrored at the ends; NaN counts as the
 * highest.  width is odd; with no more than width/2 values all stay as they are.  work[width]. */
void accel__median_filter(const float *x, int64_t n, int64_t width, float *work, float *out);

/* first[r]: the column in which the cheapest monotonic way through cost[rows][columns] first meets
 * row r; -1 where it meets it before the first column, as ways through NaN do.  Sums are fp32.
 * ACCEL_ERROR_OUT_OF_MEMORY. */
accel_status accel__time_warp(const double *cost, int64_t rows, int64_t columns, int32_t *first);

/* ACCEL_ERROR_UNSUPPORTED for models without such heads, with the field and the remedy. */
accel_status accel__align_check(const accel_endpoint *ep);
/* Runs ids[n_prompt + n] of the decoder over the encoder's states of sequence `base`, and tells
 * when in the window its last n began: seconds[n + 1], the last one for the token that came after
 * them, which the model has not read. heard: frames of sound in the window, less than 0 where
 * padding alone was heard; INT64_MAX: not known, all count.  adapter: what the tokens are read with. */
accel_status accel__align(accel__model_stepper *stepper, int32_t base, const int32_t *ids,
                          uint32_t n_prompt, uint32_t n, int64_t heard,
                          const accel_plugin_adapter_use *adapter, float *seconds);

#endif
