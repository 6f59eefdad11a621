/* vec_avx2.h - the vector functions that kernel bodies use, on 8 floats: AVX2 and FMA. */
#ifndef ACCEL_CPU_VEC_AVX2_H
#define ACCEL_CPU_VEC_AVX2_H

#include <immintrin.h>
#include <stdint.h>

#define CPU_NAME_(op, tile) accel_f32_##op##_##tile##__avx2
#define CPU_NAME(op, tile)  CPU_NAME_(op, tile)
#define V                   8
#define V_REGISTERS         16
#define V_ANGLE_LIMIT       100000.0f /* of v_sincos */
#define V_INLINE            static inline __attribute__((always_inline))

typedef __m256 vf;
typedef __m256 vm; /* all ones or all zeros in each lane */

V_INLINE __m256i v_first(int64_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n > V ? V : (int)n),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
V_INLINE vf v_load(const float *p) { return _mm256_loadu_ps(p); }
V_INLINE vf v_loadn(const float *p, int64_t n) {
  return n >= V ? v_load(p) : _mm256_maskload_ps(p, v_first(n));
}
V_INLINE void v_store(float *p, vf x) { _mm256_storeu_ps(p, x); }
V_INLINE void v_storen(float *p, vf x, int64_t n) {
  if (n >= V)
    v_store(p, x);
  else
    _mm256_maskstore_ps(p, v_first(n), x);
}
/* p[0], p[2], .. p[2 (n - 1)], zeros from lane n on; nothing behind them is read. */
V_INLINE vf v_load_even(const float *p, int64_t n) {
  int64_t all = 2 * n - 1;
  vf high = all > V ? v_loadn(p + V, all < 2 * V ? all - V : V - 1) : _mm256_setzero_ps();
  vf pairs = _mm256_shuffle_ps(v_loadn(p, all), high, 0x88);
  return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(pairs), 0xd8));
}
/* Lanes from .. n-1 of p, zeros in the others, which are not read. */
V_INLINE vf v_load_between(const float *p, int64_t from, int64_t n) {
  const __m256i high = v_first(n > 0 ? n : 0), low = v_first(from > 0 ? from : 0);
  return _mm256_maskload_ps(p, _mm256_andnot_si256(low, high));
}
/* Lanes 0, 2, 4, .. of a then b; lanes 1, 3, .. */
V_INLINE vf v_even(vf a, vf b) {
  return _mm256_castpd_ps(
      _mm256_permute4x64_pd(_mm256_castps_pd(_mm256_shuffle_ps(a, b, 0x88)), 0xd8));
}
V_INLINE vf v_odd(vf a, vf b) {
  return _mm256_castpd_ps(
      _mm256_permute4x64_pd(_mm256_castps_pd(_mm256_shuffle_ps(a, b, 0xdd)), 0xd8));
}
/* a[0], b[0], a[1], b[1], .. : the first V of them, the others. */
V_INLINE vf v_zip_low(vf a, vf b) {
  return _mm256_permute2f128_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b), 0x20);
}
V_INLINE vf v_zip_high(vf a, vf b) {
  return _mm256_permute2f128_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b), 0x31);
}
V_INLINE vf v_set(float x) { return _mm256_set1_ps(x); }
V_INLINE vf v_zero(void) { return _mm256_setzero_ps(); }
/* V halves, V bfloat16s as fp32. */
V_INLINE vf v_load_f16(const uint16_t *p) {
  return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}
