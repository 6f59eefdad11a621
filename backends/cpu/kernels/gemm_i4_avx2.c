/* gemm_i4_avx2.c - linear over four-bit weights for AVX2. */
#include "kernels/dot_avx2.h"

#define GEMM_ROWS 4
#define GEMM_VECS 2
#define GEMM_TILE 4x16
#include "kernels/gemm_i4_body.h"
