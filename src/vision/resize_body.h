/* resize_body.h - the kernels of resize_kernels.h for one instruction set: two taps go into each
 * multiplication of pairs of 16-bit numbers.  A file that includes it has the flags of the
 * instruction set that its name ends in, and defines
 *   LANES128        parts of 16 bytes in a vector, 2 or 4: rows that `columns` takes at a time
 *   ints, floats    the vectors
 *   OP(name)        the intrinsic of that name, as _mm256_name
 *   load_parts(row, stride)  LANES128 times 16 bytes, `stride` apart
 *   repeat(v)       16 bytes in each part
 *   PART(v, i)      part i of a vector, i constant
 *   load(at), store(at, v)   a whole vector of bytes
 *   KERNELS, NARROWER        the name of the table, and what its last member is
 */
#include <string.h>

#include "vision/resize_kernels.h"

static int32_t half_of(const accel__taps *t) { return t->precision ? 1 << (t->precision - 1) : 0; }

static inline int32_t pair_at(const int16_t *weight) {
  int32_t pair;
  memcpy(&pair, weight, sizeof pair);
  return pair;
}

/* Sixteen bytes are four pixels and a bit; the bytes that shuffles pick make pairs of one colour in
 * 16 bits each: r0 r1, g0 g1, b0 b1, and the same of the pixels after them. */
static const int8_t first_two[16] = {0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1},
                    next_two[16] = {6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1},
                    together[16] = {0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1};

static inline ints repeat_bytes(const int8_t bytes[16]) {
  return repeat(_mm_loadu_si128((const __m128i *)bytes));
}

/* Sums of output pixel x of LANES128 rows, one in each part. */
static inline ints sums_of(const accel__taps *t, const uint8_t *row, size_t stride, int32_t x) {
  const ints low = repeat_bytes(first_two), high = repeat_bytes(next_two);
  const int16_t *weight = t->weight + (int64_t)x * 4 * t->groups;
  const int32_t count = t->count[x];
  ints sum = OP(set1_epi32)(half_of(t));
  row += 3 * (int64_t)t->first[x];
  for (int32_t k = 0; k < count; k += 4, row += 12) {
    const ints v = load_parts(row, stride), pair = OP(set1_epi32)(pair_at(weight + k)),
               after = OP(set1_epi32)(pair_at(weight + k + 2));
    sum = OP(add_epi32)(sum, OP(madd_epi16)(OP(shuffle_epi8)(v, low), pair));
    if (k + 2 >= count) break;
    sum = OP(add_epi32)(sum, OP(madd_epi16)(OP(shuffle_epi8)(v, high), after));
  }
  return OP(sra_epi32)(sum, _mm_cvtsi32_si128(t->precision));
}

/* Four output pixels at a time; what is written too much is written again. */
static int32_t columns(const accel__taps *t, const uint8_t *row, size_t stride, int32_t end,
                       int32_t width, uint8_t *out) {
  const ints order = repeat_bytes(together);
  const size_t bytes = (size_t)width * 3;
  int32_t x = 0;
  for (; x + 4 <= end && x + 6 <= width; x += 4) {
    const ints a = OP(packs_epi32)(sums_of(t, row, stride, x), sums_of(t, row, stride, x + 1)),
               b = OP(packs_epi32)(sums_of(t, row, stride, x + 2), sums_of(t, row, stride, x + 3)),
               v = OP(shuffle_epi8)(OP(packus_epi16)(a, b), order);
    uint8_t *to = out + 3 * x;
    _mm_storeu_si128((__m128i *)to, PART(v, 0));
    _mm_storeu_si128((__m128i *)(to + bytes), PART(v, 1));
#if LANES128 == 4
    _mm_storeu_si128((__m128i *)(to + 2 * bytes), PART(v, 2));
    _mm_storeu_si128((__m128i *)(to + 3 * bytes), PART(v, 3));
#endif
  }
  return x;
}

/* Bytes of two rows side by side, in 16 bits, times a pair of weights: four vectors of sums, whose
 * parts the packing puts in order again. */
static int64_t row_of(const accel__taps *t, const uint8_t *from, int64_t bytes, int32_t y,
                      uint8_t *out) {
  enum { STEP = 16 * LANES128 };
  const int16_t *weight = t->weight + (int64_t)y * 4 * t->groups;
  const ints zero = repeat(_mm_setzero_si128()), half = OP(set1_epi32)(half_of(t));
  const __m128i shift = _mm_cvtsi32_si128(t->precision);
  int64_t i = 0;
  for (; i + STEP <= bytes; i += STEP) {
    ints a = half, b = half, c = half, d = half;
    for (int32_t k = 0; k < t->count[y]; k += 2) {
      const uint8_t *at = from + k * bytes + i;
      /* an odd last tap goes with a weight of 0 */
      const ints w = OP(set1_epi32)(pair_at(weight + k)), p = load(at),
                 q = k + 1 < t->count[y] ? load(at + bytes) : zero;
      const ints low = OP(unpacklo_epi8)(p, q), high = OP(unpackhi_epi8)(p, q);
      a = OP(add_epi32)(a, OP(madd_epi16)(OP(unpacklo_epi8)(low, zero), w));
      b = OP(add_epi32)(b, OP(madd_epi16)(OP(unpackhi_epi8)(low, zero), w));
      c = OP(add_epi32)(c, OP(madd_epi16)(OP(unpacklo_epi8)(high, zero), w));
      d = OP(add_epi32)(d, OP(madd_epi16)(OP(unpackhi_epi8)(high, zero), w));
    }
    const ints low = OP(packs_epi32)(OP(sra_epi32)(a, shift), OP(sra_epi32)(b, shift)),
               high = OP(packs_epi32)(OP(sra_epi32)(c, shift), OP(sra_epi32)(d, shift));
    store(out + i, OP(packus_epi16)(low, high));
  }
  return i;
}

/* Four pixels in each part, of which sixteen bytes are read. */
static int64_t scale(const uint8_t *row, int64_t n, const accel__scaling *how, float *const to[3]) {
  enum { STEP = 4 * LANES128 };
  int64_t x = 0;
  for (; x + STEP + 2 <= n; x += STEP) {
    const ints v = load_parts(row + 3 * x, 12);
    for (int c = 0; c < 3; c++) {
      const ints pick = repeat(_mm_add_epi32(
          _mm_setr_epi32((int)0xFFFFFF00, (int)0xFFFFFF03, (int)0xFFFFFF06, (int)0xFFFFFF09),
          _mm_set1_epi32(c)));
      const floats colour = OP(cvtepi32_ps)(OP(shuffle_epi8)(v, pick)),
                   s = OP(set1_ps)(how->scale[c]);
      const floats y = OP(sub_ps)(colour, OP(set1_ps)(how->offset[c]));
      OP(storeu_ps)(to[c] + x, how->divides ? OP(div_ps)(y, s) : OP(mul_ps)(colour, s));
    }
  }
  return x;
}

const accel__resize_kernels KERNELS = {
    .rows = LANES128, .columns = columns, .row = row_of, .scale = scale, .narrower = NARROWER};
