/* convert_bf16_avx512bf16.c - rows as bf16 for AVX-512 BF16. */
#include "kernels/kernels.h"
#include "kernels/pairs_avx512bf16.h"

void accel_bf16_convert_row__avx512bf16(const float *x, int64_t ldx, int64_t rows, int64_t k,
                                        void *y, int64_t ldy, float *scale, float *zero) {
  (void)scale, (void)zero;
  for (int64_t i = 0; i < rows; i++)
    v_narrow_row(x + i * ldx, k, cpu_act_padded(k), (uint16_t *)y + i * ldy);
}
