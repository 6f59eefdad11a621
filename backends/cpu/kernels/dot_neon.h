/* dot_neon.h - the vocabulary of dot_body.h on 4 sums: 64-bit Arm.  Codes of x are signed here
 * (CPU_ACT_S8), as the products of this ISA want them. */
#ifndef ACCEL_CPU_DOT_NEON_H
#define ACCEL_CPU_DOT_NEON_H

#include "kernels/vec_neon.h"

#if defined(__ARM_FEATURE_DOTPROD)
#define DOT_NAME_(dtype, op, tile) accel_##dtype##_##op##_##tile##__neondot
#else
#define DOT_NAME_(dtype, op, tile) accel_##dtype##_##op##_##tile##__neon
#endif
#define DOT_NAME(dtype, op, tile) DOT_NAME_(dtype, op, tile)

typedef int32x4_t vi;

V_INLINE vi i_zero(void) { return vdupq_n_s32(0); }
V_INLINE vi i_load(const void *p) { return vreinterpretq_s32_s8(vld1q_s8((const int8_t *)p)); }
V_INLINE vi i_four(const void *p) {
  int32_t four;
  __builtin_memcpy(&four, p, sizeof four);
  return vdupq_n_s32(four);
}
V_INLINE vi i_add(vi a, vi b) { return vaddq_s32(a, b); }
V_INLINE void i_dot(vi *sum, vi x, vi w) {
  const int8x16_t a = vreinterpretq_s8_s32(x), b = vreinterpretq_s8_s32(w);
#if defined(__ARM_FEATURE_DOTPROD)
  *sum = vdotq_s32(*sum, a, b);
#else
  const int32x4_t low = vpaddlq_s16(vmull_s8(vget_low_s8(a), vget_low_s8(b))),
                  high = vpaddlq_s16(vmull_high_s8(a, b));
  *sum = vaddq_s32(*sum, vpaddq_s32(low, high));
#endif
}
V_INLINE vf i_float(vi x) { return (vf)vcvtq_f32_s32(x); }
/* Both; the products are added in any way. */
V_INLINE void i_dot2(vi *sum, vi x, vi w, vi x2, vi w2) {
  i_dot(sum, x, w);
  i_dot(sum, x2, w2);
}

/* ---- four-bit codes ---- */

V_INLINE void i_store(void *p, vi x) { vst1q_s8((int8_t *)p, vreinterpretq_s8_s32(x)); }
V_INLINE vi i_bytes(int x) { return vreinterpretq_s32_s8(vdupq_n_s8((int8_t)x)); }
V_INLINE vi i_low(vi w) { return vandq_s32(w, i_bytes(15)); }
V_INLINE vi i_high(vi w) { return vreinterpretq_s32_u8(vshrq_n_u8(vreinterpretq_u8_s32(w), 4)); }
V_INLINE vi i_less(vi a, vi b) {
  return vreinterpretq_s32_s8(vsubq_s8(vreinterpretq_s8_s32(a), vreinterpretq_s8_s32(b)));
}
V_INLINE vi i_values(vi codes) {
  const int8x16_t table = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  return vreinterpretq_s32_s8(vqtbl1q_s8(table, vreinterpretq_u8_s32(codes)));
}
V_INLINE vi i_each(const void *p) {
  const uint8x16_t each = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
  return vreinterpretq_s32_u8(vqtbl1q_u8(vreinterpretq_u8_s32(i_four(p)), each));
}
V_INLINE vf v_half(const void *p) {
  return (vf)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16((const uint16_t *)p)));
}
/* Four bytes, sign extended to 16 bits. */
V_INLINE int16x4_t i_widen(const void *p) {
  return vget_low_s16(vmovl_s8(vget_low_s8(vreinterpretq_s8_s32(i_four(p)))));
}
V_INLINE vf v_e8m0(const void *p) {
  const uint16x4_t code = vand_u16(vreinterpret_u16_s16(i_widen(p)), vdup_n_u16(255));
  return (vf)vshlq_n_u32(vmovl_u16(code), 23);
}
V_INLINE vf v_e4m3(const void *p) {
  const uint16x4_t half =
      vand_u16(vreinterpret_u16_s16(vshl_n_s16(i_widen(p), 7)), vdup_n_u16(0xbf80));
  return (vf)vcvt_f32_f16(vreinterpret_f16_u16(half));
}

#endif
