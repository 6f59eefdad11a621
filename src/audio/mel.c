/* mel.c - mel filter banks and log-mel spectrograms. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "audio/audio.h"
#include "audio/audio_kernels.h"
#include "audio/fft.h"

/* ---- the mel scale: O'Shaughnessy's (HTK, Kaldi), and Slaney's, straight up to 1 kHz ---- */

static double to_mel(double hz, accel__mel_scale scale) {
  if (scale == ACCEL__MEL_HTK) return 2595.0 * log10(1.0 + hz / 700.0);
  if (scale == ACCEL__MEL_KALDI) return 1127.0 * log(1.0 + hz / 700.0);
  return hz < 1000.0 ? 3.0 * hz / 200.0 : 15.0 + log(hz / 1000.0) * (27.0 / log(6.4));
}

static double to_hz(double mel, accel__mel_scale scale) {
  if (scale == ACCEL__MEL_HTK) return 700.0 * (pow(10.0, mel / 2595.0) - 1.0);
  if (scale == ACCEL__MEL_KALDI) return 700.0 * (exp(mel / 1127.0) - 1.0);
  return mel < 15.0 ? 200.0 * mel / 3.0 : 1000.0 * exp(log(6.4) / 27.0 * (mel - 15.0));
}

/* Height at x of the triangle over left, middle, right. */
static double triangle(double x, double left, double middle, double right) {
  const double up = (x - left) / (middle - left), down = (right - x) / (right - middle),
               least = up < down ? up : down;
  return least > 0.0 ? least : 0.0;
}

accel_status accel__mel_bank_new(const accel__mel_options *how, accel__mel_bank *out) {
  const int32_t bins = how->bins, mels = how->mels, rate = how->rate;
  const double f_min = how->f_min, f_max = how->f_max;
  *out = (accel__mel_bank){.bins = bins, .mels = mels};
  if (bins < 2 || mels < 1 || mels > 4096 || !(f_min >= 0.0) || !(f_max >= f_min) || rate < 2)
    return accel__fail(
        ACCEL_ERROR_ARGUMENT,
        "a mel filter bank of %d filters over %d bins from %g to %g Hz at %d Hz makes no sense",
        mels, bins, f_min, f_max, rate);
  out->first = calloc(3 * (size_t)mels, sizeof *out->first);
  out->weight = malloc((size_t)bins * (size_t)mels * sizeof *out->weight);
  if (!out->first || !out->weight) {
    accel__mel_bank_free(out);
    return accel__no_memory((size_t)bins * (size_t)mels * sizeof *out->weight);
  }
  out->count = out->first + mels;
  out->at = out->count + mels;
  const double low = to_mel(f_min, how->scale), high = to_mel(f_max, how->scale);
  for (int32_t m = 0, used = 0; m < mels; m++) {
    double edge[3], hz[3];
    for (int e = 0; e < 3; e++) {
      edge[e] = low + (high - low) * (m + e) / (mels + 1);
      hz[e] = to_hz(edge[e], how->scale);
    }
    out->at[m] = used;
    for (int32_t b = 0; b < bins; b++) {
      const double f = how->in_mel ? to_mel((double)rate / (2.0 * (bins - 1)) * b, how->scale)
                                   : (double)(rate / 2) * b / (bins - 1);
      const double *side = how->in_mel ? edge : hz;
      const double weight =
          triangle(f, side[0], side[1], side[2]) * (how->slaney_norm ? 2.0 / (hz[2] - hz[0]) : 1.0);
      if (weight == 0.0 && !out->count[m]) continue;
      if (weight == 0.0) break;
      if (!out->count[m]++) out->first[m] = b;
      out->weight[used++] = (float)weight;
    }
  }
  return ACCEL_OK;
}

void accel__mel_bank_free(accel__mel_bank *bank) {
  free(bank->first);
  free(bank->weight);
  *bank = (accel__mel_bank){0};
}

/* ---- spectrograms ---- */

typedef struct run {
  const accel__spectrogram *s;
  const float *samples;
  uint64_t n;
  int64_t count, frame_stride, mel_stride;
  float *out;
  const double *window; /* [frame] */
  accel__fft fft;
  accel__fft_workspace *work; /* one for each worker */
  double *power;              /* [workers][bins][2 lanes] */
  const accel__audio_kernels *kernels;
  int32_t lanes; /* the kernels' */
} run;

int64_t accel__spectrogram_frames(const accel__spectrogram *s, uint64_t n) {
  const uint64_t half = (uint64_t)(s->frame / 2);
  if (s->center) {
    if (n <= half) return 0; /* a mirror shows each sample but the first once */
    n += 2 * half;
  }
  return n < (uint64_t)s->frame ? 0 : (int64_t)(1 + (n - (uint64_t)s->frame) / (uint64_t)s->hop);
}

/* Sample i of the signal, mirrored at its ends. */
static double mirrored_sample(const run *r, int64_t i) {
  if (i < 0) i = -i;
  if (i >= (int64_t)r->n) i = 2 * ((int64_t)r->n - 1) - i;
  return r->samples[i];
}

/* Where frame `index` begins; below 0 where it is mirrored. */
static int64_t begin_of(const run *r, int64_t index) {
  return index * r->s->hop - (r->s->center ? r->s->frame / 2 : 0);
}

/* The first `have` of `lanes` frames from `index` on into the lanes of x, ready for the transform;
 * others are zeros. */
