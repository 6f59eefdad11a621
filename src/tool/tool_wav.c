/* tool_wav.c - RIFF: numbers are little-endian, whatever the machine. */
#include "tool/tool_wav.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void put_number(unsigned char *to, uint32_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) to[i] = (unsigned char)(value >> 8 * i);
}

void tool_wav_header(unsigned char to[TOOL_WAV_HEADER], uint32_t rate, uint32_t bytes) {
  memcpy(to, "RIFF    WAVEfmt ", 16);
  put_number(to + 4, TOOL_WAV_HEADER - 8 + bytes, 4);
  put_number(to + 16, 16, 4);
  put_number(to + 20, 1, 2); /* PCM */
  put_number(to + 22, 1, 2); /* channels */
  put_number(to + 24, rate, 4);
  put_number(to + 28, 2 * rate, 4);
  put_number(to + 32, 2, 2); /* bytes of a frame */
  put_number(to + 34, 16, 2);
  memcpy(to + 36, "data", 4);
  put_number(to + 40, bytes, 4);
}

void tool_pcm(unsigned char *to, const float *samples, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const float x = fminf(fmaxf(samples[i] * 32767.0f, -32768.0f), 32767.0f);
    put_number(to + 2 * i, (uint32_t)(int32_t)lrintf(x), 2);
  }
}

unsigned char *tool_wav_file(const float *samples, size_t n, uint32_t rate, size_t *bytes) {
  if (n > (UINT32_MAX - TOOL_WAV_HEADER) / 2) return NULL;
  unsigned char *file = malloc(TOOL_WAV_HEADER + 2 * n);
  if (!file) return NULL;
  tool_wav_header(file, rate, (uint32_t)(2 * n));
  tool_pcm(file + TOOL_WAV_HEADER, samples, n);
  *bytes = TOOL_WAV_HEADER + 2 * n;
  return file;
}
