/* isa.h - which of the bodies that bodies.h compiles this processor runs. */
#ifndef ACCEL_AUDIO_ISA_H
#define ACCEL_AUDIO_ISA_H

#include <stdint.h>

typedef enum accel__audio_isa {
  ACCEL__AUDIO_ANY,
  ACCEL__AUDIO_AVX2,
  ACCEL__AUDIO_AVX512
} accel__audio_isa;

static inline accel__audio_isa accel__audio_isa_here(void) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
    return ACCEL__AUDIO_AVX512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return ACCEL__AUDIO_AVX2;
#endif
  return ACCEL__AUDIO_ANY;
}

#if defined(__x86_64__)
#define ACCEL__BY_ISA(isa, name, ...)                        \
  ((isa) == ACCEL__AUDIO_AVX512 ? name##_avx512(__VA_ARGS__) \
   : (isa) == ACCEL__AUDIO_AVX2 ? name##_avx2(__VA_ARGS__)   \
                                : name##_any(__VA_ARGS__))
#else
#define ACCEL__BY_ISA(isa, name, ...) ((void)(isa), name##_any(__VA_ARGS__))
#endif

#endif
