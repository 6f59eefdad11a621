/* resize_avx512.c - the kernels of resize_kernels.h for AVX-512. */
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#define LANES128 4
#define OP(name) _mm512_##name
#define KERNELS  accel__resize_kernels_avx512
#define NARROWER &accel__resize_kernels_avx2

typedef __m512i ints;
typedef __m512 floats;

static inline ints repeat(__m128i v) { return _mm512_broadcast_i32x4(v); }
static inline ints load(const uint8_t *at) { return _mm512_loadu_si512(at); }
static inline void store(uint8_t *at, ints v) { _mm512_storeu_si512(at, v); }
static inline ints load_parts(const uint8_t *row, size_t stride) {
  const ints v = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)row)),
             w = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(row + stride)), 1),
             x = _mm512_inserti32x4(w, _mm_loadu_si128((const __m128i *)(row + 2 * stride)), 2);
  return _mm512_inserti32x4(x, _mm_loadu_si128((const __m128i *)(row + 3 * stride)), 3);
}
#define PART(v, i) _mm512_extracti32x4_epi32(v, i)

#include "vision/resize_body.h"
