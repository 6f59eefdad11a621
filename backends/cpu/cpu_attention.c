/* cpu_attention.c - attention over packed ragged rows, and over the pages of sessions.
 *
 * A unit is a head of a sequence; with one query row and several heads to a key head, those heads
 * are one unit (they are the rows of one small matrix).  A task is a run of units, a stretch of
 * one's query rows, or, with one query row and many keys, a range of its keys, whose results are
 * then merged in order.  Rows do not know of each other and ranges of keys start at fixed places of
 * their sequence, so results do not depend on how many tasks there are.
 *
 * At int8 the products of encoders are of codes, too, at bf16 of bf16
 * (docs/decisions/39-int8-attention.md): takes_codes, takes_bf16. */
#include "cpu_attention.h"

#include <stdlib.h>
#include <string.h>

enum { Q, K, VALUE, BIAS, Q_POS, KV_POS, MASK, SINKS, REL_K, REL_Q };
enum {
  /* so many query rows are streamed past, more are multiplied with packed keys; */
  FEW_ROWS = 3,
  /* so many heads of one row: these share the reading of keys (measured) */
  FEW_HEADS = 32,
  /* keys of one query row that are worth a task of their own */
  RANGE_KEYS = 2 * CPU_ATTENTION_KEYS,
  MAX_RANGES = 16,
  /* elements of a head, keys: those that pay for making codes, and those that were tried */
  CODES_DIM_LEAST = 16,
  CODES_DIM_MOST = 256,
  CODES_KEYS_LEAST = 8,
  CODES_KEYS_MOST = 2048
};
_Static_assert((int)CPU_PAGE_ROWS <= (int)KIT_SMALL_PAGE_ROWS &&
                   (int)KIT_SMALL_PAGE_ROWS <= (int)KIT_PAGE_ROWS,
               "kernels know the least size of a page");

/* The keys of one sequence, and where its queries stand. */
typedef struct sequence {
  kit_state_view state; /* of a node with a state */
  int32_t item;         /* of the launch */
  int64_t row, rows;    /* its queries among those of all */
  int64_t past;         /* keys before the first of its queries */
  int64_t keys, shift;
  bool positions; /* explicit ones: */
  const int32_t *query, *key;
  int32_t *made;         /* those of them that are counted out */
  bool grouped;          /* a unit is all heads of a key head, else one head */
  int64_t ranges, units; /* of keys, 1: none is cut; units of all ranges */
  float *parts;          /* [ranges][heads][2 + dv] */
} sequence;

