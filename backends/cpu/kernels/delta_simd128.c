/* delta_simd128.c - gated_delta_rule for WebAssembly. */
#include "kernels/vec_simd128.h"

#include "kernels/delta_body.h"
