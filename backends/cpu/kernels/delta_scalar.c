/* delta_scalar.c - gated_delta_rule for plain C. */
#include "kernels/vec_scalar.h"

#include "kernels/delta_body.h"
