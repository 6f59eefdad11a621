/* attention_avx512.c - attention for AVX-512. */
#include "kernels/vec_avx512.h"

#define GEMM_ROWS 14
#define GEMM_VECS 2
#include "kernels/attention_body.h"
#include "kernels/decode_body.h"
