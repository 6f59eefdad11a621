/* narrow_avx2.c - linear over bf16, fp16 and fp8 weights for AVX2 with F16C. */
#include <stdbool.h>

#include "kernels/kernels.h"
#include "kernels/vec_avx2.h"

#define GEMM_ROWS 6
#define GEMM_VECS 2
#define V_GELU    v_gelu_brief
#include "kernels/math_body.h"
#include "kernels/micro_body.h"
#include "kernels/tile_body.h"

/* 16 halves: columns 0..7 and 8..15 of one k. */
V_INLINE void widen_halves(__m256i halves, vf *out) {
  out[0] = _mm256_cvtph_ps(_mm256_castsi256_si128(halves));
  out[1] = _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1));
}

/* E4M3 moved by one bit is fp16 of value 2^-8: its top exponent bit is 0. */
V_INLINE __m256i e4m3_halves(__m256i upper_bytes) {
  return _mm256_and_si256(_mm256_srai_epi16(upper_bytes, 1), _mm256_set1_epi16((short)0xbf80));
}

/* Two k of a panel, exactly; E4M3 times 2^-8. */
V_INLINE void widen_pair(const int layout, const uint8_t *p, vf (*w)[GEMM_VECS]) {
  vf *even = w[0], *odd = w[1];
  if (layout == CPU_LAYOUT_BF16) {
    for (int j = 0; j < 2; j++) {
      __m256i codes = _mm256_loadu_si256((const __m256i *)(p + 32 * j));
      even[j] = _mm256_castsi256_ps(_mm256_slli_epi32(codes, 16));
      odd[j] = _mm256_castsi256_ps(_mm256_and_si256(codes, _mm256_set1_epi32((int)0xffff0000u)));
    }
  } else if (layout == CPU_LAYOUT_F16) {
    for (int j = 0; j < 2; j++) {
      even[j] = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p + 16 * j)));
      odd[j] = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p + 32 + 16 * j)));
    }
  } else {
    const __m256i codes = _mm256_loadu_si256((const __m256i *)p), low = _mm256_slli_epi16(codes, 8);
    if (layout == CPU_LAYOUT_E4M3) {
      widen_halves(e4m3_halves(low), even);
      widen_halves(e4m3_halves(codes), odd);
    } else {
      widen_halves(low, even);
      widen_halves(_mm256_and_si256(codes, _mm256_set1_epi16((short)0xff00)), odd);
    }
  }
}

#include "kernels/narrow_body.h"

NARROW(CPU_LAYOUT_BF16, accel_bf16_linear_6x16__avx2)
NARROW(CPU_LAYOUT_F16, accel_f16_linear_6x16__avx2)
NARROW(CPU_LAYOUT_E4M3, accel_e4m3_linear_6x16__avx2)
NARROW(CPU_LAYOUT_E5M2, accel_e5m2_linear_6x16__avx2)
