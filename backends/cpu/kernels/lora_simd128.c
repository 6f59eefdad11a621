/* lora_simd128.c - products with the matrices of adapters for WebAssembly. */
#include "kernels/vec_simd128.h"

#include "kernels/lora_body.h"
