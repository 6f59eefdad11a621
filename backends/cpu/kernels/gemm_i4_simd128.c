/* gemm_i4_simd128.c - linear over four-bit weights for WebAssembly. */
#include "kernels/dot_simd128.h"

#define GEMM_ROWS 4
#define GEMM_VECS 2
#define GEMM_TILE 4x8
#include "kernels/gemm_i4_body.h"
