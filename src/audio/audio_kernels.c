/* audio_kernels.c - see audio_kernels.h. */
#include "audio/audio_kernels.h"

const accel__audio_kernels *accel__audio_kernels_of(accel__isa isa) {
#if defined(__x86_64__)
  if (isa == ACCEL__ISA_AVX512) return &accel__audio_kernels_avx512;
  if (isa == ACCEL__ISA_AVX2) return &accel__audio_kernels_avx2;
#endif
  (void)isa;
  return &accel__audio_kernels_scalar;
}
