/* gemm_simd128.c - linear, packing and activations for WebAssembly. */
#include "kernels/vec_simd128.h"

#define GEMM_ROWS 4
#define GEMM_VECS 2
#define GEMM_TILE 4x8
#include "kernels/gemm_body.h"
