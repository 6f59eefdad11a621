/* gpu_op_kv.c - attention over the keys and values of a session's KV cache: this run's rows are
 * appended to its pages, then the queries attend to the pages.
 *
 * A kernel binds one chunk of the memory pool, while pages may lie in several. Each dispatch
 * takes, for every item, the next pages that lie in one chunk; the maximum, sum and output of
 * each row so far are carried from dispatch to dispatch in the workspace. Keys are taken in the
 * same groups wherever one dispatch ends and the next begins, so results do not depend on where
 * pages lie. */
#include "gpu/gpu_op_kv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/gpu_attention_common.h"

enum {
  WORDS = 6,
  HEAD = 3, /* words between the items' and the single rows' numbers */
  SPLIT_HEADS = 4,
  SPLIT_HEAD = 128, /* attention_split.k's HEADS and MAX_D */
  SPAN = 64,        /* attention.h */
  SINGLE_ROWS = 8,
  CARRIED_IN = 128,
  CARRIED_OUT = 256,
  WRITES = 512,
  BY_POSITION = 4
}; /* attention.h: words of an item, flags */

typedef struct sequence {
  kit_state_view view;
  int32_t next, end; /* pages still to be attended to */
} sequence;

typedef struct kv {
  gpu_run *run;
  const kit_launch *l;
  gpu_attention a;
  int32_t items;
  sequence *sequence; /* [items] */
  int32_t n_pages;    /* of all */
  gpu_binding positions;
  bool by_position;
  bool tiled;          /* by attention_tile.k and attention_split.k */
  int32_t n_single;    /* rows of items that have at most SINGLE_ROWS: attention_split.k's */
  int32_t splits;      /* spans of an item's keys, at most */
  gpu_binding partial; /* results of single rows, span by span */
} kv;

static const gpu_memory *page_of(const sequence *s, int32_t page) { return s->view.page[page]; }
static uint32_t element_bytes(uint8_t dtype) { return dtype == ACCEL_PLUGIN_F32 ? 4 : 2; }
static gpu_store store_of(uint8_t dtype) {
  return dtype == ACCEL_PLUGIN_F32   ? GPU_STORE_F32
         : dtype == ACCEL_PLUGIN_F16 ? GPU_STORE_F16
                                     : GPU_STORE_BF16;
}

/* ---- rows into pages ---- */

/* place[2 row], place[2 row + 1] of kv_write.k for the rows whose page lies in `chunk`; how many
 * there are. */
static int32_t place_rows(const kv *s, const gpu_chunk *chunk, int32_t *place) {
  int32_t found = 0;
  for (int32_t i = 0; i < s->items; i++) {
    const kit_state_view *v = &s->sequence[i].view;
    const int32_t start = s->a.kv.start[i], n = s->a.kv.start[i + 1] - start;
    for (int32_t r = 0; r < n; r++) {
      const int32_t at = v->length - n + r;
      const gpu_memory *page = page_of(&s->sequence[i], at / KIT_PAGE_ROWS);
      const bool here = page->chunk == chunk;
      place[2 * (start + r)] = here ? (int32_t)(page->offset / 4) : -1;
      place[2 * (start + r) + 1] = at % KIT_PAGE_ROWS;
      found += here;
    }
  }
  return found;
}

static int32_t write_chunk(kv *s, const gpu_memory *page, const kit_state_view *v,
                           const int32_t *place, accel_plugin_error *error) {
  const kit_tensor *k = &s->l->in[GPU_K], *value = &s->l->in[GPU_V];
  gpu_binding rows;
  const int32_t rc = gpu_constant(s->run, place, (uint64_t)k->dim[0] * 8, &rows, error);
  if (rc) return rc;
  gpu_call c =
      gpu_call_new(s->run, s->l, gpu_kernel_of_store(GPU_K_kv_write_f32, store_of(v->dtype)));
  gpu_tensor(&c, k);
  gpu_tensor(&c, value);
  gpu_bind(&c, rows);
  gpu_bind(&c, gpu_pool_chunk(page));
  const gpu_params_kv_write params = {
      .rows = k->dim[0],
      .k_words = (int64_t)v->k_row / 4,
      .v_words = (int64_t)v->v_row / 4,
      .v_at = (int64_t)v->v_offset / 4,
      .k_stride = k->row_stride,
      .v_stride = value->row_stride,
  };
  gpu_set_kv_write(&c, &params);
  return gpu_dispatch_rows(&c, k->dim[0], error);
}

