/* isa.c - see isa.h. */
#include "core/isa.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "core/file.h"

/* __builtin_cpu_supports also asks whether the operating system saves the registers. */
static bool runs(accel__isa isa) {
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (isa == ACCEL__ISA_AVX2) return avx2;
  if (isa == ACCEL__ISA_AVX512)
    return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#endif
  return isa == ACCEL__ISA_SCALAR;
}

int accel__isa_list(accel__isa list[ACCEL__ISA_COUNT]) {
  int n = 0;
  for (int isa = ACCEL__ISA_COUNT; isa-- > 0;)
    if (runs((accel__isa)isa)) list[n++] = (accel__isa)isa;
  return n;
}

const char *accel__isa_name(accel__isa isa) {
  static const char *const names[ACCEL__ISA_COUNT] = {"scalar", "avx2", "avx512"};
  return names[isa];
}

accel__isa accel__isa_choose(void) {
  static const struct {
    const char *word;
    accel__isa isa;
  } words[] = {{"scalar", ACCEL__ISA_SCALAR},     {"openblas", ACCEL__ISA_SCALAR},
               {"avx2", ACCEL__ISA_AVX2},         {"avxvnni", ACCEL__ISA_AVX2},
               {"avx512", ACCEL__ISA_AVX512},     {"avx512vnni", ACCEL__ISA_AVX512},
               {"avx512bf16", ACCEL__ISA_AVX512}, {"amx", ACCEL__ISA_AVX512}};
  accel__isa list[ACCEL__ISA_COUNT];
  accel__isa_list(list);
  const char *wanted = accel__env("ACCEL_ISA");
  for (size_t i = 0; wanted && i < sizeof words / sizeof *words; i++)
    if (!strcmp(wanted, words[i].word) && runs(words[i].isa)) return words[i].isa;
  return list[0];
}
