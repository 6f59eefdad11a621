/* e4m3.h - 8-bit float with 4 exponent and 3 mantissa bits (OCP FP8, finite variant): largest 448,
 * no infinity, 0x7f and 0xff are NaN. */
#ifndef ACCEL_FORMATS_E4M3_H
#define ACCEL_FORMATS_E4M3_H

#include "formats/minifloat.h"

/* (8 + m) * 2^(e - 10), below the normal numbers m * 2^-9 */
#define ACCEL__E4M3(c)                                                           \
  (((c)&0x7f) == 0x7f ? __builtin_nanf("")                                       \
                      : ACCEL__SIGN(c) * (float)(((c)&7) + ((c)&0x78 ? 8 : 0)) * \
                            (float)(1u << ((c)&0x78 ? (c) >> 3 & 15 : 1)) / 1024.0f)
static const float accel__e4m3_values[256] = {ACCEL__256(ACCEL__E4M3)};

/* Exact. */
static inline float accel_e4m3_to_f32(uint8_t code) { return accel__e4m3_values[code]; }

/* To nearest, ties to even; beyond the largest value, infinity included, becomes the largest.  NaN
 * stays NaN. */
static inline uint8_t accel_f32_to_e4m3(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  const uint8_t sign = (uint8_t)(bits >> 24 & 0x80u);
  bits &= 0x7fffffffu;
  if (bits > 0x7f800000u) return sign | 0x7f;
  if (bits >= 0x43e00000u) return sign | 0x7e; /* 448 */
  memcpy(&value, &bits, sizeof value);
  return (uint8_t)(sign | accel_f32_to_minifloat(value, 3, 7));
}

#endif
