/* attention.c - attention over packed ragged rows: one task is a run of (sequence, head) pairs, or a stretch of one's query
 * rows.
 *
 * Sessions (nodes with a state) and positions that a bias table cannot be indexed with go to the scalar kernel.  Blocks of
 * rows start at fixed places of their sequence, so results do not depend on how many tasks there are. */
#include <string.h>

#include "cpu.h"

enum { Q, K, VALUE, BIAS, Q_POS, KV_POS, MASK, SINKS, REL_K, REL_Q };

typedef struct job {
  const cpu_self *s;
  const kit_launch *l;
  cpu_attention base; /* what all heads and sequences share */
  cpu_attention_fn *run;
  int64_t heads, kv_heads, period;
  int32_t bias_kind;
  bool positions; /* explicit ones */
  kit_rows q, kv;
  const int64_t *probs;
  uint32_t n_probs;
  float *relative; /* [heads][relative_stride]: bias by distance */
  int64_t relative_stride;
  float *rel_k, *rel_q; /* [heads][relative_columns * dk] packed */
  float *workspace;     /* per worker */
  int64_t workspace_floats;
  uint32_t tasks, chunks; /* chunks: stretches of each unit's rows; 0: tasks share out whole units */
} job;

/* ---- sizes ---- */

typedef struct sizes {
  int64_t heads, kv_heads, dk, dv, longest; /* longest: bound on the rows of any one sequence */
  int64_t relative_columns;                 /* disentangled: whole panels of relative rows */
  uint64_t shared, worker;                  /* floats */
} sizes;

static int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

static bool is_t5(int64_t kind) {
  return kind == ACCEL_PLUGIN_BIAS_T5_BIDIRECTIONAL || kind == ACCEL_PLUGIN_BIAS_T5_UNIDIRECTIONAL;
}

/* Distances i - j of sequences up to `longest` rows, as rows of rel_k and rel_q: first, and how many in whole panels. */
static int64_t relative_span(const accel_plugin_node *n, int64_t longest, int64_t panel_cols, int64_t *first) {
  int32_t span = (int32_t)kit_attr_i(n, ACCEL_PLUGIN_ATTR_REL_SPAN, 0),
          buckets = (int32_t)kit_attr_i(n, ACCEL_PLUGIN_ATTR_REL_BUCKETS, 0);
  int32_t distance = (int32_t)kit_attr_i(n, ACCEL_PLUGIN_ATTR_MAX_DISTANCE, 128);
  int64_t far = longest > 0 ? longest - 1 : 0;
  *first = kit_deberta_row(-far, span, buckets, distance);
  return round_up(kit_deberta_row(far, span, buckets, distance) - *first + 1, panel_cols);
}

static sizes measure(const cpu_kernels *k, const kit_launch *l, int64_t longest, uint32_t workers) {
  const accel_plugin_node *n = l->node;
  sizes s = {.heads = kit_attr_i(n, ACCEL_PLUGIN_ATTR_HEADS, 1), .longest = longest};
  int64_t kind = kit_attr_i(n, ACCEL_PLUGIN_ATTR_BIAS_KIND, ACCEL_PLUGIN_BIAS_NONE), first;
  s.kv_heads = kit_attr_i(n, ACCEL_PLUGIN_ATTR_KV_HEADS, s.heads);
  if (s.heads < 1 || s.kv_heads < 1) return (sizes){0};
  s.dk = kit_cols(&l->in[K]) / s.kv_heads;
  s.dv = kit_cols(&l->in[VALUE]) / s.kv_heads;
  uint64_t shared = 0;
  if (is_t5(kind) || kind == ACCEL_PLUGIN_BIAS_ALIBI) shared = (uint64_t)s.heads * 2 * (uint64_t)(longest + 16);
  if (kind == ACCEL_PLUGIN_BIAS_DISENTANGLED) {
    s.relative_columns = relative_span(n, longest, k->panel_cols, &first);
    shared = (uint64_t)s.heads * 2 * (uint64_t)(s.relative_columns * s.dk) + 2 * (uint64_t)(longest + 16);
  }
  cpu_attention_plan p = cpu_attention_layout(longest, s.dk, s.dv, s.relative_columns, k->tile_rows, k->panel_cols);
  s.shared = (uint64_t)round_up((int64_t)shared, 16);
  s.worker = (uint64_t)round_up(p.all, 16);
  (void)workers;
  return s;
}

