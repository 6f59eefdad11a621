/* gemm_i8_avx2.c - linear over int8 weights for AVX2. */
#include "kernels/dot_avx2.h"

#define DOT_ACT   CPU_ACT_U7B
#define GEMM_ROWS 4
#define GEMM_VECS 2
#define GEMM_TILE 4x16
#include "kernels/gemm_i8_body.h"
