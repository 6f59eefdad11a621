/* delta_avx512.c - gated_delta_rule for AVX-512. */
#include "kernels/vec_avx512.h"

#include "kernels/delta_body.h"
