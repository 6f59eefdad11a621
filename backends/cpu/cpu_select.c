/* cpu_select.c - softmax and reduce over any axis, topk, scatter_rows, gather along any axis. */
#include "cpu_select.h"

#include <stdlib.h>
#include <string.h>

#include "kit/kit_scalar.h"

static const double NS_FOLDED = 0.25, NS_EXP = 1.5, NS_MOVED = 0.3;

/* ---- along an axis: [outer][n][inner] ---- */

enum { COLUMNS = 64 }; /* of inner, in one task's piece */

typedef struct axis_job {
  const cpu_kernels *kernels;
  kit_around a;
  const float *x, *weight;
  float *y;
  const int32_t *start; /* rows of item o instead of n of them; NULL: none */
  int32_t kind;         /* of a reduction; -1: softmax */
  int32_t logarithm;
  int64_t pieces;
  uint32_t tasks;
} axis_job;

static void fold_piece(const axis_job *j, int64_t o, int64_t c, int64_t cols) {
  const int64_t first = j->start ? j->start[o] : o * j->a.n,
                n = j->start ? j->start[o + 1] - first : j->a.n;
  const float *x = j->x + first * j->a.inner + c,
              *weight = j->weight ? j->weight + (j->start ? first : 0) : NULL;
  float *y = j->y + o * j->a.inner + c;
  if (!n)
    memset(y, 0, (size_t)cols * sizeof *y);
  else if (j->a.inner == 1)
    j->kernels->fold_row(j->kind, x, n, weight, y);
  else
    j->kernels->fold(j->kind, x, n, j->a.inner, weight, y, cols);
}

static void axis_task(void *arg, uint32_t task, uint32_t worker) {
  const axis_job *j = arg;
  const int64_t all = j->a.outer * j->pieces;
  (void)worker;
  for (int64_t i = cpu_share(all, task, j->tasks); i < cpu_share(all, task + 1, j->tasks); i++) {
    const int64_t o = i / j->pieces, c = i % j->pieces * COLUMNS,
                  cols = j->a.inner - c < COLUMNS ? j->a.inner - c : COLUMNS;
    const int64_t at = o * j->a.n * j->a.inner + c;
    if (j->kind < 0)
      j->kernels->softmax_columns(j->x + at, j->y + at, j->a.n, j->a.inner, cols, j->logarithm);
    else
      fold_piece(j, o, c, cols);
  }
}

static int32_t run_axis(const kit_launch *l, axis_job *j, double cost) {
  j->pieces = (j->a.inner + COLUMNS - 1) / COLUMNS;
  int64_t all = j->a.outer * j->pieces;
  if (!all) return ACCEL_PLUGIN_OK;
  j->tasks = cpu_tasks(l, all, 10 + cost * (double)l->in[0].elements / (double)all);
  cpu_parallel(l, j->tasks, axis_task, j);
  return ACCEL_PLUGIN_OK;
}

int32_t cpu_launch_softmax_axis(const cpu_self *s, const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *x = &l->in[0];
  (void)error;
  axis_job j = {.kernels = &s->kernels,
                .a = kit_split(x, kit_axis(l->node, -1, x->rank)),
                .x = kit_f32(x),
                .y = kit_f32(&l->out[0]),
                .kind = -1,
                .logarithm = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_LOG, 0) != 0};
  if (!x->elements) return ACCEL_PLUGIN_OK;
  return run_axis(l, &j, NS_EXP);
}

int32_t cpu_launch_fold(const cpu_self *s, const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *x = &l->in[0];
  if (x->dtype != ACCEL_PLUGIN_F32 || !x->elements ||
      (kit_has(&l->in[1]) && l->in[1].dtype != ACCEL_PLUGIN_F32))
    return kit_scalar(ACCEL_PLUGIN_OP_REDUCE)(l, error);
  axis_job j = {
      .kernels = &s->kernels,
      .x = kit_f32(x),
      .weight = kit_f32(&l->in[1]),
      .y = kit_f32(&l->out[0]),
      .kind = (int32_t)kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_KIND, ACCEL_PLUGIN_REDUCE_SUM)};
  bool sums = j.kind == ACCEL_PLUGIN_REDUCE_SUM || j.kind == ACCEL_PLUGIN_REDUCE_MEAN;
  if (!sums) j.weight = NULL;
  if (kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_SPACE, -1) >= 0) {
    kit_rows rows = kit_rows_of(l, ACCEL_PLUGIN_ATTR_SPACE, x->dim[0], NULL);
    j.a = (kit_around){rows.items, 0, x->elements / x->dim[0]};
    j.start = rows.start;
  } else {
    j.a = kit_split(x, kit_axis(l->node, -1, x->rank));
  }
  return run_axis(l, &j, NS_FOLDED);
}

