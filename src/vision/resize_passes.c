/* resize_passes.c - see resize_passes.h: AVX2 and AVX-512, two taps to a multiplication. */
#include "vision/resize_passes.h"

#include <string.h>

static uint8_t clip(int32_t sum, int32_t precision) {
  const int32_t v = sum >> precision;
  return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

static int32_t half_of(const accel__taps *t) { return t->precision ? 1 << (t->precision - 1) : 0; }

static void plain_pixels(const accel__taps *t, const uint8_t *row, int32_t begin, int32_t end,
                         uint8_t *out) {
  for (int32_t x = begin; x < end; x++) {
    const int16_t *weight = t->weight + (int64_t)x * 4 * t->groups;
    for (int c = 0; c < 3; c++) {
      int32_t sum = half_of(t);
      for (int32_t k = 0; k < t->count[x]; k++) sum += weight[k] * row[3 * (t->first[x] + k) + c];
      out[3 * x + c] = clip(sum, t->precision);
    }
  }
}

static void plain_bytes(const accel__taps *t, const uint8_t *from, int64_t bytes, int32_t y,
                        int64_t begin, uint8_t *out) {
  const int16_t *weight = t->weight + (int64_t)y * 4 * t->groups;
  for (int64_t i = begin; i < bytes; i++) {
    int32_t sum = half_of(t);
    for (int32_t k = 0; k < t->count[y]; k++) sum += weight[k] * from[k * bytes + i];
    out[i] = clip(sum, t->precision);
  }
}

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2   __attribute__((target("avx2")))
#define AVX512 __attribute__((target("avx512f,avx512bw")))

static bool has_avx512(void) {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
}

bool accel__resize_passes(void) { return __builtin_cpu_supports("avx2"); }

/* Output pixels from x on, at most `most` of them, whose sixteen bytes at a time can be read. */
static int32_t readable_end(const accel__taps *t, int32_t width, int64_t readable) {
  int32_t x = width;
  while (x > 0 &&
         3 * (int64_t)t->first[x - 1] + 12 * (int64_t)((t->count[x - 1] + 3) / 4) + 4 > readable)
    x--;
  return x;
}

/* Sixteen bytes are four pixels and a bit; the bytes that shuffles pick make pairs of one colour in
 * 16 bits each: r0 r1, g0 g1, b0 b1, and the same of the pixels after them. */
static const int8_t first_two[16] = {0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1},
                    next_two[16] = {6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1},
                    together[16] = {0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1};

/* Sums of output pixel x of two rows, one in each half. */
AVX2 static inline __m256i sums_of_2(const accel__taps *t, const uint8_t *row, size_t stride,
                                     int32_t x) {
  const __m256i low = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)first_two)),
                high = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)next_two));
  const int16_t *weight = t->weight + (int64_t)x * 4 * t->groups;
  const int32_t count = t->count[x];
  __m256i sum = _mm256_set1_epi32(half_of(t));
  row += 3 * (int64_t)t->first[x];
  for (int32_t k = 0; k < count; k += 4, row += 12) {
    const __m256i v =
        _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)row)),
                                _mm_loadu_si128((const __m128i *)(row + stride)), 1);
    int32_t pair, after;
    memcpy(&pair, weight + k, sizeof pair);
    memcpy(&after, weight + k + 2, sizeof after);
    sum = _mm256_add_epi32(sum,
                           _mm256_madd_epi16(_mm256_shuffle_epi8(v, low), _mm256_set1_epi32(pair)));
    if (k + 2 >= count) break;
    sum = _mm256_add_epi32(
        sum, _mm256_madd_epi16(_mm256_shuffle_epi8(v, high), _mm256_set1_epi32(after)));
  }
  return _mm256_sra_epi32(sum, _mm_cvtsi32_si128(t->precision));
}

/* Four output pixels of two rows at a time; what is written too much is written again. */
AVX2 static int32_t columns_2(const accel__taps *t, const uint8_t *row, size_t stride, int32_t end,
                              int32_t width, uint8_t *out) {
  const __m256i order = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)together));
  uint8_t *below = out + (size_t)width * 3;
  int32_t x = 0;
  for (; x + 4 <= end && x + 6 <= width; x += 4) {
    const __m256i a = _mm256_packs_epi32(sums_of_2(t, row, stride, x),
                                         sums_of_2(t, row, stride, x + 1)),
                  b = _mm256_packs_epi32(sums_of_2(t, row, stride, x + 2),
                                         sums_of_2(t, row, stride, x + 3)),
                  v = _mm256_shuffle_epi8(_mm256_packus_epi16(a, b), order);
    _mm_storeu_si128((__m128i *)(out + 3 * x), _mm256_castsi256_si128(v));
    _mm_storeu_si128((__m128i *)(below + 3 * x), _mm256_extracti128_si256(v, 1));
  }
  return x;
}

