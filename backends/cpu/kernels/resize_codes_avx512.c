/* resize_codes_avx512.c - a line of a resized image as codes (cpu_resize_codes), in 16-bit
 * arithmetic: numbers are codes times 2^UNIT, so that each of the three roundings before the last
 * one is a hundredth of a code at most. */
#include <immintrin.h>
#include <stdbool.h>

#include "kernels/resize_codes.h"

enum { AT_ONCE = 32, UNIT = 7 };

static inline __mmask32 rest_of(int64_t n) { return n >= AT_ONCE ? ~0u : (1u << n) - 1; }

/* What mulhrs multiplies by for a factor of 0 to 1. */
static inline __m512i word_of(float factor) {
  const float word = factor * 32768;
  return _mm512_set1_epi16((int16_t)(word < 32767 ? word + 0.5f : 32767));
}

/* Codes of a line of x as numbers, less `from`, times factor. */
static inline __m512i lift(const uint8_t *x, __mmask32 mask, __m512i from, __m512i factor) {
  const __m512i codes = _mm512_cvtepu8_epi16(_mm256_maskz_loadu_epi8(mask, x));
  return _mm512_mulhrs_epi16(_mm512_slli_epi16(_mm512_sub_epi16(codes, from), UNIT), factor);
}

static inline void mix_lines(const bool two, const cpu_resize_codes *g) {
  const int64_t n = g->in * g->channels;
  const __m512i to = _mm512_set1_epi16((int16_t)((int32_t)g->to << UNIT));
  __m512i from[2], factor[2];
  for (int i = 0; i < 2; i++)
    from[i] = _mm512_set1_epi16((int16_t)g->from[i]), factor[i] = word_of(g->factor[i]);
  for (int64_t i = 0; i < n; i += AT_ONCE) {
    const __mmask32 mask = rest_of(n - i);
    __m512i v = _mm512_add_epi16(to, lift(g->x[0] + i, mask, from[0], factor[0]));
    if (two) v = _mm512_adds_epi16(v, lift(g->x[1] + i, mask, from[1], factor[1]));
    _mm512_mask_storeu_epi16(g->line + i, mask, v);
  }
}

static inline void put_codes(__m512i v, __mmask32 mask, uint8_t *y) {
  const __m512i half = _mm512_set1_epi16(1 << (UNIT - 1));
  v = _mm512_srai_epi16(_mm512_max_epi16(_mm512_adds_epi16(v, half), _mm512_setzero_si512()), UNIT);
  _mm256_mask_storeu_epi8(y, mask, _mm512_cvtepi16_epi8(v));
}

/* A pixel between two: a + (b - a) times weight. */
static inline void mix_pixels(const int16_t *a, const int16_t *b, float weight, int64_t channels,
                              uint8_t *y) {
  const __m512i factor = word_of(weight);
  for (int64_t c = 0; c < channels; c += AT_ONCE) {
    const __mmask32 mask = rest_of(channels - c);
    const __m512i left = _mm512_maskz_loadu_epi16(mask, a + c),
                  right = _mm512_maskz_loadu_epi16(mask, b + c);
    put_codes(_mm512_add_epi16(left, _mm512_mulhrs_epi16(_mm512_subs_epi16(right, left), factor)),
              mask, y + c);
  }
}

void accel_f32_resize_codes__avx512(const cpu_resize_codes *g) {
  if (g->factor[1] > 0)
    mix_lines(true, g);
  else
    mix_lines(false, g);
  const int64_t channels = g->channels, last = g->width - 1;
  for (int64_t p = 0; p < g->out; p++) {
    const int32_t *at = g->index + p * g->width;
    mix_pixels(g->line + at[0] * channels, g->line + at[last] * channels,
               last ? g->weight[p * g->width + 1] : 0, channels, g->y + p * channels);
  }
}
