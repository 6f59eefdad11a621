/* kernels.h - what the CPU plugin's kernels compute; the list of them is cpu_kernels.def.
 *
 * A kernel runs on one core.  It is pure: no allocation, no threads, no state.  Each has a type
 * here or in ops.h (cpu_<slot>_fn) whose comment says what it computes, and one function for each
 * instruction set, compiled from a shared body: kernels/<family>_body.h, instantiated by
 * <family>_<isa>.c.  The launches (cpu_linear.c, cpu_attention.c, ...) call them through the table
 * cpu_kernels.
 *
 * Matrices are fp32 unless said otherwise, row-major, strides in elements, any alignment.  A kernel
 * reads and writes exactly the elements that its comment names. */
#ifndef ACCEL_CPU_KERNELS_H
#define ACCEL_CPU_KERNELS_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "accel/plugin.h"
#include "kernels/act_format.h"
#include "kernels/attention_layout.h"
#include "kernels/implicit_gemm.h"
#include "kernels/ops.h"

/* Oldest first: ACCEL_ISA names one, and kernels of it and of all before it that the machine runs
 * are used.  A later one does not always include an earlier one (AVX-512 machines without
 * AVX-VNNI). */
typedef enum cpu_isa {
  CPU_ISA_SCALAR,
  CPU_ISA_NEON,    /* 64-bit Arm */
  CPU_ISA_NEONDOT, /* and its dot product */
  CPU_ISA_AVX2,    /* with FMA and F16C */
  CPU_ISA_AVXVNNI,
  CPU_ISA_AVX512, /* F, DQ, BW, VL */
  CPU_ISA_AVX512VNNI,
  CPU_ISA_AVX512BF16,
  CPU_ISA_AMX,     /* bf16 and int8, on processors that have AVX-512 BF16, too */
  CPU_ISA_SIMD128, /* WebAssembly's vectors; there in the place of CPU_ISA_SCALAR */
  CPU_ISA_COUNT
} cpu_isa;

/* ---- linear ---- */

/* How the weights of a linear lie in memory.  They are cut into panels: blocks of `cols` columns of
 * the result, one after the other, each holding all that its columns need (codes, scales, sums).
 * cpu_pack*.c say how a panel is laid out; k beyond the matrix and missing columns are zeros. */
typedef enum cpu_layout {
  CPU_LAYOUT_F32,  /* [k][cols] */
  CPU_LAYOUT_BF16, /* pairs of k: [k/2][cols][2] */
  CPU_LAYOUT_F16,  /* [k/2][2][cols] */
  CPU_LAYOUT_E4M3, /* scales, then [k/2][cols][2] */
  CPU_LAYOUT_E5M2,
  CPU_LAYOUT_I8, /* [k/4][cols][4] */
  CPU_LAYOUT_I4, /* codes of int4, uint4 or e2m1 */
  CPU_LAYOUT_COUNT
} cpu_layout;

/* Bytes for each column before the codes of a block of k int8 weights: the scale, and what x's
 * zeros are multiplied by. */
static inline int64_t cpu_i8_head(bool parted, int64_t k) {
  const int64_t pairs = parted ? (k + 2 * CPU_ACT_PART - 1) / (2 * CPU_ACT_PART) : 1;
  return (int64_t)sizeof(float) + pairs * 4;
}
enum { CPU_NARROW_BLOCK = 512 }; /* k of one chain of sums over narrow floats, at most; even */

/* y[m, n] = act(x[m, k] w^T + bias) + residual.
 * glu: n counts the results; a panel holds cols/2 columns of up and then the same columns of gate;
 * y = (act(gate) * up) + residual; limit > 0: gate is at most that before, and up within it on
 * either side.
 * to: y[to[i]] += weight[i] (x[i] w^T + bias), without act, glu and residual. */
