/* int4.h - four-bit elements packed two a byte, the even one in the low nibble: int4 (two's
 * complement, -8..7), uint4 (0..15), e2m1 codes. */
#ifndef ACCEL_FORMATS_INT4_H
#define ACCEL_FORMATS_INT4_H

#include <stddef.h>
#include <stdint.h>

/* Code 0..15 of element i. */
static inline uint8_t accel_nibble(const uint8_t *packed, size_t i) {
  return packed[i / 2] >> (i % 2 * 4) & 15;
}
/* Sets element i.  Rewrites the byte that it shares with its neighbour: one thread a byte. */
static inline void accel_nibble_set(uint8_t *packed, size_t i, uint8_t code) {
  const unsigned shift = (unsigned)(i % 2 * 4);
  packed[i / 2] = (uint8_t)((packed[i / 2] & ~(15u << shift)) | (unsigned)(code & 15) << shift);
}
static inline float accel_int4_to_f32(uint8_t code) {
  return (float)((int)(code & 7) - (int)(code & 8));
}
static inline float accel_uint4_to_f32(uint8_t code) { return (float)(code & 15); }

/* To nearest, ties to even, clamped; NaN becomes 0. */
static inline int accel__round_clamped(float value, int low, int high) {
  if (!(value > (float)low)) return value == value ? low : 0;
  if (value >= (float)high) return high;
  const float shifted = value + 0x1.8p23f; /* its last place is 1: the sum rounds to an integer */
  return (int)(shifted - 0x1.8p23f);
}
static inline uint8_t accel_f32_to_int4(float value) {
  return (uint8_t)(accel__round_clamped(value, -8, 7) & 15);
}
static inline uint8_t accel_f32_to_uint4(float value) {
  return (uint8_t)accel__round_clamped(value, 0, 15);
}

#endif
