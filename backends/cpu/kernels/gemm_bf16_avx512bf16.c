/* gemm_bf16_avx512bf16.c - linear over bf16 weights and rows of bf16 for AVX-512 BF16.
 *
 * A pair of k is one element of 32 bits: vdpbf16ps adds two products to a sum, with fp32 between them, so the fp32 walk and
 * its register tiles serve as they are.  The instruction reads denormals as zeros and gives none. */
#include "kernels/vec_avx512.h"

#define GEMM_ROWS          14
#define GEMM_VECS          2
#define GEMM_PER           2
#define GEMM_LINEAR        accel_bf16_linear_14x32__avx512bf16
#define V_GELU             v_gelu_brief
#define MICRO_ADD(s, a, b) v_add_pairs(s, a, b)

V_INLINE __m512bh v_pairs(vf x) { return (__m512bh)_mm512_castps_si512(x); }
V_INLINE void v_add_pairs(vf *sum, vf a, vf b) { *sum = _mm512_dpbf16_ps(*sum, v_pairs(a), v_pairs(b)); }

#include "kernels/gemm_body.h"
