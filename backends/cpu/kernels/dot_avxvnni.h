/* dot_avxvnni.h - the vocabulary of dot_body.h on 8 sums: AVX2 with AVX-VNNI. */
#ifndef ACCEL_CPU_DOT_AVXVNNI_H
#define ACCEL_CPU_DOT_AVXVNNI_H

#include "kernels/dot_256.h"

#define DOT_NAME_(dtype, op, tile) accel_##dtype##_##op##_##tile##__avxvnni
#define DOT_NAME(dtype, op, tile)  DOT_NAME_(dtype, op, tile)

/* Without ever moving sum to another register: with twelve of them compilers else spill. */
V_INLINE void i_dot(vi *sum, vi x, vi w) {
  __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(*sum) : "x"(x), "x"(w));
}
/* Both; the products are added in any way. */
V_INLINE void i_dot2(vi *sum, vi x, vi w, vi x2, vi w2) {
  i_dot(sum, x, w);
  i_dot(sum, x2, w2);
}
/* Two products of words each. */
V_INLINE void i_dot_words(vi *sum, vi x, vi w) {
  __asm__("%{vex%} vpdpwssd %2, %1, %0" : "+x"(*sum) : "x"(x), "x"(w));
}

#endif
