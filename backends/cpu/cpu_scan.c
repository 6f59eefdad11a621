/* cpu_scan.c - selective_scan: a task takes a vector of columns of one sequence through all its
 * rows, their states at hand. */
#include "cpu_scan.h"

#include <string.h>

#include "kit/kit_scalar.h"

enum { X, DT, A, B, C, D, Z, DT_BIAS };

typedef struct job {
  const kit_launch *l;
  const cpu_kernels *kernels;
  const kit_rows *rows;
  kit_state_view *state; /* [items], or NULL */
  float *workspace;      /* [workers][scratch_floats] */
  /* p columns a head, cut into blocks of a vector (without rates: per head) */
  int64_t heads, p, n, groups, blocks, scratch_floats;
  cpu_scan g;
  uint32_t tasks;
} job;

static const float *row_of(const job *j, int operand, int64_t row, int64_t col) {
  const kit_tensor *t = &j->l->in[operand];
  return kit_has(t) ? kit_f32(t) + row * t->row_stride + col : NULL;
}

static const float *part_of(const job *j, int operand, int64_t at) {
  const kit_tensor *t = &j->l->in[operand];
  return kit_has(t) ? kit_f32(t) + at : NULL;
}

static void run_block(const job *j, int32_t item, int64_t block, float *workspace) {
  const int64_t vector = j->kernels->vector, per = (j->p + vector - 1) / vector, head = block / per,
                first = block % per * vector, col = head * j->p + first,
                cols = j->p - first < vector ? j->p - first : vector;
  const int64_t row = j->rows->start[item],
                group = j->g.rates ? 0 : head / (j->heads / j->groups) * j->n;
  const int64_t own = j->g.rates ? col : head; /* index of dt, a, d, dt_bias */
  cpu_scan g = j->g;
  g.rows = j->rows->start[item + 1] - row;
  g.x = row_of(j, X, row, col);
  g.dt = row_of(j, DT, row, own);
  g.b = row_of(j, B, row, group);
  g.c = row_of(j, C, row, group);
  g.z = row_of(j, Z, row, col);
  g.a = part_of(j, A, g.rates ? col * j->n : head);
  g.d = part_of(j, D, own);
  g.dt_bias = part_of(j, DT_BIAS, own);
  g.y += row * g.ldy + col;
  if (j->state && j->state[item].current)
    g.current = (const float *)j->state[item].current + col * j->n;
  if (j->state && j->state[item].next) g.next = (float *)j->state[item].next + col * j->n;
  j->kernels->scan(&g, cols, workspace);
}

static void scan_task(void *arg, uint32_t index, uint32_t worker) {
  const job *j = arg;
  const int64_t all = j->rows->items * j->blocks;
  for (int64_t i = cpu_share(all, index, j->tasks); i < cpu_share(all, index + 1, j->tasks); i++)
    run_block(j, (int32_t)(i / j->blocks), i % j->blocks,
              j->workspace + worker * j->scratch_floats);
}

int64_t cpu_states_floats(const kit_launch *l) {
  const int64_t space = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_SPACE, -1),
                items = space >= 0 ? l->dim[l->program->space[space].items] : 1;
  return (items * (int64_t)(sizeof(kit_state_view) / sizeof(float)) + 15) / 16 * 16;
}

int32_t cpu_states_take(const kit_launch *l, const kit_rows *rows, uint64_t cells,
                        kit_state_view **out, accel_plugin_error *error) {
  int32_t rc = ACCEL_PLUGIN_OK;
  if (l->node->state < 0) return rc;
  *out = l->workspace;
  for (int32_t item = 0; !rc && item < rows->items; item++) {
    (*out)[item] = (kit_state_view){0};
    rc = kit_state_step(l, (uint32_t)item, rows->start[item + 1] - rows->start[item], cells,
                        &(*out)[item], error);
  }
  return rc;
}

static int64_t scratch_floats_of(const cpu_kernels *k, const kit_launch *l) {
  return 2 * kit_cols(&l->in[B]) * k->vector;
}

/* The states of the items, then scratch memory for each worker. */
uint64_t cpu_scan_workspace(const cpu_self *self, const cpu_kernels *k, const kit_launch *l,
                            uint32_t workers) {
  (void)self;
  return (uint64_t)(cpu_states_floats(l) + (workers ? workers : 1) * scratch_floats_of(k, l)) *
         sizeof(float);
}

int32_t cpu_launch_scan(const cpu_self *s, const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *x = &l->in[X], *a = &l->in[A], *b = &l->in[B];
  int32_t whole[2];
  kit_rows rows = kit_rows_of(l, ACCEL_PLUGIN_ATTR_SPACE, x->dim[0], whole);
  job j = {.l = l, .kernels = &s->kernels, .rows = &rows, .heads = a->dim[0]};
  bool rates = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_VERSION, 1) == 1;
  const int64_t cols = kit_cols(x), vector = s->kernels.vector;
  j.groups = rates ? 1 : kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_GROUPS, 1);
  if (j.heads < 1 || j.groups < 1 || cols % j.heads || j.heads % j.groups ||
      kit_cols(b) % j.groups || (rates && cols != j.heads))
    return kit_scalar(ACCEL_PLUGIN_OP_SELECTIVE_SCAN)(l, error);
  j.p = rates ? cols : cols / j.heads; /* with rates all columns are alike: one head of them */
  j.n = kit_cols(b) / j.groups;
  j.blocks = (j.p + vector - 1) / vector * (rates ? 1 : j.heads);
  j.scratch_floats = scratch_floats_of(&s->kernels, l);
  j.workspace = (float *)l->workspace + cpu_states_floats(l);
  j.g = (cpu_scan){.y = kit_f32(&l->out[0]),
                   .ldx = x->row_stride,
                   .ldt = l->in[DT].row_stride,
                   .ldb = b->row_stride,
                   .ldc = l->in[C].row_stride,
                   .ldz = l->in[Z].row_stride,
                   .ldy = cols,
                   .n = j.n,
                   .rates = rates,
                   .softplus = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_DT_SOFTPLUS, 0) != 0,
                   .low = (float)kit_attr_f(l->node, ACCEL_PLUGIN_ATTR_DT_MIN, -INFINITY),
                   .high = (float)kit_attr_f(l->node, ACCEL_PLUGIN_ATTR_DT_MAX, INFINITY)};
  int32_t rc = cpu_states_take(l, &rows, (uint64_t)(cols * j.n), &j.state, error);
  if (rc) return rc;
  const int64_t all = rows.items * j.blocks;
  if (!all || !cols) return ACCEL_PLUGIN_OK;
  double each = (double)j.n * (double)vector * (rates ? 0.6 : 0.2) * (double)rows.rows /
                (double)(rows.items ? rows.items : 1);
  j.tasks = cpu_tasks(l, all, each);
  cpu_parallel(l, j.tasks, scan_task, &j);
  return ACCEL_PLUGIN_OK;
}
