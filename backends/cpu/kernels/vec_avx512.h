/* vec_avx512.h - the vector functions that kernel bodies use, on 16 floats: AVX-512 F, BW, DQ,
 * VL. */
#ifndef ACCEL_CPU_VEC_AVX512_H
#define ACCEL_CPU_VEC_AVX512_H

#include <immintrin.h>
#include <stdint.h>

#define CPU_NAME_(op, tile) accel_f32_##op##_##tile##__avx512
#define CPU_NAME(op, tile)  CPU_NAME_(op, tile)
#define V                   16
#define V_REGISTERS         32
#define V_ANGLE_LIMIT       100000.0f /* of v_sincos */
#define V_INLINE            static inline __attribute__((always_inline))

typedef __m512 vf;
typedef __mmask16 vm;

V_INLINE vm v_first(int64_t n) { return n >= V ? (vm)0xffff : (vm)((1u << n) - 1); }
V_INLINE vf v_load(const float *p) { return _mm512_loadu_ps(p); }
V_INLINE vf v_loadn(const float *p, int64_t n) { return _mm512_maskz_loadu_ps(v_first(n), p); }
V_INLINE void v_store(float *p, vf x) { _mm512_storeu_ps(p, x); }
V_INLINE void v_storen(float *p, vf x, int64_t n) { _mm512_mask_storeu_ps(p, v_first(n), x); }
/* p[0], p[2], .. p[2 (n - 1)], zeros from lane n on; nothing behind them is read. */
V_INLINE vf v_load_even(const float *p, int64_t n) {
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  int64_t all = 2 * n - 1;
  return _mm512_permutex2var_ps(
      v_loadn(p, all), even,
      all > V ? v_loadn(p + V, all < 2 * V ? all - V : V - 1) : _mm512_setzero_ps());
}
/* Lanes from .. n-1 of p, zeros in the others, which are not read. */
V_INLINE vf v_load_between(const float *p, int64_t from, int64_t n) {
  const vm high = n > 0 ? v_first(n) : (vm)0, low = from > 0 ? v_first(from) : (vm)0;
  return _mm512_maskz_loadu_ps((vm)(high & ~low), p);
}
/* Lanes 0, 2, 4, .. of a then b; lanes 1, 3, .. */
V_INLINE vf v_even(vf a, vf b) {
  return _mm512_permutex2var_ps(
      a, _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30), b);
}
V_INLINE vf v_odd(vf a, vf b) {
  return _mm512_permutex2var_ps(
      a, _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31), b);
}
/* a[0], b[0], a[1], b[1], .. : the first V of them, the others. */
V_INLINE vf v_zip_low(vf a, vf b) {
  return _mm512_permutex2var_ps(
      a, _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23), b);
}
V_INLINE vf v_zip_high(vf a, vf b) {
  return _mm512_permutex2var_ps(
      a, _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31), b);
}
V_INLINE vf v_set(float x) { return _mm512_set1_ps(x); }
V_INLINE vf v_zero(void) { return _mm512_setzero_ps(); }
/* V halves, V bfloat16s as fp32. */
V_INLINE vf v_load_f16(const uint16_t *p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
V_INLINE vf v_load_bf16(const uint16_t *p) {
  return _mm512_castsi512_ps(
      _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16));
}
/* V signed bytes as fp32. */
V_INLINE vf v_load_s8(const int8_t *p) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
}
/* Products of 16-bit integers: 2V signed bytes as such; V sums and of two neighbours' products
 * each; V floats, rounded, |x| <= 32767; a[0], b[0], a[1], b[1], .. of parts of two vectors, whose
 * sums v_unzip_pairs puts in order again. */
