/* delta_avx2.c - gated_delta_rule for AVX2 and FMA. */
#include "kernels/vec_avx2.h"

#include "kernels/delta_body.h"