typedef struct cpu_gemm {
  int64_t n, k;
  const void *x; /* cpu_act_format elements */
  int64_t ldx;
  const float *x_scale, *x_zero; /* [m]; U8 and S8 only, else NULL */
  const void *w;                 /* panels */
  int64_t panel_bytes;
  uint32_t group;       /* k of one scale in panels of grouped layouts; 0: one scale a column */
  uint8_t store, scale; /* accel_plugin_dtype of the codes and of the scales they came with */
  float *y;
  int64_t ldy;
  const float *bias, *bias_gate; /* [n] or NULL */
  const float *residual;         /* [m, n] or NULL; may be y itself */
  int64_t ldr;
  const int32_t *to;   /* [m], or NULL */
  const float *weight; /* [m] */
  int32_t act, glu;
  float alpha, limit;
  const cpu_implicit_gemm *implicit_gemm; /* NULL: rows of x follow each other */
} cpu_gemm;
/* Rows [row, row_end) and panels [panel, panel_end) of the result.  A row's result does not depend
 * on which others there are. */
typedef void cpu_linear_fn(const cpu_gemm *g, int64_t row, int64_t row_end, int64_t panel,
                           int64_t panel_end);

/* Rows of x as a cpu_act_format: y [rows][ldy] (codes past k up to a multiple of CPU_ACT_STEP are
 * zeros); scale[rows] and zero[rows] for the integers, NULL else; for the blocked ones those of the
 * first row's blocks, the next row's ldy bytes further, so that a row can be converted by parts
 * that are multiples of a block.  A row or block with an infinity or NaN gets a scale that is
 * NaN. */
typedef void cpu_convert_fn(const float *x, int64_t ldx, int64_t rows, int64_t k, void *y,
                            int64_t ldy, float *scale, float *zero);
/* Where a blocked row's scales are; its zeros are cpu_act_blocks further. */
static inline float *cpu_act_scales(void *row, int64_t k) {
  return (float *)(void *)((char *)row + cpu_act_padded(k));
}
/* Whole rows, ldy = cpu_act_row; scale and zero are not used by blocked ones. */
static inline void cpu_convert_rows(cpu_convert_fn *run, cpu_act_format to, const float *x,
                                    int64_t ldx, int64_t rows, int64_t k, void *y, float *scale,
                                    float *zero) {
  if (cpu_act_blocked(to)) {
    scale = cpu_act_scales(y, k);
    zero = scale + cpu_act_blocks(to, k);
  }
  run(x, ldx, rows, k, y, cpu_act_row(to, k), scale, zero);
}

/* panel[j][0..V) = w[0..rows)[j] for j < k, rows <= V; V is the ISA's vector length.  Writes all V
 * columns of the k rows. */
typedef void cpu_pack_fn(const float *w, int64_t ldw, int64_t rows, int64_t k, float *panel,
                         int64_t ldp);

/* ---- attention ---- */

enum { CPU_PAGE_ROWS = 64 }; /* least rows of a page of keys and values */

/* One head of one sequence: y[i] = softmax over j of (scale q[i].k[j], capped, + bias) times v[j].
 * A row that sees no key gives zeros. Query row i stands at key i * step + shift: what a window, a
 * bias by distance and causality count from, unless query_position and key_position are given
 * (magnitudes below 2^24). */
