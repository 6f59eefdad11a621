/* convert_bf16_body.h - rows as bf16, included by convert_bf16_<isa>.c after pairs_avx512bf16.h. */
#include "kernels/kernels.h"

void CONVERT_NAME(const float *x, int64_t ldx, int64_t rows, int64_t k, void *y, int64_t ldy,
                  float *scale, float *zero) {
  (void)scale, (void)zero;
  for (int64_t i = 0; i < rows; i++)
    v_narrow_row(x + i * ldx, k, cpu_act_padded(k), (uint16_t *)y + i * ldy);
}
