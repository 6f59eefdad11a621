/* winograd_i16_avx512.c - 3x3 convolutions of codes of seven bits by windows for AVX-512 without
 * VNNI. */
#include "kernels/dot_avx512.h"

#define DOT_PRODUCT i_dot_words
#define GEMM_ROWS   14
#define GEMM_VECS   2
#define GEMM_TILE   14x32
#define WORDS_GAIN  2
#include "kernels/winograd_i16_body.h"