typedef struct job {
  const cpu_self *s;
  const kit_launch *l;
  cpu_attention base; /* what all heads and sequences share */
  int64_t heads, kv_heads, period;
  int32_t bias_kind;
  bool state;
  kit_rows q, kv;
  sequence *sequence; /* [n] */
  int32_t n;          /* items, or more: alone() */
  const int64_t *probs;
  uint32_t n_probs;
  float *relative; /* [heads][relative_stride]: bias by distance */
  int64_t relative_stride;
  float *rel_k, *rel_q; /* [heads][relative_columns * dk] packed */
  float *workspace;     /* per worker */
  int64_t workspace_floats;
  /* chunks: stretches of each unit's rows; 0: tasks share out whole units */
  uint32_t tasks, chunks;
  int64_t units;
  float *parts; /* of all sequences that are cut */
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

/* Distances i - j of sequences up to `longest` rows, as rows of rel_k and rel_q: first, and how
 * many in whole panels. */
static int64_t relative_span(const accel_plugin_node *n, int64_t longest, int64_t panel_cols,
                             int64_t *first) {
  int32_t span = (int32_t)kit_attr_i(n, ACCEL_PLUGIN_ATTR_REL_SPAN, 0),
          buckets = (int32_t)kit_attr_i(n, ACCEL_PLUGIN_ATTR_REL_BUCKETS, 0);
  int32_t distance = (int32_t)kit_attr_i(n, ACCEL_PLUGIN_ATTR_MAX_DISTANCE, 128);
  int64_t far = longest > 0 ? longest - 1 : 0;
  *first = kit_deberta_row(-far, span, buckets, distance);
  return round_up(kit_deberta_row(far, span, buckets, distance) - *first + 1, panel_cols);
}

/* Distances from which a bias by bucket no longer changes. */
static int64_t far_distance(const accel_plugin_node *n) {
  int64_t far = kit_attr_i(n, ACCEL_PLUGIN_ATTR_MAX_DISTANCE, 128);
  return far < 1 ? 1 : far > 1 << 20 ? 1 << 20 : far;
}

static sizes measure_sizes(const cpu_kernels *k, const kit_launch *l, int64_t longest) {
  const accel_plugin_node *n = l->node;
  const accel_plugin_state *state = n->state >= 0 ? &l->program->state[n->state] : NULL;
  sizes s = {.heads = kit_attr_i(n, ACCEL_PLUGIN_ATTR_HEADS, 1), .longest = longest};
  int64_t kind = kit_attr_i(n, ACCEL_PLUGIN_ATTR_BIAS_KIND, ACCEL_PLUGIN_BIAS_NONE), first;
  s.kv_heads = kit_attr_i(n, ACCEL_PLUGIN_ATTR_KV_HEADS, s.heads);
  if (s.heads < 1 || s.kv_heads < 1) return (sizes){0};
  s.dk = kit_has(&l->in[K]) ? kit_cols(&l->in[K]) / s.kv_heads : state ? state->k_dim : 0;
  s.dv = kit_has(&l->in[VALUE]) ? kit_cols(&l->in[VALUE]) / s.kv_heads : state ? state->v_dim : 0;
  /* no more keys than columns */
  if (state && kit_has(&l->out[1])) s.longest = longest = l->out[1].dim[2];
  uint64_t shared = 0;
  if (is_t5(kind)) shared = (uint64_t)s.heads * 2 * (uint64_t)(longest + far_distance(n) + 16);
  if (kind == ACCEL_PLUGIN_BIAS_DISENTANGLED) {
    s.relative_columns = relative_span(n, longest, k->panel_cols, &first);
    shared = (uint64_t)s.heads * 2 * (uint64_t)(s.relative_columns * s.dk) +
             2 * (uint64_t)(longest + 16);
  }
  /* how many keys a session holds is not known here: enough to go tile by tile */
  if (state && longest <= CPU_ATTENTION_KEYS) longest = CPU_ATTENTION_KEYS + 1;
  const bool whole = kit_has(&l->out[1]) || s.relative_columns > 0;
  s.shared = (uint64_t)round_up((int64_t)shared, 16);
  const cpu_attention_form registers =
      state ? CPU_ATTENTION_REGISTERS_PAGES : CPU_ATTENTION_REGISTERS;
  for (int i = 0; i <= (k->attention_bf16 && k->tile_registers); i++) {
    const int64_t floats =
        cpu_attention_floats(longest, s.dk, s.dv, s.relative_columns, whole,
                             i ? registers : CPU_ATTENTION_PLAIN, k->tile_rows, k->panel_cols);
    if ((int64_t)s.worker < floats) s.worker = (uint64_t)round_up(floats, 16);
  }
  if (k->attention_i8 && s.dk <= CODES_DIM_MOST && s.dv <= CODES_DIM_MOST) {
    longest = longest < CODES_KEYS_MOST ? longest : CODES_KEYS_MOST;
    const uint64_t codes =
        (uint64_t)round_up(cpu_attention_i8_layout(longest, s.dk, s.dv).all, 64) / sizeof(float);
    if (s.worker < codes) s.worker = codes;
  }
  return s;
}

static bool has_kernels(const kit_launch *l) {
  return kit_has(&l->in[Q]) &&
         (l->node->state >= 0 || (kit_has(&l->in[K]) && kit_has(&l->in[VALUE])));
}

uint64_t cpu_attention_workspace(const cpu_self *self, const cpu_kernels *kernels,
                                 const kit_launch *shapes, uint32_t workers) {
  (void)self;
  if (!has_kernels(shapes)) return 0;
  int64_t q = kit_row_count(&shapes->in[Q]),
          k = kit_has(&shapes->in[K]) ? kit_row_count(&shapes->in[K]) : 0;
  sizes s = measure_sizes(kernels, shapes, q > k ? q : k);
  return (s.shared + s.worker * (workers ? workers : 1)) * sizeof(float);
}

/* ---- positions ---- */

/* Positions start, start+1, ... */
static const int32_t *count_out(sequence *s, int64_t start, int64_t n) {
  s->made = malloc((size_t)n * sizeof *s->made);
  for (int64_t i = 0; s->made && i < n; i++) s->made[i] = (int32_t)(start + i);
  return s->made;
}

/* Where the queries of an item stand among its keys.  E_UNSUPPORTED: with positions that the
 * kernels do not take. */
static int32_t find_positions(const job *j, sequence *s, accel_plugin_error *error) {
  const kit_launch *l = j->l;
  const int64_t rows = s->rows, past = s->past;
  if (kit_has(&l->in[Q_POS])) s->query = kit_i32(&l->in[Q_POS]) + s->row;
  if (j->state)
    s->key = s->state.position;
  else if (kit_has(&l->in[KV_POS]))
    s->key = kit_i32(&l->in[KV_POS]) + j->kv.start[s->item];
  if (!rows || !s->keys) return ACCEL_PLUGIN_OK;
  s->shift = (s->query ? s->query[0] : past) - (int64_t)(s->key ? s->key[0] : 0);
  if ((!s->query || cpu_positions_consecutive(s->query, rows)) &&
      (!s->key || cpu_positions_consecutive(s->key, s->keys)) && s->shift > -(1 << 24) &&
      s->shift < 1 << 24)
    return ACCEL_PLUGIN_OK;
  s->shift = 0;
  /* something asks */
  s->positions = j->base.left >= 0 || j->base.right >= 0 || j->bias_kind > ACCEL_PLUGIN_BIAS_DENSE;
  if (!s->positions) return ACCEL_PLUGIN_OK;
  if (!s->query && !(s->query = count_out(s, past, rows)))
    return kit_no_memory(error, (uint64_t)rows * 4);
  if (!s->key && !(s->key = count_out(s, 0, s->keys)))
    return kit_no_memory(error, (uint64_t)s->keys * 4);
  if (cpu_positions_exact(s->query, rows) && cpu_positions_exact(s->key, s->keys))
    return ACCEL_PLUGIN_OK;
  return kit_launch_fail(l, error, ACCEL_PLUGIN_E_UNSUPPORTED, "positions of 2^24 and more");
}

/* ---- tables shared by all tasks ---- */

/* T5: bias by key - query, for distances up to `longest`. */
static void make_relative(const job *j, float *at, int64_t longest) {
  const kit_launch *l = j->l;
  const float *bias = kit_f32(&l->in[BIAS]);
  int32_t buckets = (int32_t)kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_NUM_BUCKETS, 32),
          far = (int32_t)kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_MAX_DISTANCE, 128);
  for (int64_t d = -longest; d <= longest; d++) {
    int32_t bucket =
        kit_t5_bucket(d, j->bias_kind == ACCEL_PLUGIN_BIAS_T5_BIDIRECTIONAL, buckets, far);
    for (int64_t h = 0; h < j->heads; h++)
      at[h * (2 * longest + 1) + d + longest] = bias[bucket * j->heads + h];
  }
}

