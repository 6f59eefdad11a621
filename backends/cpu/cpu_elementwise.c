/* cpu_elementwise.c - binary ops under any broadcasting, with pow and where; sine and cosine;
 * cast. */
#include "cpu_elementwise.h"

#include <string.h>

#include "kit/kit_scalar.h"

static const double NS_SIMPLE = 0.3, NS_POWER = 8, NS_WAVE = 1;

enum { OPERANDS = 3 };

/* Result dims, joined where all operands allow it, and every operand's elements from one index to
 * the next. */
typedef struct nest {
  const cpu_kernels *kernels;
  int64_t kind, dim[ACCEL_PLUGIN_MAX_RANK], step[OPERANDS][ACCEL_PLUGIN_MAX_RANK], rows;
  int rank;
  bool real_mask, whole; /* the mask is F32; operands and results are I32 */
  const float *x[OPERANDS];
  float *y;
  uint32_t tasks;
} nest;

static void steps(const kit_tensor *t, const kit_tensor *out, int64_t *step) {
  int64_t n = 1;
  for (int i = 0; i < out->rank; i++) step[i] = 0;
  for (int i = 1; i <= t->rank && i <= out->rank; i++) {
    if (t->dim[t->rank - i] > 1) step[out->rank - i] = n;
    n *= t->dim[t->rank - i];
  }
}

static bool fuse_parallel(const nest *n, int left, int i) {
  for (int k = 0; k < OPERANDS; k++)
    if (n->step[k][left] != n->step[k][i] * n->dim[i]) return false;
  return true;
}

static void join_dims(nest *n) {
  int at = 0;
  for (int i = 0; i < n->rank; i++) {
    if (n->dim[i] == 1) continue;
    int to = at && fuse_parallel(n, at - 1, i) ? at - 1 : at;
    n->dim[to] = to < at ? n->dim[to] * n->dim[i] : n->dim[i];
    for (int k = 0; k < OPERANDS; k++) n->step[k][to] = n->step[k][i];
    if (to == at) at++;
  }
  if (!at) {
    n->dim[at] = 1;
    for (int k = 0; k < OPERANDS; k++) n->step[k][at] = 0;
    at = 1;
  }
  n->rank = at;
}

/* The result wraps around, as two's complement does. */
static void whole_row(int64_t kind, const int32_t *a, int64_t sa, const int32_t *b, int64_t sb,
                      int32_t *y, int64_t cols) {
#define ROW(expression)                         \
  for (int64_t i = 0; i < cols; i++) {          \
    const int32_t p = a[i * sa], q = b[i * sb]; \
    y[i] = (int32_t)(expression);               \
  }                                             \
  break
  switch (kind) {
    case ACCEL_PLUGIN_BINARY_ADD:
      ROW((uint32_t)p + (uint32_t)q);
    case ACCEL_PLUGIN_BINARY_SUB:
      ROW((uint32_t)p - (uint32_t)q);
    case ACCEL_PLUGIN_BINARY_MUL:
      ROW((uint32_t)p * (uint32_t)q);
    case ACCEL_PLUGIN_BINARY_MIN:
      ROW(p < q ? p : q);
    case ACCEL_PLUGIN_BINARY_MAX:
      ROW(p > q ? p : q);
  }
#undef ROW
}

/* `cols` elements of the result, those of operand k `step[k]` apart. */
static void run_row(const nest *n, const float *const x[OPERANDS], const int64_t step[OPERANDS],
                    float *y, int64_t cols) {
  const int32_t a = (int32_t)step[0], b = (int32_t)step[1], c = (int32_t)step[2];
  if (n->whole)
    whole_row(n->kind, (const int32_t *)(const void *)x[0], a, (const int32_t *)(const void *)x[1],
              b, (int32_t *)(void *)y, cols);
  else if (n->kind == ACCEL_PLUGIN_BINARY_WHERE)
    n->kernels->choose(n->real_mask, x[0], a, x[1], b, x[2], c, y, cols);
  else if (n->kind == ACCEL_PLUGIN_BINARY_POW)
    n->kernels->power(x[0], a, x[1], b, y, cols);
  else
    n->kernels->binary((int32_t)n->kind, x[0], a, x[1], b, y, cols);
}

