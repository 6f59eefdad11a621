/* fold_simd128.c - reductions and elementwise kernels for WebAssembly. */
#include "kernels/vec_simd128.h"

#include "kernels/fold_body.h"
