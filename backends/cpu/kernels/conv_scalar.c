/* conv_scalar.c - convolutions for plain C. */
#include "kernels/vec_scalar.h"

#define GEMM_ROWS 4
#define GEMM_VECS 2
#define GEMM_TILE 4x8
#include "kernels/conv_body.h"
