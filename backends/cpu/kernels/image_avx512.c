/* image_avx512.c - pooling, resizing, group norm and scans for AVX-512. */
#include "kernels/vec_avx512.h"

#include "kernels/image_body.h"
