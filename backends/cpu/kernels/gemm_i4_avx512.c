/* gemm_i4_avx512.c - linear over four-bit weights for AVX-512 without VNNI. */
#include "kernels/dot_avx512.h"

#define GEMM_ROWS      8
#define GEMM_VECS      2
#define GEMM_TILE      8x32
#define I4_PREFETCH(p) v_prefetch_far(p)
#include "kernels/gemm_i4_body.h"
