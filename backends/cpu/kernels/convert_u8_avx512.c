/* convert_u8_avx512.c - rows as 8-bit and 7-bit codes for AVX-512. */
#include "kernels/vec_avx512.h"

#define CONVERT_NAME(x) accel_##x##_convert_row__avx512
#define CONVERT_FOURS
/* out[i] = largest element of x[i], i < 4. */
#define CONVERT_LARGEST
V_INLINE void v_largest4(const vf *x, float *out) {
  const vf a = v_max(_mm512_unpacklo_ps(x[0], x[1]), _mm512_unpackhi_ps(x[0], x[1])),
           b = v_max(_mm512_unpacklo_ps(x[2], x[3]), _mm512_unpackhi_ps(x[2], x[3]));
  const __m512d c = _mm512_castps_pd(a), d = _mm512_castps_pd(b);
  vf all =
      v_max(_mm512_castpd_ps(_mm512_unpacklo_pd(c, d)), _mm512_castpd_ps(_mm512_unpackhi_pd(c, d)));
  all = v_max(all, _mm512_shuffle_f32x4(all, all, 0x4e));
  all = v_max(all, _mm512_shuffle_f32x4(all, all, 0xb1));
  _mm_storeu_ps(out, _mm512_castps512_ps128(all));
}
/* Codes of V pixels of three channels, pixel by pixel. */
#define CONVERT_THREES
V_INLINE void v_codes_threes(uint8_t *p, vf a, vf b, vf c) {
  const __m512i bytes = _mm512_broadcast_i32x4(
                    _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1)),
                order = _mm512_setr_epi32(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 3, 7, 11, 15);
  const __m512i low = _mm512_or_si512(_mm512_cvtps_epi32(v_max(a, v_zero())),
                                      _mm512_slli_epi32(_mm512_cvtps_epi32(v_max(b, v_zero())), 8)),
                words = _mm512_or_si512(
                    low, _mm512_slli_epi32(_mm512_cvtps_epi32(v_max(c, v_zero())), 16));
  _mm512_mask_storeu_epi32(p, 0xfff,
                           _mm512_permutexvar_epi32(order, _mm512_shuffle_epi8(words, bytes)));
}
#include "kernels/convert_u8_body.h"
