/* dot_scalar.h - the vocabulary of dot_body.h in plain C on 4 sums. */
#ifndef ACCEL_CPU_DOT_SCALAR_H
#define ACCEL_CPU_DOT_SCALAR_H

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

#endif
