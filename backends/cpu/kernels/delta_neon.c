/* delta_neon.c - gated_delta_rule for 64-bit Arm. */
#include "kernels/vec_neon.h"

#include "kernels/delta_body.h"
