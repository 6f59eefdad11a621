/* bf16_avx512bf16.h - floats to bf16 for AVX-512 BF16, rounded to nearest even, denormals to zero. */
#ifndef ACCEL_CPU_BF16_AVX512BF16_H
#define ACCEL_CPU_BF16_AVX512BF16_H

#include "kernels/vec_avx512.h"

/* Lane by lane the pair of a, then b, rounded to nearest even. */
V_INLINE vf v_pair_up(vf a, vf b) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24,
                                         8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_castsi512_ps(_mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(b, a)));
}

/* Lanes of a, then those of b, rounded. */
V_INLINE vf v_narrow(vf a, vf b) { return _mm512_castsi512_ps((__m512i)_mm512_cvtne2ps_pbh(b, a)); }

/* 2^x for x <= 0 or hardly above, within 1e-7, as v_exp2_negative with fewer instructions. */
V_INLINE vf v_exp2_weight(vf x) {
  const vf f = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  vf p = v_set(1.8775767e-3f);
  p = v_fma(p, f, v_set(8.989341e-3f));
  p = v_fma(p, f, v_set(5.5826318e-2f));
  p = v_fma(p, f, v_set(2.4015361e-1f));
  p = v_fma(p, f, v_set(6.931531e-1f));
  p = v_fma(p, f, v_set(1.0f));
  return _mm512_scalef_ps(p, x);
}

/* x[n] as bf16 at y, which may lie at x, and zeros behind them up to a multiple of 16 that is not
 * below `padded`. */
V_INLINE void v_narrow_row(const float *x, int64_t n, int64_t padded, void *y) {
  __m256i *to = y;
  int64_t j = 0;
  for (; j + 2 * V <= n; j += 2 * V, to += 2)
    _mm512_storeu_si512(to, (__m512i)_mm512_cvtne2ps_pbh(v_load(x + j + V), v_load(x + j)));
  for (; j < padded; j += V)
    _mm256_storeu_si256(to++, (__m256i)_mm512_cvtneps_pbh(v_loadn(x + j, j < n ? n - j : 0)));
}

#endif
