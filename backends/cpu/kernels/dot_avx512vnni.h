/* dot_avx512vnni.h - the vocabulary of dot_body.h on 16 sums: AVX-512 with VNNI. */
#ifndef ACCEL_CPU_DOT_AVX512VNNI_H
#define ACCEL_CPU_DOT_AVX512VNNI_H

#include "kernels/vec_avx512.h"

#define DOT_NAME_(dtype, op, tile) accel_##dtype##_##op##_##tile##__avx512vnni
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
/* Without ever moving sum to another register: with twenty-eight of them compilers else spill. */
V_INLINE void i_dot(vi *sum, vi x, vi w) { __asm__("vpdpbusd %2, %1, %0" : "+v"(*sum) : "v"(x), "v"(w)); }
V_INLINE vf i_float(vi x) { return _mm512_cvtepi32_ps(x); }

#endif
