/* gemm_bf16_avx512bf16.c - linear over bf16 weights and rows of bf16 for AVX-512 BF16: a pair of k
 * is one element of 32 bits, so the fp32 walk and its register tiles serve as they are. */
#include "kernels/pairs_avx512bf16.h"

#define GEMM_ROWS   14
#define GEMM_VECS   2
#define GEMM_LINEAR accel_bf16_linear_14x32__avx512bf16
#define V_GELU      v_gelu_brief
#include "kernels/gemm_body.h"
