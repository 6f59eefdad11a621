/* fft.h - power spectra of real frames, several at a time.
 *
 * Stockham's autosort transform (radices 4, 2, 3, 5, then any other prime), in double precision over ACCEL__FFT_LANES
 * complex signals side by side; two real frames make one complex signal.
 */
#ifndef ACCEL_AUDIO_FFT_H
#define ACCEL_AUDIO_FFT_H

#include <stdint.h>

#include "core/status.h"

enum { ACCEL__FFT_LANES = 4, ACCEL__FFT_FRAMES = 2 * ACCEL__FFT_LANES };

typedef double accel__fft_vec __attribute__((vector_size(ACCEL__FFT_LANES * sizeof(double))));

typedef struct accel__fft {
  int32_t n, passes;
  int32_t radix[32];
  double (*twiddle)[2]; /* [n]: exp(-2 pi i k / n) */
} accel__fft;
/* n from 1 to 65536. */
accel_status accel__fft_new(int32_t n, accel__fft *out);
void accel__fft_free(accel__fft *fft);
/* Room that one transform works in: two complex signals in each lane. */
typedef struct accel__fft_room {
  accel__fft_vec *re[2], *im[2]; /* [n]; the input goes into re[0] and im[0]: frames 0 .. 3 and 4 .. 7 */
  void *block;
} accel__fft_room;
accel_status accel__fft_room_new(const accel__fft *fft, accel__fft_room *out);
void accel__fft_room_free(accel__fft_room *room);
/* power[k][f] = |X_f[k]|^2 for k = 0 .. n/2 and the eight frames f; what is in the room is lost. */
void accel__fft_power(const accel__fft *fft, accel__fft_room *room, double (*power)[ACCEL__FFT_FRAMES]);

#endif