/* One dispatch for each chunk that rows of this run fall into. */
static int32_t write_rows(kv *s, accel_plugin_error *error) {
  const int64_t rows = s->l->in[GPU_K].dim[0];
  int32_t *place = malloc((size_t)rows * 2 * sizeof *place + sizeof *place), rc = ACCEL_PLUGIN_OK,
          written = 0;
  const gpu_chunk *done[64];
  uint32_t n_done = 0;
  if (!place) return kit_no_memory(error, (uint64_t)rows * 8);
  for (int32_t i = 0; !rc && i < s->items && written < rows; i++) {
    const kit_state_view *v = &s->sequence[i].view;
    const int32_t n = s->a.kv.start[i + 1] - s->a.kv.start[i];
    for (int32_t p = (v->length - n) / KIT_PAGE_ROWS;
         !rc && n && p <= (v->length - 1) / KIT_PAGE_ROWS; p++) {
      const gpu_memory *page = page_of(&s->sequence[i], p);
      bool again = false;
      for (uint32_t k = 0; k < n_done; k++) again |= done[k] == page->chunk;
      if (again) continue;
      if (n_done == 64)
        rc = kit_launch_fail(s->l, error, ACCEL_PLUGIN_E_LIMIT,
                             "its pages lie in more than 64 pieces of device memory");
      else
        done[n_done++] = page->chunk;
      if (rc) break;
      written += place_rows(s, page->chunk, place);
      rc = write_chunk(s, page, v, place, error);
    }
  }
  free(place);
  return rc;
}

static int32_t append(kv *s, int32_t item, accel_plugin_error *error) {
  const kit_tensor *pos = &s->l->in[GPU_KV_POS];
  const int32_t start = s->a.kv.start[item], n = s->a.kv.start[item + 1] - start;
  if (kit_has(pos) && !pos->data)
    return kit_launch_fail(
        s->l, error, ACCEL_PLUGIN_E_UNSUPPORTED,
        "positions of keys that a node computes; on GPUs they must be an input of the program");
  return kit_state_append(s->l, (uint32_t)item, n, kit_has(pos) ? kit_i32(pos) + start : NULL,
                          &s->sequence[item].view, error);
}

/* ---- pages ---- */

/* Uploads the kernel's buffer k_pos, the positions of every item's keys one item after the
 * other, where some item's are not 0, 1, 2 and so on. */
static int32_t upload_positions(kv *s, accel_plugin_error *error) {
  int64_t n = 0;
  for (int32_t i = 0; i < s->items; i++) {
    const kit_state_view *v = &s->sequence[i].view;
    n += v->length;
    for (int32_t j = 0; !s->by_position && j < v->length; j++) s->by_position = v->position[j] != j;
  }
  if (!s->by_position || !n) return ACCEL_PLUGIN_OK;
  int32_t *all = malloc((size_t)n * sizeof *all), *at = all;
  if (!all) return kit_no_memory(error, (uint64_t)n * 4);
  for (int32_t i = 0; i < s->items; i++) {
    memcpy(at, s->sequence[i].view.position, (size_t)s->sequence[i].view.length * sizeof *at);
    at += s->sequence[i].view.length;
  }
  const int32_t rc = gpu_constant(s->run, all, (uint64_t)n * 4, &s->positions, error);
  free(all);
  return rc;
}

