/* convert_u8_avx512.c - rows as 8-bit and 7-bit codes for AVX-512. */
#include "kernels/vec_avx512.h"

#define CONVERT_NAME(x) accel_##x##_convert_row__avx512
/* V bytes: x rounded, negative ones 0. */
V_INLINE void v_codes(uint8_t *p, vf x) {
  _mm_storeu_si128((__m128i *)p, _mm512_cvtusepi32_epi8(_mm512_cvtps_epi32(_mm512_max_ps(x, _mm512_setzero_ps()))));
}
/* 4V bytes: the same of four vectors, at most `most`. */
#define CONVERT_FOURS
V_INLINE void v_codes4(const int most, uint8_t *p, vf a, vf b, vf c, vf d) {
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  __m512i low = _mm512_packs_epi32(_mm512_cvtps_epi32(a), _mm512_cvtps_epi32(b)),
          high = _mm512_packs_epi32(_mm512_cvtps_epi32(c), _mm512_cvtps_epi32(d));
  __m512i bytes = _mm512_permutexvar_epi32(order, _mm512_packus_epi16(low, high));
  _mm512_storeu_si512(p, most < 255 ? _mm512_min_epu8(bytes, _mm512_set1_epi8((char)most)) : bytes);
}
/* out[i] = largest element of x[i], i < 4. */
#define CONVERT_LARGEST
V_INLINE void v_largest4(const vf *x, float *out) {
  const vf a = v_max(_mm512_unpacklo_ps(x[0], x[1]), _mm512_unpackhi_ps(x[0], x[1])),
           b = v_max(_mm512_unpacklo_ps(x[2], x[3]), _mm512_unpackhi_ps(x[2], x[3]));
  const __m512d c = _mm512_castps_pd(a), d = _mm512_castps_pd(b);
  vf all = v_max(_mm512_castpd_ps(_mm512_unpacklo_pd(c, d)), _mm512_castpd_ps(_mm512_unpackhi_pd(c, d)));
  all = v_max(all, _mm512_shuffle_f32x4(all, all, 0x4e));
  all = v_max(all, _mm512_shuffle_f32x4(all, all, 0xb1));
  _mm_storeu_ps(out, _mm512_castps512_ps128(all));
}
#include "kernels/convert_u8_body.h"
