/* convert_u8_avx512.c - rows as 8-bit and 7-bit codes for AVX-512. */
#include "kernels/vec_avx512.h"

#define CONVERT_NAME(x) accel_##x##_convert_row__avx512
/* V bytes: x rounded, negative ones 0. */
V_INLINE void v_codes(uint8_t *p, vf x) {
  _mm_storeu_si128((__m128i *)p, _mm512_cvtusepi32_epi8(_mm512_cvtps_epi32(_mm512_max_ps(x, _mm512_setzero_ps()))));
}
#include "kernels/convert_u8_body.h"
