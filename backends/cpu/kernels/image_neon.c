/* image_neon.c - pooling, resizing, group norm and scans for 64-bit Arm. */
#include "kernels/vec_neon.h"

#include "kernels/image_body.h"