/* The same of four rows, one in each quarter. */
AVX512 static inline __m512i sums_of_4(const accel__taps *t, const uint8_t *row, size_t stride,
                                       int32_t x) {
  const __m512i low = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)first_two)),
                high = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)next_two));
  const int16_t *weight = t->weight + (int64_t)x * 4 * t->groups;
  const int32_t count = t->count[x];
  __m512i sum = _mm512_set1_epi32(half_of(t));
  row += 3 * (int64_t)t->first[x];
  for (int32_t k = 0; k < count; k += 4, row += 12) {
    __m512i v = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)row));
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(row + stride)), 1);
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(row + 2 * stride)), 2);
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(row + 3 * stride)), 3);
    int32_t pair, after;
    memcpy(&pair, weight + k, sizeof pair);
    memcpy(&after, weight + k + 2, sizeof after);
    sum = _mm512_add_epi32(sum,
                           _mm512_madd_epi16(_mm512_shuffle_epi8(v, low), _mm512_set1_epi32(pair)));
    if (k + 2 >= count) break;
    sum = _mm512_add_epi32(
        sum, _mm512_madd_epi16(_mm512_shuffle_epi8(v, high), _mm512_set1_epi32(after)));
  }
  return _mm512_sra_epi32(sum, _mm_cvtsi32_si128(t->precision));
}

AVX512 static int32_t columns_4(const accel__taps *t, const uint8_t *row, size_t stride,
                                int32_t end, int32_t width, uint8_t *out) {
  const __m512i order = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)together));
  const size_t bytes = (size_t)width * 3;
  int32_t x = 0;
  for (; x + 4 <= end && x + 6 <= width; x += 4) {
    const __m512i a = _mm512_packs_epi32(sums_of_4(t, row, stride, x),
                                         sums_of_4(t, row, stride, x + 1)),
                  b = _mm512_packs_epi32(sums_of_4(t, row, stride, x + 2),
                                         sums_of_4(t, row, stride, x + 3)),
                  v = _mm512_shuffle_epi8(_mm512_packus_epi16(a, b), order);
    uint8_t *to = out + 3 * x;
    _mm_storeu_si128((__m128i *)to, _mm512_castsi512_si128(v));
    _mm_storeu_si128((__m128i *)(to + bytes), _mm512_extracti32x4_epi32(v, 1));
    _mm_storeu_si128((__m128i *)(to + 2 * bytes), _mm512_extracti32x4_epi32(v, 2));
    _mm_storeu_si128((__m128i *)(to + 3 * bytes), _mm512_extracti32x4_epi32(v, 3));
  }
  return x;
}

void accel__resize_columns(const accel__taps *t, const uint8_t *from, size_t stride,
                           int64_t readable, int32_t rows, int32_t width, uint8_t *out) {
  const size_t bytes = (size_t)width * 3;
  const bool four = has_avx512(), two = accel__resize_passes();
  for (int32_t r = 0, n; r < rows; r += n, from += (size_t)n * stride, out += (size_t)n * bytes) {
    n = four && r + 4 <= rows ? 4 : two && r + 2 <= rows ? 2 : 1;
    const int32_t end = readable_end(t, width, readable - (int64_t)((size_t)(r + n - 1) * stride));
    const int32_t done = n == 4   ? columns_4(t, from, stride, end, width, out)
                         : n == 2 ? columns_2(t, from, stride, end, width, out)
                                  : 0;
    for (int32_t k = 0; k < n; k++)
      plain_pixels(t, from + (size_t)k * stride, done, width, out + (size_t)k * bytes);
  }
}

/* Bytes of two rows side by side, in 16 bits, times a pair of weights: four vectors of sums, whose
 * parts the packing puts in order again. */
AVX2 static int64_t row_by_32(const accel__taps *t, const uint8_t *from, int64_t bytes, int32_t y,
                              uint8_t *out) {
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
                    q = k + 1 < t->count[y] ? _mm256_loadu_si256((const __m256i *)(at + bytes))
                                            : zero;
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
  return i;
}

AVX512 static int64_t row_by_64(const accel__taps *t, const uint8_t *from, int64_t bytes, int32_t y,
                                uint8_t *out) {
  const int16_t *weight = t->weight + (int64_t)y * 4 * t->groups;
  const __m512i zero = _mm512_setzero_si512(), half = _mm512_set1_epi32(half_of(t));
  const __m128i shift = _mm_cvtsi32_si128(t->precision);
  int64_t i = 0;
  for (; i + 64 <= bytes; i += 64) {
    __m512i a = half, b = half, c = half, d = half;
    for (int32_t k = 0; k < t->count[y]; k += 2) {
      const uint8_t *at = from + k * bytes + i;
      int32_t pair;
      memcpy(&pair, weight + k, sizeof pair);
      const __m512i w = _mm512_set1_epi32(pair), p = _mm512_loadu_si512(at),
                    q = k + 1 < t->count[y] ? _mm512_loadu_si512(at + bytes) : zero;
      const __m512i low = _mm512_unpacklo_epi8(p, q), high = _mm512_unpackhi_epi8(p, q);
      a = _mm512_add_epi32(a, _mm512_madd_epi16(_mm512_unpacklo_epi8(low, zero), w));
      b = _mm512_add_epi32(b, _mm512_madd_epi16(_mm512_unpackhi_epi8(low, zero), w));
      c = _mm512_add_epi32(c, _mm512_madd_epi16(_mm512_unpacklo_epi8(high, zero), w));
      d = _mm512_add_epi32(d, _mm512_madd_epi16(_mm512_unpackhi_epi8(high, zero), w));
    }
    const __m512i low = _mm512_packs_epi32(_mm512_sra_epi32(a, shift), _mm512_sra_epi32(b, shift)),
                  high = _mm512_packs_epi32(_mm512_sra_epi32(c, shift), _mm512_sra_epi32(d, shift));
    _mm512_storeu_si512(out + i, _mm512_packus_epi16(low, high));
  }
  return i;
}

