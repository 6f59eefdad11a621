/* speak.h - texts to sounds by models that speak (VITS): durations and frames are drawn between the
 * two entries of their program, as transformers' VitsModel.forward does it. */
#ifndef ACCEL_SPEECH_SPEAK_H
#define ACCEL_SPEECH_SPEAK_H

#include "accel/text_to_speech.h"
#include "diffusion/randn.h"
#include "dispatch/endpoint.h"

/* Texts that are spoken together, padded to the longest. */
typedef struct accel__speak_batch {
  int64_t rows, width;
  const int32_t *ids; /* [rows, width] */
  const float *mask;  /* [rows, width] 1 of tokens, 0 of padding; NULL: there is none */
  /* [rows, width] frames of each token, instead of those that the model predicts; NULL: those */
  const float *durations;
} accel__speak_batch;

/* malloc'd; freed with accel__spoken_free. */
typedef struct accel__spoken {
  int64_t frames, samples;   /* of the longest row */
  int64_t *row_frames;       /* [rows] */
  float *log_durations;      /* [rows, width] as predicted */
  float *durations;          /* [rows, width] frames */
  accel__result waveform;    /* [rows, samples] */
  accel__result spectrogram; /* [rows, width of a frame, frames]; only when asked for */
} accel__spoken;

/* params are complete and checked; g is drawn from as torch's default generator is. */
accel_status accel__speak(accel_endpoint *ep, const accel_text_to_speech_params *params,
                          const accel__speak_batch *batch, bool want_spectrogram,
                          accel__generator *g, accel__spoken *out);
void accel__spoken_free(accel__spoken *s);
/* Fills what is left open by the model's own values; refuses what it cannot be. */
accel_status accel__speak_params(const accel_endpoint *ep, accel_text_to_speech_params *params);

/* Behind the public function of the same name; arguments are already checked. */
accel_status accel__text_to_speech(accel_endpoint *ep, const char *const *texts, uint32_t n,
                                   const accel_text_to_speech_params *params,
                                   accel_waveforms **out);

#endif
