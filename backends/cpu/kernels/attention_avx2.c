/* attention_avx2.c - the kernels attention and decode (kernels.h: cpu_attention_fn, cpu_decode_fn)
 * for AVX2 and FMA. */
#include "kernels/vec_avx2.h"

#define GEMM_ROWS 6
#define GEMM_VECS 2
#include "kernels/attention_body.h"
#include "kernels/decode_body.h"
