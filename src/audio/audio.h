/* audio.h - sound files to samples, and samples to what audio models take.
 *
 *   accel__sound sound;
 *   ACCEL_TRY(accel__sound_read("speech.wav", &sound));              mono, in the file's rate
 *   ACCEL_TRY(accel__resample(&sound, 16000));
 *   accel__audio_processor p;
 *   ACCEL_TRY(accel__audio_processor_load(directory, &p));
 *   accel__audio_features f;
 *   ACCEL_TRY(accel__audio_features_of(&p, &sound, 1, NULL, pool, &f));
 *
 * Each of the three has its ..._free.  WAV is read here; everything else (FLAC, Ogg, MP3, AIFF ...)
 * by libsndfile, which is loaded when it is first needed.
 */
#ifndef ACCEL_AUDIO_AUDIO_H
#define ACCEL_AUDIO_AUDIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"
#include "core/threads.h"

/* ---- samples ---- */

/* 18 hours at 16 kHz; files that say more are refused */
#define ACCEL__SOUND_MAX_FRAMES (UINT64_C(1) << 30)

typedef struct accel__sound {
  float *samples;  /* [frames], one channel, full scale -1 .. 1; malloc'd */
  uint64_t frames; /* samples in the sound; the frames of a spectrogram are something else */
  uint32_t rate;   /* per second */
} accel__sound;    /* {0} is empty */

/* Reads a sound file; channels are averaged.  ACCEL_ERROR_FORMAT names the file and what is
 * wrong with it: a size that its bytes do not bear out, a block alignment that does not fit, a
 * sample that is no number.  An empty data chunk is a sound of no frames.  The sizes that
 * programs write into a pipe (0 and 0x7FFFF000 or more) mean "to the end of the file". */
accel_status accel__sound_read(const char *path, accel__sound *out);
/* The same from memory; `name` stands for the file in messages.  Of compressed files nothing behind `most` seconds is decoded, and no more
 * memory is taken than so many seconds have at 48,000 samples each: ACCEL_ERROR_LIMIT; 0: any. */
accel_status accel__sound_parse(const void *bytes, size_t n, const char *name, double most,
                                accel__sound *out);
/* WAV alone: PCM of 8 to 32 bits, IEEE float of 32 and 64, A-law, mu-law; RIFF, RF64 and BW64;
 * WAVE_FORMAT_EXTENSIBLE. ACCEL_ERROR_UNSUPPORTED for another encoding, by its number. */
accel_status accel__wav_parse(const uint8_t *bytes, size_t n, const char *name, accel__sound *out);
/* Leaves {0}. */
void accel__sound_free(accel__sound *sound);

/* Replaces the samples by those of another rate (per second), unless it is theirs already.
 * ACCEL_ERROR_ARGUMENT when a rate is 0 or the result would be longer than
 * ACCEL__SOUND_MAX_FRAMES.  Band-limited interpolation by a Hann-windowed sinc of 6 zero
 * crossings, cut off at 0.99 of the lower Nyquist frequency: the kernel that
 * torchaudio.functional.resample uses by default, in double precision.  frames' = ceil(frames *
 * rate' / rate). */
accel_status accel__resample(accel__sound *sound, uint32_t rate);

/* ---- spectrograms (transformers' audio_utils.spectrogram) ---- */

typedef enum accel__mel_scale {
  ACCEL__MEL_HTK,
  ACCEL__MEL_KALDI,
  ACCEL__MEL_SLANEY
} accel__mel_scale;
typedef enum accel__mel_log { ACCEL__LOG_10, ACCEL__LOG_E, ACCEL__LOG_DB } accel__mel_log;

/* A mel filter bank as its triangles: filter m weighs the bins first[m] .. first[m] + count[m] -
 * 1. */
typedef struct accel__mel_bank {
  int32_t bins, mels;
  int32_t *first, *count, *at; /* [mels]; weights of m begin at weight[at[m]] */
  float *weight;
} accel__mel_bank;
/* Which filters: centres are evenly spaced on the scale from f_min to f_max. */
typedef struct accel__mel_options {
  int32_t bins, mels;  /* bins 0 .. rate/2 of the power spectrum, and filters */
  int32_t rate;        /* samples per second */
  double f_min, f_max; /* Hz */
  bool slaney_norm;    /* each filter has area 2 Hz instead of height 1 */
  bool in_mel;         /* straight sides on the mel axis (torchaudio's Kaldi), else on Hz */
  accel__mel_scale scale;
} accel__mel_options;
/* ACCEL_ERROR_ARGUMENT for numbers that make no filter bank.  To be freed. */
accel_status accel__mel_bank_new(const accel__mel_options *how, accel__mel_bank *out);
void accel__mel_bank_free(accel__mel_bank *bank);

