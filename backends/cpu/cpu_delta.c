/* cpu_delta.c - gated_delta_rule: a task takes columns of a head of v of one sequence through all
 * its rows. */
#include "cpu_delta.h"

#include "cpu_scan.h"
#include "kit/kit_scalar.h"

enum { Q, K, V, G, BETA };

typedef struct job {
  const kit_launch *l;
  const cpu_kernels *kernels;
  const kit_rows *rows;
  kit_delta of;
  kit_state_view *state; /* [items], or NULL */
  float *workspace;      /* [workers][scratch_floats] */
  int64_t parts;         /* of the columns of a head, each `wide` but the last */
  int64_t wide, scratch_floats;
  uint32_t tasks;
  bool bf16; /* factors of sequences that are long enough are rounded */
} job;

/* Rows of a sequence and columns of a key below which products of tiles do not pay. */
enum { LEAST_ROWS = 24, LEAST_DEPTH = 32 };

static const float *row_of(const job *j, int operand, int64_t row, int64_t col) {
  const kit_tensor *t = &j->l->in[operand];
  return kit_f32(t) + row * t->row_stride + col;
}

/* Columns from `at` of a head. */
static void run_part(const job *j, int32_t item, int64_t head, int64_t at, float *workspace) {
  const kit_delta *d = &j->of;
  const kit_tensor *in = j->l->in;
  const int64_t row = j->rows->start[item], shared = head / (d->v_heads / d->heads) * d->k_dim,
                cell = head * d->k_dim * d->v_dim + at,
                cols = d->v_dim - at < j->wide ? d->v_dim - at : j->wide;
  cpu_delta g = {.q = row_of(j, Q, row, shared),
                 .k = row_of(j, K, row, shared),
                 .v = row_of(j, V, row, head * d->v_dim + at),
                 .g = row_of(j, G, row, head),
                 .beta = row_of(j, BETA, row, head),
                 .y = kit_f32(&j->l->out[0]) + (row * d->v_heads + head) * d->v_dim + at,
                 .ldq = in[Q].row_stride,
                 .ldk = in[K].row_stride,
                 .ldv = in[V].row_stride,
                 .ldg = in[G].row_stride,
                 .ldbeta = in[BETA].row_stride,
                 .ldy = d->v_heads * d->v_dim,
                 .rows = j->rows->start[item + 1] - row,
                 .dk = d->k_dim,
                 .lds = d->v_dim,
                 .eps = (float)d->eps,
                 .scale = (float)d->scale};
  if (j->state && j->state[item].current) g.current = (const float *)j->state[item].current + cell;
  if (j->state && j->state[item].next) g.next = (float *)j->state[item].next + cell;
  if (j->bf16 && g.rows >= LEAST_ROWS)
    j->kernels->delta_bf16(&g, cols, workspace);
  else
    j->kernels->delta(&g, cols, workspace);
}

static void delta_task(void *arg, uint32_t index, uint32_t worker) {
  const job *j = arg;
  const int64_t each = j->of.v_heads * j->parts, all = j->rows->items * each;
  for (int64_t i = cpu_share(all, index, j->tasks); i < cpu_share(all, index + 1, j->tasks); i++)
    run_part(j, (int32_t)(i / each), i % each / j->parts, i % j->parts * j->wide,
             j->workspace + worker * j->scratch_floats);
}

/* s NULL: there is no model yet, and this is what may be. */
static bool takes_bf16(const cpu_self *s, const cpu_kernels *k, const kit_delta *d) {
  return (!s || s->bf16 || s->codes) && k->delta_bf16 && d->k_dim >= LEAST_DEPTH;
}

static int64_t scratch_floats(const cpu_self *s, const cpu_kernels *k, const kit_delta *d) {
  const int64_t exact = cpu_delta_floats(d->k_dim, d->v_dim, k->vector),
                bf16 =
                    takes_bf16(s, k, d) ? cpu_delta_bf16_floats(d->k_dim, d->v_dim, k->vector) : 0;
  return cpu_delta_rounded(exact > bf16 ? exact : bf16, 16);
}

uint64_t cpu_delta_workspace(const cpu_self *self, const cpu_kernels *k, const kit_launch *l,
                             uint32_t workers) {
  kit_delta d;
  if (kit_delta_of(l, &d, NULL)) return 0;
  return (uint64_t)(cpu_states_floats(l) + (workers ? workers : 1) * scratch_floats(self, k, &d)) *
         sizeof(float);
}

/* Blocks of columns are tasks of their own where there are too few heads for the workers. */
static void cut(job *j) {
  const int64_t block = CPU_DELTA_VECTORS * j->kernels->vector,
                heads = j->rows->items * j->of.v_heads, blocks = (j->of.v_dim + block - 1) / block,
                wanted = 2 * (int64_t)cpu_workers(j->l);
  const int64_t parts = heads < wanted ? (wanted + heads - 1) / heads : 1;
  j->wide = (blocks + parts - 1) / parts * block;
  j->parts = (j->of.v_dim + j->wide - 1) / j->wide;
}

int32_t cpu_launch_delta(const cpu_self *s, const kit_launch *l, accel_plugin_error *error) {
  int32_t whole[2];
  kit_rows rows = kit_rows_of(l, ACCEL_PLUGIN_ATTR_SPACE, l->in[Q].dim[0], whole);
  job j = {.l = l, .kernels = &s->kernels, .rows = &rows};
  int32_t rc = kit_delta_of(l, &j.of, error);
  if (!rc) rc = cpu_states_take(l, &rows, kit_delta_cells(&j.of), &j.state, error);
  if (rc || rows.items < 1) return rc;
  cut(&j);
  j.bf16 = takes_bf16(s, &s->kernels, &j.of);
  j.scratch_floats = scratch_floats(s, &s->kernels, &j.of);
  j.workspace = (float *)l->workspace + cpu_states_floats(l);
  const int64_t all = rows.items * j.of.v_heads * j.parts;
  const double cells = (double)j.of.k_dim * (double)j.wide,
               each = 0.1 * cells * (1.0 + (double)rows.rows / (double)rows.items);
  j.tasks = cpu_tasks(l, all, each);
  cpu_parallel(l, j.tasks, delta_task, &j);
  return ACCEL_PLUGIN_OK;
}
