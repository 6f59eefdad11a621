/* lora_neon.c - products with the matrices of adapters for NEON. */
#include "kernels/vec_neon.h"

#include "kernels/lora_body.h"
