/* convert_bf16_avx512bf16.c - rows as bf16 for AVX-512 BF16. */
#include "kernels/pairs_avx512bf16.h"

#define CONVERT_NAME accel_bf16_convert_row__avx512bf16
#include "kernels/convert_bf16_body.h"
