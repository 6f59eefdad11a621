/* weight.h - weights in the format they are given in, for a kernel of a store (gpu_kernels.cmake:
 * STORE, STORE_BITS, STORE_CODE).
 *
 * The kernel has buffers `w` (uint: rows of P(row_words) words) and `scale` (uint: a word or two
 * for each group), and WEIGHT_PARAMS among its parameters (gpu_weight_params of the op layer).
 * Rows are those of the part that is bound; row_first is its first in the whole matrix.  WEIGHT_PER
 * elements lie in one word and share a scale.
 */
#ifndef GPU_WEIGHT_H
#define GPU_WEIGHT_H

#define WEIGHT_PARAMS(I, F) I(row_words) I(row_first) I(group_k) I(group_n) I(groups_k) I(scale_kind) F(outer)

#define WEIGHT_PER (32 / STORE_BITS)

/* One function for each store that has no case in gpu_code: the number of a code, before zero and
 * scale. */
/* e4m3: exponents move by 120; below the normal numbers steps of 2^-9; 0x7f is NaN. */
FUNCTION float gpu_e4m3(uint c) {
  uint m = c & 0x7fu;
  float tiny = FLOAT(m) * 0.001953125f;
  uint bits = m == 0x7fu ? 0x7fc00000u : (m < 8u ? AS_UINT(tiny) : (m << 20) + 0x3c000000u);
  return AS_FLOAT(bits | ((c & 0x80u) << 24));
}
/* e5m2 is the upper half of an fp16. */
FUNCTION float gpu_e5m2(uint c) {
  uint h = (c & 0xffu) << 8;
  return HALF_LO(h);
}
FUNCTION float gpu_e2m1(uint c) {
  uint m = c & 7u;
  uint bits = m == 0u ? 0u : (m == 1u ? 0x3f000000u : (m << 22) + 0x3f000000u);
  return AS_FLOAT(bits | ((c & 8u) << 28));
}

FUNCTION float gpu_u4(uint c) { return FLOAT(c); }
FUNCTION float gpu_u8(uint c) { return FLOAT(c); }

/* Code j of a word, before zero and scale. */
FUNCTION float gpu_code(uint word, int j) {
#if STORE == 0
  return j == 0 ? AS_FLOAT(word) : 0.0f;
#elif STORE == 1
  return j == 0 ? HALF_LO(word) : HALF_HI(word);
#elif STORE == 2
  return j == 0 ? BF16_LO(word) : BF16_HI(word);
#elif STORE == 3
  return FLOAT(AS_INT(word << UINT(24 - 8 * j)) >> 24);
#else
  return STORE_CODE((word >> UINT(STORE_BITS * j)) & ((1u << STORE_BITS) - 1u));
#endif
}

/* Sets the floats s and z of the group of (row, column k), or of group `g` = WEIGHT_GROUP(row) + k
 * / group_k: an element is (code - z) * s. */
#if STORE <= 2
#define WEIGHT_GROUP(row) 0
#define WEIGHT_SCALE_OF(g, s, z)
#define WEIGHT_SCALE(row, k, s, z)
#define WEIGHT_VALUE(word, j, s, z) gpu_code(word, j)
#else
#define WEIGHT_GROUP(row)          (((row) + P(row_first)) / P(group_n) * P(groups_k))
#define WEIGHT_SCALE(row, k, s, z) WEIGHT_SCALE_OF(WEIGHT_GROUP(row) + (k) / P(group_k), s, z)
#define WEIGHT_SCALE_OF(g, s, z)                                                                            \
  {                                                                                                         \
    int gpu_g = g;                                                                                          \
    if (P(scale_kind) == 4) {                                                                               \
      s = AS_FLOAT(AT(scale, 2 * gpu_g));                                                                   \
      z = AS_FLOAT(AT(scale, 2 * gpu_g + 1));                                                               \
    } else {                                                                                                \
      uint gpu_u = AT(scale, gpu_g);                                                                        \
      z = P(scale_kind) == 1 ? 0.0f : FLOAT(gpu_u >> 16);                                                   \
      s = P(scale_kind) == 1 ? AS_FLOAT(gpu_u) : (P(scale_kind) == 2 ? HALF_LO(gpu_u) : BF16_LO(gpu_u)) * P(outer); \
    }                                                                                                       \
  }
#define WEIGHT_VALUE(word, j, s, z) ((gpu_code(word, j) - (z)) * (s))
#endif

#endif
