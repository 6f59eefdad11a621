/* panel.h - OpenCL: sixteen codes of a packed panel as floats (CODES, for the store of the kernel;
 * CODES_BYTES long), and activations of sixteen.  A panel begins at a multiple of its vectors,
 * which are loaded whole: PoCL would gather a vload16 of bytes piece by piece. */
#ifndef GPU_PANEL_H
#define GPU_PANEL_H

#define CODES_BYTES (2 * STORE_BITS)

#if STORE == 0
#define CODES(wp, at) ((global const float16 *)(wp))[at]
#elif STORE == 1
#define CODES(wp, at) vloada_half16(at, (global const half *)(wp))
#elif STORE == 2
#define CODES(wp, at) as_float16(convert_uint16(((global const ushort16 *)(wp))[at]) << 16)
#elif STORE == 3
#define CODES(wp, at) convert_float16(as_char16(((global const uint4 *)(wp))[at]))
#elif defined STORE_U8
#define CODES(wp, at) convert_float16(as_uchar16(((global const uint4 *)(wp))[at]))
#elif defined STORE_U4
#define CODES(wp, at) nibbles(as_uchar8(((global const uint2 *)(wp))[at]))
static inline float16 nibbles(uchar8 c) {
  int8 v = convert_int8(c);
  return (float16)(convert_float8(v & 15), convert_float8(v >> 4));
}
#elif defined STORE_E2M1
#define CODES(wp, at) nibbles(as_uchar8(((global const uint2 *)(wp))[at]))
static inline float16 nibbles(uchar8 c) {
  uint8 v = convert_uint8(c);
  uint16 code = (uint16)(v & 15u, v >> 4), magnitude = code & 7u;
  uint16 bits = (magnitude << 22) + 0x3f000000u;
  bits = select(bits, (uint16)0x3f000000u, magnitude == 1u);
  bits = select(bits, (uint16)0u, magnitude == 0u);
  return as_float16(bits | (code & 8u) << 28);
}
#elif defined STORE_E4M3
#define CODES(wp, at) minifloat(convert_uint16(as_uchar16(((global const uint4 *)(wp))[at])))
static inline float16 minifloat(uint16 c) {
  uint16 magnitude = c & 0x7fu;
  uint16 bits = select((magnitude << 20) + 0x3c000000u, as_uint16(convert_float16(magnitude) * 0.001953125f), magnitude < 8u);
  bits = select(bits, (uint16)0x7fc00000u, magnitude == 0x7fu);
  return as_float16(bits | (c & 0x80u) << 24);
}
#elif defined STORE_E5M2
#define CODES(wp, at) minifloat(convert_uint16(as_uchar16(((global const uint4 *)(wp))[at])))
static inline float16 minifloat(uint16 c) {
  uint16 magnitude = c & 0x7fu;
  uint16 bits = (magnitude << 21) + select((uint16)0x38000000u, (uint16)0x70000000u, magnitude >= 0x7cu);
  bits = select(bits, as_uint16(convert_float16(magnitude) * 1.52587890625e-5f), magnitude < 4u);
  return as_float16(bits | (c & 0x80u) << 24);
}
#else /* a store without vectors of its own: one code of weight.h after the other */
#define CODES(wp, at) one_by_one((global const uchar *)(wp) + CODES_BYTES * (at))
static inline float16 one_by_one(global const uchar *c) {
  float v[16];
  for (int i = 0; i < 16; i++) v[i] = STORE_CODE(STORE_BITS == 8 ? c[i] : c[i % 8] >> (i < 8 ? 0 : 4) & 15);
  return vload16(0, v);
}
#endif

/* math.h's functions, sixteen at a time: the activations that follow wide products */
static inline float16 wide_tanh(float16 x) {
  float16 a = fmin(fabs(x), 10.0f), s = x * x;
  float16 small = x + x * s * (-0.33333328f + s * (0.13331416f + s * (-0.05373973f + s * (0.02063901f + s * -0.00570499f))));
  float16 large = copysign(1.0f - 2.0f / (exp(2.0f * a) + 1.0f), x);
  return select(large, small, fabs(x) < 0.625f);
}
static inline float16 wide_act(int act, float16 x, float alpha) {
  if (act == 0) return x;
  if (act == 1) return select(x, (float16)0.0f, x < 0.0f);
  if (act == 3) return 0.5f * x * (1.0f + wide_tanh(0.79788456f * (x + 0.044715f * x * x * x)));
  if (act == 5) return x / (1.0f + exp(-x));
  if (act == 6) return wide_tanh(x);
  if (act == 2) {
    float16 r = x * 0.70710678f, a = fabs(r), s = r * r;
    float16 small = 1.1283792f * r * (1.0f + s * (-0.33333333f + s * (0.1f + s * (-0.023809524f + s * (0.0046296296f + s * -0.00075757576f)))));
    float16 t = 1.0f / (1.0f + 0.5f * a);
    float16 p = -1.26551223f + t * (1.00002368f + t * (0.37409196f + t * (0.09678418f + t * (-0.18628806f + t * (0.27886807f +
                t * (-1.13520398f + t * (1.48851587f + t * (-0.82215223f + t * 0.17087277f))))))));
    float16 large = copysign(1.0f - t * exp(-a * a + p), r);
    return 0.5f * x * (1.0f + select(large, small, a < 0.5f));
  }
  float v[16];
  vstore16(x, 0, v);
  for (int i = 0; i < 16; i++) v[i] = gpu_unary(act, v[i], alpha, 0.0f);
  return vload16(0, v);
}

/* y[16 columns from col0] of one row from its sums: bias, activation, residual; flags 1 and 2. */
#define PANEL_STORE(sums, at)                                                                                      \
  {                                                                                                                \
    float16 v = sums;                                                                                              \
    if (col0 + 16 <= P(n)) {                                                                                       \
      if ((P(flags) & 1) != 0) v += vload16(0, bias + col0);                                                       \
      v = wide_act(P(act), v, P(alpha));                                                                           \
      if ((P(flags) & 2) != 0) v += vload16(0, residual + (at));                                                   \
      vstore16(v, 0, y + (at));                                                                                    \
    } else {                                                                                                       \
      float t[16];                                                                                                 \
      vstore16(v, 0, t);                                                                                           \
      for (int c = 0; c < P(n) - col0; c++) t[c] += (P(flags) & 1) != 0 ? bias[col0 + c] : 0.0f;                   \
      vstore16(wide_act(P(act), vload16(0, t), P(alpha)), 0, t);                                                   \
      for (int c = 0; c < P(n) - col0; c++) y[(at) + c] = t[c] + ((P(flags) & 2) != 0 ? residual[(at) + c] : 0.0f); \
    }                                                                                                              \
  }

#endif
