/* twice.h - a body for any processor, and for x86-64 once more for AVX2 and FMA: include with BODY, the name of a file whose
 * functions are FFT_NAME(name) and TARGET. */
#define FFT_NAME(name) name##_any
#define TARGET
#include BODY
#undef FFT_NAME
#undef TARGET

#if defined(__x86_64__)
#define FFT_NAME(name) name##_avx2
#define TARGET         __attribute__((target("avx2,fma")))
#include BODY
#undef FFT_NAME
#undef TARGET
#endif
#undef BODY