/* A block's scores are largest for some middle length: bounded apart from what grows with the keys. */
static uint64_t bounded(uint64_t worker) { return worker + 65536 + 16 * 1024; }

static bool ours(const kit_launch *l) {
  return l->node->state < 0 && kit_has(&l->in[Q]) && kit_has(&l->in[K]) && kit_has(&l->in[VALUE]);
}

uint64_t cpu_attention_workspace(const cpu_kernels *kernels, const kit_launch *shapes, uint32_t workers) {
  if (!ours(shapes)) return 0;
  int64_t q = kit_row_count(&shapes->in[Q]), k = kit_row_count(&shapes->in[K]);
  sizes s = measure(kernels, shapes, q > k ? q : k, workers);
  return (s.shared + bounded(s.worker) * (workers ? workers : 1)) * sizeof(float);
}

/* ---- positions ---- */

/* Every sequence's positions run first, first+1, ...: then only differences matter, and they are those of row numbers. */
static bool consecutive(const kit_rows *rows, const int32_t *position, int32_t *first, int32_t item) {
  int32_t start = rows->start[item], n = rows->start[item + 1] - start;
  *first = n ? position[start] : 0;
  for (int32_t i = 1; i < n; i++)
    if (position[start + i] != (int64_t)*first + i) return false;
  return true;
}

static bool explicit_positions(const kit_launch *l, const kit_rows *q, const kit_rows *kv) {
  const int32_t *qp = kit_i32(&l->in[Q_POS]), *kp = kit_i32(&l->in[KV_POS]);
  for (int32_t i = 0; i < q->items && (qp || kp); i++) {
    int32_t a = 0, b = 0;
    if (qp && !consecutive(q, qp, &a, i)) return true;
    if (kp && !consecutive(kv, kp, &b, i)) return true;
    if (a != b && q->start[i + 1] > q->start[i] && kv->start[i + 1] > kv->start[i]) return true;
  }
  return false;
}

/* Explicit positions are compared as floats, which are exact below 2^24. */
static bool exact(const kit_tensor *position) {
  for (int64_t i = 0; i < position->elements; i++)
    if (kit_i32(position)[i] >= 1 << 24 || kit_i32(position)[i] <= -(1 << 24)) return false;
  return true;
}

/* ---- tables shared by all tasks ---- */

static void make_relative(job *j, const kit_launch *l, float *at, int64_t longest) {
  const float *bias = kit_f32(&l->in[BIAS]);
  int32_t buckets = (int32_t)kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_NUM_BUCKETS, 32),
          far = (int32_t)kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_MAX_DISTANCE, 128);
  j->relative = at;
  j->relative_stride = 2 * longest;
  j->base.relative_origin = longest;
  for (int64_t d = -longest; d < longest; d++) { /* key - query */
    int32_t bucket =
        is_t5(j->bias_kind) ? kit_t5_bucket(d, j->bias_kind == ACCEL_PLUGIN_BIAS_T5_BIDIRECTIONAL, buckets, far) : 0;
    for (int64_t h = 0; h < j->heads; h++)
      at[h * j->relative_stride + d + longest] = is_t5(j->bias_kind) ? bias[bucket * j->heads + h] : bias[h] * (float)d;
  }
}

typedef struct pack_job {
  const job *j;
  uint32_t tasks;
} pack_job;

static void pack_head(const job *j, const kit_tensor *table, int64_t h, float *to) {
  const cpu_kernels *k = &j->s->kernels;
  const int64_t dk = j->base.dk, ld = kit_cols(table), first = j->base.relative_first, stored = table->dim[0];
  for (int64_t c = 0; c < j->base.relative_columns; c += k->vector) {
    int64_t have = stored - (first + c);
    have = have < 0 ? 0 : have > k->vector ? k->vector : have;
    k->pack(kit_f32(table) + (have ? (first + c) * ld + h * dk : 0), ld, have, dk,
            to + c / k->panel_cols * k->panel_cols * dk + c % k->panel_cols, k->panel_cols);
  }
}

