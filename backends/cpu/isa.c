/* isa.c - which instruction sets this machine runs, and the kernels of each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"

#if defined(__x86_64__)
#include <cpuid.h>

/* What the system saves on a context switch (xgetbv); 0 when it does not say. */
static uint64_t saved_state(void) {
  uint32_t a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & (1u << 27))) return 0; /* OSXSAVE */
  __asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
  return (uint64_t)d << 32 | a;
}

static int runs(cpu_isa isa) {
  uint32_t a, b, c, d, features;
  if (isa == CPU_ISA_SCALAR) return 1;
  if (!__get_cpuid(1, &a, &b, &features, &d) || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
  uint64_t saved = saved_state();
  const uint32_t fma_f16c_avx = 1u << 12 | 1u << 29 | 1u << 28;
  if ((features & fma_f16c_avx) != fma_f16c_avx || !(b & (1u << 5)) || (saved & 0x6) != 0x6)
    return 0; /* AVX2; xmm and ymm */
  if (isa == CPU_ISA_AVX2) return 1;
  const uint32_t f_dq_bw_vl = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;
  return (b & f_dq_bw_vl) == f_dq_bw_vl && (saved & 0xe6) == 0xe6; /* mask registers and both halves of zmm */
}
#else
static int runs(cpu_isa isa) { return isa == CPU_ISA_SCALAR; }
#endif

int cpu_isa_list(cpu_isa list[CPU_ISA_COUNT]) {
  int n = 0;
  for (int isa = CPU_ISA_COUNT; isa-- > 0;)
    if (runs((cpu_isa)isa)) list[n++] = (cpu_isa)isa;
  return n;
}

const char *cpu_isa_name(cpu_isa isa) {
  static const char *const names[CPU_ISA_COUNT] = {"scalar", "avx2", "avx512"};
  return names[isa];
}

cpu_isa cpu_isa_choose(char *refused, size_t size) {
  cpu_isa list[CPU_ISA_COUNT];
  int n = cpu_isa_list(list);
  const char *wanted = getenv("ACCEL_ISA");
  if (refused && size) refused[0] = 0;
  if (!wanted || !*wanted) return list[0];
  if (!strcmp(wanted, "openblas")) return CPU_ISA_SCALAR; /* blas.c */
  for (int i = 0; i < n; i++)
    if (!strcmp(wanted, cpu_isa_name(list[i]))) return list[i];
  if (refused)
    snprintf(refused, size, "ACCEL_ISA is '%.16s', which this machine does not run; unset it or take %s%s%s", wanted,
             cpu_isa_name(list[0]), n > 1 ? " or " : "", n > 1 ? cpu_isa_name(list[n - 1]) : "");
  return list[0];
}

static void set_shape(cpu_kernels *k, int64_t vector, int64_t rows) {
  if (k->vector) return;
  k->vector = vector;
  k->tile_rows = rows;
  k->panel_cols = 2 * vector;
}

void cpu_kernels_of(cpu_isa isa, cpu_kernels *out) {
  memset(out, 0, sizeof *out);
  out->isa = isa;
#define CPU_KERNEL(slot, op, tile, ISA, name) \
  if (CPU_ISA_##ISA <= isa && !out->slot) out->slot = accel_f32_##op##_##tile##__##name;
#include "kernels/kernels.def"
  if (isa == CPU_ISA_AVX512) set_shape(out, 16, 14);
  if (isa == CPU_ISA_AVX2) set_shape(out, 8, 6);
  set_shape(out, 4, 4);
}
