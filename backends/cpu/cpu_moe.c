/* cpu_moe.c - mixture of experts.  The (token, choice) pairs are sorted by expert, each expert
 * multiplies its rows at once, and every token adds up its choices in the order of the experts'
 * numbers: a token's result depends neither on which others there are nor on the order in which
 * experts are used. */
#include "cpu_moe.h"

#include <string.h>

#include "cpu_moe_stream.h"

enum { FEW_ROWS = 4 }; /* of an expert on average: tasks are as many as workers */
enum { X, IDX, WT, W_UP, W_DOWN, BIAS_UP, BIAS_DOWN };

typedef struct job {
  const cpu_self *self;
  const kit_launch *l;
  const cpu_kernels *kernels;
  const cpu_moe *moe;
  int64_t k, token, tokens, pairs, hidden, inner; /* choices; of this pass; H, I */
  int32_t act;
  float alpha, limit;
  /* [experts]: first place and number of the pairs of each; pair at each place; place of each pair */
  int32_t *start, *count, *order, *place;
  /* [experts]: first token where those of the pairs follow each other, else -1 */
  int32_t *token_of;
  /* [experts]: those that have pairs, which are all that is read, in the order of use */
  int32_t *chosen, n_chosen;
  int32_t *group, n_group; /* of these that are used now */
  int64_t first, n, room;  /* their places, as many as the workspace has rows for at a time */
  float *middle;           /* [pairs][I] */
  float *down;             /* [pairs][H], of streamed experts */
  /* [pairs], of others: token and weight of the pair at each place */
  int32_t *token_at;
  float *weight_at;
  float *bias;         /* [workers][2][I]: of up and of gate where they are stored in turn */
  float *scale, *zero; /* [pairs], of rows as kernels read them */
  char *rows;          /* such rows */
  float *token_scale, *token_zero; /* [tokens] */
  char *token_rows;     /* the same of each token once, whatever the number of its choices */
  bool converted;       /* they are there */
  const cpu_experts *e; /* at hand */
  const cpu_linear_kernel *kernel;
  cpu_act_format x; /* what it reads */
  const float *from;
  bool by_token; /* from: rows of tokens, else of places */
  int64_t from_ld, row_bytes;
  float *to;
  uint32_t tasks;
} job;

/* Tokens that the workspace has memory for. */
static int64_t tokens_of(const kit_launch *l) {
  int64_t k = kit_cols(&l->in[IDX]), most = k > 0 ? CPU_MOE_PAIRS / k : 1;
  if (most < 1) most = 1;
  return l->in[X].dim[0] < most ? l->in[X].dim[0] : most;
}

/* ---- a product of each expert's rows ---- */

static void convert_tokens_task(void *arg, uint32_t index, uint32_t worker) {
  const job *j = arg;
  const int64_t t = cpu_share(j->tokens, index, j->tasks),
                n = cpu_share(j->tokens, index + 1, j->tasks) - t;
  (void)worker;
  cpu_convert_rows(j->kernels->convert[j->x], j->x, j->from + (j->token + t) * j->from_ld,
                   j->from_ld, n, j->e->k, j->token_rows + t * j->row_bytes, j->token_scale + t,
                   j->token_zero + t);
}

/* Are the rows of an expert read where they lie? */
static bool lies_ready(const job *j, int32_t expert) {
  return j->by_token && j->token_of[expert] >= 0 && (j->converted || j->x == CPU_ACT_F32);
}

/* Row `at` of the pass, of a token that is not read where it lies. */
static void fetch_row(const job *j, int64_t at) {
  const int64_t t = j->order[j->first + at] / j->k;
  const float *x = j->from + (j->token + t) * j->from_ld;
  char *to = j->rows + at * j->row_bytes;
  if (j->x == CPU_ACT_F32) {
    memcpy(to, x, (size_t)j->e->k * sizeof *x);
  } else if (j->converted) {
    memcpy(to, j->token_rows + t * j->row_bytes, (size_t)j->row_bytes);
    j->scale[at] = j->token_scale[t];
    j->zero[at] = j->token_zero[t];
  } else {
    cpu_convert_rows(j->kernels->convert[j->x], j->x, x, j->from_ld, 1, j->e->k, to, j->scale + at,
                     j->zero + at);
  }
}

