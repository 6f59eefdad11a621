/* tool_wav.h - the header of a WAV file of one channel of 16-bit PCM samples: the sub-commands and
 * the benchmarks of the accel tool put it in front of samples that have none. */
#ifndef ACCEL_TOOL_WAV_H
#define ACCEL_TOOL_WAV_H

#include <stdint.h>

enum { TOOL_WAV_HEADER = 44 }; /* bytes */
/* Writes the header.  rate: samples a second; bytes: size of the samples that follow, at most
 * UINT32_MAX - TOOL_WAV_HEADER. */
void tool_wav_header(unsigned char to[TOOL_WAV_HEADER], uint32_t rate, uint32_t bytes);

#endif
