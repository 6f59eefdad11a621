/* narrow_scalar.c - linear over bf16, fp16 and fp8 weights in plain C. */
#include <stdbool.h>

#include "kernels/kernels.h"
#include "kernels/vec_scalar.h"

#define GEMM_ROWS 4
#define GEMM_VECS 2
#define V_GELU    v_gelu_brief
#include "kernels/math_body.h"
#include "kernels/micro_body.h"
#include "kernels/tile_body.h"

#include "kernels/narrow_four.h"
#include "kernels/narrow_body.h"

NARROW(CPU_LAYOUT_BF16, accel_bf16_linear_4x8__scalar)
NARROW(CPU_LAYOUT_F16, accel_f16_linear_4x8__scalar)
NARROW(CPU_LAYOUT_E4M3, accel_e4m3_linear_4x8__scalar)
NARROW(CPU_LAYOUT_E5M2, accel_e5m2_linear_4x8__scalar)
