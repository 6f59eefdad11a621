/* cpu_info.c - the processor: cpuid and xgetbv on x86, hardware capabilities on aarch64, caches and
 * cores from /sys. */
#include "core/cpu_info.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/topology.h"

static void add(char *features, size_t capacity, const char *name) {
  size_t n = strlen(features);
  snprintf(features + n, capacity - n, "%s%s", n ? " " : "", name);
}

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>

enum { EAX, EBX, ECX, EDX };
/* register state that the system must save for us */
enum { XCR0_AVX = 0x6, XCR0_AVX512 = 0xE6, XCR0_AMX = 0x60000 };

static void cpuid(uint32_t leaf, uint32_t sub, uint32_t r[4]) {
  memset(r, 0, 4 * sizeof *r);
  __get_cpuid_count(leaf, sub, &r[EAX], &r[EBX], &r[ECX], &r[EDX]);
}

/* State that the system saves: without it an instruction set is there and must not be used. */
static uint64_t xcr0(void) {
  uint32_t r[4], low, high;
  cpuid(1, 0, r);
  if (!(r[ECX] >> 27 & 1)) return 0;
  __asm__ volatile(".byte 0x0f, 0x01, 0xd0" : "=a"(low), "=d"(high) : "c"(0)); /* xgetbv */
  return (uint64_t)high << 32 | low;
}

static void describe(accel__cpu_info *out) {
  static const struct {
    const char *name;
    uint32_t leaf, sub, reg, bit, state;
  } known[] = {{"sse4_2", 1, 0, ECX, 20, 0},
               {"popcnt", 1, 0, ECX, 23, 0},
               {"avx", 1, 0, ECX, 28, XCR0_AVX},
               {"f16c", 1, 0, ECX, 29, XCR0_AVX},
               {"fma", 1, 0, ECX, 12, XCR0_AVX},
               {"avx2", 7, 0, EBX, 5, XCR0_AVX},
               {"bmi2", 7, 0, EBX, 8, 0},
               {"avx_vnni", 7, 1, EAX, 4, XCR0_AVX},
               {"avx512f", 7, 0, EBX, 16, XCR0_AVX512},
               {"avx512dq", 7, 0, EBX, 17, XCR0_AVX512},
               {"avx512bw", 7, 0, EBX, 30, XCR0_AVX512},
               {"avx512vl", 7, 0, EBX, 31, XCR0_AVX512},
               {"avx512_vbmi", 7, 0, ECX, 1, XCR0_AVX512},
               {"avx512_vnni", 7, 0, ECX, 11, XCR0_AVX512},
               {"avx512_bf16", 7, 1, EAX, 5, XCR0_AVX512},
               {"avx512_fp16", 7, 0, EDX, 23, XCR0_AVX512},
               {"amx_tile", 7, 0, EDX, 24, XCR0_AMX},
               {"amx_int8", 7, 0, EDX, 25, XCR0_AMX},
               {"amx_bf16", 7, 0, EDX, 22, XCR0_AMX}};
  uint32_t r[4];
  uint64_t saved = xcr0();
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    cpuid(known[i].leaf, known[i].sub, r);
    if ((r[known[i].reg] >> known[i].bit & 1) && (saved & known[i].state) == known[i].state) {
      add(out->features, sizeof out->features, known[i].name);
    }
  }
  cpuid(0, 0, r);
  memcpy(out->vendor, (uint32_t[]){r[EBX], r[EDX], r[ECX]}, 12);
  for (uint32_t i = 0; i < 3; i++) { /* the brand, 16 letters a leaf */
    cpuid(0x80000002u + i, 0, r);
    memcpy(out->model + 16 * i, r, 16);
  }
  out->model[48] = 0;
}
#elif defined(__aarch64__)
#include <sys/auxv.h>