/* Rows of item i. */
static int32_t rows_of(const kv *s, int32_t i) { return s->a.q.start[i + 1] - s->a.q.start[i]; }
static bool is_single(const kv *s, int32_t i) {
  return s->n_single && rows_of(s, i) <= SINGLE_ROWS;
}

/* The part of the table that is the same for all dispatches. */
static void list_rows(const kv *s, int32_t *table) {
  int32_t *to = table + (size_t)s->items * WORDS;
  *to++ = s->n_single;
  *to++ = s->splits;
  *to++ = s->n_single ? SINGLE_ROWS : 0;
  for (int32_t i = 0; s->n_single && i < s->items; i++)
    for (int32_t r = 0; is_single(s, i) && r < rows_of(s, i); r++) *to++ = s->a.q.start[i] + r;
}

/* The table of one dispatch over the pages in `chunk` that come next; true when some remain after
 * it. */
static bool next_pages(kv *s, const gpu_chunk *chunk, int32_t *table) {
  int32_t list = s->items * WORDS + HEAD + s->n_single, position = 0;
  bool more = false;
  for (int32_t i = 0; i < s->items; i++) {
    sequence *q = &s->sequence[i];
    int32_t *t = table + (size_t)i * WORDS;
    t[0] = q->view.past;
    t[1] = q->view.length;
    t[2] = q->next;
    t[4] = list;
    t[5] = position;
    while (q->next < q->end && page_of(q, q->next)->chunk == chunk) q->next++;
    t[3] = q->next;
    for (int32_t p = 0; p < q->end; p++)
      table[list++] = p >= t[2] && p < t[3]
                          ? (int32_t)(page_of(q, p)->offset / element_bytes(q->view.dtype))
                          : 0;
    position += q->view.length;
    more |= q->next < q->end;
  }
  return more;
}

/* The next page of the first item that has one left; NULL when all are attended to. */
static const gpu_memory *first_page(const kv *s) {
  for (int32_t i = 0; i < s->items; i++)
    if (s->sequence[i].next < s->sequence[i].end)
      return page_of(&s->sequence[i], s->sequence[i].next);
  return NULL;
}

/* What a dispatch computes: whole rows, by tiles of rows, by spans of single rows, their joined
 * results, or probabilities of the listed heads. */
typedef enum dispatch_kind { ROWS, TILES, SPLIT, JOIN, PROBS } dispatch_kind;

static uint32_t kernel_of(const kv *s, dispatch_kind kind) {
  const gpu_kernel_id of[] = {
      [ROWS] = GPU_K_attention_pages_f32,
      [TILES] = s->a.dv <= GPU_MAX_TILE_HEAD / 2 ? GPU_K_attention_tile_pages_f32
                                                 : GPU_K_attention_tile128_pages_f32,
      [SPLIT] = GPU_K_attention_split_f32,
      [PROBS] = GPU_K_attention_pages_probs_f32,
  };
  return kind == JOIN ? GPU_K_attention_join
                      : gpu_kernel_of_store(of[kind], store_of(s->sequence[0].view.dtype));
}

static int64_t groups_of(const kv *s, dispatch_kind kind) {
  const gpu_attention *a = &s->a;
  const int64_t rows = s->l->in[GPU_Q].dim[0];
  if (kind == TILES) return gpu_attention_tiles(a, rows);
  if (kind == SPLIT)
    return s->n_single * a->kv_heads * gpu_ceil_div(a->heads / a->kv_heads, SPLIT_HEADS) *
           s->splits;
  if (kind == JOIN) return s->n_single * a->heads;
  return rows * (kind == PROBS ? (int64_t)a->n_probs : a->heads);
}

