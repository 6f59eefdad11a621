/* bench_wav.h - the header of a WAV file of one channel of 16-bit PCM samples, for the accel tool's own
 * sounds. */
#ifndef ACCEL_BENCH_WAV_H
#define ACCEL_BENCH_WAV_H

#include <stdint.h>

enum { WAV_HEADER = 44 };
/* rate: samples a second; bytes: of the samples that follow, at most UINT32_MAX - WAV_HEADER. */
void wav_header(unsigned char to[WAV_HEADER], uint32_t rate, uint32_t bytes);

#endif
