/* winograd_i16_avx512vnni.c - 3x3 convolutions of codes by windows for AVX-512 with VNNI. */
#include "kernels/dot_avx512vnni.h"

#define DOT_PRODUCT i_dot_words
#define GEMM_ROWS   14
#define GEMM_VECS   2
#define GEMM_TILE   14x32
#include "kernels/winograd_i16_body.h"
