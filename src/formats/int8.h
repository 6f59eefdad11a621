/* int8.h - eight-bit integers as codes of weights: int8 (-127..127 when made here; -128 is read),
 * uint8 (0..255). */
#ifndef ACCEL_FORMATS_INT8_H
#define ACCEL_FORMATS_INT8_H

#include "formats/int4.h"

static inline float accel_int8_to_f32(uint8_t code) { return (float)(int8_t)code; }
static inline float accel_uint8_to_f32(uint8_t code) { return (float)code; }

/* To nearest, ties to even, clamped; NaN becomes 0. */
static inline uint8_t accel_f32_to_int8(float value) {
  return (uint8_t)accel__round_clamped(value, -127, 127);
}
static inline uint8_t accel_f32_to_uint8(float value) {
  return (uint8_t)accel__round_clamped(value, 0, 255);
}

#endif
