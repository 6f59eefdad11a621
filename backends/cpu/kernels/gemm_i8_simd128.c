/* gemm_i8_simd128.c - linear over int8 weights for WebAssembly. */
#include "kernels/dot_simd128.h"

#define DOT_ACT   CPU_ACT_U8B
#define GEMM_ROWS 4
#define GEMM_VECS 2
#define GEMM_TILE 4x8
#include "kernels/gemm_i8_body.h"