typedef struct cpu_attention {
  const float *q;
  /* Rows of `kv` elements (accel_plugin_dtype F32, F16, BF16, I8), ldk and ldv elements apart: in
   * one piece, or in pages of 1 << page_shift rows, k_offset and v_offset bytes after the start of
   * each.  I8: codes of a row times its fp32 scale, which lies k_scale, v_scale bytes after the
   * first of them. */
  const void *k, *v;
  void *const *page;  /* NULL: one piece */
  int32_t page_shift; /* at least CPU_PAGE_ROWS */
  int64_t k_offset, v_offset, k_scale, v_scale;
  int32_t kv;
  float *y;
  /* keys first .. keys-1 are looked at; first is a multiple of a tile */
  int64_t ldq, ldk, ldv, ldy, first, keys, dk, dv;
  float scale, softcap; /* softcap 0: off */
  const float *sinks;   /* NULL: none; row i has sinks[i * sink_step] */
  int64_t sink_step;
  /* keys seen behind and ahead; -1 all.  causal is right 0 */
  int64_t left, right;
  int64_t step, shift;                          /* step 0: all rows are heads of one query row */
  const int32_t *query_position, *key_position; /* both or none */
  const int32_t *mask;                          /* 0 hides key mask_from + index, or NULL */
  int64_t mask_from;
  const float *bias; /* dense: [i * bias_row + j * bias_column] (bias_column 0 or 1), or NULL */
  int64_t bias_row, bias_column;
  const float *relative; /* [j - i + relative_origin], step 1 and shift 0; or NULL */
  const float *distance; /* [far + d], d the distance ahead cut to -far .. far; or NULL */
  int64_t far;
  float slope; /* alibi: times the distance ahead */
  /* disentangled: rel_k, rel_q packed panels [relative_columns / panel_cols][dk][panel_cols]
   * (either may be NULL) of the relative rows relative_first ..; relative_row[i - j +
   * relative_origin] is the row of a distance */
  const float *rel_k, *rel_q;
  const int32_t *relative_row;
  int64_t relative_origin, relative_first, relative_columns;
  float *probs; /* [i * ldp + j], j < probs_columns, or NULL */
  int64_t ldp, probs_columns;
  /* [i][2 + dv]: largest score, sum of exponentials and sum of values instead of y, sinks left out;
   * or NULL */
  float *part;
} cpu_attention;
typedef void cpu_attention_fn(const cpu_attention *a, int64_t row, int64_t row_end,
                              float *workspace);
/* The same with all factors rounded to bf16, denormals to zero; without disentangled terms. */
typedef cpu_attention_fn cpu_attention_bf16_fn;
/* The same for few rows, without probs and disentangled terms: keys and values are streamed, no
 * workspace. */
typedef void cpu_decode_fn(const cpu_attention *a, int64_t row, int64_t row_end);
/* The same of what cpu_decodes_bf16 says, with all factors rounded to bf16, denormals to zero. */
typedef cpu_decode_fn cpu_decode_bf16_fn;
enum { CPU_DECODE_DIM = 512 };
/* Dims that are multiplied as pairs of 16 bits by vectors of `vector` floats. */
static inline int cpu_takes_pairs(const cpu_attention *a, int64_t vector) {
  return a->dk % (2 * vector) == 0 && a->dv % (2 * vector) == 0 && a->dk <= CPU_DECODE_DIM;
}

static inline int64_t cpu_kv_bytes(int32_t kv) {
  return kv == ACCEL_PLUGIN_F32 ? 4 : kv == ACCEL_PLUGIN_I8 ? 1 : 2;
}
static inline int64_t cpu_page_row(const cpu_attention *a, int64_t j) {
  return j & (((int64_t)1 << a->page_shift) - 1);
}
static inline const char *cpu_key_at(const cpu_attention *a, int64_t j) {
  const int64_t row = a->ldk * cpu_kv_bytes(a->kv);
  return a->page
             ? (const char *)a->page[j >> a->page_shift] + a->k_offset + cpu_page_row(a, j) * row
             : (const char *)a->k + j * row;
}
static inline const char *cpu_value_at(const cpu_attention *a, int64_t j) {
  const int64_t row = a->ldv * cpu_kv_bytes(a->kv);
  return a->page
             ? (const char *)a->page[j >> a->page_shift] + a->v_offset + cpu_page_row(a, j) * row
             : (const char *)a->v + j * row;
}

/* The same over fp32 rows, which the kernel turns into 8-bit codes itself and multiplies
 * (attention_i8_body.h says how): all keys are one tile,
 * and of the above only q, k, v, y with F32 rows in one piece, a positive scale, mask (from key 0
 * on), bias and relative are read. */
