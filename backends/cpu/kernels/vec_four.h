/* vec_four.h - the vector functions that kernel bodies use, on four floats in the compilers' vector
 * extension: what vec_scalar.h and vec_neon.h have in common.  The includer defines V_FMA(a, b, c),
 * V_FNMA(a, b, c) and V_SQRT(x). */
#ifndef ACCEL_CPU_VEC_FOUR_H
#define ACCEL_CPU_VEC_FOUR_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "formats/bf16.h"
#include "formats/fp16.h"

#define V        4
#define V_INLINE static inline __attribute__((always_inline))

typedef float vf __attribute__((vector_size(16)));
typedef int32_t vm __attribute__((vector_size(16)));  /* all ones or all zeros in each lane */
typedef uint32_t vu __attribute__((vector_size(16))); /* bits: wraps around */

V_INLINE vf v_load(const float *p) {
  vf x;
  memcpy(&x, p, sizeof x);
  return x;
}
V_INLINE vf v_zero(void) { return (vf){0, 0, 0, 0}; }
V_INLINE vf v_loadn(const float *p, int64_t n) {
  if (n >= V) return v_load(p);
  vf x = v_zero();
  for (int64_t i = 0; i < n; i++) x[i] = p[i];
  return x;
}
V_INLINE void v_store(float *p, vf x) { memcpy(p, &x, sizeof x); }
V_INLINE void v_storen(float *p, vf x, int64_t n) {
  if (n >= V)
    v_store(p, x);
  else
    for (int64_t i = 0; i < n; i++) p[i] = x[i];
}
/* p[0], p[2], .. p[2 (n - 1)], zeros from lane n on; nothing behind them is read. */
V_INLINE vf v_load_even(const float *p, int64_t n) {
  vf x = v_zero();
  for (int64_t i = 0; i < n && i < V; i++) x[i] = p[2 * i];
  return x;
}
/* Lanes from .. n-1 of p, zeros in the others, which are not read. */
V_INLINE vf v_load_between(const float *p, int64_t from, int64_t n) {
  vf x = v_zero();
  for (int64_t i = from > 0 ? from : 0; i < n && i < V; i++) x[i] = p[i];
  return x;
}
/* Lanes 0, 2, 4, .. of a then b; lanes 1, 3, .. */
V_INLINE vf v_even(vf a, vf b) { return (vf){a[0], a[2], b[0], b[2]}; }
V_INLINE vf v_odd(vf a, vf b) { return (vf){a[1], a[3], b[1], b[3]}; }
/* a[0], b[0], a[1], b[1], .. : the first V of them, the others. */
V_INLINE vf v_zip_low(vf a, vf b) { return (vf){a[0], b[0], a[1], b[1]}; }
V_INLINE vf v_zip_high(vf a, vf b) { return (vf){a[2], b[2], a[3], b[3]}; }
V_INLINE vf v_set(float x) { return (vf){x, x, x, x}; }
/* V halves, V bfloat16s as fp32. */
V_INLINE vf v_load_f16(const uint16_t *p) {
  return (vf){accel_fp16_to_f32(p[0]), accel_fp16_to_f32(p[1]), accel_fp16_to_f32(p[2]),
              accel_fp16_to_f32(p[3])};
}
V_INLINE vf v_load_bf16(const uint16_t *p) { return (vf)((vu){p[0], p[1], p[2], p[3]} << 16); }
/* V signed bytes as fp32. */
V_INLINE vf v_load_s8(const int8_t *p) { return (vf){p[0], p[1], p[2], p[3]}; }
/* the same of unsigned ones */
V_INLINE vf v_load_u8(const uint8_t *p) { return (vf){p[0], p[1], p[2], p[3]}; }
/* The other way, to nearest, ties to even; v_store_s8 of |x| <= 127. */
V_INLINE void v_store_f16(uint16_t *p, vf x) {
  for (int i = 0; i < V; i++) p[i] = accel_f32_to_fp16(x[i]);
}
V_INLINE void v_store_bf16(uint16_t *p, vf x) {
  for (int i = 0; i < V; i++) p[i] = accel_f32_to_bf16(x[i]);
}
V_INLINE void v_store_s8(int8_t *p, vf x) {
  for (int i = 0; i < V; i++) p[i] = (int8_t)lrintf(x[i]);
}
V_INLINE vf v_add(vf a, vf b) { return a + b; }
V_INLINE vf v_sub(vf a, vf b) { return a - b; }
V_INLINE vf v_mul(vf a, vf b) { return a * b; }
V_INLINE vf v_div(vf a, vf b) { return a / b; }
V_INLINE vf v_fma(vf a, vf b, vf c) { return V_FMA(a, b, c); }
V_INLINE vf v_fnma(vf a, vf b, vf c) { return V_FNMA(a, b, c); }
V_INLINE void v_accumulate(vf *sum, vf a, vf b) { *sum = v_fma(a, b, *sum); }
V_INLINE void v_fence(void) {}
/* x with the sign bit inverted where `sign` is -0. */
V_INLINE vf v_flip(vf x, vf sign) { return (vf)((vm)x ^ (vm)sign); }
V_INLINE vm v_lt(vf a, vf b) { return (vm)(a < b); }
V_INLINE vf v_select(vm m, vf yes, vf no) { return (vf)(((vm)yes & m) | ((vm)no & ~m)); }
/* y where x is not below `low` (or is NaN), else 0. */
V_INLINE vf v_cut(vf x, vf low, vf y) { return (vf)(~v_lt(x, low) & (vm)y); }
/* b when either is NaN, as on x86 */
V_INLINE vf v_min(vf a, vf b) { return v_select(v_lt(a, b), a, b); }
V_INLINE vf v_max(vf a, vf b) { return v_select(v_lt(b, a), a, b); }
V_INLINE vf v_sqrt(vf x) { return V_SQRT(x); }
V_INLINE vf v_abs(vf x) { return (vf)((vu)x & 0x7fffffffu); }
V_INLINE vf v_copysign(vf x, vf sign) {
  return (vf)(((vu)x & 0x7fffffffu) | ((vu)sign & 0x80000000u));
}
/* For |x| < 2^22; larger ones and NaN pass unchanged. */
V_INLINE vf v_rint(vf x) {
  vf magic = v_copysign(v_set(8388608.0f), x);
  return v_select(v_lt(v_abs(x), v_set(4194304.0f)), (x + magic) - magic, x);
}
/* Integral n, |n| < 2^22, as two's complement; anything for others. */
V_INLINE vu v_bits(vf n) { return (vu)(n + v_set(12582912.0f)) - 0x4b400000u; }
/* x 2^n for integral n; only for results that are normal numbers. */
V_INLINE vf v_ldexp_normal(vf x, vf n) { return x * (vf)(((v_bits(n) + 127u) & 0xffu) << 23); }
/* Same for |n| <= 252 and every result. */
V_INLINE vf v_ldexp(vf x, vf n) {
  vf half = v_rint(n * 0.5f);
  return v_ldexp_normal(v_ldexp_normal(x, half), n - half);
}
/* 2^n for m = V_MAGIC + n, |n| <= 126. */
/* 3 2^22 + 127: what is added to it is rounded to an integer, its low bits are the exponent */
#define V_MAGIC 12583039.0f
V_INLINE vf v_power(vf m) { return (vf)((vu)m << 23); }
/* Mantissa in [1/sqrt 2, sqrt 2) and exponent of positive normal or denormal x. */
V_INLINE vf v_frexp(vf x, vf *exponent) {
  vm tiny = v_lt(x, v_set(1.17549435e-38f));
  x = v_select(tiny, x * 8388608.0f, x);
  vm e = (vm)((vu)x - 0x3f3504f3u) >> 23; /* 1/sqrt 2 */
  *exponent = __builtin_convertvector(e, vf) - v_select(tiny, v_set(23.0f), v_zero());
  return (vf)((vu)x - ((vu)e << 23));
}
V_INLINE float v_sum(vf x) { return (x[0] + x[2]) + (x[1] + x[3]); }
/* Largest element; what it answers when one is NaN is not defined. */
V_INLINE float v_largest(vf x) {
  float a = x[0] > x[1] ? x[0] : x[1], b = x[2] > x[3] ? x[2] : x[3];
  return a > b ? a : b;
}
/* Into the second-level cache. */
V_INLINE void v_prefetch_far(const void *p) { __builtin_prefetch(p, 0, 2); }
V_INLINE void v_prefetch(const void *p) { __builtin_prefetch(p); }

/* Lane i: the sum of x[i], lanes a half apart first. */
V_INLINE vf v_sums(const vf x[V]) {
  return (vf){v_sum(x[0]), v_sum(x[1]), v_sum(x[2]), v_sum(x[3])};
}

/* Four rows of four: x[i] holds row i, becomes column i. */
V_INLINE void v_transpose(vf x[V]) {
  vf y[V];
  for (int i = 0; i < V; i++) y[i] = (vf){x[0][i], x[1][i], x[2][i], x[3][i]};
  for (int i = 0; i < V; i++) x[i] = y[i];
}

#endif
