/* gemm_i4_scalar.c - linear over four-bit weights for plain C. */
#include "kernels/dot_scalar.h"

#define GEMM_ROWS 4
#define GEMM_VECS 2
#define GEMM_TILE 4x8
#include "kernels/gemm_i4_body.h"
