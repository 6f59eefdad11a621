/* dot_avx512vnni.h - the vocabulary of dot_body.h on 16 sums: AVX-512 with VNNI. */
#ifndef ACCEL_CPU_DOT_AVX512VNNI_H
#define ACCEL_CPU_DOT_AVX512VNNI_H

#include "kernels/dot_512.h"

#define DOT_NAME_(dtype, op, tile) accel_##dtype##_##op##_##tile##__avx512vnni
#define DOT_NAME(dtype, op, tile)  DOT_NAME_(dtype, op, tile)

/* Without ever moving sum to another register: with twenty-eight of them compilers else spill. */
V_INLINE void i_dot(vi *sum, vi x, vi w) {
  __asm__("vpdpbusd %2, %1, %0" : "+v"(*sum) : "v"(x), "v"(w));
}
/* Both; the products are added in any way. */
V_INLINE void i_dot2(vi *sum, vi x, vi w, vi x2, vi w2) {
  i_dot(sum, x, w);
  i_dot(sum, x2, w2);
}
/* Two products of words each. */
V_INLINE void i_dot_words(vi *sum, vi x, vi w) {
  __asm__("vpdpwssd %2, %1, %0" : "+v"(*sum) : "v"(x), "v"(w));
}

#endif
