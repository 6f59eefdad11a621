/* fft.h - power spectra of real frames, several at a time.
 *
 * Stockham's autosort transform (radices 4, 2, 3, 5, then any other prime), in double precision
 * over as many complex signals side by side as a vector has lanes (accel__fft_lanes: 4, or 8 with
 * AVX-512); two real frames make one complex signal.
 */
#ifndef ACCEL_AUDIO_FFT_H
#define ACCEL_AUDIO_FFT_H

#include <stdint.h>

#include "core/status.h"

enum { ACCEL__FFT_MOST_LANES = 8, ACCEL__FFT_MOST_FRAMES = 2 * ACCEL__FFT_MOST_LANES };

typedef struct accel__fft {
  int32_t n, passes;
  int32_t radix[32];
  double (*twiddle)[2]; /* [n]: exp(-2 pi i k / n) */
} accel__fft;
/* n from 1 to 65536. */
accel_status accel__fft_new(int32_t n, accel__fft *out);
void accel__fft_free(accel__fft *fft);
int32_t accel__fft_lanes(void);
/* Room that one transform works in: two complex signals in each lane. */
typedef struct accel__fft_room {
  /* [n][lanes]; the input goes into re[0] and im[0]: the first `lanes` frames and the others */
  double *re[2], *im[2];
} accel__fft_room;
accel_status accel__fft_room_new(const accel__fft *fft, accel__fft_room *out);
void accel__fft_room_free(accel__fft_room *room);
/* power[k * 2 lanes + f] = |X_f[k]|^2 for k = 0 .. n/2 and the frames f; what is in the room is
 * lost. */
void accel__fft_power(const accel__fft *fft, accel__fft_room *room, double *power);

#endif
