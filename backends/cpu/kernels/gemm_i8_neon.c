/* gemm_i8_neon.c - linear over int8 weights for 64-bit Arm. */
#include "kernels/dot_neon.h"

#define DOT_ACT   CPU_ACT_S8B
#define GEMM_ROWS 6
#define GEMM_VECS 4
#define GEMM_TILE 6x16
#include "kernels/gemm_i8_body.h"