/* ---- topk ---- */

typedef struct topk_job {
  const cpu_kernels *kernels;
  const float *x;
  float *values, *scratch; /* scratch: [workers][k] values and indices */
  int32_t *indices;
  int64_t rows, n, k;
  bool sorted;
  uint32_t tasks;
} topk_job;

/* Place of v behind all that are not smaller: ties go to the lower index, which came first. */
static int64_t place(const float *best, int64_t n, float v) {
  int64_t low = 0, high = n;
  while (low < high) {
    int64_t middle = (low + high) / 2;
    if (best[middle] >= v)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static float ranked(float v) { return v == v ? v : INFINITY; }

/* best[k] and at[k], largest first.  Blocks whose largest is not above the last of them are
 * skipped. */
static void topk_row(const topk_job *j, const float *x, float *best, int32_t *at) {
  enum { BLOCK = 128 };
  int64_t have = 0;
  for (int64_t i = 0; i < j->n; i += BLOCK) {
    const int64_t stop = i + BLOCK < j->n ? i + BLOCK : j->n;
    float most;
    if (have == j->k) {
      j->kernels->fold_row(ACCEL_PLUGIN_REDUCE_MAX, x + i, stop - i, NULL, &most);
      if (ranked(most) <= best[have - 1]) continue;
    }
    for (int64_t c = i; c < stop; c++) {
      const float v = ranked(x[c]);
      if (have == j->k && v <= best[have - 1]) continue;
      const int64_t to = place(best, have, v), moved = (have < j->k ? have : j->k - 1) - to;
      memmove(best + to + 1, best + to, (size_t)moved * sizeof *best);
      memmove(at + to + 1, at + to, (size_t)moved * sizeof *at);
      best[to] = v;
      at[to] = (int32_t)c;
      have += have < j->k;
    }
  }
}

static int ascending(const void *a, const void *b) {
  int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
  return (x > y) - (x < y);
}

static void topk_task(void *arg, uint32_t task, uint32_t worker) {
  const topk_job *j = arg;
  float *best = j->scratch + (int64_t)worker * 2 * j->k;
  int32_t *at = (int32_t *)(best + j->k);
  for (int64_t r = cpu_share(j->rows, task, j->tasks); r < cpu_share(j->rows, task + 1, j->tasks);
       r++) {
    topk_row(j, j->x + r * j->n, best, at);
    if (!j->sorted) qsort(at, (size_t)j->k, sizeof *at, ascending);
    for (int64_t i = 0; i < j->k; i++) {
      if (j->values) j->values[r * j->k + i] = j->x[r * j->n + at[i]];
      if (j->indices) j->indices[r * j->k + i] = at[i];
    }
  }
}

uint64_t cpu_topk_workspace(const cpu_self *self, const cpu_kernels *kernels, const kit_launch *l,
                            uint32_t workers) {
  (void)self;
  (void)kernels;
  int64_t k = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_K, 1);
  return k < 1 || k > kit_cols(&l->in[0])
             ? 0
             : (uint64_t)(workers ? workers : 1) * (uint64_t)k * 2 * sizeof(float);
}

int32_t cpu_launch_topk(const cpu_self *s, const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *x = &l->in[0];
  topk_job j = {.kernels = &s->kernels,
                .x = kit_f32(x),
                .values = kit_f32(&l->out[0]),
                .indices = kit_i32(&l->out[1]),
                .scratch = l->workspace,
                .rows = kit_row_count(x),
                .n = kit_cols(x),
                .k = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_K, 1),
                .sorted = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_SORTED, 1) != 0};
  if (x->dtype != ACCEL_PLUGIN_F32 || j.k < 1 || j.k > j.n)
    return kit_scalar(ACCEL_PLUGIN_OP_TOPK)(l, error);
  j.tasks = cpu_tasks(l, j.rows, NS_FOLDED * (double)j.n + 20 * (double)j.k);
  cpu_parallel(l, j.tasks, topk_task, &j);
  return ACCEL_PLUGIN_OK;
}

/* ---- scatter_rows ---- */

typedef struct scatter_job {
  const cpu_kernels *kernels;
  const float *dst, *src;
  float *y;
  const int32_t *index;
  int64_t n, cols, elements;
  bool add;
  uint32_t tasks;
} scatter_job;

static void copy_task(void *arg, uint32_t task, uint32_t worker) {
  const scatter_job *j = arg;
  int64_t from = cpu_share(j->elements, task, j->tasks),
          n = cpu_share(j->elements, task + 1, j->tasks) - from;
  (void)worker;
  memcpy(j->y + from, j->dst + from, (size_t)n * sizeof *j->y);
}

