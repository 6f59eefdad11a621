/* dot_simd128.h - the vocabulary of dot_body.h on 4 sums for WebAssembly. */
#ifndef ACCEL_CPU_DOT_SIMD128_H
#define ACCEL_CPU_DOT_SIMD128_H

#include "kernels/vec_simd128.h"

#define DOT_NAME_(dtype, op, tile) accel_##dtype##_##op##_##tile##__simd128
#define DOT_NAME(dtype, op, tile)  DOT_NAME_(dtype, op, tile)

#include "kernels/dot_four.h"

/* Codes 0 and 2 of each four, then 1 and 3: pairs of products are added where their sum belongs. */
V_INLINE void i_dot(vi *sum, vi x, vi w) {
  const v128_t x_even = (v128_t)(x & 0x00ff00ff), x_odd = wasm_u16x8_shr((v128_t)x, 8);
  const v128_t w_even = wasm_i16x8_shr(wasm_i16x8_shl((v128_t)w, 8), 8),
               w_odd = wasm_i16x8_shr((v128_t)w, 8);
  *sum += (vi)wasm_i32x4_dot_i16x8(x_even, w_even) + (vi)wasm_i32x4_dot_i16x8(x_odd, w_odd);
}
V_INLINE vi i_values(vi codes) {
  const v128_t table = wasm_i8x16_const(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
  return (vi)wasm_i8x16_swizzle(table, (v128_t)codes);
}

#endif
