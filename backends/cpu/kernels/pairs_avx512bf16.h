/* pairs_avx512bf16.h - floats that are pairs of bf16: two products an instruction, with fp32 sums
 * between them.  vdpbf16ps reads denormals as zeros and gives none, and rounds to nearest. */
#ifndef ACCEL_CPU_PAIRS_AVX512BF16_H
#define ACCEL_CPU_PAIRS_AVX512BF16_H

#include "kernels/bf16_avx512bf16.h"

#define MICRO_PER            2
#define MICRO_ADD(sum, a, b) v_add_pairs(sum, a, b)
#define MICRO_PAIR_UP(a, b)  v_pair_up(a, b)

V_INLINE vf v_pairs_dot_bf16(vf sum, vi a, vi b) {
  return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
}
V_INLINE void v_add_pairs(vf *sum, vf a, vf b) {
  *sum = v_pairs_dot_bf16(*sum, _mm512_castps_si512(a), _mm512_castps_si512(b));
}

#endif
