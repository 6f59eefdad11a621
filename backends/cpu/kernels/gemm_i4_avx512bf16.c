/* gemm_i4_avx512bf16.c - linear over four-bit weights for AVX-512 with VNNI on AMD's processors:
 * codes are prefetched into the first level (gemm_i4_body.h: I4_PREFETCH), and the tile is so low
 * that its fp32 sums stay in registers (DOT_HOLDS): there a store costs as much as two products,
 * and blocks are as short as 16. */
#include "kernels/dot_avx512vnni.h"

#undef DOT_NAME_
#define DOT_NAME_(dtype, op, tile) accel_##dtype##_##op##_##tile##__avx512bf16
#define GEMM_ROWS                  6
#define GEMM_VECS                  2
#define GEMM_TILE                  6x32
#include "kernels/gemm_i4_body.h"
