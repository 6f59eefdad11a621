/* attention_scalar.c - attention for plain C. */
#include "kernels/vec_scalar.h"

#define GEMM_ROWS 4
#define GEMM_VECS 2
#include "kernels/attention_body.h"
#include "kernels/decode_body.h"
