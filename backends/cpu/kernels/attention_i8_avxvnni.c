/* attention_i8_avxvnni.c - attention that turns fp32 q, k and v into 8-bit codes
 * (attention_i8_body.h), for AVX2 with AVX-VNNI. */
#include "kernels/dot_avxvnni.h"

#define GEMM_ROWS 6
#define GEMM_VECS 2
#include "kernels/attention_i8_body.h"
