/* narrow_neon.c - linear over bf16, fp16 and fp8 weights for 64-bit Arm. */
#include <stdbool.h>

#include "kernels/kernels.h"
#include "kernels/vec_neon.h"

#define GEMM_ROWS 14
#define GEMM_VECS 2
#define V_GELU    v_gelu_brief
#include "kernels/math_body.h"
#include "kernels/micro_body.h"
#include "kernels/tile_body.h"

V_INLINE vf widen_halves(const void *p) {
  float16x4_t half;
  memcpy(&half, p, sizeof half);
  return (vf)vcvt_f32_f16(half);
}
#define WIDEN_HALVES(p) widen_halves(p)
#include "kernels/narrow_four.h"
#include "kernels/narrow_body.h"

NARROW(CPU_LAYOUT_BF16, accel_bf16_linear_14x8__neon)
NARROW(CPU_LAYOUT_F16, accel_f16_linear_14x8__neon)
NARROW(CPU_LAYOUT_E4M3, accel_e4m3_linear_14x8__neon)
NARROW(CPU_LAYOUT_E5M2, accel_e5m2_linear_14x8__neon)