/* Rows in the order of places, as the kernel reads them. */
static void rows_task(void *arg, uint32_t index, uint32_t worker) {
  const job *j = arg;
  const int64_t begin = cpu_share(j->n, index, j->tasks),
                end = cpu_share(j->n, index + 1, j->tasks);
  (void)worker;
  if (!j->by_token) {
    cpu_convert_rows(j->kernels->convert[j->x], j->x, j->from + begin * j->from_ld, j->from_ld,
                     end - begin, j->e->k, j->rows + begin * j->row_bytes, j->scale + begin,
                     j->zero + begin);
    return;
  }
  for (int64_t at = begin; at < end; at++) {
    const int32_t pair = j->order[j->first + at];
    if (!lies_ready(j, kit_i32(&j->l->in[IDX])[j->token * j->k + pair])) fetch_row(j, at);
  }
}

/* Of the first product: biases, activation and gate.  Biases of up and gate that lie in turn are
 * taken apart for the columns of these panels, into `apart` [2][I]. */
static void set_epilogue(const job *j, int32_t expert, int64_t panel, int64_t panel_end,
                         float *apart, cpu_gemm *g) {
  const kit_tensor *all = &j->l->in[BIAS_UP];
  const int32_t glu = j->moe->glu;
  const int64_t n = g->n, cols = j->kernel->cols / 2, end = panel_end * cols;
  g->act = j->act;
  g->alpha = j->alpha;
  g->limit = j->limit;
  g->glu = glu != ACCEL_PLUGIN_GLU_NONE;
  if (!kit_has(all)) return;
  const float *bias = kit_f32(all) + expert * (g->glu ? 2 * n : n);
  g->bias = bias;
  if (glu == ACCEL_PLUGIN_GLU_GATE_LAST) {
    g->bias_gate = bias + n;
  } else if (glu == ACCEL_PLUGIN_GLU_GATE_FIRST) {
    g->bias_gate = bias;
    g->bias = bias + n;
  } else if (glu == ACCEL_PLUGIN_GLU_INTERLEAVED) {
    for (int64_t i = panel * cols; i < n && i < end; i++) {
      apart[i] = bias[2 * i + 1];
      apart[n + i] = bias[2 * i];
    }
    g->bias = apart;
    g->bias_gate = apart + n;
  }
}

/* Places of the pairs of an expert that are worked on now, from j->first on. */
typedef struct place_range {
  int64_t first, rows;
} place_range;

static place_range places_of(const job *j, int32_t expert) {
  const int64_t begin = j->start[expert] - j->first, end = begin + j->count[expert],
                first = begin > 0 ? begin : 0;
  return (place_range){first, (end < j->n ? end : j->n) - first};
}

/* The product of all these rows. */
static cpu_gemm gemm_of(const job *j, int32_t expert, const place_range *r) {
  const cpu_experts *e = j->e;
  cpu_gemm g = {.n = e->n,
                .k = e->k,
                .x = j->rows + r->first * j->row_bytes,
                .ldx = j->row_bytes / cpu_act_bytes(j->x),
                .x_scale = j->scale + r->first,
                .x_zero = j->zero + r->first,
                .w = cpu_experts_panels(j->self, e, expert),
                .panel_bytes = (int64_t)e->panel_bytes,
                .group = e->format.group_k,
                .store = e->format.store,
                .scale = e->format.scale,
                .y = j->to ? j->to + r->first * e->n : NULL,
                .ldy = e->n};
  if (lies_ready(j, expert)) {
    const int64_t t = j->token_of[expert] + j->first + r->first - j->start[expert];
    g.x = j->token_rows + t * j->row_bytes;
    g.x_scale = j->token_scale + t;
    g.x_zero = j->token_zero + t;
    if (j->x == CPU_ACT_F32) {
      g.x = j->from + (j->token + t) * j->from_ld;
      g.ldx = j->from_ld;
    }
  }
  if (cpu_act_blocked(j->x)) g.x_scale = g.x_zero = NULL;
  if (e == &j->moe->down && kit_has(&j->l->in[BIAS_DOWN]))
    g.bias = kit_f32(&j->l->in[BIAS_DOWN]) + expert * e->n;
  return g;
}

