/* rows_scalar.c - norm, softmax, rope and elementwise kernels for plain C. */
#include "kernels/vec_scalar.h"

#include "kernels/rows_body.h"
