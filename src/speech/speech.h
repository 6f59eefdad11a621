/* speech.h - sounds to text: what the ways of the pipeline automatic-speech-recognition share
 * (speech.c: heads that label frames, CTC; speech_whisper.c: Whisper, which generates from
 * spectrograms of 30 seconds; speech_generate.c: Moonshine, which generates from samples).
 */
#ifndef ACCEL_SPEECH_SPEECH_H
#define ACCEL_SPEECH_SPEECH_H

#include "processing/media.h"

/* A part of a sound that runs as one: all of it, or one of its overlapping windows (transformers'
 * chunk_iter). */
typedef struct accel__window {
  uint32_t sound;
  uint64_t from, n;     /* samples */
  uint64_t left, right; /* of them, those that the neighbours have, too */
} accel__window;

/* Sounds on their way to text. */
typedef struct accel__speech {
  accel_endpoint *ep;
  const accel_transcribe_params *params;
  accel__audio_processor processor;
  accel__sound *sound; /* [n] at the model's rate */
  uint32_t n;
  accel__window *window; /* [n_windows] sound by sound */
  uint32_t n_windows;
  accel__arena *arena; /* of the result */
  /* the result, [n] each */
  const char **text, **language;
  uint32_t *n_chunks, *n_segments, *n_ids;
  const accel_chunk **chunk;
  const accel_speech_segment **segment;
  const int32_t **ids;
  double *seconds;
  uint32_t *told; /* [n] segments that params->on_segment was told */
} accel__speech;

/* The tensors of a window, as the extractor makes them of a sound. */
accel_status accel__window_tensors(const accel__speech *s, const accel__window *w,
                                   const accel__audio_options *options, accel_tensors **out);
accel_status accel__speech_by_ctc(accel__speech *s);
accel_status accel__speech_by_whisper(accel__speech *s);
accel_status accel__speech_by_generation(accel__speech *s);
/* Does the model generate a text from the samples of a whole sound? */
bool accel__hears_whole(const accel_endpoint *ep);

/* Behind the public functions of the same names (the public headers say what they do); arguments
 * are already checked. */
accel_status accel__transcribe(accel_endpoint *ep, const accel_media *sounds, uint32_t n,
                               const accel_transcribe_params *params, accel_transcripts **out);

#endif
