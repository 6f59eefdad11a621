/* dot_avx2.h - the vocabulary of dot_body.h on 8 sums: AVX2.  Two products are added in 16 bits: x
 * is CPU_ACT_U7B, or weights are small. */
#ifndef ACCEL_CPU_DOT_AVX2_H
#define ACCEL_CPU_DOT_AVX2_H

#include "kernels/dot_256.h"

#define DOT_NAME_(dtype, op, tile) accel_##dtype##_##op##_##tile##__avx2
#define DOT_NAME(dtype, op, tile)  DOT_NAME_(dtype, op, tile)

/* *sum += x here and now: compilers else reorder sums and spill. */
V_INLINE void i_add_now(vi *sum, vi x) { __asm__("vpaddd %1, %0, %0" : "+x"(*sum) : "x"(x)); }
V_INLINE void i_dot(vi *sum, vi x, vi w) {
  vi four = _mm256_madd_epi16(_mm256_maddubs_epi16(x, w), _mm256_set1_epi16(1));
  i_add_now(sum, four);
}
#define DOT_TIMES
V_INLINE vi i_word(const void *p) {
  int16_t word;
  __builtin_memcpy(&word, p, sizeof word);
  return _mm256_set1_epi16(word);
}
V_INLINE void i_dot_times(vi *sum, vi x, vi w, vi times) {
  vi four = _mm256_madd_epi16(_mm256_maddubs_epi16(x, w), times);
  i_add_now(sum, four);
}
/* Two products of words each. */
V_INLINE void i_dot_words(vi *sum, vi x, vi w) { i_add_now(sum, _mm256_madd_epi16(x, w)); }
/* Both, of weights whose four products fit 16 bits. */
V_INLINE void i_dot2(vi *sum, vi x, vi w, vi x2, vi w2) {
  vi pair = _mm256_add_epi16(_mm256_maddubs_epi16(x, w), _mm256_maddubs_epi16(x2, w2));
  vi four = _mm256_madd_epi16(pair, _mm256_set1_epi16(1));
  i_add_now(sum, four);
}

#endif