/* A share of all experts' panels. */
static void product_task(void *arg, uint32_t index, uint32_t worker) {
  const job *j = arg;
  const int64_t panels = j->e->panels, all = j->n_group * panels,
                end = cpu_share(all, index + 1, j->tasks);
  for (int64_t at = cpu_share(all, index, j->tasks), stop; at < end; at = stop) {
    const int32_t expert = j->group[at / panels];
    const int64_t first = at / panels * panels;
    stop = end < first + panels ? end : first + panels;
    const place_range r = places_of(j, expert);
    if (r.rows < 1) continue;
    cpu_gemm g = gemm_of(j, expert, &r);
    if (j->e == &j->moe->up)
      set_epilogue(j, expert, at - first, stop - first, j->bias + worker * 2 * j->inner, &g);
    j->kernel->run(&g, 0, r.rows, at - first, stop - first);
  }
}

/* The second product of all experts, in the columns of some panels: times their weights, results
 * are added to those of their tokens. */
static void add_task(void *arg, uint32_t index, uint32_t worker) {
  const job *j = arg;
  const int64_t panel = cpu_share(j->e->panels, index, j->tasks),
                panel_end = cpu_share(j->e->panels, index + 1, j->tasks),
                col = panel * j->kernel->cols, end = panel_end * j->kernel->cols,
                cols = (end < j->hidden ? end : j->hidden) - col;
  float *y = kit_f32(&j->l->out[0]) + j->token * j->hidden;
  (void)worker;
  for (int64_t t = 0; t < j->tokens; t++)
    memset(y + t * j->hidden + col, 0, (size_t)cols * sizeof *y);
  for (int32_t i = 0; i < j->n_group; i++) {
    const place_range r = places_of(j, j->group[i]);
    cpu_gemm g = gemm_of(j, j->group[i], &r);
    g.y = y;
    g.to = j->token_at + j->first + r.first;
    g.weight = j->weight_at + j->first + r.first;
    j->kernel->run(&g, 0, r.rows, panel, panel_end);
  }
}

/* Experts with many rows take unequally long, and each is cut for all threads.  Those with few take
 * as long as their panels to fetch, and every task begins with some that nobody has asked for. */
static void run_products(job *j) {
  const bool few = j->n < FEW_ROWS * j->n_group;
  const int64_t workers = cpu_workers(j->l), tasks = few ? workers : 4 * workers,
                panels = j->e->panels, most = panels < tasks ? panels : tasks;
  j->tasks = (uint32_t)most;
  if (j->to && !few) j->tasks = (uint32_t)(j->n_group * most);
  cpu_parallel(j->l, j->tasks, j->to ? product_task : add_task, j);
}

/* to NULL: results are added to the tokens' sums. */
static void multiply(job *j, const cpu_experts *e, const float *from, int64_t from_ld,
                     bool by_token, float *to) {
  j->e = e;
  j->kernel = &j->kernels->linear[e->layout];
  j->x = cpu_act_format_beside(j->kernel->x, e->k, e->format.group_k);
  j->from = from;
  j->from_ld = from_ld;
  j->by_token = by_token;
  j->to = to;
  j->row_bytes = cpu_act_row(j->x, e->k) * cpu_act_bytes(j->x);
  if (!by_token && j->x == CPU_ACT_F32) { /* already in order */
    char *rows = j->rows;
    j->rows = (char *)from;
    j->row_bytes = from_ld * (int64_t)sizeof(float);
    run_products(j);
    j->rows = rows;
    return;
  }
  if (by_token && j->x != CPU_ACT_F32 && !j->converted && j->tokens <= tokens_of(j->l)) {
    j->tasks = cpu_tasks(j->l, j->tokens, 0.3 * (double)e->k);
    cpu_parallel(j->l, j->tasks, convert_tokens_task, j);
    j->converted = true;
  }
  j->tasks = cpu_tasks(j->l, j->n, (by_token ? 0.1 : 0.3) * (double)e->k);
  cpu_parallel(j->l, j->tasks, rows_task, j);
  run_products(j);
}

/* ---- tokens ---- */

/* The choice behind `last` (-1: the first) of k by the experts' numbers; k: there is no more. */
static int64_t next_choice(const int32_t *idx, int64_t k, int64_t last) {
  int64_t next = k;
  for (int64_t c = 0; c < k; c++) {
    const bool behind = last < 0 || idx[c] > idx[last] || (idx[c] == idx[last] && c > last);
    if (behind && (next == k || idx[c] < idx[next])) next = c;
  }
  return next;
}

