/* minifloat.h - what the 8-bit and 4-bit floats have in common: exponent_bits exponent,
 * mantissa_bits mantissa, subnormals. The headers of the single formats (e4m3.h, e5m2.h, e2m1.h)
 * add their largest values, infinities and NaN. */
#ifndef ACCEL_FORMATS_MINIFLOAT_H
#define ACCEL_FORMATS_MINIFLOAT_H

#include <stdint.h>
#include <string.h>

/* code: exponent and mantissa without the sign.  Exact. */
static inline float accel_minifloat_to_f32(uint32_t code, int mantissa_bits, int bias) {
  const uint32_t mantissa = code & ((1u << mantissa_bits) - 1u), exponent = code >> mantissa_bits;
  uint32_t bits = (exponent + 127u - (uint32_t)bias) << 23 | mantissa << (23 - mantissa_bits);
  float value;
  if (exponent == 0) { /* steps of 2^(1 - bias - mantissa_bits) */
    bits = (uint32_t)(128 - bias - mantissa_bits) << 23;
    memcpy(&value, &bits, sizeof value);
    return value * (float)mantissa;
  }
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* magnitude: finite, not negative.  Rounds to nearest, ties to even; what is too large gives a code
 * past the format's last one. */
static inline uint32_t accel_f32_to_minifloat(float magnitude, int mantissa_bits, int bias) {
  uint32_t bits, scale_bits = (uint32_t)(126 + bias + mantissa_bits) << 23;
  memcpy(&bits, &magnitude, sizeof bits);
  if (bits >> 23 < (uint32_t)(128 - bias)) { /* below the smallest normal number */
    float scale;
    memcpy(&scale, &scale_bits, sizeof scale);
    /* the sum's last place is 1: it rounds to an integer */
    magnitude = magnitude * scale + 0x1p23f;
    memcpy(&bits, &magnitude, sizeof bits);
    return bits - 0x4b000000u;
  }
  const int shift = 23 - mantissa_bits;
  bits += (1u << (shift - 1)) - 1u + (bits >> shift & 1u);
  return (bits >> shift) - ((uint32_t)(127 - bias) << mantissa_bits);
}

/* All codes of an eight-bit float as constants, so that a look-up is all a code costs: f(c) for c
 * of 0 to 255. */
#define ACCEL__FOUR(f, c) f(c), f((c) + 1), f((c) + 2), f((c) + 3)
#define ACCEL__16(f, c) \
  ACCEL__FOUR(f, c), ACCEL__FOUR(f, (c) + 4), ACCEL__FOUR(f, (c) + 8), ACCEL__FOUR(f, (c) + 12)
#define ACCEL__64(f, c) \
  ACCEL__16(f, c), ACCEL__16(f, (c) + 16), ACCEL__16(f, (c) + 32), ACCEL__16(f, (c) + 48)
#define ACCEL__256(f)  ACCEL__64(f, 0), ACCEL__64(f, 64), ACCEL__64(f, 128), ACCEL__64(f, 192)
#define ACCEL__SIGN(c) ((c)&0x80 ? -1.0f : 1.0f)

#endif
