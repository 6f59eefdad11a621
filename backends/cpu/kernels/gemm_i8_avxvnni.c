/* gemm_i8_avxvnni.c - linear over int8 weights for AVX2 with AVX-VNNI. */
#include "kernels/dot_avxvnni.h"

#define DOT_ACT   CPU_ACT_U8B
#define GEMM_ROWS 6
#define GEMM_VECS 2
#define GEMM_TILE 6x16
#include "kernels/gemm_i8_body.h"
