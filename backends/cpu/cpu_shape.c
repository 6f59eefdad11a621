/* cpu_shape.c - transpose, slice, broadcast, concat, pad: elements of 4 bytes move, none is
 * computed. */
#include "cpu_shape.h"

#include <string.h>

#include "cpu_codes.h"
#include "kit/kit_scalar.h"

static const double NS_MOVED = 0.4; /* an element, about */

/* out[at] = x[sum at[i] * step[i]], dims of 1 gone and neighbours joined where they can be. */
typedef struct moves {
  const cpu_kernels *kernels;
  const float *x;
  float *y;
  int rank;
  int64_t dim[ACCEL_PLUGIN_MAX_RANK], step[ACCEL_PLUGIN_MAX_RANK];
  int across;                   /* dim whose step is 1 while the last one's is not; -1 none */
  int64_t outer, piece, pieces; /* of dim `across`: elements of a task's piece, and how many */
  uint32_t tasks;
} moves;

static void join(moves *m) {
  int n = 0;
  for (int i = 0; i < m->rank; i++) {
    if (m->dim[i] == 1) continue;
    if (n && m->step[n - 1] == m->step[i] * m->dim[i]) {
      m->dim[n - 1] *= m->dim[i];
      m->step[n - 1] = m->step[i];
    } else {
      m->dim[n] = m->dim[i];
      m->step[n++] = m->step[i];
    }
  }
  if (!n) m->dim[n] = 1, m->step[n++] = 1;
  m->rank = n;
}

static void copy_row(const float *x, int64_t step, float *y, int64_t n) {
  if (step == 1) {
    memcpy(y, x, (size_t)n * sizeof *y);
  } else if (step == 0) {
    int32_t value;
    memcpy(&value, x, sizeof value);
    for (int64_t i = 0; i < n; i++) ((int32_t *)y)[i] = value;
  } else {
    for (int64_t i = 0; i < n; i++) ((int32_t *)y)[i] = ((const int32_t *)x)[i * step];
  }
}

/* Outer index -> offsets in x and y; the last dim and `across` stay at 0. */
static void offsets(const moves *m, int64_t index, int64_t *x, int64_t *y) {
  int64_t stride = m->dim[m->rank - 1];
  *x = *y = 0;
  for (int i = m->rank - 2; i >= 0; stride *= m->dim[i--]) {
    if (i == m->across) continue;
    *x += index % m->dim[i] * m->step[i];
    *y += index % m->dim[i] * stride;
    index /= m->dim[i];
  }
}

static int64_t stride_of(const moves *m, int i) {
  int64_t stride = 1;
  for (int k = m->rank - 1; k > i; k--) stride *= m->dim[k];
  return stride;
}

static void moves_task(void *arg, uint32_t task, uint32_t worker) {
  const moves *m = arg;
  const int64_t cols = m->dim[m->rank - 1], step = m->step[m->rank - 1], all = m->outer * m->pieces;
  int64_t x, y;
  (void)worker;
  for (int64_t i = cpu_share(all, task, m->tasks); i < cpu_share(all, task + 1, m->tasks); i++) {
    offsets(m, i / m->pieces, &x, &y);
    if (m->across < 0) {
      copy_row(m->x + x, step, m->y + y, cols);
      continue;
    }
    const int64_t ldy = stride_of(m, m->across), row = i % m->pieces * m->piece,
                  rows = m->dim[m->across] - row < m->piece ? m->dim[m->across] - row : m->piece;
    m->kernels->transpose(m->x + x + row, step, m->y + y + row * ldy, ldy, rows, cols);
  }
}

/* The dim that lies in neighbouring elements of x, when the last one does not. */
static int across_of(const moves *m) {
  if (m->step[m->rank - 1] <= 1) return -1;
  for (int i = m->rank - 2; i >= 0; i--)
    if (m->step[i] == 1 && m->dim[i] >= 4) return i;
  return -1;
}

static void move(const cpu_self *s, const kit_launch *l, int64_t first, const int64_t *step) {
  const kit_tensor *out = &l->out[0];
  moves m = {.kernels = &s->kernels,
             .x = kit_f32(&l->in[0]) + first,
             .y = kit_f32(out),
             .rank = out->rank,
             .outer = 1,
             .piece = 64,
             .pieces = 1};
  if (!out->elements) return;
  memcpy(m.dim, out->dim, sizeof m.dim);
  memcpy(m.step, step, sizeof m.step);
  join(&m);
  m.across = across_of(&m);
  for (int i = 0; i < m.rank - 1; i++) m.outer *= i == m.across ? 1 : m.dim[i];
  if (m.across >= 0) m.pieces = (m.dim[m.across] + m.piece - 1) / m.piece;
  if (m.rank == 1 && m.step[0] <= 1) { /* one long row: cut anywhere */
    while (m.dim[0] % 2 == 0 && m.dim[0] > 8192) m.dim[0] /= 2, m.outer *= 2;
    m.rank = m.outer > 1 ? 2 : 1;
    if (m.rank == 2)
      m.dim[1] = m.dim[0], m.step[1] = m.step[0], m.dim[0] = m.outer,
      m.step[0] = m.step[1] * m.dim[1];
  }
  m.tasks = cpu_tasks(l, m.outer * m.pieces,
                      NS_MOVED * (double)out->elements / (double)(m.outer * m.pieces));
  cpu_parallel(l, m.tasks, moves_task, &m);
}

