/* attention_i8_avx512vnni.c - attention on 8-bit codes for AVX-512 with VNNI. */
#include "kernels/dot_avx512vnni.h"

#define GEMM_ROWS 14
#define GEMM_VECS 2
#include "kernels/attention_i8_body.h"
