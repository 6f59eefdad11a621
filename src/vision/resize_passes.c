/* resize_passes.c - see resize_passes.h: AVX2, two taps to a multiplication. */
#include "vision/resize_passes.h"

#include <stddef.h>
#include <string.h>

static uint8_t clip(int32_t sum, int32_t precision) {
  const int32_t v = sum >> precision;
  return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

static int32_t half_of(const accel__taps *t) { return t->precision ? 1 << (t->precision - 1) : 0; }

static void plain_pixel(const accel__taps *t, const uint8_t *row, int32_t x, uint8_t *out) {
  const int16_t *weight = t->weight + (int64_t)x * 4 * t->groups;
  for (int c = 0; c < 3; c++) {
    int32_t sum = half_of(t);
    for (int32_t k = 0; k < t->count[x]; k++) sum += weight[k] * row[3 * (t->first[x] + k) + c];
    out[3 * x + c] = clip(sum, t->precision);
  }
}

static void plain_bytes(const accel__taps *t, const uint8_t *from, int64_t bytes, int32_t y, int64_t begin, uint8_t *out) {
  const int16_t *weight = t->weight + (int64_t)y * 4 * t->groups;
  for (int64_t i = begin; i < bytes; i++) {
    int32_t sum = half_of(t);
    for (int32_t k = 0; k < t->count[y]; k++) sum += weight[k] * from[k * bytes + i];
    out[i] = clip(sum, t->precision);
  }
}

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2")))

bool accel__resize_passes(void) { return __builtin_cpu_supports("avx2"); }

/* Whether the sixteen bytes at a time that output pixel x is made from can be read. */
static bool is_readable(const accel__taps *t, int32_t x, int64_t readable) {
  return 3 * (int64_t)t->first[x] + 12 * (int64_t)((t->count[x] + 3) / 4) + 4 <= readable;
}

/* Sums of output pixel x, a row in each half: pixels of three bytes become pairs of one colour in 16 bits each. */
AVX2 static inline __m256i sums_of(const accel__taps *t, const uint8_t *row, const uint8_t *other, int32_t x) {
  const __m256i first_two = _mm256_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1, 0, -1, 3, -1, 1, -1,
                                             4, -1, 2, -1, 5, -1, -1, -1, -1, -1),
                next_two = _mm256_setr_epi8(6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1, 6, -1, 9, -1, 7, -1,
                                            10, -1, 8, -1, 11, -1, -1, -1, -1, -1);
  const int64_t from = 3 * (int64_t)t->first[x];
  const int16_t *weight = t->weight + (int64_t)x * 4 * t->groups;
  __m256i sum = _mm256_set1_epi32(half_of(t));
  for (int32_t k = 0; k < t->count[x]; k += 4) {
    const __m256i v = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(row + from + 3 * k))),
                                              _mm_loadu_si128((const __m128i *)(other + from + 3 * k)), 1);
    int32_t pair, after;
    memcpy(&pair, weight + k, sizeof pair);
    memcpy(&after, weight + k + 2, sizeof after);
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_shuffle_epi8(v, first_two), _mm256_set1_epi32(pair)));
    if (k + 2 >= t->count[x]) break;
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_shuffle_epi8(v, next_two), _mm256_set1_epi32(after)));
  }
  return _mm256_sra_epi32(sum, _mm_cvtsi32_si128(t->precision));
}

/* Two output pixels of both rows at a time. */
AVX2 void accel__resize_columns(const accel__taps *t, const uint8_t *row, const uint8_t *next, int64_t readable,
                                int32_t width, uint8_t *out, uint8_t *out_next) {
  const __m256i together = _mm256_setr_epi8(0, 1, 2, 4, 5, 6, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 1, 2, 4, 5, 6, -1,
                                            -1, -1, -1, -1, -1, -1, -1, -1, -1);
  const uint8_t *other = next ? next : row;
  int32_t x = 0;
  for (; x + 2 <= width && is_readable(t, x, readable) && is_readable(t, x + 1, readable); x += 2) {
    __m256i sum = _mm256_packs_epi32(sums_of(t, row, other, x), sums_of(t, row, other, x + 1));
    sum = _mm256_shuffle_epi8(_mm256_packus_epi16(sum, sum), together);
    const uint64_t a = (uint64_t)_mm256_extract_epi64(sum, 0), b = (uint64_t)_mm256_extract_epi64(sum, 2);
    const size_t n = x + 3 <= width ? 8 : 6; /* bytes too many are written again */
    memcpy(out + 3 * x, &a, n);
    if (next) memcpy(out_next + 3 * x, &b, n);
  }
  for (; x < width; x++) {
    plain_pixel(t, row, x, out);
    if (next) plain_pixel(t, next, x, out_next);
  }
}

