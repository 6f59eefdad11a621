/* image_simd128.c - pooling, resizing, group norm and scans for WebAssembly. */
#include "kernels/vec_simd128.h"

#include "kernels/image_body.h"
