/* unroll.h - loops over the rows of a tile.
 *
 * MICRO_UNROLL in front of a loop of constant length: it is unrolled whole, so that what it indexes
 * can stay in registers.  Clang heeds its own pragma alone, and complains where it finds no
 * constant, as in builds that are not optimised: web pages have optimised ones. */
#ifndef ACCEL_CPU_UNROLL_H
#define ACCEL_CPU_UNROLL_H

#include <stdint.h>

#if defined(__wasm__)
#define MICRO_UNROLL _Pragma("clang loop unroll(full)")
#else
#define MICRO_UNROLL _Pragma("GCC unroll 32")
#endif

/* Height of the tile, of at most `most` rows, that starts `left` rows before the end: tiles are as
 * equal as whole rows allow. */
static inline int64_t tile_height(int64_t left, int64_t most) {
  const int64_t tiles = (left + most - 1) / most;
  return (left + tiles - 1) / tiles;
}

#endif
