/* features.c - what the four feature extractors make of sounds. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "audio/audio.h"
#include "audio/audio_kernels.h"
#include "core/block_cache.h"

typedef accel__audio_processor processor;
typedef accel__audio_features features;

static accel_status make_values(features *f, const char *name, uint32_t rank, int64_t a, int64_t b,
                                int64_t c, int64_t d) {
  f->name = name;
  f->rank = rank;
  const int64_t dim[4] = {a, b, c, d};
  uint64_t n = sizeof *f->values;
  for (uint32_t i = 0; i < rank; i++) {
    f->dim[i] = dim[i];
    if (__builtin_mul_overflow(n, (uint64_t)dim[i], &n)) return accel__no_memory(SIZE_MAX);
  }
  f->values = accel__block_alloc(n);
  return f->values ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

static accel_status make_mask(features *f, uint32_t sounds, int64_t length) {
  f->mask_length = length;
  f->mask = calloc((size_t)sounds * (size_t)length + 1, sizeof *f->mask);
  return f->mask ? ACCEL_OK : accel__no_memory((size_t)sounds * (size_t)length * sizeof *f->mask);
}

static uint64_t longest_of(const accel__sound *sounds, uint32_t n) {
  uint64_t longest = 0;
  for (uint32_t i = 0; i < n; i++)
    if (sounds[i].frames > longest) longest = sounds[i].frames;
  return longest;
}

/* A sound filled up to x[length], on the side that the processor pads. */
static void pad(const processor *p, const accel__sound *sound, uint64_t length, float *x) {
  const uint64_t n = sound->frames, before = p->pads_left ? length - n : 0;
  memcpy(x + before, sound->samples, n * sizeof *x);
  for (uint64_t i = 0; i < length - n; i++) x[p->pads_left ? i : n + i] = p->padding_value;
}

/* Is sample `i` of such a row the sound's? */
static bool is_sound(const processor *p, const accel__sound *sound, uint64_t length, uint64_t i) {
  return p->pads_left ? i + sound->frames >= length : i < sound->frames;
}

/* ---- Whisper ---- */

/* Whisper's log10 mel spectrogram [mels, frames] of one sound: values below the maximum - 8 are
 * raised to it, then (x + 4) / 4. */
static accel_status whisper_one(const processor *p, const accel__sound *sound, uint64_t length,
                                int64_t frames, accel__pool *pool, float *x) {
  const accel__audio_kernels *k = accel__audio_kernels_of(accel__isa_choose());
  const int64_t n = p->bank.mels * frames;
  float *own = NULL;
  if (sound->frames < length) {
    own = accel__block_alloc(length * sizeof *own);
    if (!own) return ACCEL_ERROR_OUT_OF_MEMORY;
    pad(p, sound, length, own);
  }
  accel_status status = accel__spectrogram_run(&p->spectrogram, own ? own : sound->samples, length,
                                               frames, ACCEL__MELS_FIRST, pool, x);
  accel__block_free(own);
  if (status == ACCEL_OK) k->whisper_levels(x, n, k->maximum(x, n) - 8.0f);
  return status;
}

static accel_status whisper(const processor *p, const accel__sound *sounds, uint32_t n,
                            const accel__audio_options *how, accel__pool *pool, features *out) {
  const accel__spectrogram *s = &p->spectrogram;
  const uint64_t length = how->longest ? longest_of(sounds, n) : p->max_samples;
  const int64_t frames = accel__spectrogram_frames(s, length) - 1; /* the last one is dropped */
  const int64_t marks = (int64_t)length / s->hop;                  /* one more where n_fft is odd */
  if (frames < 1)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "a sound of %llu samples is too short; %d are needed",
                       (unsigned long long)length, s->frame / 2 + s->hop);
  ACCEL_TRY(make_values(out, "input_features", 3, n, p->bank.mels, frames, 0));
  if (p->attention_mask) ACCEL_TRY(make_mask(out, n, marks));
  for (uint32_t i = 0; i < n; i++) {
    ACCEL_TRY(whisper_one(p, &sounds[i], length, frames, pool,
                          out->values + (int64_t)i * p->bank.mels * frames));
    for (int64_t f = 0; out->mask && f < marks; f++)
      out->mask[i * marks + f] = is_sound(p, &sounds[i], length, (uint64_t)(f * s->hop));
  }
  return ACCEL_OK;
}

/* ---- Wav2Vec2 ---- */

/* Zero mean and unit variance over n samples. */
static void normalise(const float *from, uint64_t n, float *x) {
  const accel__audio_kernels *k = accel__audio_kernels_of(accel__isa_choose());
  const float mean = (float)(k->sum(from, n) / (double)n);
  const float scale = (float)(1.0 / sqrt(k->sum_squares(from, n, mean) / (double)n + 1e-7));
  k->normalise(from, n, mean, scale, x);
}

