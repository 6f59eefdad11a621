/* rows_simd128.c - norm, softmax, rope and elementwise kernels for WebAssembly. */
#include "kernels/vec_simd128.h"

#include "kernels/rows_body.h"