static void pack_task(void *arg, uint32_t i, uint32_t worker) {
  const pack_job *p = arg;
  const job *j = p->j;
  const int64_t size = j->base.relative_columns * j->base.dk;
  (void)worker;
  for (int64_t h = cpu_share(j->heads, i, p->tasks); h < cpu_share(j->heads, i + 1, p->tasks); h++) {
    if (j->rel_k) pack_head(j, &j->l->in[REL_K], h, j->rel_k + h * size);
    if (j->rel_q) pack_head(j, &j->l->in[REL_Q], h, j->rel_q + h * size);
  }
}

static void make_disentangled(job *j, const kit_launch *l, const sizes *s, float *at) {
  const accel_plugin_node *n = l->node;
  int32_t span = (int32_t)kit_attr_i(n, ACCEL_PLUGIN_ATTR_REL_SPAN, 0),
          buckets = (int32_t)kit_attr_i(n, ACCEL_PLUGIN_ATTR_REL_BUCKETS, 0);
  int32_t distance = (int32_t)kit_attr_i(n, ACCEL_PLUGIN_ATTR_MAX_DISTANCE, 128);
  int32_t *row = (int32_t *)at;
  j->base.relative_columns = relative_span(n, s->longest, j->s->kernels.panel_cols, &j->base.relative_first);
  j->base.relative_origin = s->longest;
  for (int64_t d = -s->longest; d < s->longest; d++) { /* query - key; the ends are never asked for */
    int64_t inside = d == -s->longest ? d + 1 : d;
    row[d + s->longest] = kit_deberta_row(inside, span, buckets, distance);
  }
  j->base.relative_row = row;
  at += 2 * (s->longest + 16);
  if (kit_has(&l->in[REL_K])) j->rel_k = at;
  if (kit_has(&l->in[REL_Q])) j->rel_q = at + s->heads * s->relative_columns * s->dk;
  pack_job p = {.j = j, .tasks = cpu_tasks(l, j->heads, 0.5 * (double)(s->relative_columns * s->dk))};
  cpu_parallel(l, p.tasks, pack_task, &p);
}

/* ---- tasks ---- */

static void run_unit(const job *j, int32_t item, int64_t h, int64_t row, int64_t row_end, float *workspace) {
  const kit_launch *l = j->l;
  const kit_tensor *q = &l->in[Q], *k = &l->in[K], *v = &l->in[VALUE], *out = &l->out[0], *bias = &l->in[BIAS],
                   *probs = &l->out[1];
  const int64_t qs = j->q.start[item], ks = j->kv.start[item], g = h / (j->heads / j->kv_heads);
  cpu_attention a = j->base;
  a.q = kit_f32(q) + qs * q->row_stride + h * a.dk;
  a.k = kit_f32(k) + ks * k->row_stride + g * a.dk;
  a.v = kit_f32(v) + ks * v->row_stride + g * a.dv;
  a.y = kit_f32(out) + qs * kit_cols(out) + h * a.dv;
  a.ldq = q->row_stride;
  a.ldk = k->row_stride;
  a.ldv = v->row_stride;
  a.ldy = kit_cols(out);
  a.keys = j->kv.start[item + 1] - ks;
  if (j->positions) {
    a.query_position = kit_i32(&l->in[Q_POS]) + qs;
    a.key_position = kit_i32(&l->in[KV_POS]) + ks;
    if (j->bias_kind == ACCEL_PLUGIN_BIAS_ALIBI) a.slope = kit_f32(bias)[h];
  }
  if (kit_has(&l->in[MASK])) a.mask = kit_i32(&l->in[MASK]) + ks;
  if (kit_has(&l->in[SINKS])) a.sink = kit_f32(&l->in[SINKS])[h];
  if (j->relative) a.relative = j->relative + h * j->relative_stride;
  if (j->rel_k) a.rel_k = j->rel_k + h * a.relative_columns * a.dk;
  if (j->rel_q) a.rel_q = j->rel_q + h * a.relative_columns * a.dk;
  if (j->bias_kind == ACCEL_PLUGIN_BIAS_DENSE) { /* [P, H, Sq, Sk], each dim may be 1 */
    int64_t at = bias->dim[0] > 1 ? item % j->period : 0;
    at = at * bias->dim[1] + (bias->dim[1] > 1 ? h : 0);
    a.bias = kit_f32(bias) + at * bias->dim[2] * bias->dim[3];
    a.bias_row = bias->dim[2] > 1 ? bias->dim[3] : 0;
    a.bias_column = bias->dim[3] > 1;
  }
  for (uint32_t i = 0; kit_has(probs) && i < j->n_probs; i++)
    if (j->probs[i] == h) {
      a.probs = kit_f32(probs) + ((int64_t)i * probs->dim[1] + qs) * probs->dim[2];
      a.ldp = a.probs_columns = probs->dim[2];
    }
  j->run(&a, row, row_end, workspace);
}

