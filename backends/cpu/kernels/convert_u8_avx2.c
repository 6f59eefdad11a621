/* convert_u8_avx2.c - rows as 8-bit and 7-bit codes for AVX2. */
#include "kernels/vec_avx2.h"

#define CONVERT_NAME(x) accel_##x##_convert_row__avx2
/* V bytes: x rounded, negative ones 0. */
V_INLINE void v_codes(uint8_t *p, vf x) {
  __m256i n = _mm256_cvtps_epi32(x);
  __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(n), _mm256_extracti128_si256(n, 1));
  _mm_storel_epi64((__m128i *)p, _mm_packus_epi16(words, words));
}
/* 4V bytes: the same of four vectors, at most `most`. */
#define CONVERT_FOURS
V_INLINE void v_codes4(const int most, uint8_t *p, vf a, vf b, vf c, vf d) {
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  __m256i low = _mm256_packs_epi32(_mm256_cvtps_epi32(a), _mm256_cvtps_epi32(b)),
          high = _mm256_packs_epi32(_mm256_cvtps_epi32(c), _mm256_cvtps_epi32(d));
  __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(low, high), order);
  _mm256_storeu_si256((__m256i *)p, most < 255 ? _mm256_min_epu8(bytes, _mm256_set1_epi8((char)most)) : bytes);
}
#include "kernels/convert_u8_body.h"
