/* lora_scalar.c - products with the matrices of adapters for plain C. */
#include "kernels/vec_scalar.h"

#include "kernels/lora_body.h"
