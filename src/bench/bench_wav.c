/* bench_wav.c - RIFF: numbers are little-endian, whatever the machine. */
#include "bench/bench_wav.h"

#include <string.h>

static void put(unsigned char *to, uint32_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) to[i] = (unsigned char)(value >> 8 * i);
}

void wav_header(unsigned char to[WAV_HEADER], uint32_t rate, uint32_t bytes) {
  memcpy(to, "RIFF    WAVEfmt ", 16);
  put(to + 4, WAV_HEADER - 8 + bytes, 4);
  put(to + 16, 16, 4);
  put(to + 20, 1, 2); /* PCM */
  put(to + 22, 1, 2); /* channels */
  put(to + 24, rate, 4);
  put(to + 28, 2 * rate, 4);
  put(to + 32, 2, 2); /* bytes of a frame */
  put(to + 34, 16, 2);
  memcpy(to + 36, "data", 4);
  put(to + 40, bytes, 4);
}
