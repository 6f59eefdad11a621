/* rows_avx2.c - norm, softmax, rope and elementwise kernels for AVX2 and FMA. */
#include "kernels/vec_avx2.h"

#include "kernels/rows_body.h"