/* By row numbers where all queries stand at the key of their own number, else cut to where buckets
 * end. */
static void make_t5(job *j, float *at, int64_t longest) {
  bool numbers = true;
  for (int32_t i = 0; i < j->n; i++)
    numbers &= !j->sequence[i].positions && !j->sequence[i].shift && !j->state;
  j->base.far = numbers ? longest : far_distance(j->l->node);
  make_relative(j, at, j->base.far);
  j->relative = at;
  j->relative_stride = 2 * j->base.far + 1;
  if (!numbers) return;
  j->base.relative_origin = longest;
  j->base.far = 0;
}

typedef struct pack_job {
  const job *j;
  uint32_t tasks;
} pack_job;

static void pack_head(const job *j, const kit_tensor *table, int64_t h, float *to) {
  const cpu_kernels *k = &j->s->kernels;
  const int64_t dk = j->base.dk, ld = kit_cols(table), first = j->base.relative_first,
                stored = table->dim[0];
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
  for (int64_t h = cpu_share(j->heads, i, p->tasks); h < cpu_share(j->heads, i + 1, p->tasks);
       h++) {
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
  j->base.relative_columns =
      relative_span(n, s->longest, j->s->kernels.panel_cols, &j->base.relative_first);
  j->base.relative_origin = s->longest;
  /* query - key; the ends are never asked for */
  for (int64_t d = -s->longest; d < s->longest; d++) {
    int64_t inside = d == -s->longest ? d + 1 : d;
    row[d + s->longest] = kit_deberta_row(inside, span, buckets, distance);
  }
  j->base.relative_row = row;
  at += 2 * (s->longest + 16);
  if (kit_has(&l->in[REL_K])) j->rel_k = at;
  if (kit_has(&l->in[REL_Q])) j->rel_q = at + s->heads * s->relative_columns * s->dk;
  pack_job p = {.j = j,
                .tasks = cpu_tasks(l, j->heads, 0.5 * (double)(s->relative_columns * s->dk))};
  cpu_parallel(l, p.tasks, pack_task, &p);
}

/* ---- tasks ---- */

/* Keys of one range, whole tiles: a function of the sequence alone. */
static int64_t range_keys(int64_t keys) {
  int64_t tiles = (keys + CPU_ATTENTION_KEYS - 1) / CPU_ATTENTION_KEYS,
          each = (tiles + MAX_RANGES - 1) / MAX_RANGES;
  return (each < RANGE_KEYS / CPU_ATTENTION_KEYS ? RANGE_KEYS / CPU_ATTENTION_KEYS : each) *
         CPU_ATTENTION_KEYS;
}

static void place_keys(const job *j, const sequence *s, int64_t g, cpu_attention *a) {
  const kit_launch *l = j->l;
  const kit_tensor *k = &l->in[K], *v = &l->in[VALUE];
  a->keys = s->keys;
  a->shift = s->shift;
  if (j->state) {
    const int64_t size = cpu_kv_bytes(s->state.dtype);
    a->kv = s->state.dtype;
    a->page = s->state.page;
    a->page_shift = __builtin_ctz((uint32_t)s->state.page_rows);
    a->k_offset = g * (int64_t)s->state.k_head;
    a->v_offset = (int64_t)s->state.v_offset + g * (int64_t)s->state.v_head;
    a->ldk = (int64_t)s->state.k_row / size;
    a->ldv = (int64_t)s->state.v_row / size;
    a->k_scale = (int64_t)kit_kv_scale(a->dk);
    a->v_scale = (int64_t)kit_kv_scale(a->dv);
    if (kit_has(k) && kit_has(&l->in[MASK])) a->mask = kit_i32(&l->in[MASK]) + j->kv.start[s->item];
    a->mask_from = s->state.past;
  } else {
    const int64_t ks = j->kv.start[s->item];
    a->kv = ACCEL_PLUGIN_F32;
    a->k = kit_f32(k) + ks * k->row_stride + g * a->dk;
    a->v = kit_f32(v) + ks * v->row_stride + g * a->dv;
    a->ldk = k->row_stride;
    a->ldv = v->row_stride;
    if (kit_has(&l->in[MASK])) a->mask = kit_i32(&l->in[MASK]) + ks;
  }
  if (!s->positions) return;
  a->query_position = s->query;
  a->key_position = s->key;
}

static void place_bias(const job *j, const sequence *s, int64_t h, cpu_attention *a) {
  const kit_tensor *bias = &j->l->in[BIAS];
  if (j->bias_kind == ACCEL_PLUGIN_BIAS_ALIBI) a->slope = kit_f32(bias)[h];
  if (j->relative && a->far) a->distance = j->relative + h * j->relative_stride;
  if (j->relative && !a->far) a->relative = j->relative + h * j->relative_stride;
  if (j->rel_k) a->rel_k = j->rel_k + h * a->relative_columns * a->dk;
  if (j->rel_q) a->rel_q = j->rel_q + h * a->relative_columns * a->dk;
  if (j->bias_kind != ACCEL_PLUGIN_BIAS_DENSE) return;
  int64_t at = bias->dim[0] > 1 ? s->item % j->period : 0; /* [P, H, Sq, Sk], each dim may be 1 */
  at = at * bias->dim[1] + (bias->dim[1] > 1 ? h : 0);
  a->bias = kit_f32(bias) + at * bias->dim[2] * bias->dim[3];
  a->bias_row = bias->dim[2] > 1 ? bias->dim[3] : 0;
  a->bias_column = bias->dim[3] > 1;
}

static void place_head(const job *j, const sequence *s, int64_t h, cpu_attention *a) {
  const kit_launch *l = j->l;
  const kit_tensor *q = &l->in[Q], *out = &l->out[0];
  *a = j->base;
  place_keys(j, s, h / (j->heads / j->kv_heads), a);
  place_bias(j, s, h, a);
  a->q = kit_f32(q) + s->row * q->row_stride + h * a->dk;
  a->y = kit_f32(out) + s->row * kit_cols(out) + h * a->dv;
  a->ldq = q->row_stride;
  a->ldy = kit_cols(out);
  a->step = 1;
  if (kit_has(&l->in[SINKS])) a->sinks = kit_f32(&l->in[SINKS]) + h;
}

/* Probabilities of a head that is listed; its y is written again by run_unit, as when they are not
 * asked for. */
static void write_probabilities(const job *j, const sequence *s, int64_t h, int64_t row,
                                int64_t row_end, float *workspace) {
  const kit_tensor *probs = &j->l->out[1];
  cpu_attention a;
  for (uint32_t i = 0; kit_has(probs) && i < j->n_probs; i++) {
    if (j->probs[i] != h) continue;
    place_head(j, s, h, &a);
    a.probs = kit_f32(probs) + ((int64_t)i * probs->dim[1] + s->row) * probs->dim[2];
    a.ldp = a.probs_columns = probs->dim[2];
    j->s->kernels.attention(&a, row, row_end, workspace);
  }
}

static bool dim_takes_codes(int64_t dim) { return dim >= CODES_DIM_LEAST && dim <= CODES_DIM_MOST; }

/* Whether a head of a sequence is multiplied as codes: a matter of the sequence alone. */
static bool takes_codes(const job *j, const cpu_attention *a, int64_t rows) {
  const int64_t all = a->shift ? INT64_MAX : rows > a->keys ? rows : a->keys; /* none is hidden */
  const bool all_seen = (a->left < 0 || a->left >= all) && (a->right < 0 || a->right >= all);
  return j->s->codes && j->s->kernels.attention_i8 && !j->state && all_seen && a->softcap <= 0 &&
         !a->sinks && a->slope == 0.0f && !a->relative_row && !a->distance && !a->key_position &&
         !a->part && a->scale > 0 && dim_takes_codes(a->dk) && dim_takes_codes(a->dv) &&
         a->keys >= CODES_KEYS_LEAST && a->keys <= CODES_KEYS_MOST;
}

/* Of bf16; over the keys of sessions where decoding does so, too: a prompt gives the same at once
 * and token by token. */
static bool takes_bf16(const job *j, const cpu_attention *a) {
  const cpu_kernels *k = &j->s->kernels;
  return j->s->bf16 && k->attention_bf16 && (!j->state || cpu_decodes_bf16(k, a)) &&
         !a->relative_row && (!k->tile_registers || a->dk >= CPU_ATTENTION_DEPTH);
}

static cpu_decode_fn *decode_of(const job *j, const cpu_attention *a) {
  return j->state && takes_bf16(j, a) ? j->s->kernels.decode_bf16 : j->s->kernels.decode;
}

/* Rows [row, row_end) of a unit, or all heads of it, and the keys of `range`. */
static void run_unit(const job *j, const sequence *s, int64_t unit, int64_t range, int64_t row,
                     int64_t row_end, float *workspace) {
  const int64_t group = s->grouped ? j->heads / j->kv_heads : 1, h = unit * group;
  int64_t rows = s->rows; /* decides on the kernel: how they are cut does not */
  cpu_attention a;
  for (int64_t i = 0; range == 0 && i < group; i++)
    write_probabilities(j, s, h + i, row, row_end, workspace);
  place_head(j, s, h, &a);
  if (s->grouped) {
    a.step = 0;
    a.ldq = a.dk;
    a.ldy = a.dv;
    a.sink_step = 1;
    rows = row_end = group;
  }
  if (s->ranges > 1) {
    const int64_t each = range_keys(a.keys);
    a.first = range * each;
    if (a.keys > a.first + each) a.keys = a.first + each;
    a.part = s->parts + (range * j->heads + h) * (2 + a.dv);
  }
  if (rows <= (s->grouped ? FEW_HEADS : FEW_ROWS) && !a.relative_row)
    decode_of(j, &a)(&a, row, row_end);
  else if (takes_codes(j, &a, rows))
    j->s->kernels.attention_i8(&a, row, row_end, workspace);
  else if (takes_bf16(j, &a))
    j->s->kernels.attention_bf16(&a, row, row_end, workspace);
  else
    j->s->kernels.attention(&a, row, row_end, workspace);
}

/* Units from .. to-1, stretch `chunk` of `chunks` of their rows. */
static void run_units(const job *j, int64_t from, int64_t to, uint32_t chunk, uint32_t chunks,
                      float *workspace) {
  for (int32_t i = 0; i < j->n && to > 0; i++) {
    const sequence *s = &j->sequence[i];
    const int64_t row = cpu_share(s->rows, chunk, chunks),
                  row_end = cpu_share(s->rows, chunk + 1, chunks), each = s->units / s->ranges;
    /* neighbours read the same pages */
    for (int64_t u = from > 0 ? from : 0; row < row_end && u < to && u < s->units; u++)
      run_unit(j, s, u % each, u / each, row, row_end, workspace);
    from -= s->units;
    to -= s->units;
  }
}

static void attention_task(void *arg, uint32_t index, uint32_t worker) {
  const job *j = arg;
  float *workspace = j->workspace + (int64_t)worker * j->workspace_floats;
  if (j->chunks)
    run_units(j, index / j->chunks, index / j->chunks + 1, index % j->chunks, j->chunks, workspace);
  else
    run_units(j, cpu_share(j->units, index, j->tasks), cpu_share(j->units, index + 1, j->tasks), 0,
              1, workspace);
}

/* y of a head from the parts of its ranges, in order. */
static void merge_head(const job *j, const sequence *s, int64_t h, float *y) {
  const int64_t dv = j->base.dv, step = j->heads * (2 + dv);
  const float *part = s->parts + h * (2 + dv),
              sink = kit_has(&j->l->in[SINKS]) ? kit_f32(&j->l->in[SINKS])[h] : -INFINITY;
  float top = sink;
  for (int64_t r = 0; r < s->ranges; r++) top = fmaxf(top, part[r * step]);
  memset(y, 0, (size_t)dv * sizeof *y);
  if (top == -INFINITY) top = 0.0f; /* NaN, or nothing is seen */
  float sum = sink > -INFINITY ? expf(sink - top) : 0.0f;
  for (int64_t r = 0; r < s->ranges; r++) {
    const float *p = part + r * step,
                weight = p[0] == -INFINITY && p[1] == 0.0f ? 0.0f : expf(p[0] - top);
    sum += weight * p[1];
    j->s->kernels.accumulate(weight, p + 2, y, dv);
  }
  const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
  j->s->kernels.binary(ACCEL_PLUGIN_BINARY_MUL, y, 1, &inverse, 0, y, dv);
}

static void merge_ranges(const job *j) {
  const kit_tensor *out = &j->l->out[0];
  for (int32_t i = 0; i < j->n; i++)
    for (int64_t h = 0; j->sequence[i].ranges > 1 && h < j->heads; h++)
      merge_head(j, &j->sequence[i], h,
                 kit_f32(out) + j->sequence[i].row * kit_cols(out) + h * j->base.dv);
}

/* One query row: heads that share keys go together, and many keys are cut into ranges. */
static int32_t choose_units(job *j, accel_plugin_error *error) {
  uint64_t floats = 0;
  for (int32_t i = 0; i < j->n; i++) {
    sequence *s = &j->sequence[i];
    const int64_t each = range_keys(s->keys), part = j->heads * (2 + j->base.dv);
    const bool single = s->rows == 1 && !j->base.relative_row;
    s->grouped =
        single && j->heads > j->kv_heads && j->bias_kind == ACCEL_PLUGIN_BIAS_NONE && !s->positions;
    s->ranges = single && s->keys > each ? (s->keys + each - 1) / each : 1;
    s->units = s->ranges * (s->grouped ? j->kv_heads : j->heads);
    j->units += s->units;
    if (s->ranges > 1) floats += (uint64_t)(s->ranges * part);
  }
  if (!floats) return ACCEL_PLUGIN_OK;
  float *at = j->parts = malloc(floats * sizeof *at);
  if (!at) return kit_no_memory(error, floats * sizeof *at);
  for (int32_t i = 0; i < j->n; i++) {
    j->sequence[i].parts = at;
    if (j->sequence[i].ranges > 1) at += j->sequence[i].ranges * j->heads * (2 + j->base.dv);
  }
  return ACCEL_PLUGIN_OK;
}

/* Tasks: whole units, several each when they are many or small, or stretches of the rows of each
 * unit so that all workers finish together. */
static void split_tasks(job *j, const kit_launch *l) {
  enum { TASKS_EACH = 8, STRETCHES = 8 };
  const double packing = 8, held_up = 0.2; /* rows that packing the keys is worth; of a task */
  const uint32_t workers = cpu_workers(l);
  double cost = 0, rows = 0, best = INFINITY;
  for (int32_t i = 0; i < j->n; i++) {
    cost += (double)(j->sequence[i].rows + 8) * (double)j->sequence[i].keys *
            (double)(j->base.dk + j->base.dv + 20);
    rows += (double)j->sequence[i].rows / (double)j->n;
  }
  cost *= 0.03 * (double)j->heads; /* ns */
  j->chunks = 0;
  /* 64: a unit can be cut */
  j->tasks = cpu_tasks(l, j->units * 64, cost / (double)(j->units * 64));
  if (j->tasks < 2) return;
  /* taking a task would cost as much as a unit */
  const bool cheap = j->tasks <= workers && j->units >= (int64_t)workers;
  if (j->units >= (int64_t)workers * TASKS_EACH || rows <= FEW_ROWS || cheap) {
    /* sequences differ in length */
    if (j->n > 1 || j->tasks > workers) j->tasks = workers * TASKS_EACH;
    if ((int64_t)j->tasks > j->units) j->tasks = (uint32_t)j->units;
    return;
  }
  for (int64_t c = 1; c <= STRETCHES && (double)c <= rows; c++) {
    const double time =
        (rows / (double)c + packing) * ((double)((j->units * c + workers - 1) / workers) + held_up);
    if (time >= best) continue;
    best = time;
    j->chunks = (uint32_t)c;
  }
  j->tasks = j->chunks * (uint32_t)j->units;
}

/* ---- the launch ---- */

static int32_t check_operands(const job *j, const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *b = &l->in[BIAS], *probs = &l->out[1];
  for (int32_t i = 0; i < j->q.items; i++) {
    long long rows = j->q.start[i + 1] - j->q.start[i], keys = j->sequence[i].keys;
    if (j->bias_kind == ACCEL_PLUGIN_BIAS_DENSE &&
        ((b->dim[2] > 1 && rows > b->dim[2]) || (b->dim[3] > 1 && keys > b->dim[3])))
      return kit_launch_fail(l, error, ACCEL_PLUGIN_E_ARGUMENT,
                             "dense bias of %lld x %lld is too small for %lld x %lld",
                             (long long)b->dim[2], (long long)b->dim[3], rows, keys);
    if (kit_has(probs) && keys > probs->dim[2])
      return kit_launch_fail(l, error, ACCEL_PLUGIN_E_ARGUMENT,
                             "probabilities of %lld keys do not fit %lld columns", keys,
                             (long long)probs->dim[2]);
  }
  return ACCEL_PLUGIN_OK;
}

static void read_attributes(job *j, const kit_launch *l, const sizes *s) {
  const accel_plugin_node *n = l->node;
  j->heads = s->heads;
  j->kv_heads = s->kv_heads;
  j->bias_kind = (int32_t)kit_attr_i(n, ACCEL_PLUGIN_ATTR_BIAS_KIND, ACCEL_PLUGIN_BIAS_NONE);
  j->period = j->bias_kind == ACCEL_PLUGIN_BIAS_DENSE
                  ? kit_attr_i(n, ACCEL_PLUGIN_ATTR_BIAS_PERIOD, l->in[BIAS].dim[0])
                  : 1;
  j->n_probs = kit_attr_iv(n, ACCEL_PLUGIN_ATTR_PROBS, &j->probs);
  j->base = (cpu_attention){.dk = s->dk,
                            .dv = s->dv,
                            .softcap = (float)kit_attr_f(n, ACCEL_PLUGIN_ATTR_SOFTCAP, 0.0),
                            .left = kit_attr_i(n, ACCEL_PLUGIN_ATTR_WINDOW_LEFT, -1),
                            .right = kit_attr_i(n, ACCEL_PLUGIN_ATTR_WINDOW_RIGHT, -1)};
  j->base.scale =
      (float)kit_attr_f(n, ACCEL_PLUGIN_ATTR_SCALE, s->dk ? 1.0 / sqrt((double)s->dk) : 1.0);
  /* a positive window_right allows no more */
  if (kit_attr_i(n, ACCEL_PLUGIN_ATTR_CAUSAL, 0)) j->base.right = 0;
}

/* Rows of the run into the pages that were reserved for them. */
static void write_row(const job *j, int32_t row, int32_t item) {
  const kit_state_view *s = &j->sequence[item].state;
  const int32_t at = s->length - (j->kv.start[item + 1] - row);
  for (int value = 0; value < 2; value++) {
    const kit_tensor *t = &j->l->in[value ? VALUE : K];
    const int64_t dim = value ? j->base.dv : j->base.dk;
    for (int64_t h = 0; h < j->kv_heads; h++) {
      void *to = value ? kit_state_v(s, at, h) : kit_state_k(s, at, h);
      j->s->kernels.store(s->dtype, kit_f32(t) + row * t->row_stride + h * dim, dim, to);
    }
  }
}

static void write_task(void *arg, uint32_t index, uint32_t worker) {
  const job *j = arg;
  int32_t row = (int32_t)cpu_share(j->kv.rows, index, j->tasks), item = 0;
  const int32_t end = (int32_t)cpu_share(j->kv.rows, index + 1, j->tasks);
  (void)worker;
  for (; row < end; row++) {
    while (row >= j->kv.start[item + 1]) item++;
    write_row(j, row, item);
  }
}

static void write_keys(job *j) {
  const double ns_element = 0.2;
  j->tasks =
      cpu_tasks(j->l, j->kv.rows, ns_element * (double)(j->kv_heads * (j->base.dk + j->base.dv)));
  cpu_parallel(j->l, j->tasks, write_task, j);
}

/* Every sequence's keys; with a state the given rows are appended first, unless it is static. */
static int32_t find_keys(job *j, accel_plugin_error *error) {
  const kit_launch *l = j->l;
  const kit_tensor *k = &l->in[K];
  const bool append =
      j->state && kit_has(k) && !kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_STATE_STATIC, 0);
  j->n = j->q.items;
  for (int32_t i = 0; i < j->q.items; i++) {
    sequence *s = &j->sequence[i];
    const int32_t start = kit_has(k) ? j->kv.start[i] : 0,
                  n = kit_has(k) ? j->kv.start[i + 1] - start : 0;
    *s = (sequence){.keys = n, .item = i, .row = j->q.start[i]};
    s->rows = j->q.start[i + 1] - s->row;
    if (!j->state) continue;
    const int32_t *position = kit_has(&l->in[KV_POS]) ? kit_i32(&l->in[KV_POS]) + start : NULL;
    int32_t rc = append ? kit_state_append(l, (uint32_t)i, n, position, &s->state, error)
                        : kit_state_read(l, (uint32_t)i, &s->state, error);
    if (rc) return rc;
    s->keys = s->state.length;
    s->past = s->state.past;
  }
  if (append) write_keys(j);
  return ACCEL_PLUGIN_OK;
}

