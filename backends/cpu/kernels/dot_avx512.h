/* dot_avx512.h - the vocabulary of dot_body.h on 16 sums: AVX-512 BW without VNNI.  Two products are added in 16 bits: x is
 * CPU_X_U7, or weights are small. */
#ifndef ACCEL_CPU_DOT_AVX512_H
#define ACCEL_CPU_DOT_AVX512_H

#include "kernels/vec_avx512.h"

#define DOT_NAME_(dtype, op, tile) accel_##dtype##_##op##_##tile##__avx512
#define DOT_NAME(dtype, op, tile)  DOT_NAME_(dtype, op, tile)

typedef __m512i vi;

V_INLINE vi i_zero(void) { return _mm512_setzero_si512(); }
V_INLINE vi i_load(const void *p) { return _mm512_loadu_si512(p); }
V_INLINE vi i_four(const void *p) {
  int32_t four;
  __builtin_memcpy(&four, p, sizeof four);
  return _mm512_set1_epi32(four);
}
V_INLINE vi i_add(vi a, vi b) { return _mm512_add_epi32(a, b); }
/* The sum is added to here and now: compilers else reorder sums and spill. */
V_INLINE void i_dot(vi *sum, vi x, vi w) {
  vi four = _mm512_madd_epi16(_mm512_maddubs_epi16(x, w), _mm512_set1_epi16(1));
  __asm__("vpaddd %1, %0, %0" : "+v"(*sum) : "v"(four));
}
V_INLINE vf i_float(vi x) { return _mm512_cvtepi32_ps(x); }

#endif
