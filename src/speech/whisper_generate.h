/* whisper_generate.h - Whisper's generate: features of sounds to tokens, 30 seconds at a time
 * (transformers' WhisperForConditionalGeneration.generate with a batch of one sound: a sound's
 * result does not depend on its company).
 *
 * A sound of more frames than the encoder takes is gone through from end of segment to end of
 * segment, as its timestamps say.  Where a piece looks bad (compression_ratio, logprob) it is
 * generated again at the next temperature; where it looks bad and silent (no_speech) it is left
 * out.  Sounds run side by side in one engine, each at its own pace. */
#ifndef ACCEL_SPEECH_WHISPER_GENERATE_H
#define ACCEL_SPEECH_WHISPER_GENERATE_H

#include "generate/generation.h"
#include "speech/whisper_config.h"

typedef struct accel__whisper_segment {
  double start, end;  /* seconds */
  accel__ids ids;     /* timestamps included, end of text not */
  const float *times; /* [ids.n] when each begins, seconds of the sound; NULL: not asked for */
  /* of the run it is from; NAN: nobody asked */
  double temperature, logprob, compression_ratio, no_speech;
  float score; /* of beam search */
  bool ended;  /* that run came to its end of text */
} accel__whisper_segment;
typedef accel_status (*accel__whisper_segment_fn)(void *user, uint32_t sound, uint32_t index,
                                                  const accel__whisper_segment *segment);

typedef struct accel__whisper_options {
  const char *language, *task; /* NULL: as the model's files say, else detected */
  /* 1 yes, 0 no, -1: as the model's files say; longer sounds have them always */
  int32_t timestamps;
  accel__ids prompt; /* in front of the first tokens: <|startofprev|> and a text */
  /* with conditioning: in front of every segment's past, not as the beginning of the past */
  bool prompt_always;
  /* on what was said before: 1 yes, 0 no, -1: as the model's files say */
  int32_t condition;
  double compression_ratio, logprob, no_speech; /* thresholds; NAN: as the model's files say */
  const double *temperature;                    /* [n_temperature] tried in turn; none: 0 alone */
  uint32_t n_temperature;
  uint32_t together; /* sounds at a time; 0: 8 */
  bool token_times;  /* accel__whisper_segment.times are wanted (whisper_align.h) */
  accel_token_fn
      on_token; /* of each token as it is chosen, prompt: the sound's number; NULL: nobody */
  void *on_token_user;
  /* of each segment as it is final: number `index` of the sound; NULL: nobody */
  accel__whisper_segment_fn on_segment;
  void *on_segment_user;
} accel__whisper_options;

/* Log-mel features [mels, width], row-major, malloc'd, of which `frames` count.  Short sounds come
 * padded to the encoder's length, and all of it counts. */
typedef struct accel__whisper_features {
  float *values;
  int64_t width, frames;
  int64_t heard; /* frames that are no padding, for times of tokens; INT64_MAX: not known */
} accel__whisper_features;
typedef accel_status (*accel__whisper_load)(void *user, uint32_t sound,
                                            accel__whisper_features *out);

typedef struct accel__whisper_transcript {
  const accel__whisper_segment *segment;
  uint32_t n;
  accel__ids ids;       /* of all segments */
  const float *times;   /* [ids.n] of all segments; NULL: not asked for */
  accel__ids begin;     /* the first tokens, after the prompt */
  const char *language; /* code; NULL: the model knows none */
} accel__whisper_transcript;

/* What accel__whisper_run needs of the model: configuration and first tokens, checked. Free with
 * accel__whisper_plan_free, after a failure, too. */
typedef struct accel__whisper_plan {
  accel__generate_plan generate;
  accel__whisper_config config;
  accel__whisper_options options; /* what was left open is filled in */
  accel__ids begin[2];            /* without timestamps, and with them */
  int32_t detect[2];              /* where the language is to be detected in them; -1: nowhere */
  int64_t mels, frames;           /* the encoder's input */
  int64_t positions;              /* of the decoder */
} accel__whisper_plan;
bool accel__is_whisper(const accel_endpoint *ep);
accel_status accel__whisper_plan_make(const accel_endpoint *ep, const accel_generate_params *params,
                                      const accel__whisper_options *options,
                                      accel__whisper_plan *plan);
void accel__whisper_plan_free(accel__whisper_plan *plan);

/* Transcribes n sounds; `load` is called when a sound's turn comes.  out[n] is arena memory. */
accel_status accel__whisper_run(accel_endpoint *ep, const accel__whisper_plan *plan,
                                accel__whisper_load load, void *user, uint32_t n,
                                accel__arena *arena, accel__whisper_transcript *out);

#endif
