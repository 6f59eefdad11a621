/* e5m2.h - 8-bit float with 5 exponent and 2 mantissa bits (OCP FP8): the upper byte of fp16, with
 * infinity and NaN; largest 57344. */
#ifndef ACCEL_FORMATS_E5M2_H
#define ACCEL_FORMATS_E5M2_H

#include "formats/minifloat.h"

/* (4 + m) * 2^(e - 17), below the normal numbers m * 2^-16 */
#define ACCEL__E5M2(c)                                                             \
  (((c)&0x7f) > 0x7c    ? __builtin_nanf("")                                       \
   : ((c)&0x7f) == 0x7c ? ACCEL__SIGN(c) * __builtin_inff()                        \
                        : ACCEL__SIGN(c) * (float)(((c)&3) + ((c)&0x7c ? 4 : 0)) * \
                              (float)(1u << ((c)&0x7c ? (c) >> 2 & 31 : 1)) / 131072.0f)
static const float accel__e5m2_values[256] = {ACCEL__256(ACCEL__E5M2)};

/* Exact. */
static inline float accel_e5m2_to_f32(uint8_t code) { return accel__e5m2_values[code]; }

/* To nearest, ties to even; magnitudes of 61440 and more become infinity.  NaN stays NaN. */
static inline uint8_t accel_f32_to_e5m2(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  const uint8_t sign = (uint8_t)(bits >> 24 & 0x80u);
  bits &= 0x7fffffffu;
  if (bits > 0x7f800000u) return sign | 0x7e;
  if (bits >= 0x47700000u) return sign | 0x7c;
  memcpy(&value, &bits, sizeof value);
  return (uint8_t)(sign | accel_f32_to_minifloat(value, 2, 15));
}

#endif