/* One dispatch over the pages in page's chunk. page NULL: there are no keys. */
static int32_t attend(kv *s, const gpu_memory *page, gpu_binding pages, dispatch_kind kind,
                      int32_t carried, accel_plugin_error *error) {
  const kit_launch *l = s->l;
  const gpu_attention *a = &s->a;
  const kit_state_view *v = &s->sequence[0].view;
  const uint32_t bytes = element_bytes(v->dtype);
  gpu_call c = gpu_call_new(s->run, l, kernel_of(s, kind));
  gpu_tensor(&c, &l->in[GPU_Q]);
  gpu_bind(&c, page ? gpu_pool_chunk(page) : gpu_none(s->run));
  gpu_tensor(&c, &l->in[GPU_BIAS]);
  gpu_tensor(&c, &l->in[GPU_Q_POS]);
  gpu_tensor(&c, &l->in[GPU_MASK]);
  gpu_tensor(&c, &l->in[GPU_SINKS]);
  gpu_bind(&c, a->q_start);
  gpu_bind(&c, kit_has(&l->in[GPU_K]) ? a->kv_start : a->q_start);
  gpu_bind(&c, a->more);
  gpu_bind(&c, s->by_position ? s->positions : gpu_none(s->run));
  gpu_bind(&c, pages);
  gpu_tensor(&c, &l->in[GPU_REL_K]);
  gpu_tensor(&c, &l->in[GPU_REL_Q]);
  gpu_bind(&c,
           kind == SPLIT || kind == JOIN ? s->partial : gpu_workspace_at(l, 0, l->workspace_bytes));
  gpu_tensor(&c, &l->out[kind == PROBS]);
  const gpu_params_attention_pages params = {
      .rows = l->in[GPU_Q].dim[0],
      .items = s->items,
      .heads = a->heads,
      .share = a->heads / a->kv_heads,
      .dk = a->dk,
      .dv = a->dv,
      .q_stride = l->in[GPU_Q].row_stride,
      .k_stride = (int64_t)(v->k_row / bytes),
      .v_stride = (int64_t)(v->v_row / bytes),
      .v_at = (int64_t)(v->v_offset / bytes),
      .flags =
          (gpu_attention_flags(l) & ~BY_POSITION) | (s->by_position ? BY_POSITION : 0) | carried,
      .left = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_WINDOW_LEFT, -1),
      .right = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_WINDOW_RIGHT, -1),
      .bias_kind = a->bias_kind,
      .scale =
          kit_attr_f(l->node, ACCEL_PLUGIN_ATTR_SCALE, a->dk ? 1.0 / sqrt((double)a->dk) : 1.0),
      .softcap = kit_attr_f(l->node, ACCEL_PLUGIN_ATTR_SOFTCAP, 0.0),
  };
  gpu_set_attention_pages(&c, &params);
  return gpu_dispatch_rows(&c, groups_of(s, kind), error);
}

/* The dispatches over the pages of one chunk. */
static int32_t attend_chunk(kv *s, const gpu_memory *page, gpu_binding pages, bool probs,
                            int32_t carried, accel_plugin_error *error) {
  if (probs) return attend(s, page, pages, PROBS, carried, error);
  if (!s->tiled) return attend(s, page, pages, ROWS, carried, error);
  int32_t rc = ACCEL_PLUGIN_OK;
  if (s->n_single < s->l->in[GPU_Q].dim[0]) rc = attend(s, page, pages, TILES, carried, error);
  if (!rc && s->n_single) rc = attend(s, page, pages, SPLIT, 0, error);
  return rc;
}

/* One pass over all pages. Probabilities take two: the first finds the maximum and sum of each
 * listed row, the second (`writes`) reads these and writes the probabilities. */