typedef void cpu_attention_i8_fn(const cpu_attention *a, int64_t row, int64_t row_end,
                                 float *workspace);

/* ---- rows ---- */

/* y = norm(x + residual) * (gamma + gamma_offset) + beta, each row in `groups` groups of `size`
 * elements; sum = x + residual when wanted. */
typedef struct cpu_norm {
  const float *x, *residual, *gamma, *beta; /* all but x may be NULL */
  /* either may lie over x or residual; sum may be NULL.  Both have stride ldy */
  float *y, *sum;
  int64_t ldx, ldr, ldy, size, groups;
  int32_t kind; /* accel_plugin_kind NORM_ */
  float eps, gamma_offset;
} cpu_norm;
typedef void cpu_norm_fn(const cpu_norm *g, int64_t row, int64_t row_end);

/* One row; y may be x. */
typedef void cpu_softmax_fn(const float *x, float *y, int64_t n, int32_t logarithm);

/* y[i] = act(x[i]), i < n; y may be x.  act: accel_plugin_act. */
typedef void cpu_activate_fn(int act, float alpha, const float *x, float *y, int64_t n);
/* Kinds of accel_plugin_unary; answers 0 for those it does not know (sin, cos). */
typedef int32_t cpu_unary_fn(int32_t kind, float alpha, float beta, const float *x, float *y,
                             int64_t n);
/* y[i] = a[i * a_step] op b[i * b_step], steps 0 or 1; y may be a or b where the step is 1.
 * Answers 0 for kinds it does not know (pow, where). */
typedef int32_t cpu_binary_fn(int32_t kind, const float *a, int32_t a_step, const float *b,
                              int32_t b_step, float *y, int64_t n);
/* y[i] = x[i], i < n; x: any alignment, accel_plugin_dtype F16 or BF16. */
typedef void cpu_widen_fn(int32_t store, const void *x, float *y, int64_t n);
/* A head of a row of keys or values as a state keeps it: x[n] to `store` (accel_plugin_dtype F32,
 * F16, BF16, I8) at y; I8 are codes, round(x / scale), and behind them, at the next multiple of
 * four, the fp32 scale, NaN when an element is not finite.
 */
typedef void cpu_store_fn(int32_t store, const float *x, int64_t n, void *y);
/* y += weight x */
typedef void cpu_accumulate_fn(float weight, const float *x, float *y, int64_t n);

/* Rotates the first 2 * pairs of every `head` columns by position[row] * frequency[pair]; y may be
 * x. */
typedef struct cpu_rope {
  const float *x, *frequency; /* [pairs], of row r at r * step */
  float *y;
  const int32_t *position;                   /* [rows]; NULL: all 0 */
  int64_t ldx, ldy, cols, head, pairs, step; /* step 0: the same frequencies for all rows */
  int32_t interleaved;
  float mscale;
} cpu_rope;
/* table: 2 * pairs floats of workspace */
typedef void cpu_rope_fn(const cpu_rope *g, int64_t row, int64_t row_end, float *table);

/* ---- the table ---- */

#define CPU_LINEAR(layout, dtype, rows, cols, from, ISA, isa) \
  cpu_linear_fn accel_##dtype##_linear_##rows##x##cols##__##isa;
#define CPU_CONVERT(x, dtype, ISA, isa)      cpu_convert_fn accel_##dtype##_convert_row__##isa;
#define CPU_KERNEL(slot, op, tile, ISA, isa) cpu_##slot##_fn accel_f32_##op##_##tile##__##isa;
#include "kernels/cpu_kernels.def"

typedef struct cpu_linear_kernel {
  cpu_linear_fn *run; /* NULL: this ISA has none */
  int32_t rows, cols; /* of a register tile; cols is also a panel's */
  cpu_act_format x;
} cpu_linear_kernel;