static void describe(accel__cpu_info *out) {
  /* Bits of AT_HWCAP and AT_HWCAP2 of the kernel's aarch64 interface. */
  static const struct {
    const char *name;
    unsigned long word, bit;
  } known[] = {{"asimd", AT_HWCAP, 1},    {"fphp", AT_HWCAP, 9},   {"asimdhp", AT_HWCAP, 10},
               {"asimddp", AT_HWCAP, 20}, {"sve", AT_HWCAP, 22},   {"sve2", AT_HWCAP2, 1},
               {"i8mm", AT_HWCAP2, 13},   {"bf16", AT_HWCAP2, 14}, {"sme", AT_HWCAP2, 23}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    if (getauxval(known[i].word) >> known[i].bit & 1)
      add(out->features, sizeof out->features, known[i].name);
  }
  static const struct {
    unsigned long long id;
    const char *name;
  } makers[] = {{0x41, "ARM"},      {0x42, "Broadcom"},  {0x43, "Cavium"},
                {0x46, "Fujitsu"},  {0x48, "HiSilicon"}, {0x4e, "NVIDIA"},
                {0x51, "Qualcomm"}, {0x61, "Apple"},     {0xc0, "Ampere"}};
  char text[32];
  accel__small_file(text, sizeof text, "",
                    "/sys/devices/system/cpu/cpu0/regs/identification/midr_el1");
  unsigned long long id = strtoull(text, NULL, 16); /* implementer 31..24, part 15..4 */
  if (!id) return;
  for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
    if (makers[i].id == id >> 24) snprintf(out->vendor, sizeof out->vendor, "%s", makers[i].name);
  }
  snprintf(out->model, sizeof out->model, "implementer 0x%02llx, part 0x%03llx", id >> 24,
           id >> 4 & 0xfff);
}
#else
static void describe(accel__cpu_info *out) { add(out->features, sizeof out->features, ""); }
#endif

/* Spaces at both ends and runs of them inside, which brand strings have, become single ones. */
static void tidy(char *text) {
  char *to = text;
  for (const char *from = text; *from; from++) {
    if (*from != ' ' || (to != text && to[-1] != ' ')) *to++ = *from;
  }
  if (to != text && to[-1] == ' ') to--;
  *to = 0;
}

/* Data and unified caches of processor 0; size is "48K" or "1M". */
static void caches(accel__cpu_info *out) {
  uint64_t *const level[] = {&out->l1d, &out->l2, &out->l3};
  for (int i = 0; i < 8; i++) {
    char path[96], type[32], text[32], *unit;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/type", i);
    accel__small_file(type, sizeof type, "", path);
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/level", i);
    accel__small_file(text, sizeof text, "", path);
    int which = atoi(text);
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
    accel__small_file(text, sizeof text, "", path);
    uint64_t size = strtoull(text, &unit, 10);
    if (which < 1 || which > 3 || (strcmp(type, "Data") && strcmp(type, "Unified"))) continue;
    *level[which - 1] = size << (*unit == 'K' ? 10 : *unit == 'M' ? 20 : 0);
  }
}

/* Processors online: a list such as "0-3,8". */
static void online(accel__cpu_mask *out) {
  char text[4096];
  memset(out, 0, sizeof *out);
  accel__small_file(text, sizeof text, "", "/sys/devices/system/cpu/online");
  for (char *p = text; *p >= '0' && *p <= '9'; p += *p == ',') {
    unsigned long from = strtoul(p, &p, 10), to = *p == '-' ? strtoul(p + 1, &p, 10) : from;
    for (; from <= to && from < ACCEL__MAX_CPUS; from++)
      out->word[from / 64] |= UINT64_C(1) << from % 64;
  }
}

void accel__cpu_detect(accel__cpu_info *out) {
  accel__cpu_mask mask;
  memset(out, 0, sizeof *out);
  describe(out);
  tidy(out->model);
  caches(out);
  online(&mask);
  out->logical = accel__mask_count(&mask);
  out->physical = accel__cores_in("", &mask);
  accel__affinity_mask(&mask);
  out->affinity = accel__mask_count(&mask);
  if (!out->logical) { /* no /sys */
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    out->logical = n > 0 ? (uint32_t)n : 1;
    out->physical = out->logical;
  }
  out->cgroup_cpus = accel__cgroup_cpus("");
  out->memory_available = accel__memory_available("", &out->memory_total);
}
