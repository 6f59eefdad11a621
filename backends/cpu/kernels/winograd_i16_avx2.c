/* winograd_i16_avx2.c - 3x3 convolutions of codes of seven bits by windows for AVX2. */
#include "kernels/dot_avx2.h"

#define DOT_PRODUCT i_dot_words
#define GEMM_ROWS   6
#define GEMM_VECS   2
#define GEMM_TILE   6x16
#define WORDS_GAIN  2
#include "kernels/winograd_i16_body.h"
