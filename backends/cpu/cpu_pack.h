/* cpu_pack.h - weights of linear nodes from the canonical formats (plugin.h: accel_plugin_format)
 * into panels (kernels.h: cpu_layout).
 *
 * cpu_pack.c decides the layout and calls one packer a layout: pack_<layout>.c. */
#ifndef ACCEL_CPU_PACK_H
#define ACCEL_CPU_PACK_H

#include "kernels/kernels.h"
#include "kit/kit.h"

/* A mapped weight matrix [n, k]. */
typedef struct cpu_matrix {
  const accel_plugin_weight *weight;
  const accel_plugin_format *format;
  accel_plugin_weight_view view;
  const float *f32; /* all of it as fp32, when the layout is F32; else NULL */
  int64_t n, k;
  bool trans; /* F32 only: stored [k, n] */
} cpu_matrix;

/* Where a column of a panel comes from: a row of a matrix (its column when that is transposed);
 * from NULL: zeros. */
typedef struct cpu_column {
  const cpu_matrix *from;
  int64_t row;
} cpu_column;

enum { CPU_PANEL_COLS = 64 }; /* at most */
/* What all panels of a matrix have in common. */
typedef struct cpu_panel {
  cpu_layout layout;
  const cpu_kernels *kernels;
  const accel_plugin_format *format;
  int64_t k;
  int64_t block; /* int8: k of one scale of x; 0: cpu_act_block */
  int32_t cols;
} cpu_panel;

/* The layout that holds weights of this format on this ISA; F32 when no other does: then they are
 * widened. */
cpu_layout cpu_layout_of(const cpu_kernels *kernels, const accel_plugin_format *format);
/* Bytes of one panel, a multiple of 64. */
uint64_t cpu_panel_bytes(const cpu_panel *p);
/* Fills a panel (64-byte aligned) from column[cols]. */
void cpu_panel_pack(const cpu_panel *p, const cpu_column *column, void *panel);

/* Whether the rows that a panel was packed from can be read back: all layouts but I4. */
bool cpu_panel_reads(cpu_layout layout);
/* The row of k elements that column `col` of a panel was packed from, as fp32: the numbers of its
 * format, except that in E4M3 all elements of a group that holds a NaN are. */
void cpu_panel_row(const cpu_panel *p, const void *panel, int32_t col, float *y);

/* Of columns [c, c + v): the first *have are there.  Whether they are rows of one matrix, *step
 * rows apart. */
bool cpu_columns_even(const cpu_column *column, int64_t c, int64_t v, int64_t *have, int64_t *step);

/* Three lines a layout. */
uint64_t cpu_f32_panel_bytes(const cpu_panel *p);
void cpu_f32_panel_pack(const cpu_panel *p, const cpu_column *column, void *panel);
void cpu_f32_panel_row(const cpu_panel *p, const void *panel, int32_t col, float *y);
uint64_t cpu_half_panel_bytes(const cpu_panel *p);
void cpu_half_panel_pack(const cpu_panel *p, const cpu_column *column, void *panel);
void cpu_half_panel_row(const cpu_panel *p, const void *panel, int32_t col, float *y);
bool cpu_f8_takes(const accel_plugin_format *format);
uint64_t cpu_f8_panel_bytes(const cpu_panel *p);
void cpu_f8_panel_pack(const cpu_panel *p, const cpu_column *column, void *panel);
void cpu_f8_panel_row(const cpu_panel *p, const void *panel, int32_t col, float *y);
bool cpu_i8_takes(const accel_plugin_format *format);
uint64_t cpu_i8_panel_bytes(const cpu_panel *p);
void cpu_i8_panel_pack(const cpu_panel *p, const cpu_column *column, void *panel);
void cpu_i8_panel_row(const cpu_panel *p, const void *panel, int32_t col, float *y);
bool cpu_i4_takes(const accel_plugin_format *format);
uint64_t cpu_i4_panel_bytes(const cpu_panel *p);
void cpu_i4_panel_pack(const cpu_panel *p, const cpu_column *column, void *panel);

/* Columns' kernels of nine, w[cols][k][9], as a panel of cpu_winograd_i16: cpu_winograd_i16_panel
 * bytes.  scratch: [36][k]. */
void cpu_winograd_i16_pack(const float *w, int64_t k, int64_t cols, float *scratch, void *panel);

#endif
