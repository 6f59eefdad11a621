/* dot_four.h - the vocabulary of dot_body.h on 4 sums in the compilers' vector extension: what
 * dot_scalar.h and dot_simd128.h have in common.  The includer defines i_dot() and i_values() behind
 * it. */
#ifndef ACCEL_CPU_DOT_FOUR_H
#define ACCEL_CPU_DOT_FOUR_H

#include "formats/fp16.h"

typedef int32_t vi __attribute__((vector_size(16)));
typedef int16_t vs __attribute__((vector_size(16)));
typedef uint16_t vh __attribute__((vector_size(16)));

V_INLINE vi i_zero(void) { return (vi){0, 0, 0, 0}; }
V_INLINE vi i_load(const void *p) {
  vi x;
  memcpy(&x, p, sizeof x);
  return x;
}
V_INLINE vi i_four(const void *p) {
  int32_t four;
  memcpy(&four, p, sizeof four);
  return (vi){four, four, four, four};
}
V_INLINE vi i_add(vi a, vi b) { return a + b; }
/* sum[i] += the products of four codes of x and w: the includer's. */
V_INLINE void i_dot(vi *sum, vi x, vi w);
V_INLINE vf i_float(vi x) { return __builtin_convertvector(x, vf); }
/* Both; the products are added in any way. */
V_INLINE void i_dot2(vi *sum, vi x, vi w, vi x2, vi w2) {
  i_dot(sum, x, w);
  i_dot(sum, x2, w2);
}

/* ---- four-bit codes ---- */

V_INLINE void i_store(void *p, vi x) { memcpy(p, &x, sizeof x); }
V_INLINE vi i_bytes(int x) { return (vi)((vu){1, 1, 1, 1} * ((uint32_t)x * 0x01010101u)); }
V_INLINE vi i_low(vi w) { return w & 0x0f0f0f0f; }
V_INLINE vi i_high(vi w) { return (vi)((vu)w >> 4) & 0x0f0f0f0f; }
typedef int8_t vb __attribute__((vector_size(16)));
V_INLINE vi i_less(vi a, vi b) { return (vi)((vb)a - (vb)b); }
/* The includer's: codes of fp4 (e2m1) as twice their values. */
V_INLINE vi i_values(vi codes);
V_INLINE vi i_each(const void *p) {
  const uint8_t *b = p;
  return (vi)((vu){b[0], b[1], b[2], b[3]} * 0x01010101u);
}
V_INLINE vf v_half(const void *p) {
  uint16_t h[V];
  vf x;
  memcpy(h, p, sizeof h);
  for (int i = 0; i < V; i++) x[i] = accel_fp16_to_f32(h[i]);
  return x;
}
V_INLINE vf v_e8m0(const void *p) {
  const uint8_t *b = p;
  return (vf)((vu){b[0], b[1], b[2], b[3]} << 23);
}
V_INLINE vf v_e4m3(const void *p) {
  const uint8_t *b = p;
  vf x;
  for (int i = 0; i < V; i++)
    x[i] = accel_fp16_to_f32((uint16_t)((b[i] & 0x80) << 8 | (b[i] & 0x7f) << 7));
  return x;
}

#endif