/* Rows that can be computed one by one: each sees the keys up to its own, or all of an encoder's. */
static bool rows_stand_alone(const job *j) {
  const kit_launch *l = j->l;
  const bool fixed = !kit_has(&l->in[K]) || kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_STATE_STATIC, 0);
  return j->state && (fixed ? j->base.right < 0 : j->base.right == 0) && !kit_has(&l->in[MASK]) &&
         !kit_has(&l->out[1]) && j->bias_kind != ACCEL_PLUGIN_BIAS_DENSE;
}

static bool is_alone(const sequence *s) {
  return s->rows > 1 && s->rows <= CPU_ATTENTION_LONE_ROWS;
}
/* Few new rows of a sequence become one sequence each, so that a token gives the same bits whether
 * it comes alone or with others before and behind it. */
static int32_t alone(job *j, accel_plugin_error *error) {
  int64_t n = 0;
  for (int32_t i = 0; i < j->n; i++) n += is_alone(&j->sequence[i]) ? j->sequence[i].rows : 1;
  if (n == j->n || !rows_stand_alone(j)) return ACCEL_PLUGIN_OK;
  sequence *list = calloc((size_t)n, sizeof *list), *to = list;
  if (!list) return kit_no_memory(error, (uint64_t)n * sizeof *list);
  for (int32_t i = 0; i < j->n; i++) {
    const sequence *s = &j->sequence[i];
    const int64_t each = is_alone(s) ? s->rows : 1;
    for (int64_t r = 0; r < each; r++, to++) {
      *to = *s;
      if (each == 1) continue;
      to->row += r;
      to->rows = 1;
      if (j->base.right < 0 || kit_has(&j->l->in[Q_POS])) continue; /* those say what it sees */
      to->past += r;
      to->keys -= each - 1 - r;
    }
  }
  free(j->sequence);
  j->sequence = list;
  j->n = (int32_t)n;
  return ACCEL_PLUGIN_OK;
}

