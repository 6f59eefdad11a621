/* act_format.h - the formats of activations: what a linear kernel reads the rows of its x as, and
 * how such rows lie in memory.
 *
 * The launches (cpu_linear.c, cpu_moe.c) convert rows of fp32 into the format that the kernel for
 * the weights asks for (cpu_linear_kernel.x), by the kernels of convert_u8_body.h and
 * convert_bf16_*.c.
 * A converted row has its k elements, filled up with zeros to a multiple of CPU_ACT_STEP, and then:
 *
 *   F32, BF16        nothing
 *   U8, S8           nothing; scale and zero of each row are in arrays of their own
 *   U8B, S8B, ..W    scale[blocks], zero[blocks] as fp32
 *   U7B, U7W         scale[blocks] as fp32; for each block step[parts] and zero times step[parts],
 *                    int16_t
 *
 * Codes of 7 bits are for ISAs that add two products of a code and an int8 weight in 16 bits.  A
 * block of them consists of parts of CPU_ACT_PART codes: x = (code - zero) * step * scale, where a
 * part's step is an integer by which the kernel multiplies those 16 bits. */
#ifndef ACCEL_CPU_ACT_FORMAT_H
#define ACCEL_CPU_ACT_FORMAT_H

#include <stdbool.h>
#include <stdint.h>

typedef enum cpu_act_format {
  CPU_ACT_F32,  /* as they are */
  CPU_ACT_BF16, /* rounded to nearest even, denormals to zero */
  CPU_ACT_U8,   /* codes 0..255 with a scale and a zero for each row: x = (code - zero) * scale */
  CPU_ACT_S8,   /* the same less 128, for ISAs that multiply signed codes */
  CPU_ACT_U8B,  /* as U8, with a scale and a zero for each block of a row: cpu_act_block */
  CPU_ACT_S8B,  /* as S8, by blocks */
  CPU_ACT_U7B,  /* codes 0..127 by blocks and parts, see above */
  CPU_ACT_U8W,  /* as U8B, S8B and U7B, by wide blocks: cpu_act_format_beside */
  CPU_ACT_S8W,
  CPU_ACT_U7W,
  CPU_ACT_COUNT
} cpu_act_format;
enum { CPU_ACT_STEP = 64 };
/* codes of a row */
static inline int64_t cpu_act_padded(int64_t k) {
  return (k + CPU_ACT_STEP - 1) / CPU_ACT_STEP * CPU_ACT_STEP;
}
/* of an element */
static inline int64_t cpu_act_bytes(cpu_act_format x) {
  return x == CPU_ACT_F32 ? 4 : x == CPU_ACT_BF16 ? 2 : 1;
}

/* Formats with a scale for each block of a row, and those whose blocks consist of parts.  A few
 * large columns, as layer norms produce them, then cost precision in their own block only; with
 * seven bits, which suffer most, in their own part of it. */
static inline bool cpu_act_blocked(cpu_act_format x) {
  return x >= CPU_ACT_U8B && x <= CPU_ACT_U7W;
}
static inline bool cpu_act_parted(cpu_act_format x) { return x == CPU_ACT_U7B || x == CPU_ACT_U7W; }
/* k of a block. */
static inline int64_t cpu_act_block(cpu_act_format x) {
  return x >= CPU_ACT_U8W ? 4 * CPU_ACT_STEP : 2 * CPU_ACT_STEP;
}
enum { CPU_ACT_PART = 32, CPU_ACT_MOST_STEP = 255 }; /* sums of a wide block then fit 32 bits */
/* The format that a kernel made for x reads rows of k elements in, beside weights with a scale for
 * every `group` k (0: one a column): x itself, or its wide blocks.  The end of a block costs as
 * much time as a dozen k, so long rows, which have enough blocks for errors to even out, get wide
 * ones, unless such a block would lie across two scales of the weights. */
static inline cpu_act_format cpu_act_format_beside(cpu_act_format x, int64_t k, uint32_t group) {
  const bool wide = x >= CPU_ACT_U8B && x <= CPU_ACT_U7B && k >= 8 * CPU_ACT_STEP &&
                    group % (4 * CPU_ACT_STEP) == 0;
  return wide ? (cpu_act_format)(x + CPU_ACT_U8W - CPU_ACT_U8B) : x;
}
/* Size of what stands for a block's zero, in floats: one zero, or the steps and the zeros times
 * steps of its parts, 16 bits each. */
static inline int64_t cpu_act_zeros(cpu_act_format x) {
  return cpu_act_parted(x) ? cpu_act_block(x) / CPU_ACT_PART : 1;
}
static inline int64_t cpu_act_blocks(cpu_act_format x, int64_t k) {
  return k > 0 ? (k + cpu_act_block(x) - 1) / cpu_act_block(x) : 0;
}
/* Whether rows that many bytes apart evict each other from the first-level cache: all rows a
 * multiple of 4 KiB apart fall into one set of it, which holds 8 or 12 lines, fewer than a high
 * register tile has rows.  With one more line between rows they do not (Zen 4, fp32, K 3072: 80 ->
 * 94 % of the FMA rate). */
static inline bool cpu_aliases_l1(int64_t bytes) { return bytes && bytes % 4096 == 0; }
enum { CPU_WAYS = 8 }; /* lines of a set of the first-level cache, at least */
/* Elements from a converted row to the next, with its scales and zeros and without aliasing. */
static inline int64_t cpu_act_row(cpu_act_format x, int64_t k) {
  const int64_t codes = cpu_act_padded(k),
                scales = cpu_act_blocks(x, k) * (1 + cpu_act_zeros(x)) * (int64_t)sizeof(float),
                row = cpu_act_blocked(x)
                          ? codes + (scales + CPU_ACT_STEP - 1) / CPU_ACT_STEP * CPU_ACT_STEP
                          : codes;
  return cpu_aliases_l1(row * cpu_act_bytes(x)) ? row + CPU_ACT_STEP / cpu_act_bytes(x) : row;
}

#endif
