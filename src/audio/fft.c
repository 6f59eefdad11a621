/* fft.c - see fft.h. */
#include "audio/fft.h"

#include <math.h>
#include <stdlib.h>

accel_status accel__fft_new(int32_t n, accel__fft *out) {
  const double pi = 3.14159265358979323846;
  *out = (accel__fft){.n = n};
  if (n < 1 || n > 65536)
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "a Fourier transform of %d samples; 1 to 65536 can be done", n);
  for (int32_t rest = n, r = 4; rest > 1;) {
    while (rest % r) r = r == 4 ? 2 : r == 2 ? 3 : r + 2;
    out->radix[out->passes++] = r;
    rest /= r;
  }
  out->twiddle = malloc((size_t)n * sizeof *out->twiddle);
  if (!out->twiddle) return accel__no_memory((size_t)n * sizeof *out->twiddle);
  for (int32_t k = 0; k < n; k++) {
    out->twiddle[k][0] = cos(2.0 * pi * k / n);
    out->twiddle[k][1] = -sin(2.0 * pi * k / n);
  }
  return ACCEL_OK;
}

void accel__fft_free(accel__fft *fft) {
  free(fft->twiddle);
  fft->twiddle = NULL;
}

accel_status accel__fft_workspace_new(const accel__fft *fft, accel__fft_workspace *out) {
  const size_t n = (size_t)fft->n * ACCEL__FFT_MAX_LANES;
  double *at = aligned_alloc(ACCEL__FFT_MAX_LANES * sizeof *at, 4 * n * sizeof *at);
  *out = (accel__fft_workspace){.re = {at, at + 2 * n}, .im = {at + n, at + 3 * n}};
  return at ? ACCEL_OK : accel__no_memory(4 * n * sizeof *at);
}

void accel__fft_workspace_free(accel__fft_workspace *work) { free(work->re[0]); }
