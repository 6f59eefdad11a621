/* kit_graph_feed.c - what the host gives a graph in each run, and what it keeps of the results. */
#include <stdlib.h>
#include <string.h>

#include "kit/kit_graph.h"
#include "kit/kit_scalar.h"

enum { K = 1, KV_POS = 5 };

static int32_t root_of(const accel_plugin_program *p, int32_t state) {
  return p->state[state].share >= 0 ? p->state[state].share : state;
}

static kit_launch launch_of(const kit_graph_run *r, uint32_t index) {
  return (kit_launch){.program = r->program,
                      .node = &r->program->node[index],
                      .index = index,
                      .dim = r->dim,
                      .rows = r->rows,
                      .state = r->state,
                      .host = r->host};
}

/* A node of the entry over state `root`. */
static uint32_t node_over(const kit_graph_run *r, int32_t root) {
  const accel_plugin_entry *e = &r->program->entry[r->entry];
  for (uint32_t i = 0; i < e->n_node; i++) {
    const accel_plugin_node *n = &r->program->node[e->node[i]];
    if (n->state >= 0 && root_of(r->program, n->state) == root) return (uint32_t)e->node[i];
  }
  return 0; /* not reached: the graph was made of such a node */
}

/* ---- rows ---- */

static void *take(void **owned, uint64_t bytes, accel_plugin_error *error) {
  *owned = calloc(bytes ? bytes : 1, 1);
  if (!*owned) kit_no_memory(error, bytes);
  return *owned;
}

static int32_t fill_rows(const kit_graph_feed *f, const kit_graph_run *r, int64_t *dim,
                         void **owned, accel_plugin_error *error) {
  static const int32_t none[2] = {0};
  kit_rows one = {.items = 1, .start = none};
  if (f->index < 0 && f->kind == KIT_FEED_ROW)
    one.longest = (int32_t)r->dim[KIT_FEED_DIM - f->index];
  const kit_rows *rows = f->index >= 0 ? &r->rows[f->index] : &one;
  const int32_t longest = rows->longest;
  const bool by_row = f->kind == KIT_FEED_UNPAD;
  dim[0] = f->kind == KIT_FEED_ROW ? 1 : by_row ? rows->rows : rows->items;
  dim[1] = f->kind == KIT_FEED_LENGTH ? 1 : longest;
  const bool flat = by_row || f->kind == KIT_FEED_ITEM;
  int32_t *to = take(owned, (uint64_t)(dim[0] * (flat ? 1 : dim[1])) * 4, error);
  if (!to) return ACCEL_PLUGIN_E_HOST_MEMORY;
  for (int32_t i = 0; f->kind == KIT_FEED_ROW && i < longest; i++) to[i] = i;
  for (int32_t b = 0; f->kind != KIT_FEED_ROW && b < rows->items; b++) {
    const int32_t first = rows->start[b],
                  n = f->kind == KIT_FEED_ITEM ? 0 : rows->start[b + 1] - first;
    if (f->kind == KIT_FEED_ITEM) to[b] = b;
    if (f->kind == KIT_FEED_LENGTH) to[b] = n;
    for (int32_t i = 0; by_row && i < n; i++) to[first + i] = b * longest + i;
    for (int32_t i = 0; f->kind == KIT_FEED_PAD && i < longest; i++)
      to[b * longest + i] = i < n ? first + i : n ? first : 0;
  }
  return ACCEL_PLUGIN_OK;
}

/* ---- the past ---- */

/* What an item holds of state `root`. */
static int32_t past_of(const kit_graph_run *r, int32_t root, uint32_t item, kit_state_view *view,
                       accel_plugin_error *error) {
  const kit_launch l = launch_of(r, node_over(r, root));
  return kit_state_read(&l, item, view, error);
}

static int32_t items_of(const kit_graph_run *r, int32_t root) {
  const accel_plugin_node *n = &r->program->node[node_over(r, root)];
  int64_t space = kit_attr_i(n, ACCEL_PLUGIN_ATTR_Q_SPACE, -1);
  if (space < 0) space = kit_attr_i(n, ACCEL_PLUGIN_ATTR_KV_SPACE, -1);
  if (space < 0) space = kit_attr_i(n, ACCEL_PLUGIN_ATTR_SPACE, -1);
  return space < 0 ? 1 : r->rows[space].items;
}

