/* attention_bf16_avx512bf16.c - attention whose products are of bf16 pairs with fp32 sums: q and
 * the result are fp32; keys and values any cpu_attention.kv, in decoding bf16 alone.
 * cpu_attention.c chooses it (takes_bf16). */
#include "kernels/pairs_avx512bf16.h"

#define GEMM_ROWS      14
#define GEMM_VECS      2
#define ATTENTION_HEAD accel_f32_attention_bf16_head__avx512bf16
#define DECODE_HEAD    accel_f32_decode_bf16_head__avx512bf16
#include "kernels/attention_body.h"
#include "kernels/decode_body.h"
