/* narrow_avx512bf16.c - linear over fp8 weights and rows of bf16 for AVX-512 BF16 with VBMI: both
 * bytes of the bf16 that a code stands for are looked up, and pairs of k multiplied. */
#include <stdbool.h>

#include "kernels/kernels.h"
#include "kernels/pairs_avx512bf16.h"

#define GEMM_ROWS 14
#define GEMM_VECS 2
#define V_GELU    v_gelu_brief
#include "kernels/math_body.h"
#include "kernels/micro_body.h"
#include "kernels/tile_body.h"

/* ---- bf16 of the magnitudes 0..127; E4M3 times 2^-8 ---- */

/* Denormals m < 8, of which 1 is 2^(low - 127). */
#define HIGHEST(m)    ((m) >= 4 ? 2 : (m) >= 2 ? 1 : 0) /* bit */
#define SMALL(m, low) ((m) ? (((low) + HIGHEST(m)) << 7) + (((m) << (7 - HIGHEST(m))) & 0x7f) : 0)
/* NaN: its scale is one */
#define E4M3_BITS(m) ((m) < 8 ? SMALL(m, 110) : ((m) << 4) + (112 << 7))
#define E5M2_BITS(m) \
  ((m) < 4 ? SMALL(m, 111) : (m) < 0x7c ? ((m) << 5) + (112 << 7) : (m) == 0x7c ? 0x7f80 : 0x7fc0)
#define E4M3_HIGH(m)  (uint8_t)(E4M3_BITS(m) >> 8),
#define E4M3_LOW(m)   (uint8_t)(E4M3_BITS(m) & 0xff),
#define E5M2_HIGH(m)  (uint8_t)(E5M2_BITS(m) >> 8),
#define E5M2_LOW(m)   (uint8_t)(E5M2_BITS(m) & 0xff),
#define FOUR(F, m)    F(m) F((m) + 1) F((m) + 2) F((m) + 3)
#define SIXTEEN(F, m) FOUR(F, m) FOUR(F, (m) + 4) FOUR(F, (m) + 8) FOUR(F, (m) + 12)
#define MAGNITUDES(F)                                                                          \
  {                                                                                            \
    SIXTEEN(F, 0)                                                                              \
    SIXTEEN(F, 16)                                                                             \
    SIXTEEN(F, 32) SIXTEEN(F, 48) SIXTEEN(F, 64) SIXTEEN(F, 80) SIXTEEN(F, 96) SIXTEEN(F, 112) \
  }

typedef struct magnitudes {
  uint8_t high[128], low[128];
} magnitudes;
static const magnitudes e4m3
    __attribute__((aligned(64))) = {MAGNITUDES(E4M3_HIGH), MAGNITUDES(E4M3_LOW)};
static const magnitudes e5m2
    __attribute__((aligned(64))) = {MAGNITUDES(E5M2_HIGH), MAGNITUDES(E5M2_LOW)};

V_INLINE __m512i look_up(const uint8_t *table, __m512i codes) { /* by the low seven bits of each */
  return _mm512_permutex2var_epi8(_mm512_load_si512(table), codes, _mm512_load_si512(table + 64));
}

/* Two k of a panel, exactly: a pair of each column. */
V_INLINE void widen_pair(const int form, const uint8_t *p, vf (*w)[GEMM_VECS]) {
  const magnitudes *m = form == CPU_FORM_E4M3 ? &e4m3 : &e5m2;
  /* four columns of either half by turns, which unpacking undoes */
  const __m512i codes = _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7),
                                                 _mm512_loadu_si512(p)),
                low = look_up(m->low, codes),
                high = _mm512_ternarylogic_epi32(look_up(m->high, codes), codes,
                                                 _mm512_set1_epi8((char)0x80), 0xf8);
  w[0][0] = _mm512_castsi512_ps(_mm512_unpacklo_epi8(low, high));
  w[0][1] = _mm512_castsi512_ps(_mm512_unpackhi_epi8(low, high));
}

#include "kernels/narrow_body.h"

NARROW(CPU_FORM_E4M3, accel_e4m3_linear_14x32__avx512bf16)
NARROW(CPU_FORM_E5M2, accel_e5m2_linear_14x32__avx512bf16)
