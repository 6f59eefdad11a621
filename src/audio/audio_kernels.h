/* audio_kernels.h - the loops that sounds spend their time in, once for each instruction set.
 *
 *   const accel__audio_kernels *k = accel__audio_kernels_of(accel__isa_choose());
 *   k->fft_power(&fft, &work, power);
 *
 * audio_kernels_body.h has the code; audio_kernels_scalar.c, _avx2.c and _avx512.c compile it.
 * Kernels keep no state: any thread may call them.  Scalar and AVX2 give the same bits; AVX-512
 * pairs other frames in one transform, which moves last bits of a spectrogram.
 */
#ifndef ACCEL_AUDIO_KERNELS_H
#define ACCEL_AUDIO_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

#include "audio/audio.h"
#include "audio/fft.h"
#include "core/isa.h"

typedef struct accel__audio_kernels {
  /* Frames side by side in a vector of doubles; one transform takes twice as many. */
  int32_t lanes;
  /* power[k * 2 lanes + f] = |X_f[k]|^2 for the bins k = 0 .. n/2 and the frames f of one
   * transform: frames 0 .. lanes-1 lie in work->re[0], the others in work->im[0], both
   * [n][lanes].  Overwrites the workspace. */
  void (*fft_power)(const accel__fft *fft, accel__fft_workspace *work, double *power);
  /* x [n][lanes]: `lanes` frames of n samples, frame i from samples[i * hop] on. */
  void (*gather_frames)(const float *samples, int32_t hop, int32_t n, double *x);
  /* Takes the mean off each frame of x [s->frame][lanes] (if s->remove_dc), then preemphasis, then
   * the window [s->frame]. */
  void (*window_frames)(const accel__spectrogram *s, const double *window, double *x);
  /* y[2 lanes] = times * ln(max(least, sum of weight[b] * power[b * 2 lanes + f] over b < count)),
   * least > 0. */
  void (*mel_energies)(const float *weight, int32_t count, const double *power, double least,
                       double times, float *y);
  double (*sum)(const float *x, uint64_t n);
  /* Sum of the squares of x[i] - middle. */
  double (*sum_squares)(const float *x, uint64_t n, float middle);
  /* x[i] = (from[i] - mean) * scale; x may be `from`. */
  void (*normalise)(const float *from, uint64_t n, float mean, float scale, float *x);
  /* The largest of x[n]; -infinity when n is 0. */
  float (*maximum)(const float *x, int64_t n);
  /* x[i] = (max(x[i], least) + 4) / 4: Whisper's last step. */
  void (*whisper_levels)(float *x, int64_t n, float least);
} accel__audio_kernels;

/* Never NULL.  Only for an instruction set that accel__isa_list gives. */
const accel__audio_kernels *accel__audio_kernels_of(accel__isa isa);

extern const accel__audio_kernels accel__audio_kernels_scalar;
extern const accel__audio_kernels accel__audio_kernels_avx2;   /* x86-64 alone */
extern const accel__audio_kernels accel__audio_kernels_avx512; /* x86-64 alone */

#endif
