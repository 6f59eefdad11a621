/* convert_bf16_amx.c - rows as bf16 for AMX's processors, which have AVX-512 BF16. */
#include "kernels/pairs_avx512bf16.h"

#define CONVERT_NAME accel_bf16_convert_row__amx
#include "kernels/convert_bf16_body.h"
