/* dot_scalar.h - the vocabulary of dot_body.h in plain C on 4 sums. */
#ifndef ACCEL_CPU_DOT_SCALAR_H
#define ACCEL_CPU_DOT_SCALAR_H

#include "formats/fp16.h"
#include "kernels/vec_scalar.h"

#define DOT_NAME_(dtype, op, tile) accel_##dtype##_##op##_##tile##__scalar
#define DOT_NAME(dtype, op, tile)  DOT_NAME_(dtype, op, tile)

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
V_INLINE vi i_halves(vs x) { return ((vi)((vu)x << 16) >> 16) + ((vi)x >> 16); }
V_INLINE void i_dot(vi *sum, vi x, vi w) { /* a product fits 16 bits, two do not */
  vs even = (vs)((vh)x & 255) * ((vs)((vh)w << 8) >> 8), odd = (vs)((vh)x >> 8) * ((vs)w >> 8);
  *sum += i_halves(even) + i_halves(odd);
}
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
V_INLINE vi i_values(vi codes) {
  static const int8_t table[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  vb x = (vb)codes;
  for (int i = 0; i < 16; i++) x[i] = table[x[i] & 15];
  return (vi)x;
}
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