typedef struct accel__spectrogram {
  /* samples of a frame, between frames, and of the transform (zeros after the frame) */
  int32_t frame, hop, fft;
  /* frames are centred on multiples of hop: frame/2 samples mirrored at both ends */
  bool center;
  bool symmetric;    /* Hann window of frame - 1 intervals instead of a periodic one */
  bool remove_dc;    /* each frame's mean is subtracted */
  float preemphasis; /* x[i] -= preemphasis * x[i-1] in each frame; 0 off */
  float floor;       /* smallest value before the logarithm */
  accel__mel_log log;
  const accel__mel_bank *bank;
} accel__spectrogram;
/* Frames of a signal of n samples; 0 when it is too short for one (or, centred, to be mirrored). */
int64_t accel__spectrogram_frames(const accel__spectrogram *s, uint64_t n);
/* The order of a spectrogram's values in memory. */
typedef enum accel__mel_order {
  ACCEL__MELS_FIRST,  /* [mels, frames], as Whisper takes it */
  ACCEL__FRAMES_FIRST /* [frames, mels] */
} accel__mel_order;
/* The first `count` frames of a signal of n samples into out[count * mels]:
 * log(max(floor, sum of a filter's weights times the power spectrum)).  Frames run on the pool
 * (NULL: on this thread).  ACCEL_ERROR_ARGUMENT when the signal has fewer frames or the sizes of s
 * do not go together. */
accel_status accel__spectrogram_run(const accel__spectrogram *s, const float *samples, uint64_t n,
                                    int64_t count, accel__mel_order order, accel__pool *pool,
                                    float *out);

/* ---- features: preprocessor_config.json ---- */

typedef enum accel__extractor {
  ACCEL__EXTRACT_WHISPER,  /* WhisperFeatureExtractor: log-mel [mels, frames] */
  ACCEL__EXTRACT_WAV2VEC2, /* Wav2Vec2FeatureExtractor: the samples, normalised */
  /* ClapFeatureExtractor: mel in dB [4 or 1, frames, mels] and is_longer */
  ACCEL__EXTRACT_CLAP,
  ACCEL__EXTRACT_AST /* ASTFeatureExtractor: Kaldi's filter bank [frames, mels] */
} accel__extractor;

typedef enum accel__clap_truncation {
  ACCEL__CLAP_FUSION,
  ACCEL__CLAP_RAND_TRUNC
} accel__clap_truncation;
typedef enum accel__clap_padding {
  ACCEL__CLAP_REPEATPAD,
  ACCEL__CLAP_REPEAT,
  ACCEL__CLAP_PAD
} accel__clap_padding;

typedef struct accel__audio_processor {
  accel__extractor kind;
  uint32_t rate;
  uint64_t max_samples; /* Whisper: chunk_length seconds, CLAP: max_length_s seconds; 0: no limit */
  int64_t max_frames;   /* AST: max_length */
  bool do_normalize, attention_mask, pads_left;
  float padding_value, mean, std;
  accel__clap_truncation truncation;
  accel__clap_padding padding;
  accel__spectrogram spectrogram; /* bank: &bank */
  accel__mel_bank bank;
} accel__audio_processor;
/* Reads preprocessor_config.json (or "feature_extractor" of processor_config.json) in `directory`.
 * ACCEL_ERROR_FORMAT names file and field; a feature_extractor_type that is not one of the above is
 * ACCEL_ERROR_UNSUPPORTED by name. */
accel_status accel__audio_processor_load(const char *directory, accel__audio_processor *out);
/* Leaves {0}. */
void accel__audio_processor_free(accel__audio_processor *p);

typedef struct accel__audio_options {
  /* Whisper: pad to the longest sound and cut nothing, instead of padding and cutting to
   * max_samples */
  bool longest;
  uint64_t seed; /* CLAP: where long sounds are cut */
} accel__audio_options;

/* The tensors of one call; all arrays are row-major and owned. */
typedef struct accel__audio_features {
  const char *name; /* "input_features" or "input_values" */
  float *values;    /* row-major */
  int64_t dim[4];   /* [rank]; dim[0] is the number of sounds */
  uint32_t rank;
  int32_t *mask; /* attention_mask [sounds, mask_length], NULL where the extractor gives none */
  int64_t mask_length;
  uint8_t *is_longer; /* CLAP: [sounds, 1] */
} accel__audio_features;
/* The features of n sounds, which are left as they are.  options NULL: the extractor's defaults.
 * ACCEL_ERROR_ARGUMENT: no sound, one in another rate than the processor's, or one too short for
 * the extractor; the message has its number.  *out is to be freed; on failure it is {0}. */
accel_status accel__audio_features_of(const accel__audio_processor *p, const accel__sound *sounds,
                                      uint32_t n, const accel__audio_options *options,
                                      accel__pool *pool, accel__audio_features *out);
/* Leaves {0}. */
void accel__audio_features_free(accel__audio_features *f);

#endif
