/* fft.h - plans and workspaces for power spectra of real frames, several frames at a time.
 *
 *   accel__fft fft;             ACCEL_TRY(accel__fft_new(400, &fft));
 *   accel__fft_workspace work;  ACCEL_TRY(accel__fft_workspace_new(&fft, &work));
 *   kernels->fft_power(&fft, &work, power);                             audio_kernels.h
 *
 * Stockham's autosort transform (radices 4, 2, 3, 5, then any other prime), in double precision
 * over as many complex signals side by side as a vector has lanes (4, or 8 with AVX-512); two real
 * frames make one complex signal.
 */
#ifndef ACCEL_AUDIO_FFT_H
#define ACCEL_AUDIO_FFT_H

#include <stdint.h>

#include "core/status.h"

/* Lanes of the widest vector, and frames in its transform. */
enum { ACCEL__FFT_MAX_LANES = 8, ACCEL__FFT_MAX_FRAMES = 2 * ACCEL__FFT_MAX_LANES };

/* The plan of a transform of n samples; read-only once made, threads may share it. */
typedef struct accel__fft {
  int32_t n, passes;
  int32_t radix[32];    /* [passes]; their product is n */
  double (*twiddle)[2]; /* [n]: exp(-2 pi i k / n), real and imaginary part; owned */
} accel__fft;
/* n from 1 to 65536, else ACCEL_ERROR_ARGUMENT.  To be freed. */
accel_status accel__fft_new(int32_t n, accel__fft *out);
void accel__fft_free(accel__fft *fft);

/* What one transform at a time works in, for any instruction set: input and output of each pass in
 * turn.  Each thread needs its own.  re[0] and im[0] [n][lanes] take the input. */
typedef struct accel__fft_workspace {
  double *re[2], *im[2]; /* one block, owned */
} accel__fft_workspace;
accel_status accel__fft_workspace_new(const accel__fft *fft, accel__fft_workspace *out);
void accel__fft_workspace_free(accel__fft_workspace *work);

#endif
