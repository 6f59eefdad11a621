/* convert_u8_avx2.c - rows as 8-bit and 7-bit codes for AVX2. */
#include "kernels/vec_avx2.h"

#define CONVERT_NAME(x) accel_##x##_convert_row__avx2
/* V bytes: x rounded, negative ones 0. */
V_INLINE void v_codes(uint8_t *p, vf x) {
  __m256i n = _mm256_cvtps_epi32(x);
  __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(n), _mm256_extracti128_si256(n, 1));
  _mm_storel_epi64((__m128i *)p, _mm_packus_epi16(words, words));
}
#include "kernels/convert_u8_body.h"