static void nest_task(void *arg, uint32_t task, uint32_t worker) {
  const nest *n = arg;
  const int last = n->rank - 1;
  const int64_t cols = n->dim[last];
  (void)worker;
  for (int64_t r = cpu_share(n->rows, task, n->tasks); r < cpu_share(n->rows, task + 1, n->tasks);
       r++) {
    const float *x[OPERANDS] = {n->x[0], n->x[1], n->x[2]};
    for (int64_t i = last - 1, index = r; i >= 0; index /= n->dim[i--])
      for (int k = 0; k < OPERANDS && x[k]; k++) x[k] += index % n->dim[i] * n->step[k][i];
    run_row(n, x, (int64_t[]){n->step[0][last], n->step[1][last], n->step[2][last]},
            n->y + r * cols, cols);
  }
}

/* ---- short rows: operands that repeat themselves are laid out for several of them at once ---- */

enum { MOST_PERIOD = 512, PATTERN = 2 * MOST_PERIOD };

/* Elements of the result from dim `at` on. */
static int64_t elements_from(const nest *n, int at) {
  int64_t all = 1;
  for (; at < n->rank; at++) all *= n->dim[at];
  return all;
}

/* The dim from which on operand k's elements depend on the index: 0 where it has as many as the
 * result.  They must lie as the result's do, or repeat after those dims; else -1. */
static int depends_from(const nest *n, int k) {
  int at = 0;
  bool dense = true;
  while (at < n->rank && !n->step[k][at]) at++;
  for (int i = 0; i < n->rank; i++) dense &= n->step[k][i] == elements_from(n, i + 1);
  return dense ? 0 : at > 0 ? at : -1;
}

/* The elements after which all operands that do repeat themselves do; 0: rows are long, or there is
 * another kind of operand, or too many elements. */
static int64_t period_of(const nest *n) {
  int64_t period = 1;
  if (n->rank < 2 || n->dim[n->rank - 1] >= CPU_SHORT_ROW) return 0;
  for (int k = 0; k < OPERANDS && n->x[k]; k++) {
    const int from = depends_from(n, k);
    if (from < 0) return 0;
    if (from && elements_from(n, from) > period) period = elements_from(n, from);
  }
  return period <= MOST_PERIOD ? period : 0;
}

/* Operand k for `cols` elements of the result, whole periods. */
static void lay_pattern(const nest *n, int k, int64_t cols, float *to) {
  for (int64_t e = 0; e < cols; e++) {
    int64_t at = 0;
    for (int64_t i = n->rank - 1, index = e; i > 0; index /= n->dim[i--])
      at += index % n->dim[i] * n->step[k][i];
    memcpy(&to[e], &n->x[k][at], sizeof *to); /* masks may be integers */
  }
}

static int64_t chunk_of(int64_t period) { return PATTERN / period * period; }

static void pattern_task(void *arg, uint32_t task, uint32_t worker) {
  const nest *n = arg;
  const int64_t chunk = chunk_of(period_of(n)), all = elements_from(n, 0),
                chunks = (all + chunk - 1) / chunk, one[OPERANDS] = {1, 1, 1};
  float pattern[OPERANDS][PATTERN];
  bool repeats[OPERANDS] = {false};
  (void)worker;
  for (int k = 0; k < OPERANDS && n->x[k]; k++) {
    repeats[k] = depends_from(n, k) > 0;
    if (repeats[k]) lay_pattern(n, k, chunk < all ? chunk : all, pattern[k]);
  }
  for (int64_t c = cpu_share(chunks, task, n->tasks); c < cpu_share(chunks, task + 1, n->tasks);
       c++) {
    const int64_t at = c * chunk, left = all - at;
    const float *x[OPERANDS] = {NULL};
    for (int k = 0; k < OPERANDS && n->x[k]; k++) x[k] = repeats[k] ? pattern[k] : n->x[k] + at;
    run_row(n, x, one, n->y + at, left < chunk ? left : chunk);
  }
}

/* One long row: cut, so that the threads share it. */
static void merge_dims(nest *n) {
  int64_t parts = 1;
  if (n->rank > 1) return;
  while (n->dim[0] % 2 == 0 && n->dim[0] > 8192) n->dim[0] /= 2, parts *= 2;
  if (parts == 1) return;
  n->dim[1] = n->dim[0];
  n->dim[0] = parts;
  for (int k = 0; k < OPERANDS; k++) {
    n->step[k][1] = n->step[k][0];
    n->step[k][0] *= n->dim[1];
  }
  n->rank = 2;
}

