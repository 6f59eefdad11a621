/* fold_scalar.c - reductions and elementwise kernels for plain C. */
#include "kernels/vec_scalar.h"

#include "kernels/fold_body.h"
