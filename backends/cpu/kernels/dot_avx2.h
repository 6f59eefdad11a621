/* dot_avx2.h - the vocabulary of dot_body.h on 8 sums: AVX2.  Two products are added in 16 bits: x is
 * CPU_X_U7, or weights are small. */
#ifndef ACCEL_CPU_DOT_AVX2_H
#define ACCEL_CPU_DOT_AVX2_H

#include "kernels/vec_avx2.h"

#define DOT_NAME_(dtype, op, tile) accel_##dtype##_##op##_##tile##__avx2
#define DOT_NAME(dtype, op, tile)  DOT_NAME_(dtype, op, tile)

typedef __m256i vi;

V_INLINE vi i_zero(void) { return _mm256_setzero_si256(); }
V_INLINE vi i_load(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }
V_INLINE vi i_four(const void *p) {
  int32_t four;
  __builtin_memcpy(&four, p, sizeof four);
  return _mm256_set1_epi32(four);
}
V_INLINE vi i_add(vi a, vi b) { return _mm256_add_epi32(a, b); }
/* The sum is added to here and now: compilers else reorder sums and spill. */
V_INLINE void i_dot(vi *sum, vi x, vi w) {
  vi four = _mm256_madd_epi16(_mm256_maddubs_epi16(x, w), _mm256_set1_epi16(1));
  __asm__("vpaddd %1, %0, %0" : "+x"(*sum) : "x"(four));
}
V_INLINE vf i_float(vi x) { return _mm256_cvtepi32_ps(x); }

#endif
