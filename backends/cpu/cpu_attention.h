/* cpu_attention.h - launch of attention. */
#ifndef ACCEL_CPU_ATTENTION_H
#define ACCEL_CPU_ATTENTION_H

#include "cpu.h"

/* So many new rows over the keys of a session are computed as if each came alone
 * (docs/decisions/80-speculation.md). */
enum { CPU_ATTENTION_LONE_ROWS = 16 };

cpu_launch_fn cpu_launch_attention;
cpu_workspace_fn cpu_attention_workspace;
cpu_limit_fn cpu_attention_limit;

/* They run first, first+1, ...: then only differences to others matter. */
static inline bool cpu_positions_consecutive(const int32_t *position, int64_t n) {
  int32_t broken = 0;
  for (int64_t i = 1; i < n; i++) broken |= position[i] - (uint32_t)position[0] != (uint32_t)i;
  return !broken;
}

/* Explicit positions are compared as floats, which are exact below 2^24. */
static inline bool cpu_positions_exact(const int32_t *position, int64_t n) {
  int32_t outside = 0;
  for (int64_t i = 0; i < n; i++) outside |= position[i] >= 1 << 24 || position[i] <= -(1 << 24);
  return !outside;
}

#endif
