/* gemm_i8_avx512vnni.c - linear over int8 weights for AVX-512 with VNNI. */
#include "kernels/dot_avx512vnni.h"

#define DOT_ACT   CPU_ACT_U8B
#define GEMM_ROWS 14
#define GEMM_VECS 2
#define GEMM_TILE 14x32
#include "kernels/gemm_i8_body.h"