#define V_PAIRS 1
typedef __m512i vi;
V_INLINE vi v_i_zero(void) { return _mm512_setzero_si512(); }
V_INLINE vi v_i_load(const void *p) { return _mm512_loadu_si512(p); }
V_INLINE vi v_i_set(int32_t x) { return _mm512_set1_epi32(x); }
V_INLINE vf v_of_i(vi x) { return _mm512_cvtepi32_ps(x); }
V_INLINE vi v_pairs_of_s8(const int8_t *p) {
  return _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)p));
}
#ifdef __AVX512VNNI__
V_INLINE vi v_pairs_dot(vi sum, vi a, vi b) { return _mm512_dpwssd_epi32(sum, a, b); }
#else
V_INLINE vi v_pairs_dot(vi sum, vi a, vi b) {
  return _mm512_add_epi32(sum, _mm512_madd_epi16(a, b));
}
#endif
V_INLINE vi v_zip_pairs_low(vi a, vi b) { return _mm512_unpacklo_epi16(a, b); }
V_INLINE vi v_zip_pairs_high(vi a, vi b) { return _mm512_unpackhi_epi16(a, b); }
V_INLINE void v_unzip_pairs(vf low, vf high, vf *first, vf *second) {
  const __m512i early = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11),
                late = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
  *first = _mm512_castpd_ps(
      _mm512_permutex2var_pd(_mm512_castps_pd(low), early, _mm512_castps_pd(high)));
  *second =
      _mm512_castpd_ps(_mm512_permutex2var_pd(_mm512_castps_pd(low), late, _mm512_castps_pd(high)));
}
V_INLINE void v_store_s16(int16_t *p, vf x) {
  _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(_mm512_cvtps_epi32(x)));
}
/* The same of unsigned ones. */
V_INLINE vf v_load_u8(const uint8_t *p) {
  return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p)));
}
/* The other way, to nearest, ties to even; v_store_s8 of |x| <= 127. */
V_INLINE void v_store_f16(uint16_t *p, vf x) {
  _mm256_storeu_si256((__m256i *)p,
                      _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
V_INLINE void v_store_bf16(uint16_t *p, vf x) {
  const __m512i bits = _mm512_castps_si512(x),
                even = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1)),
                quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
  __m512i up = _mm512_add_epi32(bits, _mm512_add_epi32(even, _mm512_set1_epi32(0x7fff)));
  up = _mm512_mask_mov_epi32(up, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), quiet);
  _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(up, 16)));
}
V_INLINE void v_store_s8(int8_t *p, vf x) {
  _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(x)));
}
/* V bytes: x rounded, negative ones 0. */
V_INLINE void v_codes(uint8_t *p, vf x) {
  _mm_storeu_si128((__m128i *)p, _mm512_cvtusepi32_epi8(
                                     _mm512_cvtps_epi32(_mm512_max_ps(x, _mm512_setzero_ps()))));
}
/* 4V bytes: the same of four vectors, at most `most`. */
V_INLINE void v_codes4(const int most, uint8_t *p, vf a, vf b, vf c, vf d) {
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  __m512i low = _mm512_packs_epi32(_mm512_cvtps_epi32(a), _mm512_cvtps_epi32(b)),
          high = _mm512_packs_epi32(_mm512_cvtps_epi32(c), _mm512_cvtps_epi32(d));
  __m512i bytes = _mm512_permutexvar_epi32(order, _mm512_packus_epi16(low, high));
  _mm512_storeu_si512(p, most < 255 ? _mm512_min_epu8(bytes, _mm512_set1_epi8((char)most)) : bytes);
}
V_INLINE vf v_add(vf a, vf b) { return _mm512_add_ps(a, b); }
V_INLINE vf v_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
V_INLINE vf v_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
V_INLINE vf v_div(vf a, vf b) { return _mm512_div_ps(a, b); }
V_INLINE vf v_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
V_INLINE vf v_fnma(vf a, vf b, vf c) { return _mm512_fnmadd_ps(a, b, c); }
V_INLINE void v_accumulate(vf *sum, vf a, vf b) { *sum = v_fma(a, b, *sum); }
V_INLINE void v_fence(void) {}
/* b when either is NaN: so NaN passes through v_exp */
V_INLINE vf v_min(vf a, vf b) { return _mm512_min_ps(a, b); }
V_INLINE vf v_max(vf a, vf b) { return _mm512_max_ps(a, b); }
V_INLINE vf v_sqrt(vf x) { return _mm512_sqrt_ps(x); }
V_INLINE vf v_abs(vf x) { return _mm512_abs_ps(x); }
V_INLINE vf v_copysign(vf x, vf sign) {
  vf bit = _mm512_set1_ps(-0.0f);
  return _mm512_or_ps(_mm512_andnot_ps(bit, x), _mm512_and_ps(bit, sign));
}
/* x with the sign bit inverted where `sign` is -0. */
V_INLINE vf v_flip(vf x, vf sign) { return _mm512_xor_ps(x, sign); }
V_INLINE vm v_lt(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
V_INLINE vf v_select(vm m, vf yes, vf no) { return _mm512_mask_blend_ps(m, no, yes); }
/* y where x is not below `low` (or is NaN), else 0. */
V_INLINE vf v_cut(vf x, vf low, vf y) {
  return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, low, _CMP_NLT_UQ), y);
}
V_INLINE vf v_rint(vf x) {
  return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
/* x 2^n for integral n; denormal and infinite results as they should be. */
V_INLINE vf v_ldexp(vf x, vf n) { return _mm512_scalef_ps(x, n); }
/* Same, only for results that are normal numbers. */
V_INLINE vf v_ldexp_normal(vf x, vf n) { return _mm512_scalef_ps(x, n); }
/* 2^n for m = V_MAGIC + n, |n| <= 126. */
/* 3 2^22 + 127: what is added to it is rounded to an integer, its low bits are the exponent */
#define V_MAGIC 12583039.0f
V_INLINE vf v_power(vf m) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(m), 23));
}
/* Mantissa in [1/sqrt 2, sqrt 2) and exponent of positive normal or denormal x. */
V_INLINE vf v_frexp(vf x, vf *exponent) {
  vf e = _mm512_getexp_ps(x), m = _mm512_getmant_ps(x, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_zero);
  vm high = _mm512_cmp_ps_mask(m, _mm512_set1_ps(1.41421356f), _CMP_GE_OQ);
  *exponent = _mm512_mask_add_ps(e, high, e, _mm512_set1_ps(1.0f));
  return _mm512_mask_mul_ps(m, high, m, _mm512_set1_ps(0.5f));
}
V_INLINE float v_sum(vf x) { return _mm512_reduce_add_ps(x); }
/* Largest element; what it answers when one is NaN is not defined. */
V_INLINE float v_largest(vf x) { return _mm512_reduce_max_ps(x); }
/* Into the second-level cache. */
V_INLINE void v_prefetch_far(const void *p) { _mm_prefetch((const char *)p, _MM_HINT_T1); }
V_INLINE void v_prefetch(const void *p) { _mm_prefetch((const char *)p, _MM_HINT_T0); }

