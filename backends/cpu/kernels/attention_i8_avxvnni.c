/* attention_i8_avxvnni.c - attention on 8-bit codes for AVX2 with AVX-VNNI. */
#include "kernels/dot_avxvnni.h"

#define GEMM_ROWS 6
#define GEMM_VECS 2
#include "kernels/attention_i8_body.h"
