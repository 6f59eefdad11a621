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

/* Codes of one row, without the last few. */
V_INLINE int64_t convert_fours(const int codes, const float *x, int64_t k, uint8_t *y, vf inverse, vf at) {
  int64_t j = 0;
#if defined(CONVERT_FOURS)
  for (; j + 4 * V <= k; j += 4 * V)
    v_codes4(codes, y + j, v_fma(v_load(x + j), inverse, at), v_fma(v_load(x + j + V), inverse, at),
             v_fma(v_load(x + j + 2 * V), inverse, at), v_fma(v_load(x + j + 3 * V), inverse, at));
#endif
  (void)codes, (void)x, (void)k, (void)y, (void)inverse, (void)at;
  return j;
}

V_INLINE void convert_row(const int codes, const float *x, int64_t k, uint8_t *y, int64_t padded, float scale, float zero) {
  const vf inverse = v_set(1.0f / scale), at = v_set(zero), most = v_set((float)codes);
  int64_t j = convert_fours(codes, x, k, y, inverse, at);
  for (; j < k; j += V) v_codes(y + j, v_min(v_fma(v_loadn(x + j, k - j), inverse, at), most));
  if (k < padded) memset(y + k, 0, (size_t)(padded - k));
}

enum { AT_ONCE = 4 }; /* rows: their ranges are found side by side */

V_INLINE void convert_rows(const int codes, const float *x, int64_t ldx, int64_t rows, int64_t k, uint8_t *y, int64_t ldy,
                           float *scale, float *zero) {
  bool finite[AT_ONCE];
  for (int64_t row = 0; row < rows; row += AT_ONCE) {
    const int64_t end = row + AT_ONCE < rows ? row + AT_ONCE : rows;
    for (int64_t i = row; i < end; i++) {
      float low, high;
      finite[i - row] = range(x + i * ldx, k, &low, &high);
      float step = high / (float)codes - low / (float)codes; /* the difference alone may be too large */
      step = step > 0x1p-126f ? step : 0x1p-126f;
      scale[i] = finite[i - row] ? step : NAN;
      zero[i] = finite[i - row] ? rintf(-low / step) : 0.0f;
    }
    for (int64_t i = row; i < end; i++)
      if (finite[i - row])
        convert_row(codes, x + i * ldx, k, y + i * ldy, ldy, scale[i], zero[i]);
      else
        memset(y + i * ldy, 0, (size_t)ldy);
  }
}

/* By blocks of a row, whose scales and zeros lie behind its codes. */
V_INLINE void convert_blocks(const cpu_x to, const int codes, const float *x, int64_t ldx, int64_t rows, int64_t k,
                             uint8_t *y, int64_t ldy) {
  const int64_t block = cpu_x_block(to), blocks = cpu_x_blocks(to, k),
                padded = (k + CPU_X_STEP - 1) / CPU_X_STEP * CPU_X_STEP, whole = k / block * block;
  for (int64_t i = 0; i < rows; i++, x += ldx, y += ldy) {
    float *scale = (float *)(void *)(y + padded), *zero = scale + blocks;
    convert_rows(codes, x, block, whole / block, block, y, block, scale, zero);
    if (whole < k)
      convert_rows(codes, x + whole, block, 1, k - whole, y + whole, padded - whole, scale + blocks - 1, zero + blocks - 1);
  }
}

#define CONVERT(x_type, convert)                                                                                      \
  void CONVERT_NAME(x_type)(const float *x, int64_t ldx, int64_t rows, int64_t k, void *y, int64_t ldy, float *scale, \
                            float *zero) {                                                                            \
    (void)scale, (void)zero;                                                                                          \
    convert;                                                                                                          \
  }
#if defined(CONVERT_SIGNED)
void CONVERT_NAME(s8)(const float *x, int64_t ldx, int64_t rows, int64_t k, void *y, int64_t ldy, float *scale,
                      float *zero) {
  uint8_t *codes = y;
  convert_rows(255, x, ldx, rows, k, y, ldy, scale, zero);
  for (int64_t i = 0; i < rows; i++) {
    for (int64_t j = 0; j < k; j++) codes[i * ldy + j] ^= 0x80; /* less 128; what follows stays 0 */
    zero[i] -= 128.0f;
  }
}
void CONVERT_NAME(s8b)(const float *x, int64_t ldx, int64_t rows, int64_t k, void *y, int64_t ldy, float *scale,
                       float *zero) {
  const int64_t padded = (k + CPU_X_STEP - 1) / CPU_X_STEP * CPU_X_STEP, blocks = cpu_x_blocks(CPU_X_S8B, k);
  uint8_t *codes = y;
  (void)scale, (void)zero;
  convert_blocks(CPU_X_S8B, 255, x, ldx, rows, k, y, ldy);
  for (int64_t i = 0; i < rows; i++, codes += ldy) {
    float *at = (float *)(void *)(codes + padded) + blocks;
    for (int64_t j = 0; j < k; j++) codes[j] ^= 0x80;
    for (int64_t b = 0; b < blocks; b++) at[b] -= 128.0f;
  }
}
#else
CONVERT(u8, convert_rows(255, x, ldx, rows, k, y, ldy, scale, zero))
CONVERT(u8b, convert_blocks(CPU_X_U8B, 255, x, ldx, rows, k, y, ldy))
CONVERT(u7b, convert_blocks(CPU_X_U7B, 127, x, ldx, rows, k, y, ldy))
#endif
