/* cpu_pack_i4.c - int4, uint4 and E2M1 weights into the panels of kernels/i4.h. */
#include <string.h>

#include "formats/weight_matrix.h"
#include "kernels/i4.h"
#include "cpu_pack.h"

bool cpu_i4_takes(const accel_plugin_format *f) {
  return f->group_k % 8 == 0 && (f->zero == ACCEL_PLUGIN_NO_DTYPE ||
                                 (f->store == ACCEL_PLUGIN_U4 && f->zero == ACCEL_PLUGIN_U8));
}

static cpu_i4 layout_of(const cpu_panel *p) {
  return cpu_i4_layout(p->format->store, p->format->scale, p->format->group_k, p->cols);
}

uint64_t cpu_i4_panel_bytes(const cpu_panel *p) {
  const cpu_i4 l = layout_of(p);
  const uint64_t blocks = (uint64_t)((p->k + l.block - 1) / l.block),
                 steps = (uint64_t)((p->k + 7) / 8);
  return 2 * sizeof(float) * (uint64_t)p->cols + blocks * (uint64_t)l.side +
         steps * (uint64_t)l.step_bytes;
}

static void put_scale(uint8_t dtype, const void *scales, int64_t from, void *to, int64_t c) {
  const float value = accel_scale_at(dtype, scales, from);
  switch (dtype) {
    case ACCEL_PLUGIN_F16:
      memcpy((char *)to + 2 * c, (const char *)scales + 2 * from, 2);
      break;
    case ACCEL_PLUGIN_E8M0:
    case ACCEL_PLUGIN_E4M3:
      ((uint8_t *)to)[c] = ((const uint8_t *)scales)[from];
      break;
    default:
      memcpy((char *)to + sizeof value * (size_t)c, &value, sizeof value);
  }
}

/* Codes [first, first + count) of a row into column c of a block. */
static void put_codes(const cpu_panel *p, const uint8_t *row, int64_t first, int64_t count,
                      uint8_t *codes, int32_t c) {
  const uint8_t flip = p->format->store == ACCEL_PLUGIN_I4 ? 8 : 0;
  for (int64_t j = 0; j < count; j++) {
    uint8_t code = accel_nibble(row, (size_t)(first + j)) ^ flip;
    codes[j / 8 * 4 * p->cols + 4 * c + j % 4] |= (uint8_t)(j % 8 < 4 ? code : code << 4);
  }
}

/* Sum of their values, without scale. */
static double sum_of(uint8_t store, const uint8_t *row, int64_t first, int64_t count, int zero) {
  static const uint8_t all[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  float value[16];
  double sum = 0;
  accel_decode_codes(store, all, 16, 0, 1, 1, value);
  for (int64_t j = first; j < first + count; j++)
    sum += (double)value[accel_nibble(row, (size_t)j)] - zero;
  return sum;
}

/* One column of a block. Answers the sum of its weights but for outer; NaN when a zero is larger
 * than kernels take. */
static double pack_block(const cpu_panel *p, const cpu_column *column, int64_t at, char *block,
                         int32_t c) {
  const cpu_i4 l = layout_of(p);
  const cpu_matrix *m = column->from;
  const accel_plugin_format *f = p->format;
  const int64_t count = p->k - at < l.block ? p->k - at : l.block;
  const int64_t group =
      (f->group_n ? column->row / f->group_n : 0) * accel_groups(p->k, f->group_k) +
      (f->group_k ? at / f->group_k : 0);
  const uint8_t *row =
      (const uint8_t *)m->view.data + (uint64_t)column->row * accel_row_bytes(f->store, p->k);
  const uint8_t zero =
      f->zero == ACCEL_PLUGIN_NO_DTYPE ? 0 : ((const uint8_t *)m->view.zero)[group];
  put_scale(f->scale, m->view.scale, group, block, c);
  if (f->store == ACCEL_PLUGIN_U4) ((uint8_t *)block)[p->cols * l.scale_bytes + c] = zero;
  put_codes(p, row, at, count, (uint8_t *)block + l.side, c);
  if (zero > CPU_I4_ZERO) return (double)NAN;
  return sum_of(f->store, row, at, count, zero) *
         (double)accel_scale_at(f->scale, m->view.scale, group);
}

void cpu_i4_panel_pack(const cpu_panel *p, const cpu_column *column, void *panel) {
  const cpu_i4 l = layout_of(p);
  const accel_plugin_format *f = p->format;
  float *factor = panel, *sum = factor + p->cols;
  memset(panel, 0, cpu_i4_panel_bytes(p));
  for (int32_t c = 0; c < p->cols; c++) {
    char *block = (char *)(sum + p->cols);
    double all = 0;
    if (!column[c].from) continue;
    const float outer = f->outer == ACCEL_PLUGIN_NO_DTYPE
                            ? 1.0f
                            : accel_scale_at(f->outer, column[c].from->view.outer, 0);
    for (int64_t at = 0; at < p->k; at += l.block, block += l.side + l.block / 8 * l.step_bytes)
      all += pack_block(p, &column[c], at, block, c);
    factor[c] = outer * (f->store == ACCEL_PLUGIN_E2M1 ? 0.5f : 1.0f) *
                (f->scale == ACCEL_PLUGIN_E4M3 ? 256.0f : 1.0f);
    sum[c] = (float)(all * (double)outer);
  }
}
