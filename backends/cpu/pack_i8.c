/* pack_i8.c - int8 weights, one scale a column: factor[cols], sum[cols] as fp32 (dot_body.h), then codes [k/4][cols][4] with
 * k rounded up to I8_STEP.  Zero points and groups along k are left to fp32 (pack.c). */
#include <string.h>

#include "formats/matrix.h"
#include "pack.h"

enum { I8_STEP = 16 };

static int64_t padded(int64_t k) { return (k + I8_STEP - 1) / I8_STEP * I8_STEP; }

bool cpu_i8_takes(const accel_plugin_format *f) { return f->zero == ACCEL_PLUGIN_NO_DTYPE && !f->group_k; }

uint64_t cpu_i8_panel_bytes(const cpu_panel *p) { return (uint64_t)p->cols * (2 * sizeof(float) + (uint64_t)padded(p->k)); }

void cpu_i8_panel_pack(const cpu_panel *p, const cpu_column *column, void *panel) {
  float *factor = panel, *sum = factor + p->cols;
  int8_t *codes = (int8_t *)(sum + p->cols);
  memset(codes, 0, (size_t)p->cols * (size_t)padded(p->k));
  for (int32_t c = 0; c < p->cols; c++, codes += 4) {
    const cpu_matrix *m = column[c].from;
    const int8_t *row = m ? (const int8_t *)m->view.data + column[c].row * p->k : NULL;
    int64_t all = 0, j = 0;
    factor[c] = sum[c] = 0.0f;
    if (!m || !p->k) continue; /* no columns of x: no scales either */
    for (; j + 4 <= p->k; j += 4) {
      memcpy(codes + j * p->cols, row + j, 4);
      all += row[j] + row[j + 1] + row[j + 2] + row[j + 3];
    }
    for (; j < p->k; all += row[j++]) codes[j / 4 * 4 * p->cols + j % 4] = row[j];
    factor[c] = accel_scale_at(m->format->scale, m->view.scale, m->format->group_n ? column[c].row / m->format->group_n : 0);
    if (m->format->outer != ACCEL_PLUGIN_NO_DTYPE) factor[c] *= accel_scale_at(m->format->outer, m->view.outer, 0);
    sum[c] = factor[c] * (float)all;
  }
}
