/* conv_neon.c - convolutions for 64-bit Arm. */
#include "kernels/vec_neon.h"

#define GEMM_ROWS 14
#define GEMM_VECS 2
#define GEMM_TILE 14x8
#include "kernels/conv_body.h"
