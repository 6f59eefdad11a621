/* recode_amx.c - codes with another scale and zero (cpu_recode), for convolutions whose parts stay
 * in the tile registers of AMX: 16-bit arithmetic of AVX-512 BW. */
#include <immintrin.h>
#include <string.h>

#include "kernels/kernels.h"

enum { AT_ONCE = 32 };

/* Rounded as (x - from) * factor / 2^15 + to, which `factor`, rounded itself, is off by less than a
 * hundredth of a code. */
typedef struct recoding {
  __m512i factor, from, to;
} recoding;

static inline __m256i recode(__m256i x, const recoding *how) {
  const __m512i less = _mm512_sub_epi16(_mm512_cvtepu8_epi16(x), how->from),
                y = _mm512_add_epi16(_mm512_mulhrs_epi16(less, how->factor), how->to);
  return _mm512_cvtusepi16_epi8(_mm512_max_epi16(y, _mm512_setzero_si512()));
}

static void recode_run(const uint8_t *x, int64_t n, const recoding *how, uint8_t *y) {
  int64_t i = 0;
  for (; i + AT_ONCE <= n; i += AT_ONCE)
    _mm256_storeu_si256((__m256i *)(y + i),
                        recode(_mm256_loadu_si256((const __m256i *)(x + i)), how));
  if (i >= n) return;
  const __mmask32 rest = (1u << (n - i)) - 1;
  _mm256_mask_storeu_epi8(y + i, rest, recode(_mm256_maskz_loadu_epi8(rest, x + i), how));
}

void accel_f32_recode_pixels__amx(const cpu_recode *g) {
  const bool same = g->factor == 1 && g->from == g->to, whole = g->ldy == g->channels;
  const int64_t runs = whole ? 1 : g->pixels, n = whole ? g->pixels * g->channels : g->channels;
  const float factor = g->factor * 32768;
  const recoding how = {_mm512_set1_epi16((int16_t)(factor < 32767 ? factor + 0.5f : 32767)),
                        _mm512_set1_epi16((int16_t)g->from), _mm512_set1_epi16((int16_t)g->to)};
  for (int64_t i = 0; i < runs; i++) {
    const uint8_t *x = g->x + i * n;
    uint8_t *y = g->y + i * g->ldy;
    if (same)
      memcpy(y, x, (size_t)n);
    else
      recode_run(x, n, &how, y);
  }
}
