/* convert_u8_simd128.c - rows as 8-bit and 7-bit codes for WebAssembly. */
#include "kernels/vec_simd128.h"

#define CONVERT_NAME(x) accel_##x##_convert_row__simd128
/* V bytes: x rounded, negative ones 0. */
V_INLINE void v_codes(uint8_t *p, vf x) {
  const v128_t words = wasm_u32x4_trunc_sat_f32x4(wasm_f32x4_nearest((v128_t)x));
  const v128_t halves = wasm_u16x8_narrow_i32x4(words, words);
  wasm_v128_store32_lane(p, wasm_u8x16_narrow_i16x8(halves, halves), 0);
}
#include "kernels/convert_u8_body.h"
