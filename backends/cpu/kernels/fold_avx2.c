/* fold_avx2.c - reductions and elementwise kernels for AVX2 and FMA. */
#include "kernels/vec_avx2.h"

#include "kernels/fold_body.h"
