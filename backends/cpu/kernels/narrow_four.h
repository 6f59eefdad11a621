/* narrow_four.h - widen_pair() on vectors of four floats (vec_four.h), included by narrow_scalar.c
 * and narrow_neon.c, which define WIDEN_HALVES(p): four fp16 at p as fp32. */
#ifndef ACCEL_CPU_NARROW_FOUR_H
#define ACCEL_CPU_NARROW_FOUR_H

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
