/* fma_peak.h - multiply-adds that touch registers only: what a core can do at most, measured beside
 * what is said to come close to it. */
#ifndef ACCEL_TESTS_FMA_PEAK_H
#define ACCEL_TESTS_FMA_PEAK_H

#include <stddef.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "bench_timer.h"

static volatile float fma_peak_sink = 0.999f;
enum { FMA_PEAK_STEPS = 400000 };

/* Ten chains: enough for two pipes of four cycles. */
#define FMA_PEAK(name, features, vector, set, fma)                                       \
  features static double name(void) {                                                    \
    vector x[10], a = set(fma_peak_sink), b = set(1e-3f);                                \
    for (int i = 0; i < 10; i++) x[i] = set((float)i);                                   \
    double start = now();                                                                \
    for (int k = 0; k < FMA_PEAK_STEPS; k++) {                                           \
      _Pragma("GCC unroll 10") for (int i = 0; i < 10; i++) x[i] = fma(x[i], a, b);      \
    }                                                                                    \
    double seconds = now() - start;                                                      \
    float *out = (float *)x;                                                             \
    for (size_t i = 0; i < sizeof x / (sizeof(float)); i++) fma_peak_sink += 0 * out[i]; \
    return 2.0 * FMA_PEAK_STEPS * (double)(sizeof x / (sizeof(float))) / seconds * 1e-9; \
  }

typedef float fma_peak_v4 __attribute__((vector_size(16)));
static inline fma_peak_v4 fma_peak_set4(float x) { return (fma_peak_v4){x, x, x, x}; }
static inline fma_peak_v4 fma_peak_fma4(fma_peak_v4 a, fma_peak_v4 b, fma_peak_v4 c) {
  return a * b + c;
}
FMA_PEAK(fma_peak_128, , fma_peak_v4, fma_peak_set4, fma_peak_fma4)
#if defined(__x86_64__)
FMA_PEAK(fma_peak_256, __attribute__((target("avx2,fma"))), __m256, _mm256_set1_ps, _mm256_fmadd_ps)
FMA_PEAK(fma_peak_512, __attribute__((target("avx512f"))), __m512, _mm512_set1_ps, _mm512_fmadd_ps)
#endif

/* GFLOP/s of one core with vectors of `bits` bits, which the machine must have. */
static double fma_peak(int bits) {
#if defined(__x86_64__)
  if (bits == 512) return fma_peak_512();
  if (bits == 256) return fma_peak_256();
#endif
  (void)bits;
  return fma_peak_128();
}

#endif
