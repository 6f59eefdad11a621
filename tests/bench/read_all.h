/* read_all.h - memory read as fast as a core can by plain loops: what kernels that stream are held
 * against. */
#ifndef ACCEL_TESTS_READ_ALL_H
#define ACCEL_TESTS_READ_ALL_H

#include "kernels/kernels.h"

static volatile uint64_t sink;
typedef uint64_t v8 __attribute__((vector_size(64)));
#define READ                                                  \
  {                                                           \
    v8 a = {0}, b = {0}, c = {0}, d = {0};                    \
    const v8 *p = (const v8 *)from;                           \
    for (int64_t i = 0; i + 256 <= bytes; i += 256, p += 4) { \
      __builtin_prefetch((const char *)p + 4096);             \
      __builtin_prefetch((const char *)p + 4160);             \
      __builtin_prefetch((const char *)p + 4224);             \
      __builtin_prefetch((const char *)p + 4288);             \
      a ^= p[0], b ^= p[1], c ^= p[2], d ^= p[3];             \
    }                                                         \
    a ^= b ^ c ^ d;                                           \
    sink += a[0];                                             \
  }
static inline void read_plain(const char *from, int64_t bytes) READ
#if defined(__x86_64__)
    __attribute__((target("avx2"))) static inline void read_avx2(const char *from,
                                                                 int64_t bytes) READ
    __attribute__((target("avx512f"))) static inline void read_avx512(const char *from,
                                                                      int64_t bytes) READ
#endif
    static inline void read_all(cpu_isa isa, const char *from, int64_t bytes) {
#if defined(__x86_64__)
  if (isa >= CPU_ISA_AVX512) {
    read_avx512(from, bytes);
    return;
  }
  if (isa >= CPU_ISA_AVX2) {
    read_avx2(from, bytes);
    return;
  }
#endif
  (void)isa;
  read_plain(from, bytes);
}

#endif
