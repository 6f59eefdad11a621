/* cpu_rows.c - norm, softmax, elementwise ops, reduce, rope: launches that hand rows to kernels. */
#include "cpu_rows.h"

#include <string.h>

#include "cpu_codes.h"
#include "cpu_elementwise.h"
#include "cpu_select.h"

/* Elements of one row-wise task are at least this many, and costs below are rough nanoseconds an
 * element. */
static const double NS_COPY = 0.15, NS_NORM = 0.3, NS_EXP = 0.7;

/* ---- norm ---- */

typedef struct norm_job {
  cpu_norm g;
  cpu_norm_fn *run;
  int64_t rows;
  uint32_t tasks;
} norm_job;

static void norm_task(void *arg, uint32_t i, uint32_t worker) {
  const norm_job *j = arg;
  (void)worker;
  j->run(&j->g, cpu_share(j->rows, i, j->tasks), cpu_share(j->rows, i + 1, j->tasks));
}

int32_t cpu_launch_norm(const cpu_self *s, const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *x = &l->in[0];
  const accel_plugin_node *n = l->node;
  int64_t cols = kit_cols(x), groups = kit_attr_i(n, ACCEL_PLUGIN_ATTR_GROUPS, 1);
  int32_t kind = (int32_t)kit_attr_i(n, ACCEL_PLUGIN_ATTR_NORM_KIND, ACCEL_PLUGIN_NORM_LAYER);
  if (groups < 1 || cols % groups || !x->elements)
    return kit_scalar(ACCEL_PLUGIN_OP_NORM)(l, error);
  norm_job j = {.run = s->kernels.norm, .rows = kit_row_count(x)};
  j.g = (cpu_norm){.x = kit_f32(x),
                   .residual = kit_f32(&l->in[3]),
                   .gamma = kit_f32(&l->in[1]),
                   .beta = kit_f32(&l->in[2]),
                   .y = kit_f32(&l->out[0]),
                   .sum = kit_f32(&l->out[1]),
                   .ldx = x->row_stride,
                   .ldr = cols,
                   .ldy = cols,
                   .size = cols / groups,
                   .groups = groups,
                   .kind = kind,
                   .eps = (float)kit_attr_f(n, ACCEL_PLUGIN_ATTR_EPS,
                                            kind == ACCEL_PLUGIN_NORM_L2 ? 1e-12 : 1e-5),
                   .gamma_offset = (float)kit_attr_f(n, ACCEL_PLUGIN_ATTR_GAMMA_OFFSET, 0.0)};
  j.tasks = cpu_tasks(l, j.rows, NS_NORM * (double)cols);
  cpu_parallel(l, j.tasks, norm_task, &j);
  return ACCEL_PLUGIN_OK;
}

/* ---- softmax ---- */

typedef struct softmax_job {
  const float *x;
  float *y;
  int64_t rows, cols;
  int32_t logarithm;
  cpu_softmax_fn *run;
  uint32_t tasks;
} softmax_job;

static void softmax_task(void *arg, uint32_t i, uint32_t worker) {
  const softmax_job *j = arg;
  (void)worker;
  for (int64_t r = cpu_share(j->rows, i, j->tasks); r < cpu_share(j->rows, i + 1, j->tasks); r++)
    j->run(j->x + r * j->cols, j->y + r * j->cols, j->cols, j->logarithm);
}

int32_t cpu_launch_softmax(const cpu_self *s, const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *x = &l->in[0];
  int64_t axis = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_AXIS, -1);
  if ((axis != -1 && axis != (int64_t)x->rank - 1) || !x->elements)
    return cpu_launch_softmax_axis(s, l, error);
  softmax_job j = {.x = kit_f32(x),
                   .y = kit_f32(&l->out[0]),
                   .rows = kit_row_count(x),
                   .cols = kit_cols(x),
                   .run = s->kernels.softmax,
                   .logarithm = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_LOG, 0) != 0};
  j.tasks = cpu_tasks(l, j.rows, NS_EXP * (double)j.cols);
  cpu_parallel(l, j.tasks, softmax_task, &j);
  return ACCEL_PLUGIN_OK;
}

