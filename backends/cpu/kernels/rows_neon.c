/* rows_neon.c - norm, softmax, rope and elementwise kernels for 64-bit Arm. */
#include "kernels/vec_neon.h"

#include "kernels/rows_body.h"