int32_t cpu_launch_move(const cpu_self *s, const kit_launch *l, accel_plugin_error *error) {
  kit_moves m;
  const int32_t rc = kit_moves_of(l, &m, error);
  if (!rc) move(s, l, m.first, m.step);
  return rc;
}

/* ---- concat ---- */

typedef struct join_job {
  const float *x;
  float *y;
  /* elements of a row of the operand, of the result; pieces a row is cut into */
  int64_t outer, from, to, cut;
  uint32_t tasks;
} join_job;

static void concat_task(void *arg, uint32_t task, uint32_t worker) {
  const join_job *j = arg;
  const int64_t all = j->outer * j->cut;
  (void)worker;
  for (int64_t i = cpu_share(all, task, j->tasks); i < cpu_share(all, task + 1, j->tasks); i++) {
    const int64_t row = i / j->cut, at = j->from * (i % j->cut) / j->cut,
                  end = j->from * (i % j->cut + 1) / j->cut;
    memcpy(j->y + row * j->to + at, j->x + row * j->from + at, (size_t)(end - at) * sizeof *j->y);
  }
}

int32_t cpu_launch_concat(const cpu_self *s, const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *out = &l->out[0];
  int64_t axis = kit_axis(l->node, 0, out->rank), all = 0;
  kit_around whole = kit_split(out, axis);
  if (cpu_codes_of(&s->convs, l->node->out[0])) return cpu_launch_codes(s, l);
  for (uint32_t k = 0; k < l->node->n_in; k++)
    if (kit_has(&l->in[k])) all += l->in[k].dim[axis];
  if (all != whole.n) return kit_scalar(l->node->op)(l, error); /* it says what is wrong */
  float *y = kit_f32(out);
  for (uint32_t k = 0; k < l->node->n_in; k++) {
    if (!kit_has(&l->in[k])) continue;
    join_job j = {
        .x = kit_f32(&l->in[k]), .y = y, .outer = whole.outer, .to = whole.n * whole.inner};
    j.from = l->in[k].dim[axis] * whole.inner;
    y += j.from;
    if (!l->in[k].elements) continue;
    j.cut = j.outer < 8 ? 8 : 1;
    j.tasks = cpu_tasks(l, j.outer * j.cut, NS_MOVED * (double)j.from / (double)j.cut);
    cpu_parallel(l, j.tasks, concat_task, &j);
  }
  return ACCEL_PLUGIN_OK;
}

/* ---- pad ---- */

typedef struct pad_job {
  const kit_tensor *x, *out;
  int64_t kind, before[ACCEL_PLUGIN_MAX_RANK], step[ACCEL_PLUGIN_MAX_RANK], rows;
  int32_t fill;
  uint32_t tasks;
} pad_job;

/* Source index along a dim of n; -1: the constant. */
static int64_t padded_index(int64_t kind, int64_t i, int64_t n) {
  if (i >= 0 && i < n) return i;
  if (kind == ACCEL_PLUGIN_PAD_EDGE) return i < 0 ? 0 : n - 1;
  if (kind == ACCEL_PLUGIN_PAD_REFLECT) return i < 0 ? -i : 2 * (n - 1) - i;
  return -1;
}

/* One row of the last dim; from NULL: all constant. */
static void pad_row(const pad_job *j, const int32_t *from, int32_t *y) {
  const int last = j->x->rank - 1;
  const int64_t n = j->x->dim[last], before = j->before[last], cols = kit_cols(j->out);
  int64_t i = 0;
  for (; i < (from ? before : cols); i++) {
    int64_t at = from ? padded_index(j->kind, i - before, n) : -1;
    y[i] = at < 0 ? j->fill : from[at];
  }
  if (!from) return;
  memcpy(y + i, from, (size_t)n * sizeof *y);
  for (i += n; i < cols; i++) {
    int64_t at = padded_index(j->kind, i - before, n);
    y[i] = at < 0 ? j->fill : from[at];
  }
}

static void pad_task(void *arg, uint32_t task, uint32_t worker) {
  const pad_job *j = arg;
  (void)worker;
  for (int64_t r = cpu_share(j->rows, task, j->tasks); r < cpu_share(j->rows, task + 1, j->tasks);
       r++) {
    int64_t index = r, from = 0;
    for (int i = j->x->rank - 2; i >= 0; i--) {
      int64_t at = padded_index(j->kind, index % j->out->dim[i] - j->before[i], j->x->dim[i]);
      index /= j->out->dim[i];
      from = at < 0 || from < 0 ? -1 : from + at * j->step[i];
    }
    pad_row(j, from < 0 ? NULL : kit_i32(j->x) + from, kit_i32(j->out) + r * kit_cols(j->out));
  }
}

int32_t cpu_launch_pad(const cpu_self *s, const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *x = &l->in[0], *out = &l->out[0];
  pad_job j = {.x = x,
               .out = out,
               .kind = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_KIND, ACCEL_PLUGIN_PAD_CONSTANT)};
  (void)s;
  if (!x->elements || !out->elements || !x->rank) return kit_scalar(l->node->op)(l, error);
  const int32_t rc = kit_pads_of(l, j.before, error);
  if (rc) return rc;
  j.fill = (int32_t)kit_pad_value(l);
  kit_strides(x, j.step);
  j.rows = kit_row_count(out);
  j.tasks = cpu_tasks(l, j.rows, NS_MOVED * (double)kit_cols(out) + 5);
  cpu_parallel(l, j.tasks, pad_task, &j);
  return ACCEL_PLUGIN_OK;
}
