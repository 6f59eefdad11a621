/* conv_pairs_avx512bf16.c - convolutions of bf16 for AVX-512 BF16. */
#include "kernels/pairs_avx512bf16.h"

#define GEMM_ROWS           14
#define GEMM_VECS           2
#define CONV_NAME           accel_f32_conv_pairs_14x32__avx512bf16
#define WINO_NAME           accel_f32_winograd_pairs_14x32__avx512bf16
#define CONV_ADD(sum, a, b) MICRO_ADD(sum, a, b)
#define CONV_ACTIVATE       activate
#define V_GELU              v_gelu_brief
#include "kernels/kernels.h"
#include "kernels/math_body.h"
#include "kernels/micro_body.h"
#include "kernels/tile_body.h"

#include "kernels/conv_gemm_body.h"
#include "kernels/winograd_body.h"
