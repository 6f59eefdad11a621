/* rag_dot.c - see rag_dot.h. */
#include "rag/rag_dot.h"

accel__rag_dots_fn *accel__rag_dots_of(accel__isa isa) {
#if defined(__x86_64__)
  if (isa == ACCEL__ISA_AVX512) return accel__rag_dots_avx512;
  if (isa == ACCEL__ISA_AVX2) return accel__rag_dots_avx2;
#endif
  (void)isa;
  return accel__rag_dots_scalar;
}
