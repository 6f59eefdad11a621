/* mel.c - mel filter banks and log-mel spectrograms. */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "audio/audio.h"
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
  const double up = (x - left) / (middle - left), down = (right - x) / (right - middle), least = up < down ? up : down;
  return least > 0.0 ? least : 0.0;
}

accel_status accel__mel_bank_new(int32_t bins, int32_t mels, double f_min, double f_max, int32_t rate, bool slaney_norm,
                                 accel__mel_scale scale, bool in_mel, accel__mel_bank *out) {
  *out = (accel__mel_bank){.bins = bins, .mels = mels};
  if (bins < 2 || mels < 1 || mels > 4096 || !(f_min >= 0.0) || !(f_max >= f_min) || rate < 2)
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "a mel filter bank of %d filters over %d bins from %g to %g Hz at %d Hz makes no sense", mels, bins,
                       f_min, f_max, rate);
  out->first = calloc(3 * (size_t)mels, sizeof *out->first);
  out->weight = malloc((size_t)bins * (size_t)mels * sizeof *out->weight);
  if (!out->first || !out->weight) {
    accel__mel_bank_free(out);
    return accel__no_memory((size_t)bins * (size_t)mels * sizeof *out->weight);
  }
  out->count = out->first + mels;
  out->at = out->count + mels;
  const double low = to_mel(f_min, scale), high = to_mel(f_max, scale);
  for (int32_t m = 0, used = 0; m < mels; m++) {
    double edge[3], hz[3];
    for (int e = 0; e < 3; e++) {
      edge[e] = low + (high - low) * (m + e) / (mels + 1);
      hz[e] = to_hz(edge[e], scale);
    }
    out->at[m] = used;
    for (int32_t b = 0; b < bins; b++) {
      const double f = in_mel ? to_mel((double)rate / (2.0 * (bins - 1)) * b, scale) : (double)(rate / 2) * b / (bins - 1);
      const double *side = in_mel ? edge : hz;
      const double weight = triangle(f, side[0], side[1], side[2]) * (slaney_norm ? 2.0 / (hz[2] - hz[0]) : 1.0);
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
  int64_t first, count, frame_stride, mel_stride;
  float *out;
  const double *window; /* [frame] */
  accel__fft fft;
  accel__fft_room *room;              /* one a worker */
  double (*power)[ACCEL__FFT_FRAMES]; /* [workers][bins] */
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
static double sample(const run *r, int64_t i) {
  if (i < 0) i = -i;
  if (i >= (int64_t)r->n) i = 2 * ((int64_t)r->n - 1) - i;
  return r->samples[i];
}

/* Frame `index` into lane `lane` of x, windowed; false when all of it is zero. */
static bool take_frame(const run *r, int64_t index, double *x, int lane) {
  const accel__spectrogram *s = r->s;
  const int64_t begin = index * s->hop - (s->center ? s->frame / 2 : 0);
  double sum = 0.0, any = 0.0, previous;
  double *at = x + lane;
  for (int32_t i = 0; i < s->frame; i++) {
    const double v = begin + i >= 0 && begin + i < (int64_t)r->n ? r->samples[begin + i] : sample(r, begin + i);
    at[i * ACCEL__FFT_LANES] = v;
    sum += v;
    any += fabs(v);
  }
  if (any == 0.0) return false;
  const double mean = s->remove_dc ? sum / s->frame : 0.0;
  previous = at[0] - mean;
  for (int32_t i = 0; i < s->frame; i++) {
    const double v = at[i * ACCEL__FFT_LANES] - mean;
    at[i * ACCEL__FFT_LANES] = (v - (double)s->preemphasis * previous) * r->window[i];
    previous = v;
  }
  return true;
}

static float log_of(const accel__spectrogram *s, double power) {
  const double v = power > (double)s->floor ? power : (double)s->floor;
  if (s->log == ACCEL__LOG_E) return (float)log(v);
  return (float)(s->log == ACCEL__LOG_DB ? 10.0 * log10(v) : log10(v));
}

/* Eight frames from `frame` on. */
static void task(void *arg, uint32_t index, uint32_t worker) {
  const run *r = arg;
  const accel__spectrogram *s = r->s;
  const accel__mel_bank *bank = s->bank;
  const int64_t begin = (int64_t)index * ACCEL__FFT_FRAMES;
  const int64_t frames = r->count - begin < ACCEL__FFT_FRAMES ? r->count - begin : ACCEL__FFT_FRAMES;
  accel__fft_room *room = &r->room[worker];
  double(*power)[ACCEL__FFT_FRAMES] = r->power + (size_t)worker * (size_t)bank->bins;
  bool sound = false;
  memset(room->re[0], 0, (size_t)s->fft * sizeof *room->re[0]);
  memset(room->im[0], 0, (size_t)s->fft * sizeof *room->im[0]);
  for (int64_t f = 0; f < frames; f++)
    sound |= take_frame(r, r->first + begin + f, (double *)(f < ACCEL__FFT_LANES ? room->re[0] : room->im[0]),
                        (int)(f % ACCEL__FFT_LANES));
  if (sound) accel__fft_power(&r->fft, room, power);
  const float silence = log_of(s, 0.0);
  for (int32_t m = 0; m < bank->mels; m++) {
    double sum[ACCEL__FFT_FRAMES] = {0};
    const float *weight = bank->weight + bank->at[m];
    for (int32_t b = 0; sound && b < bank->count[m]; b++)
      for (int f = 0; f < ACCEL__FFT_FRAMES; f++) sum[f] += (double)weight[b] * power[bank->first[m] + b][f];
    for (int64_t f = 0; f < frames; f++)
      r->out[(begin + f) * r->frame_stride + m * r->mel_stride] = sum[f] > 0.0 ? log_of(s, sum[f]) : silence;
  }
}

static double *hann(int32_t n, bool symmetric) {
  const double pi = 3.14159265358979323846;
  double *w = malloc((size_t)n * sizeof *w);
  for (int32_t i = 0; w && i < n; i++) w[i] = n == 1 ? 1.0 : 0.5 - 0.5 * cos(2.0 * pi * i / (symmetric ? n - 1 : n));
  return w;
}

accel_status accel__spectrogram_run(const accel__spectrogram *s, const float *samples, uint64_t n, int64_t first,
                                    int64_t count, accel__pool *pool, float *out, int64_t frame_stride, int64_t mel_stride) {
  const uint32_t workers = pool ? accel__pool_size(pool) : 1;
  if (s->frame < 1 || s->hop < 1 || s->fft < s->frame || s->bank->bins != s->fft / 2 + 1)
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "frames of %d samples every %d, a transform of %d and %d bins do not go together", s->frame, s->hop,
                       s->fft, s->bank->bins);
  if (first < 0 || count < 0 || first + count > accel__spectrogram_frames(s, n))
    return accel__fail(ACCEL_ERROR_ARGUMENT, "frames %lld to %lld of %lld", (long long)first, (long long)(first + count),
                       (long long)accel__spectrogram_frames(s, n));
  run r = {.s = s,
           .samples = samples,
           .n = n,
           .first = first,
           .count = count,
           .frame_stride = frame_stride,
           .mel_stride = mel_stride,
           .out = out};
  double *window = hann(s->frame, s->symmetric);
  r.window = window;
  r.room = calloc(workers, sizeof *r.room);
  r.power = malloc((size_t)workers * (size_t)s->bank->bins * sizeof *r.power);
  accel_status status = window && r.room && r.power
                            ? accel__fft_new(s->fft, &r.fft)
                            : accel__no_memory((size_t)workers * (size_t)s->bank->bins * sizeof *r.power);
  for (uint32_t w = 0; status == ACCEL_OK && w < workers; w++) status = accel__fft_room_new(&r.fft, &r.room[w]);
  const uint32_t tasks = (uint32_t)((count + ACCEL__FFT_FRAMES - 1) / ACCEL__FFT_FRAMES);
  if (status == ACCEL_OK && pool) accel__pool_run(pool, tasks, task, &r);
  for (uint32_t t = 0; status == ACCEL_OK && !pool && t < tasks; t++) task(&r, t, 0);
  for (uint32_t w = 0; r.room && w < workers; w++) accel__fft_room_free(&r.room[w]);
  accel__fft_free(&r.fft);
  free(r.power);
  free(r.room);
  free(window);
  return status;
}