/* What the kernels here do not take, or what is wrong and the scalar kernel will say.  Nothing has
 * been appended yet. */
static bool is_supported(const job *j, const kit_launch *l, const sizes *s) {
  const accel_plugin_state *state = j->state ? &l->program->state[l->node->state] : NULL;
  if (s->heads < 1 || s->heads % s->kv_heads || s->dk < 1 || s->dv < 1 || j->q.rows < 1 ||
      j->period < 1)
    return false;
  if (kit_has(&l->in[K]) && (!kit_has(&l->in[VALUE]) || j->kv.items != j->q.items)) return false;
  if (!state) return true;
  return state->heads == s->kv_heads && state->k_dim == s->dk && state->v_dim == s->dv &&
         j->bias_kind != ACCEL_PLUGIN_BIAS_DISENTANGLED;
}

static int32_t run_attention(job *j, const kit_launch *l, const sizes *s,
                             accel_plugin_error *error) {
  float *at = l->workspace;
  int32_t rc = find_keys(j, error);
  if (!rc) rc = check_operands(j, l, error);
  if (!rc) rc = alone(j, error);
  if (rc) return rc;
  for (int32_t i = 0; i < j->n; i++) {
    rc = find_positions(j, &j->sequence[i], error);
    const sequence *q = &j->sequence[i];
    bool apart = j->bias_kind == ACCEL_PLUGIN_BIAS_DISENTANGLED && (q->positions || q->shift);
    if ((rc == ACCEL_PLUGIN_E_UNSUPPORTED || apart) && !j->state)
      return kit_scalar(ACCEL_PLUGIN_OP_ATTENTION)(l, error);
    if (rc) return rc;
  }
  if (is_t5(j->bias_kind)) make_t5(j, at, s->longest);
  if (j->bias_kind == ACCEL_PLUGIN_BIAS_DISENTANGLED) make_disentangled(j, l, s, at);
  rc = choose_units(j, error);
  if (rc) return rc;
  j->workspace = at + s->shared;
  j->workspace_floats = (int64_t)s->worker;
  split_tasks(j, l);
  cpu_parallel(l, j->tasks, attention_task, j);
  if (j->parts) merge_ranges(j);
  free(j->parts);
  return ACCEL_PLUGIN_OK;
}

