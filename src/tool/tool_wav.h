/* tool_wav.h - WAV files of one channel of 16-bit PCM samples: the header, which the sub-commands and
 * the benchmarks of the accel tool put in front of samples that have none, and whole files. */
#ifndef ACCEL_TOOL_WAV_H
#define ACCEL_TOOL_WAV_H

#include <stddef.h>
#include <stdint.h>

enum { TOOL_WAV_HEADER = 44 }; /* bytes */
/* Writes the header.  rate: samples a second; bytes: size of the samples that follow, at most
 * UINT32_MAX - TOOL_WAV_HEADER. */
void tool_wav_header(unsigned char to[TOOL_WAV_HEADER], uint32_t rate, uint32_t bytes);
/* Samples [n], full scale -1 .. 1, as 16-bit little-endian PCM, 2 n bytes; what is louder is cut. */
void tool_pcm(unsigned char *to, const float *samples, size_t n);
/* The same behind a header: the *bytes of a file, malloc'd.  NULL: more than 4 GiB, or no memory. */
unsigned char *tool_wav_file(const float *samples, size_t n, uint32_t rate, size_t *bytes);

#endif