/* The longest past in steps of KIT_GRAPH_PAST_STEP, at least one: graphs get no empty tensors, and
 * compilers of graphs with open sizes prepare their kernels again for sizes they have not met, which
 * would be at every token.  Rows behind an item's past count for nothing. */
static int32_t longest_past(const kit_graph_run *r, int32_t root, int32_t *longest,
                            accel_plugin_error *error) {
  const int32_t items = items_of(r, root);
  int64_t most = 1;
  for (int32_t b = 0; b < items; b++) {
    kit_state_view v;
    const int32_t rc = past_of(r, root, (uint32_t)b, &v, error);
    if (rc) return rc;
    if (v.length > most) most = v.length;
  }
  *longest =
      (int32_t)((most + KIT_GRAPH_PAST_STEP - 1) / KIT_GRAPH_PAST_STEP * KIT_GRAPH_PAST_STEP);
  return ACCEL_PLUGIN_OK;
}

/* One item's keys or values, [heads, longest, dim]: a head's rows follow each other in a page. */
static void copy_past(const kit_state_view *v, bool value, int32_t longest, float *to) {
  const int64_t d = value ? v->state->v_dim : v->state->k_dim;
  for (int64_t h = 0; h < v->state->heads; h++)
    for (int32_t row = 0; row < v->length; row += v->page_rows) {
      const int32_t left = v->length - row, n = left < v->page_rows ? left : v->page_rows;
      memcpy(to + (h * longest + row) * d, value ? kit_state_v(v, row, h) : kit_state_k(v, row, h),
             (size_t)(n * d) * sizeof *to);
    }
}

static int32_t fill_past(const kit_graph_feed *f, const kit_graph_run *r, int64_t *dim,
                         void **owned, accel_plugin_error *error) {
  const accel_plugin_state *s = &r->program->state[f->index];
  const int32_t items = items_of(r, f->index);
  const bool value = f->kind == KIT_FEED_PAST_V, vectors = value || f->kind == KIT_FEED_PAST_K;
  const int64_t d = value ? s->v_dim : s->k_dim;
  int32_t longest, rc = longest_past(r, f->index, &longest, error);
  if (rc) return rc;
  dim[0] = f->kind == KIT_FEED_PAST_ROW ? 1 : items;
  dim[1] = vectors ? s->heads : f->kind == KIT_FEED_PAST_LENGTH ? 1 : longest;
  dim[2] = longest;
  dim[3] = d;
  const int64_t each = vectors ? s->heads * longest * d : dim[1];
  int32_t *to = take(owned, (uint64_t)(dim[0] * each) * 4, error);
  if (!to) return ACCEL_PLUGIN_E_HOST_MEMORY;
  for (int32_t i = 0; f->kind == KIT_FEED_PAST_ROW && i < longest; i++) to[i] = i;
  for (int32_t b = 0; f->kind != KIT_FEED_PAST_ROW && !rc && b < items; b++) {
    kit_state_view v;
    rc = past_of(r, f->index, (uint32_t)b, &v, error);
    if (rc) break;
    if (f->kind == KIT_FEED_PAST_LENGTH) to[b] = v.length;
    if (f->kind == KIT_FEED_PAST_POSITION && v.length)
      memcpy(to + b * each, v.position, (size_t)v.length * 4);
    if (vectors) copy_past(&v, value, longest, (float *)to + b * each);
  }
  return rc;
}

