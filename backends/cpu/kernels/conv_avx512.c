/* conv_avx512.c - convolutions for AVX-512. */
#include "kernels/vec_avx512.h"

#define GEMM_ROWS 14
#define GEMM_VECS 2
#define GEMM_TILE 14x32
#include "kernels/conv_body.h"