int32_t cpu_launch_attention(const cpu_self *self, const kit_launch *l, accel_plugin_error *error) {
  int32_t all[4];
  job j = {.s = self, .l = l, .state = l->node->state >= 0};
  if (!has_kernels(l)) return kit_scalar(ACCEL_PLUGIN_OP_ATTENTION)(l, error);
  j.q = kit_rows_of(l, ACCEL_PLUGIN_ATTR_Q_SPACE, l->in[Q].dim[0], all);
  if (kit_has(&l->in[K]))
    j.kv = kit_rows_of(l, ACCEL_PLUGIN_ATTR_KV_SPACE, l->in[K].dim[0], all + 2);
  sizes s =
      measure_sizes(&self->kernels, l, j.q.longest > j.kv.longest ? j.q.longest : j.kv.longest);
  read_attributes(&j, l, &s);
  if (!is_supported(&j, l, &s)) return kit_scalar(ACCEL_PLUGIN_OP_ATTENTION)(l, error);
  j.sequence = calloc((size_t)j.q.items + 1, sizeof *j.sequence);
  if (!j.sequence) return kit_no_memory(error, (uint64_t)j.q.items * sizeof *j.sequence);
  int32_t rc = run_attention(&j, l, &s, error);
  for (int32_t i = 0; i < j.n; i++) free(j.sequence[i].made);
  free(j.sequence);
  return rc;
}

