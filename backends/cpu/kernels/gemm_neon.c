/* gemm_neon.c - linear, packing and activations for 64-bit Arm. */
#include "kernels/vec_neon.h"

#define GEMM_ROWS 14
#define GEMM_VECS 2
#define GEMM_TILE 14x8
#include "kernels/gemm_body.h"