/* Lane i: the sum of x[i], lanes a half apart first, then a quarter and so on. */
V_INLINE vf v_sums(const vf x[V]) {
  vf half[8], quarter[4], pair[2];
  for (int i = 0; i < 8; i++) {
    const vf a = x[i % 4 + i / 4 * 8], b = x[i % 4 + i / 4 * 8 + 4];
    half[i] = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
  }
  for (int i = 0; i < 4; i++)
    quarter[i] = _mm512_add_ps(_mm512_shuffle_f32x4(half[i], half[i + 4], 0x88),
                               _mm512_shuffle_f32x4(half[i], half[i + 4], 0xdd));
  for (int i = 0; i < 2; i++)
    pair[i] = _mm512_add_ps(_mm512_unpacklo_ps(quarter[2 * i], quarter[2 * i + 1]),
                            _mm512_unpackhi_ps(quarter[2 * i], quarter[2 * i + 1]));
  const __m512d a = _mm512_castps_pd(pair[0]), b = _mm512_castps_pd(pair[1]);
  return _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)),
                       _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
}

/* Sixteen rows of sixteen: x[i] holds row i, becomes column i. */
V_INLINE void v_transpose(vf x[V]) {
  vf t[V];
  for (int i = 0; i < 16; i += 4) {
    vf a = _mm512_unpacklo_ps(x[i], x[i + 1]), b = _mm512_unpackhi_ps(x[i], x[i + 1]);
    vf c = _mm512_unpacklo_ps(x[i + 2], x[i + 3]), d = _mm512_unpackhi_ps(x[i + 2], x[i + 3]);
    t[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(c)));
    t[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(c)));
    t[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(b), _mm512_castps_pd(d)));
    t[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(b), _mm512_castps_pd(d)));
  }
  for (int i = 0; i < 4; i++) { /* 128-bit quarters of t[i], t[i+4], t[i+8], t[i+12] */
    vf a = _mm512_shuffle_f32x4(t[i], t[i + 4], 0x88),
       b = _mm512_shuffle_f32x4(t[i], t[i + 4], 0xdd);
    vf c = _mm512_shuffle_f32x4(t[i + 8], t[i + 12], 0x88),
       d = _mm512_shuffle_f32x4(t[i + 8], t[i + 12], 0xdd);
    x[i] = _mm512_shuffle_f32x4(a, c, 0x88);
    x[i + 8] = _mm512_shuffle_f32x4(a, c, 0xdd);
    x[i + 4] = _mm512_shuffle_f32x4(b, d, 0x88);
    x[i + 12] = _mm512_shuffle_f32x4(b, d, 0xdd);
  }
}

#endif