static int32_t attend_all(kv *s, bool probs, bool writes, accel_plugin_error *error) {
  const size_t words = (size_t)s->items * WORDS + HEAD + (size_t)s->n_single + (size_t)s->n_pages;
  int32_t *table = malloc(words * sizeof *table), carried = 0, rc = ACCEL_PLUGIN_OK;
  gpu_binding pages;
  if (!table) return kit_no_memory(error, words * sizeof *table);
  list_rows(s, table);
  for (int32_t i = 0; i < s->items; i++) s->sequence[i].next = 0;
  if (writes) carried = CARRIED_IN | WRITES;
  for (bool more = true; !rc && more;) {
    const gpu_memory *page = first_page(s);
    more = next_pages(s, page ? page->chunk : NULL, table);
    rc = gpu_constant(s->run, table, words * sizeof *table, &pages, error);
    if (!rc) rc = attend_chunk(s, page, pages, probs, carried | (more ? CARRIED_OUT : 0), error);
    carried |= CARRIED_IN;
  }
  if (!rc && !probs && s->n_single) rc = attend(s, NULL, pages, JOIN, 0, error);
  free(table);
  return rc;
}

/* Which kernels compute the result.  Items of few rows have too few tiles for a device, so spans of
 * their keys are taken side by side, as long as what they come to fits a binding. */
static int32_t choose(kv *s, accel_plugin_error *error) {
  const gpu_attention *a = &s->a;
  s->tiled = gpu_attention_tiled(s->run->self, a);
  if (!s->tiled || a->dk > SPLIT_HEAD) return ACCEL_PLUGIN_OK;
  int64_t single = 0;
  for (int32_t i = 0; i < s->items; i++) {
    if (rows_of(s, i) <= SINGLE_ROWS) single += rows_of(s, i);
    const int32_t spans = (int32_t)gpu_ceil_div(s->sequence[i].view.length, SPAN);
    if (spans > s->splits) s->splits = spans;
  }
  const uint64_t bytes = (uint64_t)(single * a->heads * (a->dv + 2)) * 4 * (uint64_t)s->splits;
  if (bytes > s->run->self->limits.binding / 2) return ACCEL_PLUGIN_OK;
  s->n_single = (int32_t)single;
  return bytes ? gpu_scratch(s->run, bytes, &s->partial, error) : ACCEL_PLUGIN_OK;
}

/* ---- the op ---- */

static int32_t prepare(kv *s, accel_plugin_error *error) {
  const kit_launch *l = s->l;
  const accel_plugin_node *n = l->node;
  const accel_plugin_state *state = &l->program->state[n->state];
  const kit_tensor *q = &l->in[GPU_Q], *k = &l->in[GPU_K];
  gpu_attention *a = &s->a;
  int32_t rc = ACCEL_PLUGIN_OK;
  a->heads = kit_attr_i(n, ACCEL_PLUGIN_ATTR_HEADS, 1);
  a->kv_heads = kit_attr_i(n, ACCEL_PLUGIN_ATTR_KV_HEADS, a->heads);
  a->bias_kind = kit_attr_i(n, ACCEL_PLUGIN_ATTR_BIAS_KIND, ACCEL_PLUGIN_BIAS_NONE);
  a->n_probs = kit_attr_iv(n, ACCEL_PLUGIN_ATTR_PROBS, &a->probs);
  if (a->heads < 1 || a->kv_heads < 1 || a->heads % a->kv_heads || state->heads != a->kv_heads)
    return kit_launch_fail(l, error, ACCEL_PLUGIN_E_ARGUMENT,
                           "%lld heads over %lld key heads; the state has %d", (long long)a->heads,
                           (long long)a->kv_heads, state->heads);
  a->dk = state->k_dim;
  a->dv = state->v_dim;
  if (a->dk > GPU_MAX_HEAD || a->dv > GPU_MAX_HEAD)
    return kit_launch_fail(l, error, ACCEL_PLUGIN_E_LIMIT,
                           "heads of %lld and %lld columns; kernels take %d", (long long)a->dk,
                           (long long)a->dv, GPU_MAX_HEAD);
  if (kit_has(q))
    rc = gpu_starts(s->run, l, ACCEL_PLUGIN_ATTR_Q_SPACE, q->dim[0], a->whole_q, &a->q, &a->q_start,
                    error);
  if (!rc && kit_has(k))
    rc = gpu_starts(s->run, l, ACCEL_PLUGIN_ATTR_KV_SPACE, k->dim[0], a->whole_kv, &a->kv,
                    &a->kv_start, error);
  if (!rc && kit_has(q) && kit_has(k) && a->q.items != a->kv.items)
    return kit_launch_fail(l, error, ACCEL_PLUGIN_E_ARGUMENT, "%d items of queries, %d of keys",
                           a->q.items, a->kv.items);
  s->items = kit_has(k) ? a->kv.items : a->q.items;
  if (!rc && kit_has(q)) rc = gpu_attention_more(s->run, l, a, error);
  return rc;
}