/* ---- unary ---- */

typedef struct unary_job {
  const cpu_kernels *kernels;
  int32_t kind;
  float alpha, beta;
  const float *x;
  float *y;
  int64_t n;
  uint32_t tasks;
} unary_job;

static void unary_task(void *arg, uint32_t i, uint32_t worker) {
  const unary_job *j = arg;
  int64_t from = cpu_share(j->n, i, j->tasks), n = cpu_share(j->n, i + 1, j->tasks) - from;
  (void)worker;
  if (j->kind < 20)
    j->kernels->activate(j->kind, j->alpha, j->x + from, j->y + from, n);
  else
    j->kernels->unary(j->kind, j->alpha, j->beta, j->x + from, j->y + from, n);
}

int32_t cpu_launch_unary(const cpu_self *s, const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *x = &l->in[0];
  if (cpu_codes_of(&s->convs, l->node->out[0])) return cpu_launch_codes(s, l);
  unary_job j = {.kernels = &s->kernels,
                 .kind = (int32_t)kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_KIND, -1),
                 .x = kit_f32(x),
                 .y = kit_f32(&l->out[0]),
                 .n = x->elements};
  bool known = j.kind >= 0 && j.kind <= ACCEL_PLUGIN_ACT_SWIGLU_OAI;
  if (!known && j.kind >= 20) known = s->kernels.unary(j.kind, 0, 0, NULL, NULL, 0) != 0;
  if (x->dtype != ACCEL_PLUGIN_F32 || !known) return cpu_launch_wave(s, l, error);
  j.alpha = kit_unary_alpha(l->node, j.kind);
  j.beta = kit_unary_beta(l->node, j.kind);
  j.tasks = cpu_tasks(l, j.n, NS_EXP);
  cpu_parallel(l, j.tasks, unary_task, &j);
  return ACCEL_PLUGIN_OK;
}

/* ---- binary ---- */

typedef struct binary_job {
  cpu_binary_fn *run;
  int32_t kind;
  const float *a, *b;
  float *y;
  int64_t rows, cols;
  int64_t a_row, b_row; /* elements from one row to the next; 0: the same row again */
  int32_t a_step, b_step;
  uint32_t tasks;
} binary_job;

static void binary_task(void *arg, uint32_t i, uint32_t worker) {
  const binary_job *j = arg;
  (void)worker;
  for (int64_t r = cpu_share(j->rows, i, j->tasks); r < cpu_share(j->rows, i + 1, j->tasks); r++)
    j->run(j->kind, j->a + r * j->a_row, j->a_step, j->b + r * j->b_row, j->b_step,
           j->y + r * j->cols, j->cols);
}

/* Steps of an operand against the result: it must be whole, one row repeated, one column repeated,
 * or one number. */
static bool steps(const kit_tensor *t, const kit_tensor *out, int64_t *row, int32_t *step) {
  int64_t cols = kit_cols(out), rows = kit_row_count(out);
  *step = kit_cols(t) == cols;
  if (!*step && kit_cols(t) != 1) return false;
  if (t->elements == kit_cols(t)) {
    *row = 0;
    return true;
  }
  *row = kit_cols(t);
  return kit_row_count(t) == rows && t->elements == rows * kit_cols(t);
}