/* ---- what the instructions allow ---- */

typedef struct repeated {
  cpu_decode_fn *decode;
  cpu_attention a; /* over as many keys as the cache holds */
  int64_t rows, floats;
  float *part; /* [threads][floats] */
} repeated;

static void repeat_keys(const void *arg, uint32_t i) {
  const repeated *r = arg;
  cpu_attention a = r->a;
  a.part = r->part + i * r->floats;
  r->decode(&a, 0, r->rows);
}

/* Microseconds of one key of one unit of a sequence, all threads at once; 0: not known. */
static double key_limit(const job *j, const sequence *s) {
  enum { CACHED = 256 << 10 };
  repeated r = {.rows = s->grouped ? j->heads / j->kv_heads : 1};
  place_head(j, s, 0, &r.a);
  r.decode = decode_of(j, &r.a);
  const int64_t row = (r.a.ldk + r.a.ldv) * cpu_kv_bytes(r.a.kv), most = CACHED / row;
  int64_t keys = 1; /* powers of two: not another kind with each token */
  while (2 * keys <= most && 2 * keys <= s->keys) keys *= 2;
  if (s->grouped) {
    r.a.step = 0;
    r.a.ldq = r.a.dk;
  }
  r.a.first = s->keys - keys; /* in every window */
  r.floats = round_up(r.rows * (2 + r.a.dv), 16);
  r.part = malloc((size_t)(cpu_workers(j->l) * r.floats) * sizeof *r.part);
  if (!r.part) return 0;
  const int64_t key[CPU_LIMIT_KEY] = {
      ACCEL_PLUGIN_OP_ATTENTION, r.a.kv, r.rows, r.a.dk, r.a.dv, keys, j->bias_kind};
  const double us = cpu_limit(j->s->limits, j->l, key, repeat_keys, &r) / (double)keys;
  free(r.part);
  return us;
}

