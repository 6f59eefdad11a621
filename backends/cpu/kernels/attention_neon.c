/* attention_neon.c - attention for 64-bit Arm. */
#include "kernels/vec_neon.h"

#define GEMM_ROWS 14
#define GEMM_VECS 2
#include "kernels/attention_body.h"
#include "kernels/decode_body.h"