/* 32 bytes of the row at a time. */
AVX2 void accel__resize_rows(const accel__taps *t, const uint8_t *pixels, int64_t bytes, int32_t y, uint8_t *out) {
  const uint8_t *from = pixels + t->first[y] * bytes;
  const int16_t *weight = t->weight + (int64_t)y * 4 * t->groups;
  const __m256i zero = _mm256_setzero_si256(), half = _mm256_set1_epi32(half_of(t));
  const __m128i shift = _mm_cvtsi32_si128(t->precision);
  int64_t i = 0;
  for (; i + 32 <= bytes; i += 32) {
    __m256i a = half, b = half, c = half, d = half;
    for (int32_t k = 0; k < t->count[y]; k += 2) {
      const uint8_t *at = from + k * bytes + i;
      int32_t pair;
      memcpy(&pair, weight + k, sizeof pair); /* an odd last tap goes with a weight of 0 */
      const __m256i w = _mm256_set1_epi32(pair), p = _mm256_loadu_si256((const __m256i *)at),
                    q = k + 1 < t->count[y] ? _mm256_loadu_si256((const __m256i *)(at + bytes)) : zero;
      const __m256i low = _mm256_unpacklo_epi8(p, q), high = _mm256_unpackhi_epi8(p, q);
      a = _mm256_add_epi32(a, _mm256_madd_epi16(_mm256_unpacklo_epi8(low, zero), w));
      b = _mm256_add_epi32(b, _mm256_madd_epi16(_mm256_unpackhi_epi8(low, zero), w));
      c = _mm256_add_epi32(c, _mm256_madd_epi16(_mm256_unpacklo_epi8(high, zero), w));
      d = _mm256_add_epi32(d, _mm256_madd_epi16(_mm256_unpackhi_epi8(high, zero), w));
    }
    const __m256i low = _mm256_packs_epi32(_mm256_sra_epi32(a, shift), _mm256_sra_epi32(b, shift)),
                  high = _mm256_packs_epi32(_mm256_sra_epi32(c, shift), _mm256_sra_epi32(d, shift));
    _mm256_storeu_si256((__m256i *)(out + i), _mm256_packus_epi16(low, high));
  }
  plain_bytes(t, from, bytes, y, i, out);
}

/* Eight pixels at a time: sixteen bytes are read for four of them. */
AVX2 int64_t accel__spread_row(const uint8_t *row, int64_t n, const float offset[3], const float scale[3], bool divides,
                               float *const to[3]) {
  int64_t x = 0;
  for (; x + 10 <= n; x += 8) {
    const __m256i v = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(row + 3 * x))),
                                              _mm_loadu_si128((const __m128i *)(row + 3 * x + 12)), 1);
    for (int c = 0; c < 3; c++) {
      const __m256i of_colour = _mm256_setr_epi32(0, 3, 6, 9, 0, 3, 6, 9);
      const __m256i at =
          _mm256_or_si256(_mm256_add_epi32(of_colour, _mm256_set1_epi32(c)), _mm256_set1_epi32((int)0xFFFFFF00));
      const __m256 colour = _mm256_cvtepi32_ps(_mm256_shuffle_epi8(v, at)), s = _mm256_set1_ps(scale[c]);
      const __m256 y = _mm256_sub_ps(colour, _mm256_set1_ps(offset[c]));
      _mm256_storeu_ps(to[c] + x, divides ? _mm256_div_ps(y, s) : _mm256_mul_ps(colour, s));
    }
  }
  return x;
}

#else

bool accel__resize_passes(void) { return false; }

int64_t accel__spread_row(const uint8_t *row, int64_t n, const float offset[3], const float scale[3], bool divides,
                          float *const to[3]) {
  (void)row, (void)n, (void)offset, (void)scale, (void)divides, (void)to;
  return 0;
}

void accel__resize_columns(const accel__taps *t, const uint8_t *row, const uint8_t *next, int64_t readable, int32_t width,
                           uint8_t *out, uint8_t *out_next) {
  (void)readable;
  for (int32_t x = 0; x < width; x++) {
    plain_pixel(t, row, x, out);
    if (next) plain_pixel(t, next, x, out_next);
  }
}

void accel__resize_rows(const accel__taps *t, const uint8_t *pixels, int64_t bytes, int32_t y, uint8_t *out) {
  plain_bytes(t, pixels + t->first[y] * bytes, bytes, y, 0, out);
}

#endif