V_INLINE vf v_load_bf16(const uint16_t *p) {
  return _mm256_castsi256_ps(
      _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)), 16));
}
/* V signed bytes as fp32. */
V_INLINE vf v_load_s8(const int8_t *p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}
/* The low 16 bits of each 32, none of which is above 0xffff. */
V_INLINE __m128i v_narrow(__m256i x) {
  return _mm256_castsi256_si128(_mm256_permute4x64_epi64(_mm256_packus_epi32(x, x), 0xd8));
}
/* Products of 16-bit integers: see vec_avx512.h. */
#define V_PAIRS 1
typedef __m256i vi;
V_INLINE vi v_i_zero(void) { return _mm256_setzero_si256(); }
V_INLINE vi v_i_load(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }
V_INLINE vi v_i_set(int32_t x) { return _mm256_set1_epi32(x); }
V_INLINE vf v_of_i(vi x) { return _mm256_cvtepi32_ps(x); }
V_INLINE vi v_pairs_of_s8(const int8_t *p) {
  return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)p));
}
V_INLINE vi v_pairs_dot(vi sum, vi a, vi b) {
  return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
}
V_INLINE vi v_zip_pairs_low(vi a, vi b) { return _mm256_unpacklo_epi16(a, b); }
V_INLINE vi v_zip_pairs_high(vi a, vi b) { return _mm256_unpackhi_epi16(a, b); }
V_INLINE void v_unzip_pairs(vf low, vf high, vf *first, vf *second) {
  *first = _mm256_permute2f128_ps(low, high, 0x20);
  *second = _mm256_permute2f128_ps(low, high, 0x31);
}
V_INLINE void v_store_s16(int16_t *p, vf x) {
  const __m256i words = _mm256_cvtps_epi32(x);
  _mm_storeu_si128((__m128i *)p, _mm_packs_epi32(_mm256_castsi256_si128(words),
                                                 _mm256_extracti128_si256(words, 1)));
}
/* The same of unsigned ones. */
V_INLINE vf v_load_u8(const uint8_t *p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}
/* The other way, to nearest, ties to even; v_store_s8 of |x| <= 127. */
V_INLINE void v_store_f16(uint16_t *p, vf x) {
  _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
V_INLINE void v_store_bf16(uint16_t *p, vf x) {
  const __m256i bits = _mm256_castps_si256(x),
                even = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1)),
                quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
  __m256i up = _mm256_add_epi32(bits, _mm256_add_epi32(even, _mm256_set1_epi32(0x7fff)));
  up = _mm256_blendv_epi8(up, quiet, _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
  _mm_storeu_si128((__m128i *)p, v_narrow(_mm256_srli_epi32(up, 16)));
}
V_INLINE void v_store_s8(int8_t *p, vf x) {
  const __m256i codes = _mm256_and_si256(_mm256_cvtps_epi32(x), _mm256_set1_epi32(0xff));
  const __m128i words = v_narrow(codes);
  _mm_storel_epi64((__m128i *)p, _mm_packus_epi16(words, words));
}
/* V bytes: x rounded, negative ones 0. */
V_INLINE void v_codes(uint8_t *p, vf x) {
  __m256i n = _mm256_cvtps_epi32(x);
  __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(n), _mm256_extracti128_si256(n, 1));
  _mm_storel_epi64((__m128i *)p, _mm_packus_epi16(words, words));
}
/* 4V bytes: the same of four vectors, at most `most`. */
V_INLINE void v_codes4(const int most, uint8_t *p, vf a, vf b, vf c, vf d) {
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  __m256i low = _mm256_packs_epi32(_mm256_cvtps_epi32(a), _mm256_cvtps_epi32(b)),
          high = _mm256_packs_epi32(_mm256_cvtps_epi32(c), _mm256_cvtps_epi32(d));
  __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(low, high), order);
  _mm256_storeu_si256((__m256i *)p,
                      most < 255 ? _mm256_min_epu8(bytes, _mm256_set1_epi8((char)most)) : bytes);
}
V_INLINE vf v_add(vf a, vf b) { return _mm256_add_ps(a, b); }
V_INLINE vf v_sub(vf a, vf b) { return _mm256_sub_ps(a, b); }
V_INLINE vf v_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
V_INLINE vf v_div(vf a, vf b) { return _mm256_div_ps(a, b); }
V_INLINE vf v_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
V_INLINE vf v_fnma(vf a, vf b, vf c) { return _mm256_fnmadd_ps(a, b, c); }
/* sum += a b without ever moving sum to another register: with sixteen of them compilers else
 * spill. */
