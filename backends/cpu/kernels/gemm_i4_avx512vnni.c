/* gemm_i4_avx512vnni.c - linear over four-bit weights for AVX-512 with VNNI. */
#include "kernels/dot_avx512vnni.h"

#define GEMM_ROWS      14
#define GEMM_VECS      2
#define GEMM_TILE      14x32
#define I4_PREFETCH(p) v_prefetch_far(p)
#include "kernels/gemm_i4_body.h"