static void combine_task(void *arg, uint32_t index, uint32_t worker) {
  const job *j = arg;
  (void)worker;
  for (int64_t t = cpu_share(j->tokens, index, j->tasks);
       t < cpu_share(j->tokens, index + 1, j->tasks); t++) {
    float *y = kit_f32(&j->l->out[0]) + (j->token + t) * j->hidden;
    const int32_t *idx = kit_i32(&j->l->in[IDX]) + (j->token + t) * j->k;
    memset(y, 0, (size_t)j->hidden * sizeof *y);
    for (int64_t c = next_choice(idx, j->k, -1); c < j->k; c = next_choice(idx, j->k, c))
      j->kernels->accumulate(kit_f32(&j->l->in[WT])[(j->token + t) * j->k + c],
                             j->down + (int64_t)j->place[t * j->k + c] * j->hidden, y, j->hidden);
  }
}

static void count_pairs(job *j) {
  const int32_t *idx = kit_i32(&j->l->in[IDX]) + j->token * j->k;
  memset(j->count, 0, (size_t)j->moe->experts * sizeof *j->count);
  for (int64_t i = 0; i < j->pairs; i++) j->count[idx[i]]++;
  j->n_chosen = 0;
  for (int32_t e = 0; e < j->moe->experts; e++)
    if (j->count[e]) j->chosen[j->n_chosen++] = e;
}

/* Pairs of one expert lie behind those of the expert that is used before it. */
static void place_pairs(job *j) {
  const int32_t *idx = kit_i32(&j->l->in[IDX]) + j->token * j->k;
  int32_t at = 0;
  for (int32_t i = 0; i < j->n_chosen; at += j->count[j->chosen[i++]]) j->start[j->chosen[i]] = at;
  /* start moves to the end of each expert, and back below */
  for (int64_t i = 0; i < j->pairs; i++) {
    j->place[i] = j->start[idx[i]]++;
    j->order[j->place[i]] = (int32_t)i;
  }
  for (int32_t i = 0; i < j->n_chosen; i++) {
    const int32_t e = j->chosen[i], *order = j->order + (j->start[e] -= j->count[e]);
    const int64_t first = order[0] / j->k;
    bool run = true;
    for (int32_t n = 1; n < j->count[e] && run; n++) run = order[n] / j->k == first + n;
    j->token_of[e] = run ? (int32_t)first : -1;
  }
  for (int64_t i = 0; !j->moe->streamed && i < j->pairs; i++) {
    j->token_at[i] = (int32_t)(j->order[i] / j->k);
    j->weight_at[i] = kit_f32(&j->l->in[WT])[j->token * j->k + j->order[i]];
  }
}

/* Places [first, first + n), of experts of the group. */
static void run_places(job *j, int64_t first, int64_t n) {
  j->first = first;
  j->n = n;
  multiply(j, &j->moe->up, kit_f32(&j->l->in[X]), j->l->in[X].row_stride, true, j->middle);
  multiply(j, &j->moe->down, j->middle, j->inner, false,
           j->moe->streamed ? j->down + first * j->hidden : NULL);
}

/* Chosen experts [first, first + n). */
static void run_group(job *j, int32_t first, int32_t n) {
  if (!n) return;
  j->group = j->chosen + first;
  j->n_group = n;
  const int64_t end = j->start[j->group[n - 1]] + j->count[j->group[n - 1]];
  for (int64_t at = j->start[j->group[0]]; at < end; at += j->room)
    run_places(j, at, end - at < j->room ? end - at : j->room);
}

/* Experts that are in memory, then each of the others as it comes. */
static int32_t run_streamed(job *j, accel_plugin_error *error) {
  int32_t found;
  int32_t rc = cpu_experts_begin(j->self, j->moe, j->chosen, j->n_chosen, &found, error);
  place_pairs(j);
  if (!rc) run_group(j, 0, found);
  for (int32_t i = found; !rc && i < j->n_chosen; i++) {
    rc = cpu_experts_take(j->self, j->l, error);
    if (!rc) run_group(j, i, 1);
  }
  cpu_experts_end(j->self, found);
  return rc;
}

