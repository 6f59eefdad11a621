/* conv_avx2.c - convolutions for AVX2 and FMA. */
#include "kernels/vec_avx2.h"

#define GEMM_ROWS 6
#define GEMM_VECS 2
#define GEMM_TILE 6x16
#include "kernels/conv_body.h"
