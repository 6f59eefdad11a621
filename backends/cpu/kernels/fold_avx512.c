/* fold_avx512.c - reductions and elementwise kernels for AVX-512. */
#include "kernels/vec_avx512.h"

#include "kernels/fold_body.h"