static accel_status wav2vec2(const processor *p, const accel__sound *sounds, uint32_t n,
                             features *out) {
  const uint64_t length = longest_of(sounds, n);
  ACCEL_TRY(make_values(out, "input_values", 2, n, (int64_t)length, 0, 0));
  if (p->attention_mask) ACCEL_TRY(make_mask(out, n, (int64_t)length));
  for (uint32_t i = 0; i < n; i++) {
    const uint64_t own = sounds[i].frames;
    float *x = out->values + (uint64_t)i * length;
    if (!own) return accel__fail(ACCEL_ERROR_ARGUMENT, "sound %u has no samples", i);
    pad(p, &sounds[i], length, x);
    for (uint64_t k = 0; out->mask && k < length; k++)
      out->mask[(uint64_t)i * length + k] = is_sound(p, &sounds[i], length, k);
    if (!p->do_normalize) continue;
    /* As transformers' extractor does: over the padding, too, where there is no mask; with one, over
     * as many values at the beginning as the sound has, wherever it is, and none is left behind. */
    normalise(x, out->mask ? own : length, x);
    for (uint64_t k = own; out->mask && k < length; k++) x[k] = p->padding_value;
  }
  return ACCEL_OK;
}

/* ---- AST ---- */

static accel_status ast(const processor *p, const accel__sound *sounds, uint32_t n,
                        accel__pool *pool, features *out) {
  const int64_t mels = p->bank.mels, length = p->max_frames;
  ACCEL_TRY(make_values(out, "input_values", 3, n, length, mels, 0));
  for (uint32_t i = 0; i < n; i++) {
    float *x = out->values + (int64_t)i * length * mels;
    int64_t frames = accel__spectrogram_frames(&p->spectrogram, sounds[i].frames);
    if (frames < 1)
      return accel__fail(ACCEL_ERROR_ARGUMENT,
                         "sound %u has %llu samples; %d are needed for one frame", i,
                         (unsigned long long)sounds[i].frames, p->spectrogram.frame);
    if (frames > length) frames = length;
    ACCEL_TRY(accel__spectrogram_run(&p->spectrogram, sounds[i].samples, sounds[i].frames, frames,
                                     ACCEL__FRAMES_FIRST, pool, x));
    memset(x + frames * mels, 0, (size_t)((length - frames) * mels) * sizeof *x);
    for (int64_t k = 0; p->do_normalize && k < length * mels; k++)
      x[k] = (x[k] - p->mean) / (p->std * 2.0f);
  }
  return ACCEL_OK;
}

/* ---- CLAP ---- */

/* splitmix64 (Steele, Lea, Flood 2014): a number below `below`. */
static uint64_t draw(uint64_t *state, uint64_t below) {
  uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
  z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
  return (z ^ z >> 31) % below;
}

/* A short sound repeated or padded with zeros to max_samples, as p->padding says. */
static float *clap_fill(const processor *p, const accel__sound *s) {
  const uint64_t length = p->max_samples, times = length / s->frames;
  uint64_t copies = p->padding == ACCEL__CLAP_REPEAT      ? times + 1
                    : p->padding == ACCEL__CLAP_REPEATPAD ? times
                                                          : 1;
  float *out = calloc(length + 1, sizeof *out);
  for (uint64_t c = 0, at = 0; out && c < copies && at < length; c++, at += s->frames)
    memcpy(out + at, s->samples, (s->frames < length - at ? s->frames : length - at) * sizeof *out);
  return out;
}

/* The whole of mel[total, mels] squeezed to `frames` by linear interpolation between frame
 * centres. */
static void shrink(const float *mel, int64_t total, int64_t frames, int64_t mels, float *out) {
  for (int64_t f = 0; f < frames; f++) {
    float at = ((float)f + 0.5f) * ((float)total / (float)frames) - 0.5f;
    at = at < 0.0f ? 0.0f : at;
    const int64_t low = (int64_t)at, high = low + 1 < total ? low + 1 : total - 1;
    const float part = at - (float)low;
    for (int64_t m = 0; m < mels; m++)
      out[f * mels + m] = (1.0f - part) * mel[low * mels + m] + part * mel[high * mels + m];
  }
}

/* Channel 0: the whole, resampled to `frames`.  Channels 1 to 3: crops of `frames` frames, whose
 * starts are drawn from the first, middle and last third of all starts (split as numpy's
 * array_split does). */
static void fuse(const float *mel, int64_t total, int64_t frames, int64_t mels, uint64_t *random,
                 float *out) {
  const int64_t starts = total - frames + 1;
  shrink(mel, total, frames, mels, out);
  for (int64_t third = 0, begin = 0; third < 3; third++) {
    const int64_t count = starts / 3 + (third < starts % 3);
    const int64_t from = count ? begin + (int64_t)draw(random, (uint64_t)count) : 0;
    memcpy(out + (third + 1) * frames * mels, mel + from * mels,
           (size_t)(frames * mels) * sizeof *out);
    begin += count;
  }
}

