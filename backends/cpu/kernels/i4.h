/* i4.h - how four-bit weights lie in a panel (CPU_LAYOUT_I4); cpu_pack_i4.c writes it,
 * gemm_i4_body.h reads it.
 *
 *   factor[cols], sum[cols]  fp32 (dot_body.h)
 *   then block by block of `block` k, the last one cut to a multiple of 8:
 *     scale[cols]            fp16, fp32, or the byte of E8M0 and E4M3
 *     zero[cols]             bytes; uint4 only
 *     codes [block/8][cols][4 bytes]: k .. k+3 in the low nibbles, k+4 .. k+7 in the high ones
 *
 * A code is what is stored, int4 codes plus 8; its value is (code - zero) scale factor, of int4
 * with zero 8; E2M1 codes stand for twice their value (-12 to 12).  E4M3 scales are read as 2^-8
 * times their value.  Both are made good in factor.
 */
#ifndef ACCEL_CPU_I4_H
#define ACCEL_CPU_I4_H

#include <stdint.h>

#include "accel/plugin.h"

enum {
  /* k of one scale, at most: larger groups are several blocks of the same scale */
  CPU_I4_BLOCK = 256,
  CPU_I4_ZERO = 16 /* largest zero: sums of four products fit 16 bits */
};

typedef struct cpu_i4 {
  int64_t block; /* k, a multiple of 8 */
  /* of one scale; of scales and zeros of a block; of eight k of codes */
  int64_t scale_bytes, side, step_bytes;
} cpu_i4;

static inline cpu_i4 cpu_i4_layout(uint8_t store, uint8_t scale, uint32_t group, int64_t cols) {
  cpu_i4 l = {.block = group ? group : CPU_I4_BLOCK, .step_bytes = 4 * cols};
  if (l.block > CPU_I4_BLOCK) l.block = l.block & -l.block; /* the power of two in it */
  if (l.block > CPU_I4_BLOCK) l.block = CPU_I4_BLOCK;
  l.scale_bytes = scale == ACCEL_PLUGIN_F16                                  ? 2
                  : scale == ACCEL_PLUGIN_E8M0 || scale == ACCEL_PLUGIN_E4M3 ? 1
                                                                             : 4;
  l.side = cols * (l.scale_bytes + (store == ACCEL_PLUGIN_U4));
  return l;
}

#endif