int32_t cpu_launch_binary(const cpu_self *s, const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *a = &l->in[0], *b = &l->in[1], *out = &l->out[0];
  if (cpu_codes_of(&s->convs, l->node->out[0])) return cpu_launch_codes(s, l);
  binary_job j = {.run = s->kernels.binary,
                  .kind = (int32_t)kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_KIND, 0),
                  .a = kit_f32(a),
                  .b = kit_f32(b),
                  .y = kit_f32(out),
                  .rows = kit_row_count(out),
                  .cols = kit_cols(out)};
  bool fits = out->dtype == ACCEL_PLUGIN_F32 && a->dtype == ACCEL_PLUGIN_F32 &&
              b->dtype == ACCEL_PLUGIN_F32 && out->elements;
  if (!fits || j.kind < ACCEL_PLUGIN_BINARY_ADD || j.kind > ACCEL_PLUGIN_BINARY_MAX ||
      (j.cols < CPU_SHORT_ROW && j.rows > 1) || !steps(a, out, &j.a_row, &j.a_step) ||
      !steps(b, out, &j.b_row, &j.b_step))
    return cpu_launch_nest(s, l, error);
  if (j.a_row == j.cols && j.b_row == j.cols && j.a_step && j.b_step &&
      j.rows * j.cols > 1) { /* one long row, cut anywhere */
    int64_t cut = 4096;
    if (out->elements % cut == 0) {
      j.rows = out->elements / cut;
      j.cols = j.a_row = j.b_row = cut;
    }
  }
  j.tasks = cpu_tasks(l, j.rows, NS_COPY * (double)j.cols);
  cpu_parallel(l, j.tasks, binary_task, &j);
  return ACCEL_PLUGIN_OK;
}

/* ---- reduce: sums and means over the rows of each sequence ---- */

typedef struct reduce_job {
  const cpu_kernels *kernels;
  const float *x, *weight;
  float *y;
  const int32_t *start;
  int64_t items, cols;
  bool mean;
  uint32_t tasks;
} reduce_job;

static void reduce_task(void *arg, uint32_t i, uint32_t worker) {
  const reduce_job *j = arg;
  (void)worker;
  for (int64_t b = cpu_share(j->items, i, j->tasks); b < cpu_share(j->items, i + 1, j->tasks);
       b++) {
    float *y = j->y + b * j->cols, weights = 0;
    memset(y, 0, (size_t)j->cols * sizeof *y);
    for (int32_t r = j->start[b]; r < j->start[b + 1]; r++) {
      float w = j->weight ? j->weight[r] : 1.0f;
      j->kernels->accumulate(w, j->x + r * j->cols, y, j->cols);
      weights += w;
    }
    float factor = 1.0f / (weights > 1e-9f ? weights : 1e-9f);
    if (j->mean) j->kernels->binary(ACCEL_PLUGIN_BINARY_MUL, y, 1, &factor, 0, y, j->cols);
  }
}

int32_t cpu_launch_reduce(const cpu_self *s, const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *x = &l->in[0];
  int64_t kind = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_KIND, ACCEL_PLUGIN_REDUCE_SUM);
  bool sums = kind == ACCEL_PLUGIN_REDUCE_SUM || kind == ACCEL_PLUGIN_REDUCE_MEAN;
  if (!sums || kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_SPACE, -1) < 0 ||
      x->dtype != ACCEL_PLUGIN_F32 || !x->elements ||
      (kit_has(&l->in[1]) && l->in[1].dtype != ACCEL_PLUGIN_F32))
    return cpu_launch_fold(s, l, error);
  kit_rows rows = kit_rows_of(l, ACCEL_PLUGIN_ATTR_SPACE, x->dim[0], NULL);
  reduce_job j = {.kernels = &s->kernels,
                  .x = kit_f32(x),
                  .weight = kit_f32(&l->in[1]),
                  .y = kit_f32(&l->out[0]),
                  .start = rows.start,
                  .items = rows.items,
                  .cols = x->elements / x->dim[0],
                  .mean = kind == ACCEL_PLUGIN_REDUCE_MEAN};
  j.tasks = cpu_tasks(l, j.items, NS_COPY * (double)x->elements / (double)(j.items ? j.items : 1));
  cpu_parallel(l, j.tasks, reduce_task, &j);
  return ACCEL_PLUGIN_OK;
}

/* ---- rope ---- */

typedef struct rope_job {
  cpu_rope g;
  cpu_rope_fn *run;
  float *table;
  int64_t rows;
  uint32_t tasks;
} rope_job;

static void rope_task(void *arg, uint32_t i, uint32_t worker) {
  const rope_job *j = arg;
  j->run(&j->g, cpu_share(j->rows, i, j->tasks), cpu_share(j->rows, i + 1, j->tasks),
         j->table + (int64_t)worker * 2 * j->g.pairs);
}

