/* dot_scalar.h - the vocabulary of dot_body.h in plain C on 4 sums. */
#ifndef ACCEL_CPU_DOT_SCALAR_H
#define ACCEL_CPU_DOT_SCALAR_H

#include "kernels/vec_scalar.h"

#define DOT_NAME_(dtype, op, tile) accel_##dtype##_##op##_##tile##__scalar
#define DOT_NAME(dtype, op, tile)  DOT_NAME_(dtype, op, tile)

#include "kernels/dot_four.h"

V_INLINE vi i_halves(vs x) { return ((vi)((vu)x << 16) >> 16) + ((vi)x >> 16); }
V_INLINE void i_dot(vi *sum, vi x, vi w) { /* a product fits 16 bits, two do not */
  vs even = (vs)((vh)x & 255) * ((vs)((vh)w << 8) >> 8), odd = (vs)((vh)x >> 8) * ((vs)w >> 8);
  *sum += i_halves(even) + i_halves(odd);
}
V_INLINE vi i_values(vi codes) {
  static const int8_t table[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  vb x = (vb)codes;
  for (int i = 0; i < 16; i++) x[i] = table[x[i] & 15];
  return (vi)x;
}

#endif