static int32_t run_pass(job *j, accel_plugin_error *error) {
  int32_t rc = ACCEL_PLUGIN_OK;
  j->converted = false;
  count_pairs(j);
  if (j->moe->streamed) {
    rc = run_streamed(j, error);
  } else {
    place_pairs(j);
    run_group(j, 0, j->n_chosen); /* at once: the workspace has room for all pairs of a pass */
    if (j->n_chosen) return rc;
  }
  if (rc) return rc;
  j->tasks = cpu_tasks(j->l, j->tokens, 0.3 * (double)(j->hidden * j->k));
  cpu_parallel(j->l, j->tasks, combine_task, j);
  return ACCEL_PLUGIN_OK;
}

/* Places the parts of the workspace; answers its bytes. */
static uint64_t lay_out(const kit_launch *l, uint32_t workers, char *base, job *j) {
  const int64_t k = kit_cols(&l->in[IDX]), pairs = tokens_of(l) * k, experts = l->in[W_UP].dim[0],
                hidden = kit_cols(&l->in[X]);
  const int64_t inner = l->in[W_DOWN].dim[2], widest = hidden > inner ? hidden : inner;
  int64_t at = 0;
#define PART(field, type, count)                    \
  if (base) j->field = (type *)(void *)(base + at); \
  at += cpu_aligned((count) * (int64_t)sizeof(type))
  PART(start, int32_t, experts);
  PART(count, int32_t, experts);
  PART(token_of, int32_t, experts);
  PART(chosen, int32_t, experts);
  PART(order, int32_t, pairs);
  PART(place, int32_t, pairs);
  PART(scale, float, pairs);
  PART(zero, float, pairs);
  PART(rows, char, pairs *cpu_act_row(CPU_ACT_F32, widest) * 4);
  PART(token_scale, float, tokens_of(l));
  PART(token_zero, float, tokens_of(l));
  PART(token_rows, char, tokens_of(l) * cpu_act_row(CPU_ACT_F32, hidden) * 4);
  PART(middle, float, pairs *inner);
  PART(down, float, pairs *hidden);
  PART(token_at, int32_t, pairs);
  PART(weight_at, float, pairs);
  PART(bias, float, kit_has(&l->in[BIAS_UP]) ? workers * 2 * inner : 0);
#undef PART
  return (uint64_t)at;
}

uint64_t cpu_moe_workspace(const cpu_self *self, const cpu_kernels *kernels, const kit_launch *l,
                           uint32_t workers) {
  (void)self;
  (void)kernels;
  return lay_out(l, workers ? workers : 1, NULL, NULL);
}

int32_t cpu_launch_moe(const cpu_self *s, const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *x = &l->in[X], *idx = &l->in[IDX];
  if (s->moes.of[l->index] < 0) return kit_scalar(ACCEL_PLUGIN_OP_MOE)(l, error);
  const cpu_moe *moe = &s->moes.at[s->moes.of[l->index]];
  job j = {.self = s,
           .l = l,
           .kernels = &s->kernels,
           .moe = moe,
           .k = kit_cols(idx),
           .hidden = kit_cols(x),
           .inner = moe->down.k};
  for (int64_t i = 0; i < idx->elements; i++)
    if (kit_i32(idx)[i] < 0 || kit_i32(idx)[i] >= moe->experts)
      return kit_launch_fail(l, error, ACCEL_PLUGIN_E_ARGUMENT, "expert %d is outside 0..%lld",
                             kit_i32(idx)[i], (long long)moe->experts - 1);
  j.act = (int32_t)kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_ACT, ACCEL_PLUGIN_ACT_NONE);
  j.alpha = kit_act_alpha(l->node, j.act);
  j.limit = (float)kit_attr_f(l->node, ACCEL_PLUGIN_ATTR_LIMIT, 0.0);
  lay_out(l, cpu_workers(l), l->workspace, &j);
  int32_t rc = ACCEL_PLUGIN_OK;
  j.room = tokens_of(l) * j.k;
  const int64_t more = moe->streamed ? cpu_experts_results(s, &j.order, &j.place, &j.down) : 0,
                most = more > j.room ? more / j.k : tokens_of(l);
  for (j.token = 0; !rc && j.token < x->dim[0]; j.token += j.tokens) {
    j.tokens = x->dim[0] - j.token < most ? x->dim[0] - j.token : most;
    j.pairs = j.tokens * j.k;
    rc = run_pass(&j, error);
  }
  return rc;
}
