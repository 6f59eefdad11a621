/* cpu_isa.c - which instruction sets this machine runs, and the kernels of each. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/conv_implicit.h"
#include "kernels/kernels.h"
#include "kernels/resize_codes.h"

/* A kernel, or NULL where the plugin is built without those of its instruction set: CPU_HAS_<ISA>,
 * 0 or 1, come from ACCEL_CPU_ISA of the build. */
#define BUILT_0(kernel)       NULL
#define BUILT_1(kernel)       kernel
#define BUILT_(has, kernel)   BUILT_##has(kernel)
#define BUILT_IF(has, kernel) BUILT_(has, kernel)
#define BUILT(ISA, kernel)    BUILT_IF(CPU_HAS_##ISA, kernel)

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What the system saves on a context switch (xgetbv); 0 when it does not say. */
static uint64_t saved_state(void) {
  uint32_t a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & (1u << 27))) return 0; /* OSXSAVE */
  __asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
  return (uint64_t)d << 32 | a;
}

static bool has_bits(uint32_t word, uint32_t bits) { return (word & bits) == bits; }

/* Tile registers are large, so Linux lets a process use them when it has asked once
 * (Documentation/arch/x86/xstate.rst); refused where a thread's alternate signal stack is too small
 * for them. */
static bool may_use_tiles(void) {
  enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
  return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

static bool has_isa(cpu_isa isa) {
  uint32_t a, b, c, d, features, leaf7_b, leaf7_c, leaf7_d, leaf7_1a = 0;
  if (isa == CPU_ISA_SCALAR) return true;
  if (isa == CPU_ISA_NEON || isa == CPU_ISA_NEONDOT || isa == CPU_ISA_SIMD128) return false;
  if (!__get_cpuid(1, &a, &b, &features, &d) ||
      !__get_cpuid_count(7, 0, &a, &leaf7_b, &leaf7_c, &leaf7_d))
    return false;
  if (a >= 1) __get_cpuid_count(7, 1, &leaf7_1a, &b, &c, &d);
  uint64_t saved = saved_state();
  bool avx2 = has_bits(features, 1u << 12 | 1u << 29 | 1u << 28) && has_bits(leaf7_b, 1u << 5) &&
              (saved & 0x6) == 0x6; /* FMA, F16C; xmm, ymm */
  bool avx512 = avx2 && has_bits(leaf7_b, 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31) &&
                (saved & 0xe6) == 0xe6; /* masks, both halves of zmm */
  switch (isa) {
    case CPU_ISA_AVX2:
      return avx2;
    case CPU_ISA_AVXVNNI:
      return avx2 && has_bits(leaf7_1a, 1u << 4);
    case CPU_ISA_AVX512:
      return avx512;
    case CPU_ISA_AVX512VNNI:
      return avx512 && has_bits(leaf7_c, 1u << 11);
    case CPU_ISA_AMX: /* bf16, tiles, int8; both parts of the tiles' state */
      return has_isa(CPU_ISA_AVX512BF16) && has_bits(leaf7_d, 1u << 22 | 1u << 24 | 1u << 25) &&
             (saved & 0x60000) == 0x60000 && may_use_tiles();
    default: /* AVX512BF16; its kernels use VNNI and VBMI, too */
      return avx512 && has_bits(leaf7_c, 1u << 11 | 1u << 1) && has_bits(leaf7_1a, 1u << 5);
  }
}

/* Whether the newest instructions gain something: vdpbf16ps multiplies pairs twice as fast as
 * vfmadd single ones on AMD's processors, but half as fast on an Intel Xeon (docs/performance.md),
 * where bf16 weights are better widened. */
static bool is_faster(cpu_isa isa) {
  uint32_t most, b, c, d;
  return isa != CPU_ISA_AVX512BF16 || (__get_cpuid(0, &most, &b, &c, &d) && b == signature_AMD_ebx);
}
#elif defined(__aarch64__)
#include <sys/auxv.h>

static bool has_isa(cpu_isa isa) {
  const unsigned long asimddp = 1ul << 20;
  return isa <= CPU_ISA_NEON || (isa == CPU_ISA_NEONDOT && (getauxval(AT_HWCAP) & asimddp));
}
static bool is_faster(cpu_isa isa) {
  (void)isa;
  return true;
}
#else
#if defined(__wasm_simd128__)
static bool has_isa(cpu_isa isa) { return isa == CPU_ISA_SIMD128; }
#else
static bool has_isa(cpu_isa isa) { return isa == CPU_ISA_SCALAR; }
#endif
static bool is_faster(cpu_isa isa) {
  (void)isa;
  return true;
}
#endif

static bool has_kernels(cpu_isa isa) {
  static const bool built[CPU_ISA_COUNT] = {
      CPU_HAS_SCALAR, CPU_HAS_NEON,       CPU_HAS_NEONDOT,    CPU_HAS_AVX2, CPU_HAS_AVXVNNI,
      CPU_HAS_AVX512, CPU_HAS_AVX512VNNI, CPU_HAS_AVX512BF16, CPU_HAS_AMX,  CPU_HAS_SIMD128};
  return built[isa];
}

/* Asked once: under a hypervisor each cpuid instruction takes tens of microseconds. */
static bool cached_answer(cpu_isa isa, bool gaining) {
  static atomic_uint answers; /* two bits of each, and one that is always set */
  unsigned bits = atomic_load_explicit(&answers, memory_order_relaxed);
  if (!bits) {
    bits = 1u << 2 * CPU_ISA_COUNT;
    for (int i = 0; i < CPU_ISA_COUNT; i++)
      bits |= (unsigned)(has_kernels((cpu_isa)i) && has_isa((cpu_isa)i)) << i |
              (unsigned)is_faster((cpu_isa)i) << (CPU_ISA_COUNT + i);
    atomic_store_explicit(&answers, bits, memory_order_relaxed);
  }
  return bits >> (gaining ? CPU_ISA_COUNT + isa : isa) & 1;
}
static bool runs_isa(cpu_isa isa) { return cached_answer(isa, false); }

int cpu_isa_list(cpu_isa list[CPU_ISA_COUNT]) {
  int n = 0;
  for (int isa = CPU_ISA_COUNT; isa-- > 0;)
    if (runs_isa((cpu_isa)isa)) list[n++] = (cpu_isa)isa;
  return n;
}

const char *cpu_isa_name(cpu_isa isa) {
  static const char *const names[CPU_ISA_COUNT] = {"scalar",  "neon",   "neondot",    "avx2",
                                                   "avxvnni", "avx512", "avx512vnni", "avx512bf16",
                                                   "amx",     "simd128"};
  return names[isa];
}

cpu_isa cpu_isa_choose(char *refused, size_t size) {
  cpu_isa list[CPU_ISA_COUNT];
  int n = cpu_isa_list(list);
  const char *wanted = getenv("ACCEL_ISA");
  const cpu_isa usual = list[n > 1 && !cached_answer(list[0], true)];
  if (refused && size) refused[0] = 0;
  if (!wanted || !*wanted) return usual;
  if (!strcmp(wanted, "openblas")) return CPU_ISA_SCALAR; /* cpu_blas.c */
  for (int i = 0; i < n; i++)
    if (!strcmp(wanted, cpu_isa_name(list[i]))) return list[i];
  if (refused)
    snprintf(refused, size,
             "ACCEL_ISA is '%.16s', which this machine does not run; unset it or take %s%s%s",
             wanted, cpu_isa_name(list[0]), n > 1 ? " or " : "",
             n > 1 ? cpu_isa_name(list[n - 1]) : "");
  return usual;
}

void cpu_kernels_of(cpu_isa isa, cpu_kernels *out) {
  memset(out, 0, sizeof *out);
  bool allowed[CPU_ISA_COUNT];
  for (int i = 0; i < CPU_ISA_COUNT; i++)
    allowed[i] =
        i <= (int)isa && runs_isa((cpu_isa)i) && (i == (int)isa || cached_answer((cpu_isa)i, true));
  out->isa = isa;
#define ALLOWED(ISA) allowed[CPU_ISA_##ISA]
#define CPU_LINEAR(layout, dtype, height, width, from, ISA, name)                            \
  if (ALLOWED(ISA) && !out->linear[CPU_LAYOUT_##layout].run)                                 \
    out->linear[CPU_LAYOUT_##layout] =                                                       \
        (cpu_linear_kernel){BUILT(ISA, accel_##dtype##_linear_##height##x##width##__##name), \
                            height, width, CPU_ACT_##from};
#define CPU_CONVERT(x, dtype, ISA, name)          \
  if (ALLOWED(ISA) && !out->convert[CPU_ACT_##x]) \
    out->convert[CPU_ACT_##x] = BUILT(ISA, accel_##dtype##_convert_row__##name);
#define CPU_KERNEL(slot, op, tile, ISA, name) \
  if (ALLOWED(ISA) && !out->slot) out->slot = BUILT(ISA, accel_f32_##op##_##tile##__##name);
#include "kernels/cpu_kernels.def"
  out->tile_registers = allowed[CPU_ISA_AMX];
  if (out->tile_registers) out->winograd_pairs = NULL;
  out->tile_rows = out->linear[CPU_LAYOUT_F32].rows;
  out->panel_cols = out->linear[CPU_LAYOUT_F32].cols;
  out->vector = out->panel_cols / 2; /* fp32 tiles are two vectors wide */
}

cpu_conv_implicit_fn *cpu_conv_implicit_of(const cpu_kernels *kernels) {
#if defined(__x86_64__)
  if (kernels->tile_registers) return BUILT(AMX, accel_f32_conv_implicit_32x32__amx);
#endif
  (void)kernels;
  return NULL;
}

cpu_resize_codes_fn *cpu_resize_codes_of(const cpu_kernels *kernels) {
#if defined(__x86_64__)
  if (kernels->isa >= CPU_ISA_AVX512 && kernels->isa <= CPU_ISA_AMX)
    return BUILT(AVX512, accel_f32_resize_codes__avx512);
#endif
  (void)kernels;
  return NULL;
}
