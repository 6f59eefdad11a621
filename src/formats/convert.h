/* convert.h - arrays of fp16 and bf16 to fp32 and back, at the speed of memory.  Values are those
 * of fp16.h and bf16.h (a signalling NaN may come out quiet); F16C does the halves of x86 machines
 * that have it, which is asked at run time. */
#ifndef ACCEL_FORMATS_CONVERT_H
#define ACCEL_FORMATS_CONVERT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "formats/bf16.h"
#include "formats/fp16.h"

#if defined(__x86_64__) && defined(__GNUC__)
/* The compiler's vectors and builtins: <immintrin.h> would triple the time of every file that
 * includes this one. */
typedef float accel__f32x8 __attribute__((vector_size(32)));
typedef short accel__i16x8 __attribute__((vector_size(16)));

/* How many of n halves were converted: multiples of 8. */
__attribute__((target("avx,f16c"))) static inline size_t accel__fp16_widen(
    const unsigned char *from, size_t n, float *out) {
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    accel__i16x8 halves;
    memcpy(&halves, from + i * 2, sizeof halves);
    const accel__f32x8 values = __builtin_ia32_vcvtph2ps256(halves);
    memcpy(out + i, &values, sizeof values);
  }
  return i;
}
__attribute__((target("avx,f16c"))) static inline size_t accel__fp16_narrow(const float *from,
                                                                            size_t n,
                                                                            unsigned char *out) {
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    accel__f32x8 values;
    memcpy(&values, from + i, sizeof values);
    const accel__i16x8 halves = __builtin_ia32_vcvtps2ph256(values, 0); /* to nearest even */
    memcpy(out + i * 2, &halves, sizeof halves);
  }
  return i;
}
/* every CPU with AVX2 has F16C */
static inline int accel__has_f16c(void) { return __builtin_cpu_supports("avx2"); }
#else
static inline size_t accel__fp16_widen(const unsigned char *from, size_t n, float *out) {
  return (void)from, (void)n, (void)out, 0;
}
static inline size_t accel__fp16_narrow(const float *from, size_t n, unsigned char *out) {
  return (void)from, (void)n, (void)out, 0;
}
static inline int accel__has_f16c(void) { return 0; }
#endif

/* n elements; the 16-bit side need not be aligned. */
static inline void accel_fp16_array_to_f32(const void *halves, size_t n, float *out) {
  const unsigned char *from = (const unsigned char *)halves;
  uint16_t half;
  for (size_t i = accel__has_f16c() ? accel__fp16_widen(from, n, out) : 0; i < n; i++) {
    memcpy(&half, from + i * 2, 2);
    out[i] = accel_fp16_to_f32(half);
  }
}
static inline void accel_f32_array_to_fp16(const float *values, size_t n, void *halves) {
  unsigned char *out = (unsigned char *)halves;
  for (size_t i = accel__has_f16c() ? accel__fp16_narrow(values, n, out) : 0; i < n; i++) {
    const uint16_t half = accel_f32_to_fp16(values[i]);
    memcpy(out + i * 2, &half, 2);
  }
}
static inline void accel_bf16_array_to_f32(const void *halves, size_t n, float *out) {
  uint16_t half;
  for (size_t i = 0; i < n; i++) {
    memcpy(&half, (const unsigned char *)halves + i * 2, 2);
    out[i] = accel_bf16_to_f32(half);
  }
}
static inline void accel_f32_array_to_bf16(const float *values, size_t n, void *halves) {
  for (size_t i = 0; i < n; i++) {
    const uint16_t half = accel_f32_to_bf16(values[i]);
    memcpy((unsigned char *)halves + i * 2, &half, 2);
  }
}

#endif
