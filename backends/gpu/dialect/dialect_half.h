/* dialect_half.h - fp16 and bf16 from and to words, by integer arithmetic: exact on every device,
 * with or without fp16 of its own.  An API whose language has the conversion defines GPU_HAS_HALF
 * and these words itself. */
#ifndef GPU_DIALECT_HALF_H
#define GPU_DIALECT_HALF_H

#define BF16_LO(u) AS_FLOAT((u) << 16)
#define BF16_HI(u) AS_FLOAT((u) & 0xffff0000u)

#ifndef GPU_HAS_HALF
/* Exponents move by 112; numbers below the normal ones are 2^-24 times their bits; infinities and
 * NaN stay. */
FUNCTION float gpu_half(uint h) {
  uint sign = (h & 0x8000u) << 16, magnitude = h & 0x7fffu;
  float tiny = FLOAT(magnitude) * 5.9604644775390625e-8f;
  uint bits = (magnitude << 13) + (magnitude >= 0x7c00u ? 0x70000000u : 0x38000000u);
  return AS_FLOAT((magnitude < 0x400u ? AS_UINT(tiny) : bits) | sign);
}
#define HALF_LO(u) gpu_half((u) & 0xffffu)
#define HALF_HI(u) gpu_half((u) >> 16)

/* Nearest even; beyond 65504 infinity. */
FUNCTION uint gpu_to_half(float x) {
  uint bits = AS_UINT(x), sign = (bits >> 16) & 0x8000u, a = bits & 0x7fffffffu;
  uint normal = (a - 0x38000000u + 0xfffu + ((a >> 13) & 1u)) >> 13;
  uint tiny = AS_UINT(AS_FLOAT(a) + 0.5f) - 0x3f000000u; /* 0.5 + a rounds a to a multiple of 2^-24 */
  uint big = a > 0x7f800000u ? 0x7e00u : 0x7c00u;
  return sign | (a >= 0x47800000u ? big : (a < 0x38800000u ? tiny : normal));
}
#define PACK_HALF(a, b) (gpu_to_half(a) | (gpu_to_half(b) << 16))
#endif

#endif
