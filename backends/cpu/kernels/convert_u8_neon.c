/* convert_u8_neon.c - rows as signed 8-bit codes for 64-bit Arm. */
#include "kernels/vec_neon.h"

#define CONVERT_NAME(x) accel_##x##_convert_row__neon
/* V bytes: x rounded, negative ones 0. */
V_INLINE void v_codes(uint8_t *p, vf x) {
  const uint16x4_t half = vqmovn_u32(vcvtnq_u32_f32((float32x4_t)x));
  const uint32_t four = vget_lane_u32(vreinterpret_u32_u8(vqmovn_u16(vcombine_u16(half, half))), 0);
  __builtin_memcpy(p, &four, sizeof four);
}
#define CONVERT_SIGNED
#include "kernels/convert_u8_body.h"