static accel_status clap_one(const processor *p, const accel__sound *s, int64_t frames,
                             accel__pool *pool, uint64_t *random, float *out, uint8_t *is_longer) {
  const int64_t mels = p->bank.mels, size = frames * mels;
  const bool fusion = p->truncation == ACCEL__CLAP_FUSION;
  *is_longer = 0;
  if (fusion && s->frames > p->max_samples) {
    const int64_t total = accel__spectrogram_frames(&p->spectrogram, s->frames);
    if (total != frames) {
      float *mel = malloc((size_t)(total * mels) * sizeof *mel);
      if (!mel) return accel__no_memory((size_t)(total * mels) * sizeof *mel);
      accel_status status = accel__spectrogram_run(&p->spectrogram, s->samples, s->frames, total,
                                                   ACCEL__FRAMES_FIRST, pool, mel);
      if (status == ACCEL_OK) fuse(mel, total, frames, mels, random, out);
      free(mel);
      *is_longer = 1;
      return status;
    }
    ACCEL_TRY(accel__spectrogram_run(&p->spectrogram, s->samples, s->frames, frames,
                                     ACCEL__FRAMES_FIRST, pool, out));
  } else if (s->frames > p->max_samples) {
    const uint64_t from = draw(random, s->frames - p->max_samples + 1);
    *is_longer = 1;
    return accel__spectrogram_run(&p->spectrogram, s->samples + from, p->max_samples, frames,
                                  ACCEL__FRAMES_FIRST, pool, out);
  } else {
    float *filled = clap_fill(p, s);
    if (!filled) return accel__no_memory(p->max_samples * sizeof *filled);
    accel_status status = accel__spectrogram_run(&p->spectrogram, filled, p->max_samples, frames,
                                                 ACCEL__FRAMES_FIRST, pool, out);
    free(filled);
    ACCEL_TRY(status);
  }
  for (int copy = 1; fusion && copy < 4; copy++)
    memcpy(out + copy * size, out, (size_t)size * sizeof *out);
  return ACCEL_OK;
}

static accel_status clap(const processor *p, const accel__sound *sounds, uint32_t n,
                         const accel__audio_options *how, accel__pool *pool, features *out) {
  const int64_t frames = accel__spectrogram_frames(&p->spectrogram, p->max_samples),
                mels = p->bank.mels;
  const bool fusion = p->truncation == ACCEL__CLAP_FUSION;
  uint64_t random = how->seed;
  bool longer = false;
  ACCEL_TRY(make_values(out, "input_features", 4, n, fusion ? 4 : 1, frames, mels));
  out->is_longer = calloc(n, 1);
  if (!out->is_longer) return accel__no_memory(n);
  for (uint32_t i = 0; i < n; i++) {
    if (!sounds[i].frames) return accel__fail(ACCEL_ERROR_ARGUMENT, "sound %u has no samples", i);
    ACCEL_TRY(clap_one(p, &sounds[i], frames, pool, &random,
                       out->values + (int64_t)i * (fusion ? 4 : 1) * frames * mels,
                       &out->is_longer[i]));
    longer |= out->is_longer[i];
  }
  /* as ClapFeatureExtractor: when no sound is longer, one drawn at random is marked so */
  if (fusion && !longer) out->is_longer[draw(&random, n)] = 1;
  return ACCEL_OK;
}

/* ---- any ---- */

accel_status accel__audio_features_of(const processor *p, const accel__sound *sounds, uint32_t n,
                                      const accel__audio_options *options, accel__pool *pool,
                                      features *out) {
  const accel__audio_options how = options ? *options : (accel__audio_options){0};
  *out = (features){0};
  if (!n) return accel__fail(ACCEL_ERROR_ARGUMENT, "no sounds are given");
  for (uint32_t i = 0; i < n; i++)
    if (sounds[i].rate != p->rate)
      return accel__fail(ACCEL_ERROR_ARGUMENT,
                         "sound %u has %u samples per second, the model takes %u", i,
                         sounds[i].rate, p->rate);
  accel_status status = ACCEL_ERROR_INTERNAL;
  switch (p->kind) {
    case ACCEL__EXTRACT_WHISPER:
      status = whisper(p, sounds, n, &how, pool, out);
      break;
    case ACCEL__EXTRACT_WAV2VEC2:
      status = wav2vec2(p, sounds, n, out);
      break;
    case ACCEL__EXTRACT_CLAP:
      status = clap(p, sounds, n, &how, pool, out);
      break;
    case ACCEL__EXTRACT_AST:
      status = ast(p, sounds, n, pool, out);
      break;
  }
  if (status != ACCEL_OK) accel__audio_features_free(out);
  return status;
}

void accel__audio_features_free(features *f) {
  accel__block_free(f->values);
  free(f->mask);
  free(f->is_longer);
  *f = (features){0};
}
