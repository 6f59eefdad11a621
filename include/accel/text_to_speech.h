/**
 * @file text_to_speech.h
 * Speech from texts: VITS and MMS-TTS.
 *
 * Include accel/accel.h, which includes this file.  A text, a seed and settings give the samples
 * that transformers' VitsModel gives after torch.manual_seed(seed) on the CPU.
 */
#ifndef ACCEL_TEXT_TO_SPEECH_H
#define ACCEL_TEXT_TO_SPEECH_H

#include "accel/inference.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Who speaks, how fast, and by what chance. */
typedef struct accel_text_to_speech_params {
  /** sizeof(accel_text_to_speech_params). */
  uint32_t size;
  /** 1: texts are phonemes, as Python's phonemizer writes them, for models that read those
   *  (VitsTokenizer's `phonemize`); they are neither normalised nor filtered. */
  uint32_t phonemes;
  /** As torch.manual_seed(seed) before the first text; its low 32 bits count.  Texts draw one after
   *  the other. */
  uint64_t seed;
  /** Number of the speaker, below num_speakers; -1: none in particular, as speaker_id=None. */
  int32_t speaker;
  /** Above 1 faster; NaN: the model's own. */
  double speaking_rate;
  /** How much chance there is in the sound, from 0; NaN: the model's own. */
  double noise_scale;
  /** How much chance there is in durations, from 0; NaN: the model's own.  Models without stochastic
   *  durations leave it aside. */
  double noise_scale_duration;
  /** A text that would take more seconds is ACCEL_ERROR_LIMIT; 0: 3600. */
  double max_seconds;
} accel_text_to_speech_params;

/** The sound of one text. */
typedef struct accel_waveform {
  const float *samples; /**< [n] of one channel, full scale -1 .. 1 */
  uint64_t n;           /**< samples */
} accel_waveform;

/** Sounds in the order of the texts. */
typedef struct accel_waveforms {
  uint32_t n;                 /**< texts */
  uint32_t rate;              /**< samples a second */
  const accel_waveform *item; /**< [n] */
} accel_waveforms;

/** No speaker, the model's own rate and scales, seed 0. */
ACCEL_API accel_text_to_speech_params accel_text_to_speech_params_default(void);

/**
 * Speaks texts: pipeline text-to-speech.
 *
 * @param texts [n] UTF-8
 * @param params NULL: the defaults.
 * @param out freed with accel_waveforms_free().
 * @return ACCEL_ERROR_UNSUPPORTED: the model does not speak; it reads phonemes and these are none;
 *         it reads Roman letters (is_uroman) and a text has others.  ACCEL_ERROR_ARGUMENT: a text
 *         without a character that the model knows; a speaker that it has not; a rate that is not
 *         above 0 or a scale below 0.  ACCEL_ERROR_LIMIT: max_seconds.  ACCEL_ERROR_NONFINITE.
 */
ACCEL_API accel_status accel_text_to_speech(accel_endpoint *endpoint, const char *const *texts,
                                            uint32_t n, const accel_text_to_speech_params *params,
                                            accel_waveforms **out);

/** Frees a result and sets the pointer to NULL. */
ACCEL_API void accel_waveforms_free(accel_waveforms **waveforms);

#ifdef __cplusplus
}
#endif

#endif
