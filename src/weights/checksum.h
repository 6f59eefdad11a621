/* checksum.h - what tells bytes that were written from those that are read. */
#ifndef ACCEL_WEIGHTS_CHECKSUM_H
#define ACCEL_WEIGHTS_CHECKSUM_H

#include <stdint.h>

/* 64-bit checksum of a stream, at the speed of memory: eight lanes, each step of a lane undone by
 * no other value of its eight bytes, so a single changed word is always seen.  Bytes in the
 * machine's order: entries do not travel. */
typedef struct accel__checksum {
  uint64_t lane[8];
  uint64_t n;
  uint8_t tail[64];
} accel__checksum;
void accel__checksum_begin(accel__checksum *s);
void accel__checksum_add(accel__checksum *s, const void *bytes, uint64_t n);
uint64_t accel__checksum_end(const accel__checksum *s);
/* The checksum of bytes[n]. */
uint64_t accel__checksum_of(const void *bytes, uint64_t n);

#endif
