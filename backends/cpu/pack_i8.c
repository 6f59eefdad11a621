/* pack_i8.c - int8 weights, one scale a column.  Zero points and groups along k are left to fp32 (pack.c).
 *
 *   factor[cols] as fp32
 *   then, block by block of k (cpu_x_block when the kernel's x is blocked, else all of k):
 *     sum[cols]            fp32, of the block's codes; of its weights when x is not blocked
 *     codes [k/4][cols][4] k rounded up to I8_STEP */
#include <string.h>

#include "formats/matrix.h"
#include "pack.h"

enum { I8_STEP = 16 };

static int64_t padded(int64_t k) { return (k + I8_STEP - 1) / I8_STEP * I8_STEP; }

bool cpu_i8_takes(const accel_plugin_format *f) { return f->zero == ACCEL_PLUGIN_NO_DTYPE && !f->group_k; }

static cpu_x x_of(const cpu_panel *p) { return p->kernels->linear[CPU_FORM_I8].x; }
static bool blocked(const cpu_panel *p) { return cpu_x_blocked(x_of(p)); }
static int64_t block_of(const cpu_panel *p) { return blocked(p) ? cpu_x_block(x_of(p), p->k) : padded(p->k) + !p->k; }
static int64_t blocks_of(const cpu_panel *p) { return p->k ? (p->k + block_of(p) - 1) / block_of(p) : !blocked(p); }

uint64_t cpu_i8_panel_bytes(const cpu_panel *p) {
  return (uint64_t)p->cols * (sizeof(float) * (uint64_t)(1 + blocks_of(p)) + (uint64_t)padded(p->k));
}

static float factor_of(const cpu_column *column) {
  const accel_plugin_format *f = column->from->format;
  const accel_plugin_weight_view *view = &column->from->view;
  const float scale = accel_scale_at(f->scale, view->scale, f->group_n ? column->row / f->group_n : 0);
  return f->outer == ACCEL_PLUGIN_NO_DTYPE ? scale : scale * accel_scale_at(f->outer, view->outer, 0);
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

void cpu_i8_panel_pack(const cpu_panel *p, const cpu_column *column, void *panel) {
  float *factor = panel;
  memset(panel, 0, cpu_i8_panel_bytes(p));
  for (int32_t c = 0; c < p->cols && p->k; c++) { /* no columns of x: no scales either */
    char *block = (char *)(factor + p->cols);
    if (!column[c].from) continue;
    const int8_t *row = (const int8_t *)column[c].from->view.data + column[c].row * p->k;
    factor[c] = factor_of(&column[c]);
    for (int64_t at = 0; at < p->k; at += block_of(p)) {
      const int64_t k = p->k - at < block_of(p) ? p->k - at : block_of(p);
      float *sum = (float *)(void *)block + c;
      block += sizeof(float) * (size_t)p->cols;
      *sum = (float)put_codes(row + at, k, (int8_t *)block + 4 * c, p->cols) * (blocked(p) ? 1.0f : factor[c]);
      block += p->cols * padded(k);
    }
  }
}
