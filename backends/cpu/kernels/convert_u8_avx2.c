/* convert_u8_avx2.c - rows as 8-bit and 7-bit codes for AVX2. */
#include "kernels/vec_avx2.h"

#define CONVERT_NAME(x) accel_##x##_convert_row__avx2
#define CONVERT_FOURS
/* out[i] = largest element of x[i], i < 4. */
#define CONVERT_LARGEST
V_INLINE void v_largest4(const vf *x, float *out) {
  const vf a = v_max(_mm256_unpacklo_ps(x[0], x[1]), _mm256_unpackhi_ps(x[0], x[1])),
           b = v_max(_mm256_unpacklo_ps(x[2], x[3]), _mm256_unpackhi_ps(x[2], x[3]));
  const __m256d c = _mm256_castps_pd(a), d = _mm256_castps_pd(b);
  const vf all =
      v_max(_mm256_castpd_ps(_mm256_unpacklo_pd(c, d)), _mm256_castpd_ps(_mm256_unpackhi_pd(c, d)));
  _mm_storeu_ps(out, _mm_max_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1)));
}
#include "kernels/convert_u8_body.h"
