/* winograd_i16_avxvnni.c - 3x3 convolutions of codes by windows for AVX2 with AVX-VNNI. */
#include "kernels/dot_avxvnni.h"

#define DOT_PRODUCT i_dot_words
#define GEMM_ROWS   6
#define GEMM_VECS   2
#define GEMM_TILE   6x16
#include "kernels/winograd_i16_body.h"
