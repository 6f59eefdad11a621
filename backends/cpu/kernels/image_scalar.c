/* image_scalar.c - pooling, resizing, group norm and scans for plain C. */
#include "kernels/vec_scalar.h"

#include "kernels/image_body.h"
