/* attention_bf16_avx512bf16.c - attention of bf16 for AVX-512 BF16. */
#include "kernels/pairs_avx512bf16.h"

#define GEMM_ROWS      14
#define GEMM_VECS      2
#define ATTENTION_HEAD accel_f32_attention_bf16_head__avx512bf16
#define DECODE_HEAD    accel_f32_decode_bf16_head__avx512bf16
#include "kernels/attention_body.h"
#include "kernels/decode_body.h"
