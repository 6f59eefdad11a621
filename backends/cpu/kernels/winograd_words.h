/* winograd_words.h - how many channels a sum of cpu_winograd_i16 takes (ops.h): cpu_pack_words.c
 * packs by it, cpu_conv_i8.c gives memory, winograd_i16_body.h multiplies. */
#ifndef ACCEL_CPU_WINOGRAD_WORDS_H
#define ACCEL_CPU_WINOGRAD_WORDS_H

#include "kernels/ops.h"

/* k channels are cut into so many parts, each with sums of 32 bits of its own, which are added as
 * fp32: the more products such a sum has to hold, the fewer bits are left to the weights. */
static inline int64_t cpu_winograd_i16_parts(int64_t k) {
  enum { MOST = 256 };
  return (k + MOST - 1) / MOST;
}
/* Channels of a part; the last one may have fewer. */
static inline int64_t cpu_winograd_i16_part(int64_t k) {
  const int64_t parts = cpu_winograd_i16_parts(k), units = k / CPU_WINOGRAD_WORDS;
  return (units + parts - 1) / parts * CPU_WINOGRAD_WORDS;
}

#endif
