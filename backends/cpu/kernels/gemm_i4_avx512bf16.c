/* gemm_i4_avx512bf16.c - linear over four-bit weights for AVX-512 with VNNI on AMD's processors (gemm_i4_body.h: I4_ASK). */
#include "kernels/dot_avx512vnni.h"

#undef DOT_NAME_
#define DOT_NAME_(dtype, op, tile) accel_##dtype##_##op##_##tile##__avx512bf16
#define GEMM_ROWS                  14
#define GEMM_VECS                  2
#define GEMM_TILE                  14x32
#include "kernels/gemm_i4_body.h"
