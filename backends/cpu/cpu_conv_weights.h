/* cpu_conv_weights.h - weights of convolutions, packed at init by cpu_conv_weights.c. */
#ifndef ACCEL_CPU_CONV_WEIGHTS_H
#define ACCEL_CPU_CONV_WEIGHTS_H

#include "cpu_store.h"
#include "kernels/conv_implicit.h"
#include "kernels/kernels.h"
#include "kit/kit.h"

typedef enum cpu_conv_layout {
  CPU_CONV_TILES,    /* cpu_conv_gemm.w of each group, one after the other */
  CPU_CONV_WINOGRAD, /* cpu_winograd_fn's w */
  /* the same of a conv_transpose: rows are (output channel, tap), k is the input channel */
  CPU_CONV_TRANSPOSED,
  CPU_CONV_PLANES, /* one input channel a group: [outputs][taps] */
  CPU_CONV_TAPS,   /* the same over rows, an output a channel: [taps][outputs] */
  /* panels of cpu_gemm.w (cpu_pack_i8.c), k in the order of kernel rows, kernel columns, channels;
   * cpu_implicit_gemm */
  CPU_CONV_I8,
  CPU_CONV_IMPLICIT /* cpu_conv_implicit_fn's w of each group */
} cpu_conv_layout;

enum { CPU_CONV_SPAN = 256 }; /* rows that CPU_CONV_TAPS reaches over, at most */

typedef struct cpu_conv {
  int32_t w; /* weight index */
  int32_t layout;
  bool pairs;              /* TILES, WINOGRAD: neighbouring k are pairs of bf16 */
  int64_t groups, rows, k; /* of one group: rows and columns of its matrix; WINOGRAD: k channels */
  int64_t height, tiles;   /* I8: columns of a panel, panels */
  /* pairs of a row of a tile that are neighbours: 1, or CPU_PAIRS_UNIT, whose pairs are of the same
   * tap of two channels */
  int64_t unit, taps;
  int64_t n; /* WINOGRAD: pixels of a window in each direction */
  /* I8: k of one scale of x: a row of the kernel or a tap, all where these are short */
  int64_t block;
  /* I8: k of a row of the kernel, padded with zeros to a multiple of 8, where such rows are the
   * parts of a block that is all of them (cpu_implicit_gemm); else 0 */
  int64_t part;
  /* I8 for tile registers: codes of a pixel, with those it is filled up with, in the lines that the
   * parts, of CPU_ACT_STEP codes, are read from (cpu_conv_step); 0: x is read as it is */
  int64_t pixel;
  uint64_t panel_bytes; /* I8 */
  /* I8: of a panel of cpu_winograd_i16, which follow the others; 0: there are none */
  uint64_t word_bytes;
  float *packed; /* fp32, whatever the weight is stored in; pairs: bf16; I8: panels */
} cpu_conv;

/* The parts of a convolution with `pixel`.  Pixels of whole parts give one for each tap and
 * CPU_ACT_STEP channels, the taps of such channels after each other; else a row of the kernel is one
 * run of codes, the last part of which reaches beyond it.  Answers where part `index` begins: its
 * tap, or the first one of its row, and codes from there. */
typedef struct cpu_conv_step {
  int64_t tap, codes;
} cpu_conv_step;
static inline bool cpu_conv_by_tap(const cpu_conv *c) { return c->pixel % CPU_ACT_STEP == 0; }
static inline cpu_conv_step cpu_conv_step_of(const cpu_conv *c, int64_t index, int64_t wide) {
  if (cpu_conv_by_tap(c)) return (cpu_conv_step){index % c->taps, index / c->taps * CPU_ACT_STEP};
  const int64_t each = (wide * c->pixel + CPU_ACT_STEP - 1) / CPU_ACT_STEP;
  return (cpu_conv_step){index / each * wide, index % each * CPU_ACT_STEP};
}

/* k of a panel or tile, padding and all; of pairs how many. */
static inline int64_t cpu_conv_depth(const cpu_conv *c) {
  if (c->layout == CPU_CONV_IMPLICIT)
    return cpu_implicit_steps(c->k / c->taps) * c->taps * CPU_PAIRS_UNIT;
  const int64_t pairs = c->unit > 1 ? (c->k / c->taps + 1) / 2 * c->taps : (c->k + 1) / 2;
  if (c->pairs) return (pairs + c->unit - 1) / c->unit * c->unit;
  return c->part ? c->block : c->k;
}

typedef struct cpu_convs {
  cpu_conv *at;
  uint32_t n;
  int32_t *of;    /* [n_node]: index into at, -1 none */
  uint8_t *codes; /* [n_tensor]: cpu_codes, and CPU_CODES_POSITIVE */
} cpu_convs;
/* How a tensor between convolutions lies in memory: as fp32, or as codes with a scale a pixel or a
 * line of pixels (cpu_ops.h: cpu_image). */
typedef enum cpu_codes { CPU_CODES_NONE, CPU_CODES_PIXEL, CPU_CODES_LINE } cpu_codes;
enum { CPU_CODES_IMAGES = 4 };   /* operands of a concatenation that takes codes, at most */
enum { CPU_CODES_POSITIVE = 4 }; /* nothing is below 0, and 0 is the zero of all pixels */
static inline cpu_codes cpu_codes_of(const cpu_convs *c, int32_t tensor) {
  return tensor >= 0 ? (cpu_codes)(c->codes[tensor] & ~CPU_CODES_POSITIVE) : CPU_CODES_NONE;
}
static inline bool cpu_codes_positive(const cpu_convs *c, int32_t tensor) {
  return tensor >= 0 && c->codes[tensor] & CPU_CODES_POSITIVE;
}

/* The largest code that a kernel reading x takes, and the bits in which its codes differ from plain
 * unsigned ones. */
static inline int cpu_codes_most(cpu_act_format x) { return x == CPU_ACT_U7B ? 127 : 255; }
static inline uint8_t cpu_codes_flip(cpu_act_format x) { return x == CPU_ACT_S8B ? 0x80 : 0; }

/* Whether operand `operand` of the node is packed here (then nobody needs its rows as they are). */
bool cpu_conv_packs(const accel_plugin_program *program, const accel_plugin_node *node,
                    uint32_t operand);
/* Bytes of all packings of a weight in `format`; 0: no convolution reads it. */
uint64_t cpu_conv_bytes(const accel_plugin_program *program, uint32_t weight,
                        const accel_plugin_format *format, const cpu_kernels *kernels);
/* The windows of Winograd's way when a node takes it, else 0: kernels of 3x3 without strides and
 * groups, with enough channels for the products to outweigh the transforms.  Windows of 4x4 need 4
 * times the weights, those of 2x2 16/9 times: many channels take the latter. */
int64_t cpu_conv_window(const accel_plugin_node *node, const int64_t *dim, uint32_t rank);
/* Gives all of them memory (not where load->host is NULL), and appends the blocks that fill it,
 * which stay valid as long as `out`.  cpu_convs_free also after a failure. */
int32_t cpu_convs_open(const cpu_load *load, cpu_blocks *blocks, cpu_convs *out,
                       accel_plugin_error *error);
void cpu_convs_free(cpu_convs *convs);

#endif