static void task(void *arg, uint32_t index, uint32_t worker) {
  const job *j = arg;
  const int64_t units = (int64_t)j->q.items * j->heads;
  float *workspace = j->workspace + (int64_t)worker * j->workspace_floats;
  if (!j->chunks) {
    for (int64_t u = cpu_share(units, index, j->tasks); u < cpu_share(units, index + 1, j->tasks); u++) {
      int32_t item = (int32_t)(u / j->heads);
      run_unit(j, item, u % j->heads, 0, j->q.start[item + 1] - j->q.start[item], workspace);
    }
    return;
  }
  int64_t u = index / j->chunks, chunk = index % j->chunks;
  int32_t item = (int32_t)(u / j->heads);
  int64_t rows = j->q.start[item + 1] - j->q.start[item], keys = j->kv.start[item + 1] - j->kv.start[item];
  int64_t height = cpu_attention_layout(keys, j->base.dk, j->base.dv, j->base.relative_columns, j->s->kernels.tile_rows,
                                        j->s->kernels.panel_cols)
                       .rows;
  int64_t blocks = (rows + height - 1) / height;
  int64_t from = cpu_share(blocks, (uint32_t)chunk, j->chunks) * height,
          to = cpu_share(blocks, (uint32_t)chunk + 1, j->chunks) * height;
  if (to > rows) to = rows;
  if (from < to) run_unit(j, item, u % j->heads, from, to, workspace);
}

static void split(job *j, const kit_launch *l) {
  uint32_t workers = cpu_workers(l);
  int64_t units = (int64_t)j->q.items * j->heads;
  double cost = 0;
  for (int32_t i = 0; i < j->q.items; i++)
    cost += (double)(j->q.start[i + 1] - j->q.start[i] + 8) * (double)(j->kv.start[i + 1] - j->kv.start[i]) *
            (double)(j->base.dk + j->base.dv + 20);
  cost *= 0.03 * (double)j->heads; /* ns */
  j->chunks = 0;
  j->tasks = cpu_tasks(l, units * 64, cost / (double)(units * 64)); /* 64: a unit can be cut */
  if (j->tasks < 2) return;
  if (units >= 2 * (int64_t)workers) {
    if (j->q.items > 1) j->tasks = workers * 8; /* sequences differ in length */
    if ((int64_t)j->tasks > units) j->tasks = (uint32_t)units;
    return;
  }
  j->chunks = (4 * workers + (uint32_t)units - 1) / (uint32_t)units;
  j->tasks = j->chunks * (uint32_t)units;
}

/* ---- the launch ---- */

static int32_t check(const job *j, const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *b = &l->in[BIAS], *probs = &l->out[1];
  for (int32_t i = 0; i < j->q.items; i++) {
    int32_t rows = j->q.start[i + 1] - j->q.start[i], keys = j->kv.start[i + 1] - j->kv.start[i];
    if (j->bias_kind == ACCEL_PLUGIN_BIAS_DENSE &&
        ((b->dim[2] > 1 && rows > b->dim[2]) || (b->dim[3] > 1 && keys > b->dim[3])))
      return kit_launch_fail(l, error, ACCEL_PLUGIN_E_ARGUMENT, "dense bias of %lld x %lld is too small for %d x %d",
                             (long long)b->dim[2], (long long)b->dim[3], rows, keys);
    if (kit_has(probs) && keys > probs->dim[2])
      return kit_launch_fail(l, error, ACCEL_PLUGIN_E_ARGUMENT, "probabilities of %d keys do not fit %lld columns", keys,
                             (long long)probs->dim[2]);
  }
  return ACCEL_PLUGIN_OK;
}

