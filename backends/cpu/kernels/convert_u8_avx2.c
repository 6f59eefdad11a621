/* convert_u8_avx2.c - rows as 8-bit and 7-bit codes for AVX2. */
#include "kernels/vec_avx2.h"

#define CONVERT_NAME(x) accel_##x##_convert_row__avx2
#define CONVERT_FOURS
#include "kernels/convert_u8_body.h"
