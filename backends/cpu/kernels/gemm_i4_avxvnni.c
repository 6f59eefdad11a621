/* gemm_i4_avxvnni.c - linear over four-bit weights for AVX2 with AVX-VNNI. */
#include "kernels/dot_avxvnni.h"

#define GEMM_ROWS 6
#define GEMM_VECS 2
#define GEMM_TILE 6x16
#include "kernels/gemm_i4_body.h"