V_INLINE void v_accumulate(vf *sum, vf a, vf b) {
  __asm__("vfmadd231ps %2, %1, %0" : "+x"(*sum) : "x"(a), "x"(b));
}
/* No load moves across: hoisted ones would need registers that there are not. */
V_INLINE void v_fence(void) { __asm__ volatile("" ::: "memory"); }
/* b when either is NaN: so NaN passes through v_exp */
V_INLINE vf v_min(vf a, vf b) { return _mm256_min_ps(a, b); }
V_INLINE vf v_max(vf a, vf b) { return _mm256_max_ps(a, b); }
V_INLINE vf v_sqrt(vf x) { return _mm256_sqrt_ps(x); }
V_INLINE vf v_abs(vf x) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x); }
V_INLINE vf v_copysign(vf x, vf sign) {
  vf bit = _mm256_set1_ps(-0.0f);
  return _mm256_or_ps(_mm256_andnot_ps(bit, x), _mm256_and_ps(bit, sign));
}
/* x with the sign bit inverted where `sign` is -0. */
V_INLINE vf v_flip(vf x, vf sign) { return _mm256_xor_ps(x, sign); }
V_INLINE vm v_lt(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
V_INLINE vf v_select(vm m, vf yes, vf no) { return _mm256_blendv_ps(no, yes, m); }
/* y where x is not below `low` (or is NaN), else 0. */
V_INLINE vf v_cut(vf x, vf low, vf y) {
  return _mm256_andnot_ps(_mm256_cmp_ps(x, low, _CMP_LT_OQ), y);
}
V_INLINE vf v_rint(vf x) {
  return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
/* x 2^n for integral n; only for results that are normal numbers. */
V_INLINE vf v_ldexp_normal(vf x, vf n) {
  return _mm256_mul_ps(x,
                       _mm256_castsi256_ps(_mm256_slli_epi32(
                           _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23)));
}
/* Same for |n| <= 252 and every result. */
V_INLINE vf v_ldexp(vf x, vf n) {
  vf half = v_rint(v_mul(n, v_set(0.5f)));
  return v_ldexp_normal(v_ldexp_normal(x, half), v_sub(n, half));
}
/* 2^n for m = V_MAGIC + n, |n| <= 126. */
/* 3 2^22 + 127: what is added to it is rounded to an integer, its low bits are the exponent */
#define V_MAGIC 12583039.0f
V_INLINE vf v_power(vf m) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(m), 23));
}
/* Mantissa in [1/sqrt 2, sqrt 2) and exponent of positive normal or denormal x. */
V_INLINE vf v_frexp(vf x, vf *exponent) {
  vm tiny = v_lt(x, v_set(1.17549435e-38f));
  x = v_select(tiny, v_mul(x, v_set(8388608.0f)), x);
  /* 1/sqrt 2 */
  __m256i bits = _mm256_sub_epi32(_mm256_castps_si256(x), _mm256_set1_epi32(0x3f3504f3));
  __m256i e = _mm256_srai_epi32(bits, 23);
  *exponent = v_sub(_mm256_cvtepi32_ps(e), v_select(tiny, v_set(23.0f), v_zero()));
  return _mm256_castsi256_ps(_mm256_sub_epi32(_mm256_castps_si256(x), _mm256_slli_epi32(e, 23)));
}
V_INLINE float v_sum(vf x) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
/* Largest element; what it answers when one is NaN is not defined. */
V_INLINE float v_largest(vf x) {
  __m128 s = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  s = _mm_max_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}
/* Into the second-level cache. */
V_INLINE void v_prefetch_far(const void *p) { _mm_prefetch((const char *)p, _MM_HINT_T1); }
V_INLINE void v_prefetch(const void *p) { _mm_prefetch((const char *)p, _MM_HINT_T0); }

/* Lane i: the sum of x[i], lanes a half apart first, then a quarter and so on. */
V_INLINE vf v_sums(const vf x[V]) {
  vf half[4], pair[2];
  for (int i = 0; i < 4; i++)
    half[i] = _mm256_add_ps(_mm256_permute2f128_ps(x[i], x[i + 4], 0x20),
                            _mm256_permute2f128_ps(x[i], x[i + 4], 0x31));
  for (int i = 0; i < 2; i++)
    pair[i] = _mm256_add_ps(_mm256_unpacklo_ps(half[2 * i], half[2 * i + 1]),
                            _mm256_unpackhi_ps(half[2 * i], half[2 * i + 1]));
  const __m256d a = _mm256_castps_pd(pair[0]), b = _mm256_castps_pd(pair[1]);
  return _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(a, b)),
                       _mm256_castpd_ps(_mm256_unpackhi_pd(a, b)));
}

/* Eight rows of eight: x[i] holds row i, becomes column i. */
V_INLINE void v_transpose(vf x[V]) {
  vf t[V], u[V];
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(x[i], x[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(x[i], x[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    u[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    u[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
    u[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    u[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
  for (int i = 0; i < 4; i++) {
    x[i] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x20);
    x[i + 4] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x31);
  }
}

#endif