/* Rows in front of each item that a convolution's state carries; zeros in the first run. */
static int32_t fill_carried(const kit_graph *g, const kit_graph_feed *f, const kit_graph_run *r,
                            int64_t *dim, void **owned, accel_plugin_error *error) {
  const accel_plugin_attr still = {
      .key = ACCEL_PLUGIN_ATTR_STATE_STATIC, .type = ACCEL_PLUGIN_ATTR_I, .i = 1};
  kit_launch l = launch_of(r, (uint32_t)f->index);
  accel_plugin_node look = *l.node; /* the same state, only read */
  const int32_t items = items_of(r, root_of(r->program, look.state));
  look.attr = &still;
  look.n_attr = 1;
  l.node = &look;
  dim[0] = items;
  dim[1] = g->node[f->node].dim[1];
  dim[2] = g->node[f->node].dim[2];
  float *to = take(owned, (uint64_t)(items * dim[1] * dim[2]) * 4, error);
  int32_t rc = to ? ACCEL_PLUGIN_OK : ACCEL_PLUGIN_E_HOST_MEMORY;
  for (int32_t b = 0; !rc && b < items; b++) {
    kit_state_view v;
    rc = kit_state_step(&l, (uint32_t)b, 0, (uint64_t)(dim[1] * dim[2]), &v, error);
    if (!rc && v.current)
      memcpy(to + b * dim[1] * dim[2], v.current, (size_t)(dim[1] * dim[2]) * 4);
  }
  return rc;
}

int32_t kit_graph_size_of(const kit_graph_size *s, const kit_graph_run *r, int64_t *out,
                          accel_plugin_error *error) {
  int32_t longest = 0, rc = ACCEL_PLUGIN_OK;
  if (s->state >= 0) rc = longest_past(r, s->state, &longest, error);
  *out = s->dim >= 0 ? r->dim[s->dim] : s->space >= 0 ? r->rows[s->space].longest : longest;
  return rc;
}

static int32_t fill_sizes(const kit_graph *g, const kit_graph_run *r, int64_t *dim, void **owned,
                          accel_plugin_error *error) {
  int64_t *to = take(owned, g->n_size * sizeof *to, error);
  int32_t rc = to ? ACCEL_PLUGIN_OK : ACCEL_PLUGIN_E_HOST_MEMORY;
  dim[0] = g->n_size;
  for (uint32_t i = 0; !rc && i < g->n_size; i++)
    rc = kit_graph_size_of(&g->size[i], r, &to[i], error);
  return rc;
}

int32_t kit_feed_fill(const kit_graph *g, const kit_graph_feed *f, const kit_graph_run *r,
                      int64_t *dim, const void **data, void **owned, accel_plugin_error *error) {
  static const int64_t nothing = 0;
  int32_t rc;
  *owned = NULL;
  switch (f->kind) {
    case KIT_FEED_INPUT:
      memcpy(dim, r->in[f->index].dim, sizeof r->in[f->index].dim);
      *data = r->in[f->index].host ? r->in[f->index].host : &nothing; /* of no elements */
      return ACCEL_PLUGIN_OK;
    case KIT_FEED_SIZES:
      rc = fill_sizes(g, r, dim, owned, error);
      break;
    case KIT_FEED_CARRIED:
      rc = fill_carried(g, f, r, dim, owned, error);
      break;
    case KIT_FEED_PAD:
    case KIT_FEED_UNPAD:
    case KIT_FEED_ROW:
    case KIT_FEED_LENGTH:
    case KIT_FEED_ITEM:
      rc = fill_rows(f, r, dim, owned, error);
      break;
    default:
      rc = fill_past(f, r, dim, owned, error);
  }
  *data = *owned;
  return rc;
}

int32_t kit_graph_check_inputs(const kit_graph *g, const kit_graph_run *r,
                               accel_plugin_error *error) {
  for (uint32_t c = 0; c < g->n_check; c++) {
    const kit_graph_check *check = &g->check[c];
    const accel_plugin_view *v = &r->in[check->input];
    const kit_launch l = launch_of(r, check->node);
    int64_t n = 1;
    for (uint32_t i = 0; i < v->rank; i++) n *= v->dim[i];
    for (int64_t i = 0; i < n; i++) {
      const int32_t at = ((const int32_t *)v->host)[i];
      if (at >= check->limit && l.node->op == ACCEL_PLUGIN_OP_ROPE)
        return kit_launch_fail(&l, error, ACCEL_PLUGIN_E_UNSUPPORTED,
                               "position %d: this device has rotations up to %lld alone, use cpu",
                               at, (long long)check->limit - 1);
      if (at < 0 || at >= check->limit)
        return kit_launch_fail(&l, error, ACCEL_PLUGIN_E_ARGUMENT,
                               "index %d at position %lld is outside 0..%lld", at, (long long)i,
                               (long long)check->limit - 1);
    }
  }
  return ACCEL_PLUGIN_OK;
}

