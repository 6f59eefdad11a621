/* resize_avx2.c - the kernels of resize_kernels.h for AVX2. */
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#define LANES128 2
#define OP(name) _mm256_##name
#define KERNELS  accel__resize_kernels_avx2
#define NARROWER NULL

typedef __m256i ints;
typedef __m256 floats;

static inline ints repeat(__m128i v) { return _mm256_broadcastsi128_si256(v); }
static inline ints load(const uint8_t *at) { return _mm256_loadu_si256((const __m256i *)at); }
static inline void store(uint8_t *at, ints v) { _mm256_storeu_si256((__m256i *)at, v); }
static inline ints load_parts(const uint8_t *row, size_t stride) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)row)),
                                 _mm_loadu_si128((const __m128i *)(row + stride)), 1);
}
#define PART(v, i) _mm256_extracti128_si256(v, i)

#include "vision/resize_body.h"
