/* e8m0.h - power-of-two scales of the MX formats: code b is 2^(b-127), 0xff is NaN. */
#ifndef ACCEL_FORMATS_E8M0_H
#define ACCEL_FORMATS_E8M0_H

#include <stdint.h>
#include <string.h>

/* Exact. */
static inline float accel_e8m0_to_f32(uint8_t code) {
  /* 2^-127 is subnormal */
  const uint32_t bits = code == 0xff ? 0x7fc00000u : code ? (uint32_t)code << 23 : 0x00400000u;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* The nearest power of two; 1.5 * 2^n lies in the middle and goes to the even code.  Zero and
 * negatives become 2^-127; NaN stays NaN, infinity becomes 2^127. */
static inline uint8_t accel_f32_to_e8m0(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0xff;
  if (bits >> 31) return 0;
  if (bits >= 0x7f000000u) return 0xfe;
  /* below 2^-126: the tie 0.75 * 2^-126 goes to code 0 */
  if (bits < 0x00800000u) return bits > 0x00600000u;
  bits += 0x3fffffu + (bits >> 23 & 1u);
  return (uint8_t)(bits >> 23);
}

#endif
