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

V_INLINE vf widen_halves(const void *p) {
  uint16_t half[4];
  memcpy(half, p, sizeof half);
  const vu bits = {half[0], half[1], half[2], half[3]}, exponent = bits & 0x7c00u;
  const vu normal = ((bits & 0x7fffu) << 13) + 0x38000000u; /* the exponent's bias from 15 to 127 */
  const vf subnormal = __builtin_convertvector((vm)(bits & 0x3ffu), vf) * 0x1p-24f;
  const vu infinite = (vu)(exponent == 0x7c00u) & 0x38000000u, none = (vu)(exponent == 0u);
  return (vf)((bits & 0x8000u) << 16 | (none & (vu)subnormal) | (~none & (normal + infinite)));
}
#define WIDEN_HALVES(p) widen_halves(p)
#include "kernels/narrow_four.h"
#include "kernels/narrow_body.h"

NARROW(CPU_LAYOUT_BF16, accel_bf16_linear_4x8__scalar)
NARROW(CPU_LAYOUT_F16, accel_f16_linear_4x8__scalar)
NARROW(CPU_LAYOUT_E4M3, accel_e4m3_linear_4x8__scalar)
NARROW(CPU_LAYOUT_E5M2, accel_e5m2_linear_4x8__scalar)
