/* image_avx2.c - pooling, resizing, group norm and scans for AVX2 and FMA. */
#include "kernels/vec_avx2.h"

#include "kernels/image_body.h"
