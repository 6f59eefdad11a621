/* cpu_pack_i8.c - int8 weights: one scale a column, or one for groups of k.  Zero points, and
 * groups that blocks of x straddle, are left to fp32 (cpu_pack.c).
 *
 *   block by block of k (cpu_act_block, or cpu_implicit_gemm.block):
 *     factor[cols], sum[cols]  fp32: scale, and sum of the block's codes; where x's blocks have parts (cpu_act_parted) instead
 *                              of the latter [pairs of parts][cols][2] int16_t: less the sums of their codes
 *     codes [k/4][cols][4]     k rounded up to I8_STEP */
#include <string.h>

#include "formats/weight_matrix.h"
#include "cpu_pack.h"

enum { I8_STEP = 16 };

static int64_t padded(int64_t k) { return (k + I8_STEP - 1) / I8_STEP * I8_STEP; }

bool cpu_i8_takes(const accel_plugin_format *f) {
  return f->zero == ACCEL_PLUGIN_NO_DTYPE && f->group_k % cpu_act_block(CPU_ACT_U8B) == 0;
}

static cpu_act_format x_of(const cpu_panel *p) {
  return cpu_act_format_beside(p->kernels->linear[CPU_LAYOUT_I8].x, p->k, p->format->group_k);
}
static int64_t block_of(const cpu_panel *p) { return p->block ? p->block : cpu_act_block(x_of(p)); }
static bool parted(const cpu_panel *p) { return !p->block && cpu_act_parted(x_of(p)); }
/* Bytes before the codes of a block of k, and of all of it. */
static uint64_t head_of(const cpu_panel *p, int64_t k) {
  return (uint64_t)(p->cols * cpu_i8_head(parted(p), k));
}
static uint64_t bytes_of(const cpu_panel *p, int64_t k) {
  return head_of(p, k) + (uint64_t)(p->cols * padded(k));
}

uint64_t cpu_i8_panel_bytes(const cpu_panel *p) {
  const int64_t block = block_of(p), rest = p->k % block;
  return (uint64_t)(p->k / block) * bytes_of(p, block) + (rest ? bytes_of(p, rest) : 0);
}

/* Of the weights of a column at k. */
static float factor_of(const cpu_column *column, int64_t k) {
  const accel_plugin_format *f = column->from->format;
  const accel_plugin_weight_view *view = &column->from->view;
  const int64_t row =
      f->group_n ? column->row / f->group_n * accel_groups(column->from->k, f->group_k) : 0;
  const float scale =
      accel_scale_at(f->scale, view->scale, row + (f->group_k ? k / f->group_k : 0));
  return f->outer == ACCEL_PLUGIN_NO_DTYPE ? scale
                                           : scale * accel_scale_at(f->outer, view->outer, 0);
}

/* Codes of a column in a block; answers their sum. */
static int64_t put_codes(const int8_t *row, int64_t k, int8_t *codes, int32_t cols) {
  int64_t sum = 0, j = 0;
  for (; j + 4 <= k; j += 4) {
    memcpy(codes + j * cols, row + j, 4);
    sum += row[j] + row[j + 1] + row[j + 2] + row[j + 3];
  }
  for (; j < k; sum += row[j++]) codes[j / 4 * 4 * cols + j % 4] = row[j];
  return sum;
}

/* Column c of a block of k, from k `at` on. */
static void put_block(const cpu_panel *p, const cpu_column *column, int64_t at, int64_t k,
                      int32_t c, char *block) {
  const int8_t *row = (const int8_t *)column->from->view.data + column->row * p->k + at;
  float *factor = (float *)(void *)block + c, *sum = factor + p->cols;
  int16_t *less = (int16_t *)(void *)(block + sizeof(float) * (size_t)p->cols) + 2 * c;
  int8_t *codes = (int8_t *)block + head_of(p, k) + 4 * c;
  *factor = factor_of(column, at);
  if (!parted(p)) {
    *sum = (float)put_codes(row, k, codes, p->cols);
    return;
  }
  for (int64_t j = 0, part = 0; j < k; j += CPU_ACT_PART, part++)
    less[part / 2 * 2 * p->cols + part % 2] = (int16_t)-put_codes(
        row + j, k - j < CPU_ACT_PART ? k - j : CPU_ACT_PART, codes + j * p->cols, p->cols);
}

void cpu_i8_panel_pack(const cpu_panel *p, const cpu_column *column, void *panel) {
  memset(panel, 0, cpu_i8_panel_bytes(p));
  for (int32_t c = 0; c < p->cols; c++) {
    char *block = panel;
    if (!column[c].from) continue;
    for (int64_t at = 0; at < p->k; at += block_of(p)) {
      const int64_t k = p->k - at < block_of(p) ? p->k - at : block_of(p);
      put_block(p, &column[c], at, k, c, block);
      block += bytes_of(p, k);
    }
  }
}

void cpu_i8_panel_row(const cpu_panel *p, const void *panel, int32_t col, float *y) {
  const char *block = panel;
  for (int64_t at = 0; at < p->k; at += block_of(p)) {
    const int64_t k = p->k - at < block_of(p) ? p->k - at : block_of(p);
    const float factor = ((const float *)(const void *)block)[col];
    const int8_t *codes = (const int8_t *)block + head_of(p, k) + 4 * col;
    for (int64_t j = 0; j < k; j++) y[at + j] = (float)codes[j / 4 * 4 * p->cols + j % 4] * factor;
    block += bytes_of(p, k);
  }
}
