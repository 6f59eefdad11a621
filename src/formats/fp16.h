/* fp16.h - IEEE half precision: 1 sign, 5 exponent, 10 mantissa bits; conversions round to nearest,
 * ties to even. */
#ifndef ACCEL_FORMATS_FP16_H
#define ACCEL_FORMATS_FP16_H

#include <stdint.h>
#include <string.h>

/* Exact.  NaN keeps the upper bits of its payload. */
static inline float accel_fp16_to_f32(uint16_t half) {
  const uint32_t sign = (uint32_t)(half & 0x8000u) << 16, exponent = (half >> 10) & 0x1fu,
                 mantissa = half & 0x3ffu;
  uint32_t bits;
  float value;
  if (exponent == 0) { /* zero and subnormals: mantissa steps of 2^-24 */
    value = (float)mantissa * 0x1p-24f;
    memcpy(&bits, &value, sizeof bits);
    bits |= sign;
  } else {
    bits = sign | (exponent == 31 ? 0x7f800000u : (exponent + 112u) << 23) | mantissa << 13;
  }
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* Magnitudes of 65520 and more become infinity; NaN stays NaN (quiet). */
static inline uint16_t accel_f32_to_fp16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
  bits &= 0x7fffffffu;
  if (bits > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | (bits >> 13 & 0x3ffu));
  if (bits >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u);
  /* below 2^-14: beside 0.5 the float's own last place is the step of the subnormals */
  if (bits < 0x38800000u) {
    float magnitude;
    memcpy(&magnitude, &bits, sizeof magnitude);
    magnitude += 0.5f;
    memcpy(&bits, &magnitude, sizeof bits);
    return (uint16_t)(sign | (bits - 0x3f000000u));
  }
  bits += 0xfffu + (bits >> 13 & 1u);
  return (uint16_t)(sign | (bits - 0x38000000u) >> 13);
}

#endif
