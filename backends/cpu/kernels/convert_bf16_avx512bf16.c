/* convert_bf16_avx512bf16.c - rows as bf16, rounded to nearest even, for AVX-512 BF16; denormals become zeros. */
#include "kernels/kernels.h"
#include "kernels/vec_avx512.h"

void accel_bf16_convert_row__avx512bf16(const float *x, int64_t ldx, int64_t rows, int64_t k, void *y, int64_t ldy,
                                        float *scale, float *zero) {
  const int64_t padded = (k + CPU_X_STEP - 1) / CPU_X_STEP * CPU_X_STEP;
  (void)scale, (void)zero;
  for (int64_t i = 0; i < rows; i++) {
    const float *from = x + i * ldx;
    uint16_t *to = (uint16_t *)y + i * ldy;
    int64_t j = 0;
    for (; j + 2 * V <= k; j += 2 * V)
      _mm512_storeu_si512(to + j, (__m512i)_mm512_cvtne2ps_pbh(v_load(from + j + V), v_load(from + j)));
    for (; j < padded; j += V) /* the rest, and zeros up to the end of the row */
      _mm256_storeu_si256((__m256i *)(void *)(to + j), (__m256i)_mm512_cvtneps_pbh(v_loadn(from + j, j < k ? k - j : 0)));
  }
}
