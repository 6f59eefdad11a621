/* cpu_pack.c - the layouts that weights are packed into, and the packer of fp32. */
#include "cpu_pack.h"

typedef struct layout_info {
  bool (*takes)(const accel_plugin_format *f); /* NULL: every format of its store */
  uint64_t (*bytes)(const cpu_panel *p);
  void (*pack)(const cpu_panel *p, const cpu_column *column, void *panel);
  /* NULL: rows are not read back */
  void (*row)(const cpu_panel *p, const void *panel, int32_t col, float *y);
} layout_info;

static const layout_info layouts[CPU_LAYOUT_COUNT] = {
    [CPU_LAYOUT_F32] = {NULL, cpu_f32_panel_bytes, cpu_f32_panel_pack, cpu_f32_panel_row},
    [CPU_LAYOUT_BF16] = {NULL, cpu_half_panel_bytes, cpu_half_panel_pack, cpu_half_panel_row},
    [CPU_LAYOUT_F16] = {NULL, cpu_half_panel_bytes, cpu_half_panel_pack, cpu_half_panel_row},
    [CPU_LAYOUT_E4M3] = {cpu_f8_takes, cpu_f8_panel_bytes, cpu_f8_panel_pack, cpu_f8_panel_row},
    [CPU_LAYOUT_E5M2] = {cpu_f8_takes, cpu_f8_panel_bytes, cpu_f8_panel_pack, cpu_f8_panel_row},
    [CPU_LAYOUT_I8] = {cpu_i8_takes, cpu_i8_panel_bytes, cpu_i8_panel_pack, cpu_i8_panel_row},
    [CPU_LAYOUT_I4] = {cpu_i4_takes, cpu_i4_panel_bytes, cpu_i4_panel_pack, NULL},
};

static cpu_layout layout_of_store(const accel_plugin_format *f) {
  switch (f->store) {
#define ACCEL_PLAIN(name, bits, file, precision, gpu) \
  case ACCEL_PLUGIN_##name:                           \
    return CPU_LAYOUT_##name;
#define ACCEL_CODED(name, bits, file, precision, scale, zero, outer, group, largest, codec, cpu, \
                    gpu)                                                                         \
  case ACCEL_PLUGIN_##name:                                                                      \
    return CPU_LAYOUT_##cpu;
#include "formats/formats.def"
  }
  return CPU_LAYOUT_F32;
}

cpu_layout cpu_layout_of(const cpu_kernels *kernels, const accel_plugin_format *format) {
  cpu_layout layout = layout_of_store(format);
  bool takes = layouts[layout].pack && (!layouts[layout].takes || layouts[layout].takes(format));
  return takes && kernels->linear[layout].run ? layout : CPU_LAYOUT_F32;
}

uint64_t cpu_panel_bytes(const cpu_panel *p) {
  return (layouts[p->layout].bytes(p) + KIT_ALIGN - 1) / KIT_ALIGN * KIT_ALIGN;
}
void cpu_panel_pack(const cpu_panel *p, const cpu_column *column, void *panel) {
  layouts[p->layout].pack(p, column, panel);
}
bool cpu_panel_reads(cpu_layout layout) { return layouts[layout].row; }
void cpu_panel_row(const cpu_panel *p, const void *panel, int32_t col, float *y) {
  layouts[p->layout].row(p, panel, col, y);
}

/* ---- fp32: [k][cols] ---- */

uint64_t cpu_f32_panel_bytes(const cpu_panel *p) {
  return (uint64_t)p->k * (uint64_t)p->cols * sizeof(float);
}

bool cpu_columns_even(const cpu_column *column, int64_t c, int64_t v, int64_t *have,
                      int64_t *step) {
  *have = 0;
  while (*have < v && column[c + *have].from) ++*have;
  *step = *have > 1 ? column[c + 1].row - column[c].row : 1;
  for (int64_t i = 1; i < *have; i++)
    if (column[c + i].from != column[c].from || column[c + i].row - column[c + i - 1].row != *step)
      return false;
  return true;
}

void cpu_f32_panel_pack(const cpu_panel *p, const cpu_column *column, void *panel) {
  const int64_t v = p->kernels->vector;
  float *to = panel;
  for (int64_t c = 0; c < p->cols; c += v) {
    const cpu_matrix *m = column[c].from;
    int64_t have, step;
    if (cpu_columns_even(column, c, v, &have, &step) && have > 0 && !m->trans) {
      p->kernels->pack(m->f32 + column[c].row * p->k, step * p->k, have, p->k, to + c, p->cols);
      continue;
    }
    for (int64_t j = 0; j < p->k; j++)
      for (int64_t i = 0; i < v; i++) {
        const cpu_column *from = &column[c + i];
        to[j * p->cols + c + i] =
            from->from ? from->from->f32[from->from->trans ? j * from->from->n + from->row
                                                           : from->row * p->k + j]
                       : 0.0f;
      }
  }
}

void cpu_f32_panel_row(const cpu_panel *p, const void *panel, int32_t col, float *y) {
  const float *from = panel;
  for (int64_t j = 0; j < p->k; j++) y[j] = from[j * p->cols + col];
}
