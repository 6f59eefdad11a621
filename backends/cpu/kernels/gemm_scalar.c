/* gemm_scalar.c - linear, packing and activations for plain C. */
#include "kernels/vec_scalar.h"

#define GEMM_ROWS 4
#define GEMM_VECS 2
#define GEMM_TILE 4x8
#include "kernels/gemm_body.h"
