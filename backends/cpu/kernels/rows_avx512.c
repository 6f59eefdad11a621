/* rows_avx512.c - norm, softmax, rope and elementwise kernels for AVX-512. */
#include "kernels/vec_avx512.h"

#include "kernels/rows_body.h"
