/* lora_avx2.c - products with the matrices of adapters for AVX2 and FMA. */
#include "kernels/vec_avx2.h"

#include "kernels/lora_body.h"
