/* fold_neon.c - reductions and elementwise kernels for 64-bit Arm. */
#include "kernels/vec_neon.h"

#include "kernels/fold_body.h"