/* The kernels that one ISA uses: of each kind the newest that it can run. */
typedef struct cpu_kernels {
  cpu_isa isa;
  /* floats of a vector; columns and rows of the fp32 register tile */
  int64_t vector, panel_cols, tile_rows;
  cpu_linear_kernel linear[CPU_LAYOUT_COUNT];
  cpu_convert_fn *convert[CPU_ACT_COUNT];
  cpu_pack_fn *pack;
  cpu_attention_fn *attention;
  cpu_attention_i8_fn *attention_i8;     /* NULL: codes are not multiplied faster here */
  cpu_attention_bf16_fn *attention_bf16; /* NULL: nor is bf16 */
  cpu_decode_fn *decode;
  cpu_decode_bf16_fn *decode_bf16; /* NULL where attention_bf16 is */
  cpu_norm_fn *norm;
  cpu_softmax_fn *softmax;
  cpu_activate_fn *activate;
  cpu_unary_fn *unary;
  cpu_binary_fn *binary;
  cpu_widen_fn *widen;
  cpu_store_fn *store;
  cpu_accumulate_fn *accumulate;
  cpu_rope_fn *rope;
  cpu_conv_fn *conv;             /* ops.h */
  cpu_conv_pairs_fn *conv_pairs; /* NULL: bf16 is not multiplied faster here */
  /* conv_pairs and int8 products use tile registers, beside which no Winograd transform pays */
  bool tile_registers;
  cpu_winograd_fn *winograd;
  cpu_winograd_pairs_fn *winograd_pairs; /* NULL where conv_pairs is, and beside tile registers */
  cpu_winograd_i16_fn *winograd_i16;     /* NULL: words are not multiplied fast here */
  cpu_depthwise_fn *depthwise;
  cpu_taps_fn *taps;
  cpu_transpose_fn *transpose;
  cpu_to_planes_fn *to_planes;
  cpu_extent_fn *extent;
  cpu_codes_fn *codes;
  cpu_codes_pixels_fn *codes_pixels;
  cpu_recode_fn *recode; /* NULL without tile registers */
  cpu_pool_fn *pool;
  cpu_pool_pixels_fn *pool_pixels;
  cpu_resize_fn *resize;
  cpu_group_norm_fn *group_norm;
  cpu_scan_fn *scan;
  cpu_delta_fn *delta;
  cpu_delta_bf16_fn *delta_bf16; /* NULL without tile registers */
  cpu_lora_shrink_fn *lora_shrink;
  cpu_lora_expand_fn *lora_expand;
  cpu_lora_shrink_f16_fn *lora_shrink_f16;
  cpu_lora_expand_f16_fn *lora_expand_f16;
  cpu_fold_fn *fold;
  cpu_fold_gathered_fn *fold_gathered;
  cpu_fold_row_fn *fold_row;
  cpu_softmax_columns_fn *softmax_columns;
  cpu_power_fn *power;
  cpu_choose_fn *choose;
  cpu_wave_fn *wave;
  cpu_to_int_fn *to_int;
  cpu_to_float_fn *to_float;
} cpu_kernels;

static inline int cpu_decodes_bf16(const cpu_kernels *k, const cpu_attention *a) {
  return k->decode_bf16 && a->kv == ACCEL_PLUGIN_BF16 && cpu_takes_pairs(a, k->vector);
}

/* cpu_isa.c.  What the machine and its system run, newest first; the last is always
 * CPU_ISA_SCALAR. */
int cpu_isa_list(cpu_isa list[CPU_ISA_COUNT]);
const char *cpu_isa_name(cpu_isa isa); /* "avx512", "avx2", "scalar": the values of ACCEL_ISA */
/* The one to use: the newest that gains something, or what ACCEL_ISA names.  `refused` (may be
 * NULL) gets a sentence when ACCEL_ISA cannot be obeyed. */
cpu_isa cpu_isa_choose(char *refused, size_t size);
void cpu_kernels_of(cpu_isa isa, cpu_kernels *out);

#endif
