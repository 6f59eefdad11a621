/* gemm_i4_neondot.c - linear over four-bit weights for 64-bit Arm with its dot product. */
#include "kernels/dot_neon.h"

#define GEMM_ROWS 6
#define GEMM_VECS 4
#define GEMM_TILE 6x16
#include "kernels/gemm_i4_body.h"