/* Some columns of every row: duplicates meet in order. */
static void scatter_task(void *arg, uint32_t task, uint32_t worker) {
  const scatter_job *j = arg;
  int64_t from = cpu_share(j->cols, task, j->tasks),
          n = cpu_share(j->cols, task + 1, j->tasks) - from;
  (void)worker;
  for (int64_t k = 0; k < j->n; k++) {
    float *y = j->y + j->index[k] * j->cols + from;
    const float *x = j->src + k * j->cols + from;
    if (j->add)
      j->kernels->accumulate(1.0f, x, y, n);
    else
      memcpy(y, x, (size_t)n * sizeof *y);
  }
}

int32_t cpu_launch_scatter(const cpu_self *s, const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *dst = &l->in[0], *idx = &l->in[1], *src = &l->in[2], *out = &l->out[0];
  scatter_job j = {.kernels = &s->kernels,
                   .dst = kit_f32(dst),
                   .src = kit_f32(src),
                   .y = kit_f32(out),
                   .index = kit_i32(idx),
                   .n = idx->elements,
                   .cols = kit_cols(dst),
                   .elements = dst->elements,
                   .add = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_SCATTER_MODE, 0) == 1};
  const int64_t rows = kit_row_count(dst);
  /* it says what is wrong */
  for (int64_t i = 0; i < j.n; i++)
    if (j.index[i] < 0 || j.index[i] >= rows) return kit_scalar(l->node->op)(l, error);
  if (j.add && out->dtype != ACCEL_PLUGIN_F32) return kit_scalar(l->node->op)(l, error);
  if (j.y != j.dst) {
    j.tasks = cpu_tasks(l, j.elements, NS_MOVED);
    cpu_parallel(l, j.tasks, copy_task, &j);
  }
  if (!j.n || !j.cols) return ACCEL_PLUGIN_OK;
  j.tasks = cpu_tasks(l, j.cols < 64 ? 1 : j.cols, NS_MOVED * (double)j.n);
  cpu_parallel(l, j.tasks, scatter_task, &j);
  return ACCEL_PLUGIN_OK;
}

/* ---- gather along an axis ---- */

typedef struct gather_job {
  const cpu_kernels *kernels;
  kit_around a;
  const float *table;
  const int32_t *index;
  float *y;
  int64_t n;
  float scale;
  uint32_t tasks;
} gather_job;

/* Places [from, to) of outer item o. */
static void gather_run(const gather_job *j, int64_t o, int64_t from, int64_t to) {
  const int64_t inner = j->a.inner, n = to - from;
  const int32_t *index = j->index + from;
  const float *x = j->table + o * j->a.n * inner;
  float *y = j->y + (o * j->n + from) * inner;
  if (inner == 1) {
    const int32_t *in = (const int32_t *)x;
    int32_t *out = (int32_t *)y;
    for (int64_t i = 0; i < n; i++) out[i] = in[index[i]];
  } else {
    for (int64_t i = 0; i < n; i++)
      memcpy(y + i * inner, x + index[i] * inner, (size_t)inner * sizeof *x);
  }
  if (j->scale != 1.0f)
    j->kernels->binary(ACCEL_PLUGIN_BINARY_MUL, y, 1, &j->scale, 0, y, n * inner);
}

static void gather_task(void *arg, uint32_t task, uint32_t worker) {
  const gather_job *j = arg;
  const int64_t all = j->a.outer * j->n, last = cpu_share(all, task + 1, j->tasks);
  (void)worker;
  for (int64_t i = cpu_share(all, task, j->tasks); i < last;) {
    const int64_t o = i / j->n, from = i - o * j->n,
                  to = last - i < j->n - from ? from + last - i : j->n;
    gather_run(j, o, from, to);
    i += to - from;
  }
}

int32_t cpu_launch_gather_axis(const cpu_self *s, const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *table = &l->in[0], *idx = &l->in[1], *out = &l->out[0];
  gather_job j = {.kernels = &s->kernels,
                  .a = kit_split(table, kit_axis(l->node, 0, table->rank)),
                  .table = kit_f32(table),
                  .index = kit_i32(idx),
                  .y = kit_f32(out),
                  .n = idx->elements};
  j.scale = out->dtype == ACCEL_PLUGIN_F32
                ? (float)kit_attr_f(l->node, ACCEL_PLUGIN_ATTR_SCALE, 1.0)
                : 1.0f;
  /* it says what is wrong */
  for (int64_t i = 0; i < j.n; i++)
    if (j.index[i] < 0 || j.index[i] >= j.a.n) return kit_scalar(l->node->op)(l, error);
  if (!out->elements) return ACCEL_PLUGIN_OK;
  j.tasks = cpu_tasks(l, j.a.outer * j.n, 1 + NS_MOVED * (double)j.a.inner);
  cpu_parallel(l, j.tasks, gather_task, &j);
  return ACCEL_PLUGIN_OK;
}
