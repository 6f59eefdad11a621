/* gemm_i8_avx512.c - linear over int8 weights for AVX-512 without VNNI. */
#include "kernels/dot_avx512.h"

#define DOT_ACT   CPU_ACT_U7B
#define GEMM_ROWS 8
#define GEMM_VECS 2
#define GEMM_TILE 8x32
#include "kernels/gemm_i8_body.h"
