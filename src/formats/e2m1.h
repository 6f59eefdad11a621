/* e2m1.h - 4-bit float (OCP FP4): 0 0.5 1 1.5 2 3 4 6 and their negatives; neither infinity nor
 * NaN.  Packing: int4.h. */
#ifndef ACCEL_FORMATS_E2M1_H
#define ACCEL_FORMATS_E2M1_H

#include "formats/minifloat.h"

/* Exact; the low four bits of code. */
static inline float accel_e2m1_to_f32(uint8_t code) {
  static const float values[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                   -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};
  return values[code & 15];
}

/* To nearest, ties to even; beyond 6, and NaN, becomes 6 with the sign of the value. */
static inline uint8_t accel_f32_to_e2m1(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  const uint8_t sign = (uint8_t)(bits >> 28 & 8u);
  bits &= 0x7fffffffu;
  if (bits > 0x40a00000u) return sign | 7; /* past 5, the tie between 4 and 6 */
  memcpy(&value, &bits, sizeof value);
  return (uint8_t)(sign | accel_f32_to_minifloat(value, 1, 1));
}

#endif
