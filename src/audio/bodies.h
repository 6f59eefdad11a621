/* bodies.h - a body for any processor, and for x86-64 once more for AVX2 and FMA, and for AVX-512:
 * include with BODY, the name of a file whose functions are FOR_ISA(name) and TARGET, and which
 * works on LANES doubles at a time.
 *
 * ACCEL__BY_ISA(name, ...) calls the newest that this processor runs; accel__audio_lanes() are its
 * LANES. */
#define FOR_ISA(name) name##_any
#define TARGET
#define LANES 4
#include BODY
#undef FOR_ISA
#undef TARGET
#undef LANES

#if defined(__x86_64__)
#define FOR_ISA(name) name##_avx2
#define TARGET        __attribute__((target("avx2,fma")))
#define LANES         4
#include BODY
#undef FOR_ISA
#undef TARGET
#undef LANES

#define FOR_ISA(name) name##_avx512
#define TARGET        __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,fma")))
#define LANES         8
#include BODY
#undef FOR_ISA
#undef TARGET
#undef LANES
#endif
#undef BODY
