/* resize_kernels.c - see resize_kernels.h. */
#include "vision/resize_kernels.h"

const accel__resize_kernels *accel__resize_kernels_of(accel__isa isa) {
#if defined(__x86_64__)
  if (isa == ACCEL__ISA_AVX512) return &accel__resize_kernels_avx512;
  if (isa == ACCEL__ISA_AVX2) return &accel__resize_kernels_avx2;
#endif
  (void)isa;
  return NULL;
}
