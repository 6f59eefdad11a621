/* cpu_gather.c - rows of a table by number; tables of weights stay in their own format
 * (cpu_weight.table), or are the panels of a linear that multiplies by them (cpu_weight.panels):
 * one copy serves a tied vocabulary. */
#include "cpu_gather.h"

#include <stdatomic.h>
#include <string.h>

#include "cpu_matmul.h"
#include "cpu_select.h"

static const double NS_COPY = 0.3, NS_WIDEN = 0.6; /* rough nanoseconds an element */
static const double NS_READ = 20e3;                /* of a row in a file */

typedef struct gather_job {
  const cpu_kernels *kernels;
  const char *table;               /* rows of 4-byte elements, or */
  const cpu_linear *linear;        /* in the panels of a linear, or */
  const accel_matrix *matrix;      /* rows of any format, or */
  const accel_plugin_host *reader; /* rows of weight `weight` in its file */
  uint32_t weight;
  atomic_bool failed;       /* a row could not be read: */
  accel_plugin_error error; /* of the first that failed */
  cpu_panel shape;          /* of linear */
  float value[256];         /* of every 8-bit code before scaling */
  const int32_t *index;
  char *y;
  int64_t rows, cols;
  float scale;
  uint32_t tasks;
} gather_job;

/* 8-bit codes with one scale a row. */
static bool by_value(const accel_matrix *m) {
  const accel_plugin_format *f = &m->format;
  return !accel_format_plain(f) && accel_format_bits(f->store) == 8 &&
         f->zero == ACCEL_PLUGIN_NO_DTYPE && accel_groups(m->k, f->group_k) == 1;
}

static void widen_row(const gather_job *j, int64_t row, float *y) {
  const accel_matrix *m = j->matrix;
  const accel_plugin_format *f = &m->format;
  const uint8_t *code = (const uint8_t *)m->data + (uint64_t)row * accel_row_bytes(f->store, m->k);
  if (f->store == ACCEL_PLUGIN_F16 || f->store == ACCEL_PLUGIN_BF16) {
    j->kernels->widen(f->store, code, y, m->k);
  } else if (by_value(m)) {
    const float scale = accel_scale_at(f->scale, m->scale, f->group_n ? row / f->group_n : 0),
                outer = f->outer == ACCEL_PLUGIN_NO_DTYPE ? 1.0f
                                                          : accel_scale_at(f->outer, m->outer, 0);
    for (int64_t k = 0; k < m->k; k++) y[k] = j->value[code[k]] * scale * outer;
  } else {
    accel_matrix_rows(m, row, 1, y);
  }
}

static void unpack_row(const gather_job *j, int64_t row, float *y) {
  const cpu_linear *l = j->linear;
  cpu_panel_row(&j->shape, l->packed + (uint64_t)(row / j->shape.cols) * l->panel_bytes,
                (int32_t)(row % j->shape.cols), y);
}

static void read_rows(gather_job *j, int64_t row, int64_t count, float *y) {
  accel_plugin_error error = {.size = sizeof error, .node = -1};
  if (j->reader->rows_read(j->reader->self, j->weight, row, count, y, &error) &&
      !atomic_exchange(&j->failed, true))
    j->error = error;
}

/* Of results from, .., to-1: how many from the first on are rows that follow each other, as those of
 * positions do. */
static int64_t run_of(const gather_job *j, int64_t from, int64_t to) {
  int64_t n = 1;
  while (from + n < to && j->index[from + n] == j->index[from] + n) n++;
  return n;
}

static void gather_task(void *arg, uint32_t i, uint32_t worker) {
  gather_job *j = arg;
  const int64_t bytes = j->cols * 4, end = cpu_share(j->rows, i + 1, j->tasks);
  (void)worker;
  for (int64_t r = cpu_share(j->rows, i, j->tasks), n; r < end; r += n) {
    float *y = (float *)(void *)(j->y + r * bytes);
    n = j->reader ? run_of(j, r, end) : 1;
    if (j->reader)
      read_rows(j, j->index[r], n, y);
    else if (j->linear)
      unpack_row(j, j->index[r], y);
    else if (j->matrix)
      widen_row(j, j->index[r], y);
    else
      memcpy(y, j->table + j->index[r] * bytes, (size_t)bytes);
    if (j->scale != 1.0f)
      j->kernels->binary(ACCEL_PLUGIN_BINARY_MUL, y, 1, &j->scale, 0, y, n * j->cols);
  }
}

static void find_values(gather_job *j) {
  uint8_t code[256];
  const float one = 1.0f;
  const accel_matrix all = {.format = {j->matrix->format.store, ACCEL_PLUGIN_F32,
                                       ACCEL_PLUGIN_NO_DTYPE, ACCEL_PLUGIN_NO_DTYPE, 0, 0},
                            .n = 1,
                            .k = 256,
                            .data = code,
                            .scale = &one};
  for (int i = 0; i < 256; i++) code[i] = (uint8_t)i;
  accel_matrix_rows(&all, 0, 1, j->value);
}

int32_t cpu_launch_gather(const cpu_self *s, const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *table = &l->in[0], *index = &l->in[1], *out = &l->out[0];
  int64_t axis = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_AXIS, 0);
  if (l->n_fused && !out->elements) return cpu_launch_gathered_matmul(s, l);
  if ((axis != 0 && axis + table->rank != 0) || !out->elements)
    return cpu_launch_gather_axis(s, l, error);
  gather_job j = {.kernels = &s->kernels,
                  .table = table->data,
                  .index = kit_i32(index),
                  .y = out->data,
                  .rows = index->elements};
  j.cols = table->dim[0] ? table->elements / table->dim[0] : 0;
  j.scale = out->dtype == ACCEL_PLUGIN_F32
                ? (float)kit_attr_f(l->node, ACCEL_PLUGIN_ATTR_SCALE, 1.0)
                : 1.0f;
  if (!j.table && s->weight[table->weight].by_rows) {
    j.reader = l->host;
    j.weight = (uint32_t)table->weight;
  } else if (!j.table && s->weight[table->weight].panels) {
    j.linear = &s->linear[s->weight[table->weight].panels - 1];
    j.shape = cpu_linear_shape(&s->kernels, j.linear);
  } else if (!j.table) {
    j.matrix = &s->weight[table->weight].table;
  }
  if (j.matrix && by_value(j.matrix)) find_values(&j);
  for (int64_t i = 0; i < j.rows; i++)
    if (j.index[i] < 0 || j.index[i] >= table->dim[0])
      return kit_launch_fail(l, error, ACCEL_PLUGIN_E_ARGUMENT,
                             "index %d at position %lld is outside 0..%lld", j.index[i],
                             (long long)i, (long long)table->dim[0] - 1);
  if (l->n_fused) return cpu_launch_gathered_matmul(s, l);
  const double cost = (j.matrix || j.linear ? NS_WIDEN : NS_COPY) * (double)j.cols;
  j.tasks = cpu_tasks(l, j.rows, j.reader ? NS_READ : cost);
  cpu_parallel(l, j.tasks, gather_task, &j);
  if (!atomic_load(&j.failed)) return ACCEL_PLUGIN_OK;
  return kit_fail(error, j.error.rc, -1, "%s", j.error.message);
}
