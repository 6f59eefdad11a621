/* dot_256.h - the part of dot_body.h's vocabulary that AVX2 has with and without VNNI: all but
 * i_dot and i_dot2. */
#ifndef ACCEL_CPU_DOT_256_H
#define ACCEL_CPU_DOT_256_H

#include "kernels/vec_avx2.h"

typedef __m256i vi;

V_INLINE vi i_zero(void) { return _mm256_setzero_si256(); }
V_INLINE vi i_load(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }
V_INLINE vi i_four(const void *p) {
  int32_t four;
  __builtin_memcpy(&four, p, sizeof four);
  return _mm256_set1_epi32(four);
}
V_INLINE vi i_add(vi a, vi b) { return _mm256_add_epi32(a, b); }
V_INLINE vf i_float(vi x) { return _mm256_cvtepi32_ps(x); }

V_INLINE void i_store(void *p, vi x) { _mm256_storeu_si256((__m256i *)p, x); }
V_INLINE vi i_bytes(int x) { return _mm256_set1_epi8((char)x); }
/* a[0], b[0], c[0], d[0], a[1], .. as bytes, rounded to nearest; magnitudes up to 127. */
V_INLINE vi i_codes4(vf a, vf b, vf c, vf d) {
  const vi byte = _mm256_set1_epi32(255);
  const vi low =
               _mm256_or_si256(_mm256_and_si256(_mm256_cvtps_epi32(a), byte),
                               _mm256_slli_epi32(_mm256_and_si256(_mm256_cvtps_epi32(b), byte), 8)),
           high = _mm256_or_si256(_mm256_and_si256(_mm256_cvtps_epi32(c), byte),
                                  _mm256_slli_epi32(_mm256_cvtps_epi32(d), 8));
  return _mm256_or_si256(low, _mm256_slli_epi32(high, 16));
}

/* ---- words of 16 bits, 2V of them ---- */

V_INLINE vi i_words(int x) { return _mm256_set1_epi16((short)x); }
V_INLINE vi i_high_bytes(const void *p) {
  return _mm256_slli_epi16(_mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)p)), 8);
} /* 256 times */
V_INLINE vi i_add16(vi a, vi b) { return _mm256_add_epi16(a, b); }
V_INLINE vi i_sub16(vi a, vi b) { return _mm256_sub_epi16(a, b); }
V_INLINE vi i_times4(vi x) { return _mm256_slli_epi16(x, 2); }
V_INLINE vi i_part32(vi x) { return _mm256_srai_epi16(x, 5); }       /* rounded down */
V_INLINE vi i_upper(vi a, vi b) { return _mm256_mulhi_epu16(a, b); } /* of products without sign */

/* ---- four-bit codes ---- */

V_INLINE vi i_low(vi w) { return _mm256_and_si256(w, i_bytes(15)); }
V_INLINE vi i_high(vi w) { return _mm256_and_si256(_mm256_srli_epi16(w, 4), i_bytes(15)); }
V_INLINE vi i_less(vi a, vi b) { return _mm256_sub_epi8(a, b); }
V_INLINE vi i_values(vi codes) {
  const __m128i table = _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), codes);
}
V_INLINE vi i_each(const void *p) {
  const __m128i first = _mm_setr_epi8(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12);
  return _mm256_shuffle_epi8(_mm256_cvtepu8_epi32(_mm_loadl_epi64(p)),
                             _mm256_broadcastsi128_si256(first));
}
V_INLINE vf v_half(const void *p) { return _mm256_cvtph_ps(_mm_loadu_si128(p)); }
V_INLINE vf v_e8m0(const void *p) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu8_epi32(_mm_loadl_epi64(p)), 23));
}
V_INLINE vf v_e4m3(const void *p) {
  __m128i x = _mm_slli_epi16(_mm_cvtepi8_epi16(_mm_loadl_epi64(p)), 7);
  return _mm256_cvtph_ps(_mm_and_si128(x, _mm_set1_epi16((short)0xbf80)));
}

#endif