static int32_t find_keys(kv *s, accel_plugin_error *error) {
  const kit_launch *l = s->l;
  const bool grows =
      kit_has(&l->in[GPU_K]) && !kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_STATE_STATIC, 0);
  int32_t rc = ACCEL_PLUGIN_OK;
  for (int32_t i = 0; !rc && i < s->items; i++) {
    sequence *q = &s->sequence[i];
    rc = grows ? append(s, i, error) : kit_state_read(l, (uint32_t)i, &q->view, error);
    q->end = rc ? 0 : q->view.length / KIT_PAGE_ROWS + (q->view.length % KIT_PAGE_ROWS != 0);
    s->n_pages += q->end;
    if (!rc && kit_has(&l->in[GPU_Q]))
      rc = gpu_attention_check(l, &s->a, s->a.q.start[i + 1] - s->a.q.start[i], q->view.length,
                               error);
  }
  if (!rc && grows && l->in[GPU_K].elements) rc = write_rows(s, error);
  return rc;
}

/* A node without queries only appends keys and values: its result is zeros. */
static int32_t write_zeros(gpu_run *run, const kit_launch *l, accel_plugin_error *error) {
  const gpu_binding to = gpu_at(run, &l->out[0]);
  gpu_binding zeros;
  void *data = calloc(1, to.bytes);
  int32_t rc =
      data ? gpu_constant(run, data, to.bytes, &zeros, error) : kit_no_memory(error, to.bytes);
  free(data);
  return rc ? rc : gpu_copy(run, to, zeros, error);
}

int32_t gpu_attention_pages(gpu_run *run, const kit_launch *l, accel_plugin_error *error) {
  kv s = {.run = run, .l = l, .partial = gpu_none(run)};
  int32_t rc = prepare(&s, error);
  if (!rc) {
    s.sequence = calloc((size_t)s.items + 1, sizeof *s.sequence);
    if (!s.sequence) rc = kit_no_memory(error, (uint64_t)s.items * sizeof *s.sequence);
  }
  if (!rc) rc = find_keys(&s, error);
  if (!rc && kit_has(&l->in[GPU_Q])) {
    rc = upload_positions(&s, error);
    if (!rc && kit_has(&l->out[0])) rc = choose(&s, error);
    if (!rc && kit_has(&l->out[0])) rc = attend_all(&s, false, false, error);
    if (!rc && kit_has(&l->out[1]) && l->out[1].elements) {
      rc = attend_all(&s, true, false, error);
      if (!rc) rc = attend_all(&s, true, true, error);
    }
  } else if (!rc && kit_has(&l->out[0])) {
    rc = write_zeros(run, l, error);
  }
  free(s.sequence);
  return rc;
}

uint64_t gpu_workspace_attention(const gpu_self *self, const kit_launch *l) {
  (void)self;
  if (l->node->state < 0 || !kit_has(&l->in[GPU_Q])) return 0;
  const int64_t *listed, heads = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_HEADS, 1);
  const int64_t rows = heads * (l->program->state[l->node->state].v_dim + 2),
                probs = 2 * (int64_t)kit_attr_iv(l->node, ACCEL_PLUGIN_ATTR_PROBS, &listed);
  return (uint64_t)(l->in[GPU_Q].dim[0] * (rows > probs ? rows : probs)) * 4;
}
