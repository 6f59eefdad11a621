/* cpu_pack_narrow.c - bf16, fp16 and fp8 weights, by pairs of k (the last one filled up with
 * zeros).
 *
 *   bf16        [k/2][cols][2]
 *   fp16        [k/2][2][cols]
 *   E4M3, E5M2  scale[groups][cols] as fp32, then [k/2][cols][2] bytes
 *
 * Kernels read E4M3 as fp16 of 2^-8 times its value, so its scales are 2^8 times theirs; and
 * because they would read NaN as a number, the scale of a group that holds one is NaN. */
#include <string.h>

#include "formats/weight_matrix.h"
#include "cpu_pack.h"

static int64_t pairs(const cpu_panel *p) { return (p->k + 1) / 2; }

/* ---- 16 bits ---- */

uint64_t cpu_half_panel_bytes(const cpu_panel *p) {
  return (uint64_t)pairs(p) * 4 * (uint64_t)p->cols;
}

static const uint8_t *row_of(const cpu_column *c, uint64_t bytes) {
  return c->from ? (const uint8_t *)c->from->view.data + (uint64_t)c->row * bytes : NULL;
}

static void pack_pairs(const cpu_panel *p, const cpu_column *column, void *panel) {
  const bool apart = p->layout == CPU_LAYOUT_F16;
  /* from a k to the next, from a column to the next */
  const int64_t next = apart ? p->cols : 1, step = apart ? 1 : 2;
  uint16_t *to = panel;
  for (int64_t j = 0; j < pairs(p); j++, to += 2 * p->cols)
    for (int32_t c = 0; c < p->cols; c++) {
      const uint8_t *row = row_of(&column[c], 2 * (uint64_t)p->k);
      uint16_t pair[2] = {0, 0};
      if (row) memcpy(pair, row + 4 * j, 2 * j + 1 < p->k ? 4 : 2);
      to[c * step] = pair[0];
      to[c * step + next] = pair[1];
    }
}

/* Words of two elements [k/2][cols], by the packer of fp32: rows of an even length, at addresses
 * that floats may have, step by step of one matrix.  false: these are not. */
static bool pack_words(const cpu_panel *p, const cpu_column *column, int64_t first, int64_t count,
                       float *to) {
  const int64_t v = p->kernels->vector, words = p->k / 2;
  int64_t have, step;
  for (int64_t c = 0; c < p->cols; c += v)
    if (p->k % 2 || !cpu_columns_even(column, c, v, &have, &step) ||
        (have && (uintptr_t)column[c].from->view.data % sizeof(float)))
      return false;
  for (int64_t c = 0; c < p->cols; c += v) {
    cpu_columns_even(column, c, v, &have, &step);
    const float *row = (const float *)(const void *)row_of(&column[c], 2 * (uint64_t)p->k);
    p->kernels->pack(row ? row + first : NULL, step * words, have, count, to + c, p->cols);
  }
  return true;
}

/* fp16: words of some k, then their halves apart. */
static bool pack_apart(const cpu_panel *p, const cpu_column *column, uint16_t *to) {
  enum { WORDS = 32 };
  float word[WORDS * CPU_PANEL_COLS];
  for (int64_t j = 0, n; j < pairs(p); j += n) {
    n = pairs(p) - j < WORDS ? pairs(p) - j : WORDS;
    if (!pack_words(p, column, j, n, word)) return false;
    const uint16_t *half = (const uint16_t *)(const void *)word;
    for (int64_t i = 0; i < n; i++, to += 2 * p->cols, half += 2 * p->cols)
      for (int32_t c = 0; c < p->cols; c++) {
        to[c] = half[2 * c];
        to[p->cols + c] = half[2 * c + 1];
      }
  }
  return true;
}

void cpu_half_panel_pack(const cpu_panel *p, const cpu_column *column, void *panel) {
  const bool apart = p->layout == CPU_LAYOUT_F16;
  if (apart ? !pack_apart(p, column, panel) : !pack_words(p, column, 0, pairs(p), panel))
    pack_pairs(p, column, panel);
}