static void read_attributes(job *j, const kit_launch *l, const sizes *s) {
  const accel_plugin_node *n = l->node;
  j->bias_kind = (int32_t)kit_attr_i(n, ACCEL_PLUGIN_ATTR_BIAS_KIND, ACCEL_PLUGIN_BIAS_NONE);
  j->period = j->bias_kind == ACCEL_PLUGIN_BIAS_DENSE ? kit_attr_i(n, ACCEL_PLUGIN_ATTR_BIAS_PERIOD, l->in[BIAS].dim[0]) : 1;
  j->n_probs = kit_attr_iv(n, ACCEL_PLUGIN_ATTR_PROBS, &j->probs);
  j->base = (cpu_attention){.dk = s->dk,
                            .dv = s->dv,
                            .sink = -INFINITY,
                            .softcap = (float)kit_attr_f(n, ACCEL_PLUGIN_ATTR_SOFTCAP, 0.0),
                            .left = kit_attr_i(n, ACCEL_PLUGIN_ATTR_WINDOW_LEFT, -1),
                            .right = kit_attr_i(n, ACCEL_PLUGIN_ATTR_WINDOW_RIGHT, -1)};
  j->base.scale = (float)kit_attr_f(n, ACCEL_PLUGIN_ATTR_SCALE, s->dk ? 1.0 / sqrt((double)s->dk) : 1.0);
  if (kit_attr_i(n, ACCEL_PLUGIN_ATTR_CAUSAL, 0)) j->base.right = 0; /* a positive window_right allows no more */
}

int32_t cpu_launch_attention(const cpu_self *self, const kit_launch *l, accel_plugin_error *error) {
  int32_t whole[4];
  job j = {.s = self, .l = l, .run = self->kernels.attention};
  if (!ours(l)) return kit_scalar(ACCEL_PLUGIN_OP_ATTENTION)(l, error);
  j.q = kit_rows_of(l, ACCEL_PLUGIN_ATTR_Q_SPACE, l->in[Q].dim[0], whole);
  j.kv = kit_rows_of(l, ACCEL_PLUGIN_ATTR_KV_SPACE, l->in[K].dim[0], whole + 2);
  sizes s = measure(&self->kernels, l, j.q.longest > j.kv.longest ? j.q.longest : j.kv.longest, cpu_workers(l));
  j.heads = s.heads;
  j.kv_heads = s.kv_heads;
  if (s.heads < 1 || s.heads % s.kv_heads || j.q.items != j.kv.items || s.dk < 1 || s.dv < 1 || j.q.rows < 1)
    return kit_scalar(ACCEL_PLUGIN_OP_ATTENTION)(l, error); /* says what is wrong, or has nothing to do */
  read_attributes(&j, l, &s);
  j.positions = explicit_positions(l, &j.q, &j.kv);
  bool windowed = j.base.left >= 0 || j.base.right >= 0 || j.bias_kind > ACCEL_PLUGIN_BIAS_DENSE;
  if (j.positions && !windowed) j.positions = false; /* nothing asks for them */
  if (j.period < 1 ||
      (j.positions && (is_t5(j.bias_kind) || j.bias_kind == ACCEL_PLUGIN_BIAS_DISENTANGLED || !kit_has(&l->in[Q_POS]) ||
                       !kit_has(&l->in[KV_POS]) || !exact(&l->in[Q_POS]) || !exact(&l->in[KV_POS]))))
    return kit_scalar(ACCEL_PLUGIN_OP_ATTENTION)(l, error);
  int32_t rc = check(&j, l, error);
  if (rc) return rc;
  float *at = l->workspace;
  if (!j.positions && (is_t5(j.bias_kind) || j.bias_kind == ACCEL_PLUGIN_BIAS_ALIBI)) make_relative(&j, l, at, s.longest);
  if (j.bias_kind == ACCEL_PLUGIN_BIAS_DISENTANGLED) make_disentangled(&j, l, &s, at);
  j.workspace = at + s.shared;
  j.workspace_floats = (int64_t)bounded(s.worker);
  split(&j, l);
  cpu_parallel(l, j.tasks, task, &j);
  return ACCEL_PLUGIN_OK;
}
