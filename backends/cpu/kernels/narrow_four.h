/* narrow_four.h - widen_pair() on vectors of four floats (vec_four.h).  The includer may define
 * WIDEN_HALVES(p): four fp16 at p as fp32. */
#ifndef ACCEL_CPU_NARROW_FOUR_H
#define ACCEL_CPU_NARROW_FOUR_H

#ifndef WIDEN_HALVES
V_INLINE vf widen_halves(const void *p) {
  uint16_t half[4];
  memcpy(half, p, sizeof half);
  const vu bits = {half[0], half[1], half[2], half[3]}, exponent = bits & 0x7c00u;
  const vu normal = ((bits & 0x7fffu) << 13) + 0x38000000u; /* the exponent's bias from 15 to 127 */
  const vf subnormal = __builtin_convertvector((vm)(bits & 0x3ffu), vf) * 0x1p-24f;
  const vu infinite = (vu)(exponent == 0x7c00u) & 0x38000000u, none = (vu)(exponent == 0u);
  return (vf)((bits & 0x8000u) << 16 | (none & (vu)subnormal) | (~none & (normal + infinite)));
}
#define WIDEN_HALVES(p) widen_halves(p)
#endif

/* Two k of a panel, exactly; E4M3 times 2^-8: moved by one bit it is that as fp16, with a top
 * exponent bit of 0. */
V_INLINE void widen_pair(const int layout, const uint8_t *p, vf (*w)[GEMM_VECS]) {
  vf *even = w[0], *odd = w[1];
  for (int j = 0; j < GEMM_VECS; j++) {
    if (layout == CPU_LAYOUT_BF16) {
      vu codes;
      memcpy(&codes, p + 16 * j, sizeof codes);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
      codes = codes >> 16 | codes << 16; /* the pair's first is the lower half */
#endif
      even[j] = (vf)(codes << 16);
      odd[j] = (vf)(codes & 0xffff0000u);
    } else if (layout == CPU_LAYOUT_F16) {
      even[j] = WIDEN_HALVES((const char *)p + 8 * j);
      odd[j] = WIDEN_HALVES((const char *)p + 2 * (GEMM_COLS + 4 * j));
    } else {
      uint16_t half[2][4];
      for (int i = 0; i < 8; i++) {
        int16_t upper = (int16_t)(p[8 * j + i] << 8);
        half[i % 2][i / 2] = (uint16_t)(layout == CPU_LAYOUT_E4M3 ? (upper >> 1) & 0xbf80 : upper);
      }
      even[j] = WIDEN_HALVES(half[0]);
      odd[j] = WIDEN_HALVES(half[1]);
    }
  }
}

#endif
