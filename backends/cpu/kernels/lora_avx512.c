/* lora_avx512.c - products with the matrices of adapters for AVX-512. */
#include "kernels/vec_avx512.h"

#include "kernels/lora_body.h"