/* Operands and results that a row of the kernels takes. */
static bool takes_rows(const kit_launch *l, nest *n) {
  const uint8_t a = l->in[0].dtype, b = l->in[1].dtype, y = l->out[0].dtype;
  if (n->kind == ACCEL_PLUGIN_BINARY_WHERE) return kit_has(&l->in[2]);
  n->whole = a == ACCEL_PLUGIN_I32 && b == a && y == a && n->kind != ACCEL_PLUGIN_BINARY_DIV &&
             n->kind != ACCEL_PLUGIN_BINARY_POW;
  return n->kind >= ACCEL_PLUGIN_BINARY_ADD && n->kind < ACCEL_PLUGIN_BINARY_WHERE &&
         (n->whole || (a == ACCEL_PLUGIN_F32 && b == a && y == a));
}

int32_t cpu_launch_nest(const cpu_self *s, const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *out = &l->out[0];
  nest n = {.kernels = &s->kernels,
            .kind = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_KIND, 0),
            .rank = out->rank,
            .rows = 1};
  const bool where = n.kind == ACCEL_PLUGIN_BINARY_WHERE;
  if (!takes_rows(l, &n)) return kit_scalar(ACCEL_PLUGIN_OP_BINARY)(l, error);
  if (!out->elements) return ACCEL_PLUGIN_OK;
  n.real_mask = l->in[0].dtype == ACCEL_PLUGIN_F32;
  n.y = kit_f32(out);
  memcpy(n.dim, out->dim, sizeof n.dim);
  for (int k = 0; k < (where ? 3 : 2); k++) {
    n.x[k] = kit_f32(&l->in[k]);
    steps(&l->in[k], out, n.step[k]);
  }
  join_dims(&n);
  merge_dims(&n);
  for (int i = 0; i < n.rank - 1; i++) n.rows *= n.dim[i];
  double each = n.kind == ACCEL_PLUGIN_BINARY_POW ? NS_POWER : NS_SIMPLE;
  if (period_of(&n)) {
    const int64_t chunk = chunk_of(period_of(&n));
    n.tasks = cpu_tasks(l, (elements_from(&n, 0) + chunk - 1) / chunk, each * (double)chunk);
    cpu_parallel(l, n.tasks, pattern_task, &n);
    return ACCEL_PLUGIN_OK;
  }
  n.tasks = cpu_tasks(l, n.rows, 4 + each * (double)n.dim[n.rank - 1]);
  cpu_parallel(l, n.tasks, nest_task, &n);
  return ACCEL_PLUGIN_OK;
}

/* ---- one operand ---- */

typedef struct flat_job {
  const cpu_kernels *kernels;
  const kit_tensor *x, *out;
  int32_t cosine;
  bool cast;
  uint32_t tasks;
} flat_job;

static void flat_task(void *arg, uint32_t task, uint32_t worker) {
  const flat_job *j = arg;
  int64_t from = cpu_share(j->x->elements, task, j->tasks),
          n = cpu_share(j->x->elements, task + 1, j->tasks) - from;
  (void)worker;
  if (!j->cast)
    j->kernels->wave(j->cosine, kit_f32(j->x) + from, kit_f32(j->out) + from, n);
  else if (j->x->dtype == j->out->dtype)
    memmove(kit_f32(j->out) + from, kit_f32(j->x) + from, (size_t)n * sizeof(float));
  else if (j->out->dtype == ACCEL_PLUGIN_I32)
    j->kernels->to_int(kit_f32(j->x) + from, kit_i32(j->out) + from, n);
  else
    j->kernels->to_float(kit_i32(j->x) + from, kit_f32(j->out) + from, n);
}

static int32_t run_flat(const kit_launch *l, flat_job *j) {
  j->x = &l->in[0];
  j->out = &l->out[0];
  j->tasks = cpu_tasks(l, j->x->elements, j->cast ? NS_SIMPLE : NS_WAVE);
  cpu_parallel(l, j->tasks, flat_task, j);
  return ACCEL_PLUGIN_OK;
}

int32_t cpu_launch_wave(const cpu_self *s, const kit_launch *l, accel_plugin_error *error) {
  int64_t kind = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_KIND, -1);
  if (l->in[0].dtype != ACCEL_PLUGIN_F32 ||
      (kind != ACCEL_PLUGIN_UNARY_SIN && kind != ACCEL_PLUGIN_UNARY_COS))
    return kit_scalar(ACCEL_PLUGIN_OP_UNARY)(l, error);
  flat_job j = {.kernels = &s->kernels, .cosine = kind == ACCEL_PLUGIN_UNARY_COS};
  return run_flat(l, &j);
}

int32_t cpu_launch_cast(const cpu_self *s, const kit_launch *l, accel_plugin_error *error) {
  (void)error;
  flat_job j = {.kernels = &s->kernels, .cast = true};
  return run_flat(l, &j);
}
