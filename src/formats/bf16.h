/* bf16.h - bfloat16: the upper half of a float; conversion rounds to nearest, ties to even. */
#ifndef ACCEL_FORMATS_BF16_H
#define ACCEL_FORMATS_BF16_H

#include <stdint.h>
#include <string.h>

/* Exact. */
static inline float accel_bf16_to_f32(uint16_t half) {
  const uint32_t bits = (uint32_t)half << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* NaN stays NaN (quiet). */
static inline uint16_t accel_f32_to_bf16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40u);
  return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

#endif