/* ---- after a run ---- */

static const int32_t *positions_of(const kit_graph_run *r, const accel_plugin_node *n) {
  const accel_plugin_entry *e = &r->program->entry[r->entry];
  const int32_t id = kit_operand(n, KV_POS);
  for (uint32_t i = 0; id >= 0 && i < e->n_in; i++)
    if (e->in[i] == id) return r->in[i].host;
  return NULL;
}

static int32_t keep_rows(const kit_graph_run *r, uint32_t node, const float *k, const float *v,
                         accel_plugin_error *error) {
  const kit_launch l = launch_of(r, node);
  const int32_t *position = positions_of(r, l.node);
  const kit_tensor *rows_k = &r->tensor[l.node->in[K]];
  int32_t whole[2], rc = ACCEL_PLUGIN_OK;
  const kit_rows rows = kit_rows_of(&l, ACCEL_PLUGIN_ATTR_KV_SPACE, rows_k->dim[0], whole);
  for (int32_t b = 0; !rc && b < rows.items; b++) {
    kit_state_view s;
    const int32_t first = rows.start[b], n = rows.start[b + 1] - first;
    rc = kit_state_append(&l, (uint32_t)b, n, position ? position + first : NULL, &s, error);
    if (rc) break;
    const int64_t kw = (int64_t)s.state->heads * s.state->k_dim,
                  vw = (int64_t)s.state->heads * s.state->v_dim;
    kit_state_write(&s, s.length - n, n, k + first * kw, kw, v + first * vw, vw);
  }
  return rc;
}

/* The last rows of what was carried followed by the item's own. */
static int32_t keep_carried(const kit_graph_run *r, uint32_t node, const float *x,
                            accel_plugin_error *error) {
  const kit_launch l = launch_of(r, node);
  const kit_tensor *t = &r->tensor[l.node->in[0]], *w = &r->tensor[l.node->in[1]];
  const int64_t cols = kit_cols(t),
                before = kit_listed(
                    l.node, ACCEL_PLUGIN_ATTR_PADS, 0,
                    (w->dim[2] - 1) * kit_listed(l.node, ACCEL_PLUGIN_ATTR_DILATION, 0, 1));
  int32_t whole[2], rc = ACCEL_PLUGIN_OK;
  const kit_rows rows = kit_rows_of(&l, ACCEL_PLUGIN_ATTR_SPACE, t->dim[0], whole);
  for (int32_t b = 0; !rc && b < rows.items; b++) {
    kit_state_view s;
    const int64_t first = rows.start[b], n = rows.start[b + 1] - first;
    rc = kit_state_step(&l, (uint32_t)b, (int32_t)n, (uint64_t)(before * cols), &s, error);
    if (rc || !s.next) continue;
    for (int64_t i = 0; i < before; i++) {
      const int64_t at = n - before + i; /* row of the item; below 0: of what was carried */
      float *to = (float *)s.next + i * cols;
      if (at >= 0)
        memcpy(to, x + (first + at) * cols, (size_t)cols * sizeof *to);
      else if (s.current)
        memcpy(to, (const float *)s.current + (at + before) * cols, (size_t)cols * sizeof *to);
      else
        memset(to, 0, (size_t)cols * sizeof *to);
    }
  }
  return rc;
}

int32_t kit_graph_keep(const kit_graph *g, const kit_graph_run *r, const void *const *data,
                       accel_plugin_error *error) {
  int32_t rc = ACCEL_PLUGIN_OK;
  for (uint32_t i = 0; !rc && i < g->n_result; i++) {
    const uint32_t node = (uint32_t)g->result[i].index;
    if (g->result[i].kind == KIT_RESULT_ROWS_K)
      rc = keep_rows(r, node, data[i], data[i + 1], error); /* its values are the next result */
    if (g->result[i].kind == KIT_RESULT_ROWS_X) rc = keep_carried(r, node, data[i], error);
  }
  return rc;
}
