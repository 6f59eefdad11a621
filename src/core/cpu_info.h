/* cpu_info.h - what this processor can run: cpuid, and xgetbv for what the system lets it use. */
#ifndef ACCEL_CORE_CPU_H
#define ACCEL_CORE_CPU_H

#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

/* Facts for `accel detect`; the CPU plugin keeps its own ISA table (backends/ may not include
 * src/core). */
typedef struct accel__cpu_info {
  char vendor[16], model[64];
  /* "avx2 fma f16c avx512f avx512bw avx512_vnni avx512_bf16 amx_int8 ..." */
  char features[256];
  uint32_t logical, physical;              /* processors online, distinct cores among them */
  uint32_t affinity;                       /* processors this process may use */
  double cgroup_cpus;                      /* quota in processors; 0 none */
  uint64_t l1d, l2, l3;                    /* bytes; 0 not known */
  uint64_t memory_total, memory_available; /* bytes */
} accel__cpu_info;
void accel__cpu_detect(accel__cpu_info *out);

#endif
