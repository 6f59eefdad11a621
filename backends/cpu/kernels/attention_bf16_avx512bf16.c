/* attention_bf16_avx512bf16.c - attention of bf16 for AVX-512 BF16. */
#include "kernels/pairs_avx512bf16.h"

#define GEMM_ROWS               14
#define GEMM_VECS               2
#define ATTENTION_PER           2
#define ATTENTION_HEAD          accel_f32_attention_bf16_head__avx512bf16
#define ATTENTION_PAIR_UP(a, b) v_pair_up(a, b)
#define MICRO_ADD(sum, a, b)    v_add_pairs(sum, a, b)
#include "kernels/attention_body.h"
