/* dot_simd128.h - the vocabulary of dot_body.h on 4 sums for WebAssembly. */
#ifndef ACCEL_CPU_DOT_SIMD128_H
#define ACCEL_CPU_DOT_SIMD128_H

#include "kernels/vec_simd128.h"

#define DOT_NAME_(dtype, op, tile) accel_##dtype##_##op##_##tile##__simd128
#define DOT_NAME(dtype, op, tile)  DOT_NAME_(dtype, op, tile)

#include "kernels/dot_four.h"

V_INLINE void i_dot(vi *sum, vi x, vi w) {
  const v128_t a = (v128_t)x, b = (v128_t)w;
  const v128_t low = wasm_i32x4_dot_i16x8(wasm_u16x8_extend_low_u8x16(a),
                                          wasm_i16x8_extend_low_i8x16(b)),
               high = wasm_i32x4_dot_i16x8(wasm_u16x8_extend_high_u8x16(a),
                                           wasm_i16x8_extend_high_i8x16(b));
  *sum +=
      (vi)wasm_i32x4_shuffle(low, high, 0, 2, 4, 6) + (vi)wasm_i32x4_shuffle(low, high, 1, 3, 5, 7);
}
V_INLINE vi i_values(vi codes) {
  const v128_t table = wasm_i8x16_const(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
  return (vi)wasm_i8x16_swizzle(table, (v128_t)codes);
}

#endif