static double state_limit(job *j) {
  double us = 0;
  for (int32_t i = 0; i < j->q.items; i++) {
    sequence *s = &j->sequence[i];
    s->item = i;
    s->row = j->q.start[i];
    s->rows = j->q.start[i + 1] - s->row;
    if (s->rows != 1 || kit_state_read(j->l, (uint32_t)i, &s->state, NULL)) return 0;
    s->keys = s->state.length;
    s->shift = s->keys - 1;
    s->grouped = j->heads > j->kv_heads && j->bias_kind == ACCEL_PLUGIN_BIAS_NONE;
    const int64_t seen =
        j->base.left >= 0 && j->base.left + 1 < s->keys ? j->base.left + 1 : s->keys;
    us += key_limit(j, s) * (double)(seen * (s->grouped ? j->kv_heads : j->heads));
  }
  return us / cpu_workers(j->l);
}

/* Of single query rows over the keys of sessions, as decoding has them. */
double cpu_attention_limit(const cpu_self *self, const kit_launch *l) {
  int32_t all[2];
  job j = {.s = self, .l = l, .state = true};
  if (l->node->state < 0 || !kit_has(&l->in[Q]) || kit_has(&l->in[REL_K]) || kit_has(&l->in[REL_Q]))
    return 0;
  j.q = kit_rows_of(l, ACCEL_PLUGIN_ATTR_Q_SPACE, l->in[Q].dim[0], all);
  const sizes s = measure_sizes(&self->kernels, l, 1);
  read_attributes(&j, l, &s);
  if (j.q.items < 1 || s.heads < 1 || s.dk < 1 || s.dv < 1 || is_t5(j.bias_kind)) return 0;
  j.sequence = calloc((size_t)j.q.items, sizeof *j.sequence);
  const double us = j.sequence ? state_limit(&j) : 0;
  free(j.sequence);
  return us;
}
