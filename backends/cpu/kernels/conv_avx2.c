/* conv_avx2.c - the kernels of conv_body.h for AVX2 and FMA: convolutions, Winograd, depthwise,
 * transposed. */
#include "kernels/vec_avx2.h"

#define GEMM_ROWS 6
#define GEMM_VECS 2
#define GEMM_TILE 6x16
#include "kernels/conv_body.h"
