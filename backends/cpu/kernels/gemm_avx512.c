/* gemm_avx512.c - linear, packing and activations for AVX-512. */
#include "kernels/vec_avx512.h"

#define GEMM_ROWS 14
#define GEMM_VECS 2
#define GEMM_TILE 14x32
#include "kernels/gemm_body.h"