static int64_t rope_pairs(const kit_launch *l, int64_t *head) {
  *head = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_HEAD_DIM, kit_cols(&l->in[0]));
  return kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_ROT_DIMS, *head) / 2;
}

/* Frequencies; for three lines of positions (M-RoPE) a 1 and the angles of each row; one table a
 * worker. */
uint64_t cpu_rope_workspace(const cpu_self *self, const cpu_kernels *kernels,
                            const kit_launch *shapes, uint32_t workers) {
  (void)self;
  (void)kernels;
  int64_t head, pairs = rope_pairs(shapes, &head),
                rows = shapes->in[1].rank == 2 ? kit_row_count(&shapes->in[0]) : 0;
  return pairs > 0 ? ((uint64_t)pairs * (1 + 2 * (uint64_t)workers) +
                      (uint64_t)rows * (uint64_t)(pairs + 1)) *
                         sizeof(float)
                   : 0;
}

/* Angles of rows whose pairs follow the line of positions that their section names, as frequencies
 * of position 1. */
static void rope_angles(const kit_launch *l, cpu_rope *g, int64_t rows, int32_t *one,
                        float *angle) {
  const int64_t *section, n = kit_attr_iv(l->node, ACCEL_PLUGIN_ATTR_SECTIONS, &section),
                          lines = l->in[1].dim[0];
  for (int64_t t = 0; t < rows; t++) one[t] = 1;
  for (int64_t i = 0, k = 0, end = n ? section[0] : g->pairs; i < g->pairs; i++) {
    while (k + 1 < n && i >= end) end += section[++k];
    const int32_t *position = g->position + k % lines * rows;
    for (int64_t t = 0; t < rows; t++)
      angle[t * g->pairs + i] = (float)position[t] * g->frequency[t * g->step + i];
  }
  g->position = one;
  g->frequency = angle;
  g->step = g->pairs;
}

int32_t cpu_launch_rope(const cpu_self *s, const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *x = &l->in[0], *position = &l->in[1], *frequency = &l->in[2];
  rope_job j = {.run = s->kernels.rope, .rows = kit_row_count(x)};
  int64_t head, pairs = rope_pairs(l, &head);
  if (position->rank > 2 || position->dtype != ACCEL_PLUGIN_I32 || pairs < 1 || 2 * pairs > head ||
      kit_cols(x) % head || !x->elements)
    return kit_scalar(ACCEL_PLUGIN_OP_ROPE)(l, error);
  float *own = l->workspace;
  j.table = own + pairs;
  for (int64_t i = 0; !kit_has(frequency) && i < pairs; i++)
    own[i] = (float)pow(kit_attr_f(l->node, ACCEL_PLUGIN_ATTR_THETA, 10000.0),
                        -(double)i / (double)pairs);
  j.g =
      (cpu_rope){.x = kit_f32(x),
                 .frequency = kit_has(frequency) ? kit_f32(frequency) : own,
                 .step = kit_has(frequency) && frequency->rank == 2 ? frequency->row_stride : 0,
                 .y = kit_f32(&l->out[0]),
                 .position = kit_i32(position),
                 .ldx = x->row_stride,
                 .ldy = kit_cols(x),
                 .cols = kit_cols(x),
                 .head = head,
                 .pairs = pairs,
                 .interleaved = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_ROPE_STYLE,
                                           ACCEL_PLUGIN_ROPE_HALF) == ACCEL_PLUGIN_ROPE_INTERLEAVED,
                 .mscale = (float)kit_attr_f(l->node, ACCEL_PLUGIN_ATTR_MSCALE, 1.0)};
  if (position->rank == 2) {
    rope_angles(l, &j.g, j.rows, (int32_t *)j.table, j.table + j.rows);
    j.table += j.rows * (pairs + 1);
  }
  j.tasks = cpu_tasks(l, j.rows, NS_NORM * (double)j.g.cols + 2 * (double)pairs);
  cpu_parallel(l, j.tasks, rope_task, &j);
  return ACCEL_PLUGIN_OK;
}
