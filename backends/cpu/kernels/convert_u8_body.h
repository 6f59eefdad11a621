/* convert_u8_body.h - rows of fp32 as unsigned codes, included by convert_u8_<isa>.c after vec_<isa>.h and v_codes.
 *
 * The range of a row, zero within it, is cut into equal steps; zero is a code of its own: x ~ (code - zero) scale. */
#include <stdbool.h>
#include <string.h>

#include "kernels/kernels.h"

/* Smallest and largest element, and 0; false when the row holds an infinity or NaN. */
V_INLINE bool range(const float *x, int64_t k, float *low, float *high) {
  vf lo[2] = {v_zero(), v_zero()}, hi[2] = {v_zero(), v_zero()}, bad[2] = {v_zero(), v_zero()};
  int64_t j = 0;
  for (; j + 2 * V <= k; j += 2 * V)
    for (int i = 0; i < 2; i++) {
      vf a = v_load(x + j + i * V);
      lo[i] = v_min(lo[i], a);
      hi[i] = v_max(hi[i], a);
      bad[i] = v_fma(a, v_zero(), bad[i]); /* NaN stays */
    }
  for (; j < k; j += V) {
    vf a = v_loadn(x + j, k - j);
    lo[0] = v_min(lo[0], a);
    hi[0] = v_max(hi[0], a);
    bad[0] = v_fma(a, v_zero(), bad[0]);
  }
  *low = -v_largest(v_sub(v_zero(), v_min(lo[0], lo[1])));
  *high = v_largest(v_max(hi[0], hi[1]));
  return v_sum(v_add(bad[0], bad[1])) == 0;
}

V_INLINE void convert_rows(const int codes, const float *x, int64_t ldx, int64_t rows, int64_t k, uint8_t *y, int64_t ldy,
                           float *scale, float *zero) {
  for (int64_t i = 0; i < rows; i++, x += ldx, y += ldy) {
    float low, high;
    if (!range(x, k, &low, &high)) {
      memset(y, 0, (size_t)ldy);
      scale[i] = NAN;
      zero[i] = 0;
      continue;
    }
    float step = high / (float)codes - low / (float)codes; /* either alone may be too large for the difference */
    step = step > 0x1p-126f ? step : 0x1p-126f;
    const float at = rintf(-low / step), inverse = 1.0f / step;
    scale[i] = step;
    zero[i] = at;
    int64_t j = 0;
    for (; j + V <= k; j += V) v_codes(y + j, v_min(v_fma(v_load(x + j), v_set(inverse), v_set(at)), v_set((float)codes)));
    if (j < k) v_codes(y + j, v_min(v_fma(v_loadn(x + j, k - j), v_set(inverse), v_set(at)), v_set((float)codes)));
    memset(y + k, 0, (size_t)(ldy - k));
  }
}

#define CONVERT(x_type, codes)                                                                                        \
  void CONVERT_NAME(x_type)(const float *x, int64_t ldx, int64_t rows, int64_t k, void *y, int64_t ldy, float *scale, \
                            float *zero) {                                                                            \
    convert_rows(codes, x, ldx, rows, k, y, ldy, scale, zero);                                                        \
  }
CONVERT(u8, 255)
CONVERT(u7, 127)