void accel__resize_row(const accel__taps *t, const uint8_t *from, int64_t bytes, int32_t y,
                       uint8_t *out) {
  const int64_t done = has_avx512()             ? row_by_64(t, from, bytes, y, out)
                       : accel__resize_passes() ? row_by_32(t, from, bytes, y, out)
                                                : 0;
  plain_bytes(t, from, bytes, y, done, out);
}

/* Eight pixels at a time: sixteen bytes are read for four of them. */
AVX2 static int64_t spread_8(const uint8_t *row, int64_t n, const accel__scaling *how,
                             float *const to[3]) {
  int64_t x = 0;
  for (; x + 10 <= n; x += 8) {
    const __m256i v = _mm256_inserti128_si256(
        _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(row + 3 * x))),
        _mm_loadu_si128((const __m128i *)(row + 3 * x + 12)), 1);
    for (int c = 0; c < 3; c++) {
      const __m256i of_colour = _mm256_setr_epi32(0, 3, 6, 9, 0, 3, 6, 9);
      const __m256i at = _mm256_or_si256(_mm256_add_epi32(of_colour, _mm256_set1_epi32(c)),
                                         _mm256_set1_epi32((int)0xFFFFFF00));
      const __m256 colour = _mm256_cvtepi32_ps(_mm256_shuffle_epi8(v, at)),
                   s = _mm256_set1_ps(how->scale[c]);
      const __m256 y = _mm256_sub_ps(colour, _mm256_set1_ps(how->offset[c]));
      _mm256_storeu_ps(to[c] + x, how->divides ? _mm256_div_ps(y, s) : _mm256_mul_ps(colour, s));
    }
  }
  return x;
}

/* Sixteen at a time. */
AVX512 static int64_t spread_16(const uint8_t *row, int64_t n, const accel__scaling *how,
                                float *const to[3]) {
  int64_t x = 0;
  for (; x + 18 <= n; x += 16) {
    const uint8_t *at = row + 3 * x;
    __m512i v = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)at));
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(at + 12)), 1);
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(at + 24)), 2);
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(at + 36)), 3);
    for (int c = 0; c < 3; c++) {
      const __m512i pick = _mm512_broadcast_i32x4(_mm_add_epi32(
          _mm_setr_epi32((int)0xFFFFFF00, (int)0xFFFFFF03, (int)0xFFFFFF06, (int)0xFFFFFF09),
          _mm_set1_epi32(c)));
      const __m512 colour = _mm512_cvtepi32_ps(_mm512_shuffle_epi8(v, pick)),
                   s = _mm512_set1_ps(how->scale[c]);
      const __m512 y = _mm512_sub_ps(colour, _mm512_set1_ps(how->offset[c]));
      _mm512_storeu_ps(to[c] + x, how->divides ? _mm512_div_ps(y, s) : _mm512_mul_ps(colour, s));
    }
  }
  return x;
}

int64_t accel__spread_row(const uint8_t *row, int64_t n, const accel__scaling *how,
                          float *const to[3]) {
  return has_avx512()             ? spread_16(row, n, how, to)
         : accel__resize_passes() ? spread_8(row, n, how, to)
                                  : 0;
}

#else

bool accel__resize_passes(void) { return false; }

void accel__resize_columns(const accel__taps *t, const uint8_t *from, size_t stride,
                           int64_t readable, int32_t rows, int32_t width, uint8_t *out) {
  (void)readable;
  for (int32_t r = 0; r < rows; r++)
    plain_pixels(t, from + (size_t)r * stride, 0, width, out + (size_t)r * (size_t)width * 3);
}

void accel__resize_row(const accel__taps *t, const uint8_t *from, int64_t bytes, int32_t y,
                       uint8_t *out) {
  plain_bytes(t, from, bytes, y, 0, out);
}

int64_t accel__spread_row(const uint8_t *row, int64_t n, const accel__scaling *how,
                          float *const to[3]) {
  (void)row, (void)n, (void)how, (void)to;
  return 0;
}

#endif
