/* wav_fuzz.c - WAV files from memory, and another sampling rate for what can be read. */
#include <stddef.h>
#include <stdint.h>

#include "audio/audio.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  accel__sound sound;
  if (accel__wav_parse(data, n, "fuzz.wav", &sound) != ACCEL_OK) return 0;
  if (sound.rate >= 1000 && sound.rate <= 96000) (void)accel__resample(&sound, 16000);
  accel__sound_free(&sound);
  return 0;
}
