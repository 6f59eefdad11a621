/* attention_simd128.c - attention for WebAssembly. */
#include "kernels/vec_simd128.h"

#define GEMM_ROWS 4
#define GEMM_VECS 2
#include "kernels/attention_body.h"
#include "kernels/decode_body.h"