void cpu_half_panel_row(const cpu_panel *p, const void *panel, int32_t col, float *y) {
  enum { CHUNK = 256 };
  const bool apart = p->layout == CPU_LAYOUT_F16;
  const int64_t next = apart ? p->cols : 1, first = apart ? col : 2 * (int64_t)col;
  uint16_t chunk[CHUNK];
  for (int64_t at = 0, n; at < p->k; at += n) {
    const uint16_t *from = (const uint16_t *)panel + at * p->cols + first;
    n = p->k - at < CHUNK ? p->k - at : CHUNK;
    for (int64_t j = 0; j < n; j++) chunk[j] = from[j / 2 * 2 * p->cols + j % 2 * next];
    p->kernels->widen(apart ? ACCEL_PLUGIN_F16 : ACCEL_PLUGIN_BF16, chunk, y + at, n);
  }
}

/* ---- 8 bits ---- */

bool cpu_f8_takes(const accel_plugin_format *f) {
  const uint32_t block = CPU_NARROW_BLOCK;
  return f->zero == ACCEL_PLUGIN_NO_DTYPE &&
         (f->group_k < block ? f->group_k % 2 == 0 : f->group_k % block == 0);
}

uint64_t cpu_f8_panel_bytes(const cpu_panel *p) {
  const int64_t groups = accel_groups(p->k, p->format->group_k);
  return (uint64_t)p->cols * ((uint64_t)groups * sizeof(float) + 2 * (uint64_t)pairs(p));
}

static bool holds_nan(const uint8_t *code, int64_t n) {
  uint8_t found = 0;
  for (int64_t i = 0; i < n; i++) found |= (code[i] & 0x7f) == 0x7f;
  return found;
}

static void scales(const cpu_panel *p, const cpu_column *column, int32_t c, int64_t groups,
                   float *to) {
  const cpu_matrix *m = column[c].from;
  const accel_plugin_format *f = p->format;
  const uint8_t *row = row_of(&column[c], (uint64_t)p->k);
  const int64_t size = f->group_k ? f->group_k : p->k,
                first = f->group_n && m ? column[c].row / f->group_n * groups : 0;
  const float outer =
      f->outer != ACCEL_PLUGIN_NO_DTYPE && m ? accel_scale_at(f->outer, m->view.outer, 0) : 1.0f;
  for (int64_t g = 0; g < groups; g++) {
    const int64_t k = g * size, count = p->k - k < size ? p->k - k : size;
    float scale = m ? accel_scale_at(f->scale, m->view.scale, first + g) * outer : 0.0f;
    if (m && f->store == ACCEL_PLUGIN_E4M3)
      scale = holds_nan(row + k, count) ? NAN : scale * 256.0f;
    to[g * p->cols + c] = scale;
  }
}

void cpu_f8_panel_pack(const cpu_panel *p, const cpu_column *column, void *panel) {
  const int64_t groups = accel_groups(p->k, p->format->group_k);
  uint8_t *to = (uint8_t *)((float *)panel + groups * p->cols);
  for (int32_t c = 0; c < p->cols; c++) scales(p, column, c, groups, panel);
  for (int64_t j = 0; j < pairs(p); j++)
    for (int32_t c = 0; c < p->cols; c++, to += 2) {
      const uint8_t *row = row_of(&column[c], (uint64_t)p->k);
      to[0] = row ? row[2 * j] : 0;
      to[1] = row && 2 * j + 1 < p->k ? row[2 * j + 1] : 0;
    }
}

void cpu_f8_panel_row(const cpu_panel *p, const void *panel, int32_t col, float *y) {
  const bool e4m3 = p->layout == CPU_LAYOUT_E4M3;
  const int64_t groups = accel_groups(p->k, p->format->group_k),
                size = p->format->group_k ? p->format->group_k : p->k;
  const float *scale = panel;
  const uint8_t *from = (const uint8_t *)(scale + groups * p->cols) + 2 * (int64_t)col;
  for (int64_t j = 0; j < p->k; j++) {
    const uint8_t code = from[j / 2 * 2 * p->cols + j % 2];
    const float of_group = scale[j / size * p->cols + col];
    y[j] =
        e4m3 ? accel_e4m3_to_f32(code) * (of_group * 0x1p-8f) : accel_e5m2_to_f32(code) * of_group;
  }
}
