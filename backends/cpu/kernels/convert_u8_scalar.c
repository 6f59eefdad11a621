/* convert_u8_scalar.c - rows as 8-bit and 7-bit codes for plain C. */
#include "kernels/vec_scalar.h"

#define CONVERT_NAME(x) accel_##x##_convert_row__scalar
/* V bytes: x rounded, negative ones 0. */
V_INLINE void v_codes(uint8_t *p, vf x) {
  vf n = v_rint(v_max(x, v_zero()));
  for (int i = 0; i < V; i++) p[i] = (uint8_t)n[i];
}
#include "kernels/convert_u8_body.h"