static void take_frames(const run *r, int64_t index, int64_t have, double *x) {
  const accel__spectrogram *s = r->s;
  const int64_t begin = begin_of(r, index), lanes = r->lanes;
  if (have >= lanes && begin >= 0 && begin + (lanes - 1) * s->hop + s->frame <= (int64_t)r->n) {
    r->kernels->gather_frames(r->samples + begin, s->hop, s->frame, x);
  } else {
    for (int64_t i = 0; i < s->frame; i++)
      for (int64_t lane = 0; lane < lanes; lane++)
        x[i * lanes + lane] = lane < have ? mirrored_sample(r, begin + lane * s->hop + i) : 0.0;
  }
  memset(x + s->frame * lanes, 0, (size_t)((s->fft - s->frame) * lanes) * sizeof *x);
  r->kernels->window_frames(s, r->window, x);
}

/* Nothing but zeros in any of the frames of a task, or near them. */
static bool is_silent(const run *r, int64_t index) {
  int64_t at = begin_of(r, index) - r->s->frame,
          end = begin_of(r, index + 2 * r->lanes) + 2 * r->s->frame;
  if (at < 0) at = 0;
  if (end > (int64_t)r->n) end = (int64_t)r->n;
  while (at < end && r->samples[at] == 0.0f) at++;
  return at >= end;
}

/* Twice `lanes` frames. */
static void spectrogram_task(void *arg, uint32_t index, uint32_t worker) {
  const run *r = arg;
  const accel__mel_bank *bank = r->s->bank;
  const int64_t lanes = r->lanes, begin = (int64_t)index * 2 * lanes;
  const int64_t frames = r->count - begin < 2 * lanes ? r->count - begin : 2 * lanes;
  accel__fft_workspace *work = &r->work[worker];
  double *power = r->power + (int64_t)worker * bank->bins * 2 * lanes;
  const bool sound = !is_silent(r, begin);
  const double least = (double)r->s->floor,
               times = r->s->log == ACCEL__LOG_E
                           ? 1.0
                           : (r->s->log == ACCEL__LOG_DB ? 10.0 : 1.0) / log(10.0);
  if (sound) {
    take_frames(r, begin, frames, work->re[0]);
    take_frames(r, begin + lanes, frames - lanes, work->im[0]);
    r->kernels->fft_power(&r->fft, work, power);
  }
  for (int32_t m = 0; m < bank->mels; m++) {
    float *to = r->out + begin * r->frame_stride + m * r->mel_stride,
          y[ACCEL__FFT_MAX_FRAMES] = {0};
    r->kernels->mel_energies(bank->weight + bank->at[m], sound ? bank->count[m] : 0,
                             power + bank->first[m] * 2 * lanes, least, times, y);
    for (int64_t f = 0; f < frames; f++) to[f * r->frame_stride] = y[f];
  }
}

static double *hann(int32_t n, bool symmetric) {
  const double pi = 3.14159265358979323846;
  double *w = malloc((size_t)n * sizeof *w);
  for (int32_t i = 0; w && i < n; i++)
    w[i] = n == 1 ? 1.0 : 0.5 - 0.5 * cos(2.0 * pi * i / (symmetric ? n - 1 : n));
  return w;
}

accel_status accel__spectrogram_run(const accel__spectrogram *s, const float *samples, uint64_t n,
                                    int64_t count, accel__mel_order order, accel__pool *pool,
                                    float *out) {
  const uint32_t workers = pool ? accel__pool_size(pool) : 1;
  if (s->frame < 1 || s->hop < 1 || s->fft < s->frame || s->bank->bins != s->fft / 2 + 1)
    return accel__fail(
        ACCEL_ERROR_ARGUMENT,
        "frames of %d samples every %d, a transform of %d and %d bins do not go together", s->frame,
        s->hop, s->fft, s->bank->bins);
  if (count < 0 || count > accel__spectrogram_frames(s, n))
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%lld frames are wanted of %lld", (long long)count,
                       (long long)accel__spectrogram_frames(s, n));
  const accel__audio_kernels *kernels = accel__audio_kernels_of(accel__isa_choose());
  run r = {.s = s,
           .samples = samples,
           .n = n,
           .count = count,
           .frame_stride = order == ACCEL__MELS_FIRST ? 1 : s->bank->mels,
           .mel_stride = order == ACCEL__MELS_FIRST ? count : 1,
           .out = out,
           .kernels = kernels,
           .lanes = kernels->lanes};
  const size_t power_bytes =
      (size_t)workers * (size_t)s->bank->bins * 2 * (size_t)r.lanes * sizeof *r.power;
  double *window = hann(s->frame, s->symmetric);
  r.window = window;
  r.work = calloc(workers, sizeof *r.work);
  r.power = malloc(power_bytes);
  accel_status status =
      window && r.work && r.power ? accel__fft_new(s->fft, &r.fft) : accel__no_memory(power_bytes);
  for (uint32_t w = 0; status == ACCEL_OK && w < workers; w++)
    status = accel__fft_workspace_new(&r.fft, &r.work[w]);
  const uint32_t tasks = (uint32_t)((count + 2 * r.lanes - 1) / (2 * r.lanes));
  if (status == ACCEL_OK && pool) accel__pool_run(pool, tasks, spectrogram_task, &r);
  for (uint32_t t = 0; status == ACCEL_OK && !pool && t < tasks; t++) spectrogram_task(&r, t, 0);
  for (uint32_t w = 0; r.work && w < workers; w++) accel__fft_workspace_free(&r.work[w]);
  accel__fft_free(&r.fft);
  free(r.power);
  free(r.work);
  free(window);
  return status;
}
