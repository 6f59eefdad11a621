/* kit_session.c - what sequences carry from run to run: KV pages with reference counts, convolution and
 * state-space vectors.
 *
 * A session holds sequences by id; a sequence has one slot per state of the program.  During a run
 * rows are only `pending`; they count once the run succeeds.  A failed run leaves lengths and
 * vectors as they were (bytes beyond a length mean nothing).  Pages are shared by copies of a
 * sequence until one of them writes.
 */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "formats/bf16.h"
#include "formats/fp16.h"
#include "kit/kit_internal.h"

enum { BLOCK_BYTES = 2 << 20 }; /* pages of less in all are not worth a block */

/* Host memory of several pages at once, in huge pages: what is read row by row at every step comes
 * faster from them. */
typedef struct block {
  uint32_t pages; /* that are in use */
  uint64_t bytes;
  void *memory;
} block;

typedef struct page {
  uint32_t users;
  uint64_t bytes; /* 0: of a block */
  void *buffer;
  block *block; /* NULL: the buffer is the page's own */
} page;

typedef struct slot {
  int32_t length, pending;
  page **page;
  void **address; /* of the pages, as views show them */
  int32_t n_page, room_page;
  int32_t *position;
  int32_t room_position;
  void *current, *next;
  uint64_t elements;
} slot;

typedef struct sequence {
  int32_t id;
  bool fresh; /* made by the run under way */
  slot *slot; /* [n_state] */
} sequence;

struct accel_plugin_session {
  accel_plugin_endpoint *endpoint;
  const kit_endpoint_state *e;
  atomic_flag busy;
  sequence **sequence;
  uint32_t n, room;
};

struct kit_run_state {
  accel_plugin_session *session;
  const accel_plugin_host *host;
  uint32_t n;
  sequence *item[];
};

/* ---- memory ---- */

static uint64_t k_row(const kit_endpoint_state *e, const accel_plugin_state *s) {
  return (uint64_t)s->heads * kit_kv_head(e->kv_dtype, s->k_dim);
}
static uint64_t v_row(const kit_endpoint_state *e, const accel_plugin_state *s) {
  return (uint64_t)s->heads * kit_kv_head(e->kv_dtype, s->v_dim);
}
static uint64_t v_offset(const kit_endpoint_state *e, const accel_plugin_state *s) {
  return (k_row(e, s) * KIT_PAGE_ROWS + KIT_ALIGN - 1) / KIT_ALIGN * KIT_ALIGN;
}
static uint64_t page_bytes(const kit_endpoint_state *e, const accel_plugin_state *s) {
  return (v_offset(e, s) + v_row(e, s) * KIT_PAGE_ROWS + KIT_ALIGN - 1) / KIT_ALIGN * KIT_ALIGN;
}

static int32_t memory_new(const kit_endpoint_state *e, uint64_t bytes, void **out,
                          accel_plugin_error *error) {
  if (e->backend->alloc) return e->backend->alloc(e->self, bytes, out, error);
  return kit_buffer_alloc(0, bytes, out, error);
}

static void memory_free(const kit_endpoint_state *e, void *buffer) {
  if (!buffer) return;
  if (e->backend->alloc)
    e->backend->release(e->self, buffer);
  else
    kit_buffer_free(0, buffer);
}

static int32_t memory_read(const kit_endpoint_state *e, void *to, void *buffer, uint64_t offset,
                           uint64_t bytes, accel_plugin_error *error) {
  if (e->backend->alloc) return e->backend->download(e->self, to, buffer, offset, bytes, error);
  memcpy(to, (char *)buffer + offset, bytes);
  return ACCEL_PLUGIN_OK;
}

static int32_t memory_write(const kit_endpoint_state *e, void *buffer, uint64_t offset,
                            const void *from, uint64_t bytes, accel_plugin_error *error) {
  if (e->backend->alloc) return e->backend->upload(e->self, buffer, offset, from, bytes, error);
  memcpy((char *)buffer + offset, from, bytes);
  return ACCEL_PLUGIN_OK;
}

static int32_t memory_copy(const kit_endpoint_state *e, void *to, void *from, uint64_t bytes,
                           accel_plugin_error *error) {
  if (!e->backend->alloc) return memory_write(e, to, 0, from, bytes, error);
  void *bounce = malloc(bytes ? bytes : 1);
  if (!bounce) return kit_no_memory(error, bytes);
  int32_t rc = memory_read(e, bounce, from, 0, bytes, error);
  if (!rc) rc = memory_write(e, to, 0, bounce, bytes, error);
  free(bounce);
  return rc;
}

/* ---- pages and slots ---- */

/* Counts memory of pages as taken. */
static int32_t take(const kit_endpoint_state *e, uint64_t bytes, accel_plugin_error *error) {
  if (kit_memory_take(e, bytes)) return ACCEL_PLUGIN_OK;
  return kit_fail(error, ACCEL_PLUGIN_E_LIMIT, -1,
                  "the KV cache is full: %llu bytes more beside %llu of weights and %llu of "
                  "scratch and caches pass the "
                  "memory limit of %llu",
                  (unsigned long long)bytes, (unsigned long long)e->weights,
                  (unsigned long long)atomic_load(e->taken), (unsigned long long)e->limit);
}

/* Whether the page's own memory goes to the next session: what is smaller stays in the heap
 * anyway. */
static bool is_spared(const kit_endpoint_state *e, const page *p) {
  return !e->backend->alloc && p->bytes >= KIT_OWN_MAPPING;
}

static int32_t page_new(const kit_endpoint_state *e, const accel_plugin_state *s, page **out,
                        accel_plugin_error *error) {
  page *p = calloc(1, sizeof *p);
  if (!p) return kit_no_memory(error, sizeof *p);
  *p = (page){.users = 1, .bytes = page_bytes(e, s)};
  uint64_t bytes = p->bytes;
  p->buffer =
      is_spared(e, p) ? kit_free_list_take(e->spares, KIT_FREE_BUFFER, bytes, &bytes) : NULL;
  int32_t rc = p->buffer ? ACCEL_PLUGIN_OK : take(e, bytes, error);
  if (!rc && !p->buffer) {
    rc = memory_new(e, p->bytes, &p->buffer, error);
    if (rc) kit_memory_give(e, p->bytes);
  }
  if (rc)
    free(p);
  else
    *out = p;
  return rc;
}

static void page_drop(const kit_endpoint_state *e, page *p) {
  if (!p || --p->users) return;
  block *b = p->block;
  if (b && --b->pages == 0) {
    if (!kit_free_list_put(e->spares, KIT_FREE_ROOM, b->memory, b->bytes)) {
      free(b->memory);
      kit_memory_give(e, b->bytes);
    }
    free(b);
  }
  if (!b &&
      !(is_spared(e, p) && kit_free_list_put(e->spares, KIT_FREE_BUFFER, p->buffer, p->bytes))) {
    memory_free(e, p->buffer);
    kit_memory_give(e, p->bytes);
  }
  free(p);
}

/* n pages in `memory`, which is counted as taken; that is given back when there is no room for what
 * describes them. */
static int32_t block_new(const kit_endpoint_state *e, void *memory, uint64_t each, int32_t n,
                         page **out, accel_plugin_error *error) {
  const uint64_t bytes = each * (uint64_t)n;
  block *b = memory ? calloc(1, sizeof *b) : NULL;
  int32_t made = 0;
  for (; b && made < n && (out[made] = calloc(1, sizeof **out)); made++)
    *out[made] = (page){.users = 1, .buffer = (char *)memory + (uint64_t)made * each, .block = b};
  if (b && made == n) {
    *b = (block){.pages = (uint32_t)n, .bytes = bytes, .memory = memory};
    return ACCEL_PLUGIN_OK;
  }
  while (made > 0) free(out[--made]);
  free(b);
  free(memory);
  kit_memory_give(e, bytes);
  return kit_no_memory(error, bytes);
}

/* n pages, in blocks where they are worth it: in spare ones, and the rest in one. */
static int32_t pages_new(const kit_endpoint_state *e, const accel_plugin_state *s, int32_t n,
                         page **out, accel_plugin_error *error) {
  const uint64_t each = page_bytes(e, s);
  int32_t rc = ACCEL_PLUGIN_OK, made = 0;
  while (!rc && made < n) {
    uint64_t bytes = each * (uint64_t)(n - made);
    const bool together = n - made > 1 && bytes >= BLOCK_BYTES && !e->backend->alloc;
    void *spare = together ? kit_free_list_take(e->spares, KIT_FREE_ROOM, each, &bytes) : NULL;
    const int32_t got = together ? (int32_t)(bytes / each) : 1;
    if (!together)
      rc = page_new(e, s, &out[made], error);
    else if (spare || !(rc = take(e, bytes, error)))
      rc = block_new(e, spare ? spare : kit_alloc_pages(bytes), each, got, out + made, error);
    if (!rc) made += got;
  }
  while (rc && made > 0) page_drop(e, out[--made]);
  return rc;
}

static void slot_clear(const kit_endpoint_state *e, slot *s) {
  for (int32_t i = 0; i < s->n_page; i++) page_drop(e, s->page[i]);
  free(s->page);
  free(s->address);
  free(s->position);
  memory_free(e, s->current);
  memory_free(e, s->next);
  *s = (slot){0};
}

static int32_t slot_room(slot *s, int32_t pages, int32_t rows, accel_plugin_error *error) {
  if (pages > s->room_page) {
    int32_t room = pages + pages / 2 + 4;
    page **list = realloc(s->page, (size_t)room * sizeof *list);
    if (list) s->page = list;
    void **address = realloc(s->address, (size_t)room * sizeof *address);
    if (address) s->address = address;
    if (!list || !address) return kit_no_memory(error, (uint64_t)room * sizeof *list);
    s->room_page = room;
  }
  if (rows > s->room_position) {
    int32_t room = rows < INT32_MAX / 2 ? rows + rows / 2 + 64 : rows;
    int32_t *position = realloc(s->position, (size_t)room * sizeof *position);
    if (!position) return kit_no_memory(error, (uint64_t)room * sizeof *position);
    s->position = position;
    s->room_position = room;
  }
  return ACCEL_PLUGIN_OK;
}

/* Makes rows [from, to) writable: the page `from` falls into becomes this slot's own, missing pages
 * are added. */
static int32_t slot_reserve(const kit_endpoint_state *e, const accel_plugin_state *st, slot *s,
                            int32_t from, int32_t to, accel_plugin_error *error) {
  int32_t pages = to / KIT_PAGE_ROWS + (to % KIT_PAGE_ROWS != 0);
  int32_t rc = slot_room(s, pages, to, error);
  if (rc) return rc;
  for (int32_t i = from / KIT_PAGE_ROWS; i < pages && i < s->n_page; i++) {
    page *fresh = NULL;
    if (s->page[i]->users == 1) continue;
    rc = page_new(e, st, &fresh, error);
    if (!rc) rc = memory_copy(e, fresh->buffer, s->page[i]->buffer, page_bytes(e, st), error);
    if (rc) {
      page_drop(e, fresh);
      return rc;
    }
    page_drop(e, s->page[i]);
    s->page[i] = fresh;
    s->address[i] = fresh->buffer;
  }
  if (pages > s->n_page) rc = pages_new(e, st, pages - s->n_page, s->page + s->n_page, error);
  for (; !rc && s->n_page < pages; s->n_page++) s->address[s->n_page] = s->page[s->n_page]->buffer;
  return rc;
}

/* ---- sequences ---- */

static sequence *sequence_find(const accel_plugin_session *s, int32_t id) {
  for (uint32_t i = 0; i < s->n; i++)
    if (s->sequence[i]->id == id) return s->sequence[i];
  return NULL;
}

static int32_t sequence_new(accel_plugin_session *s, int32_t id, sequence **out,
                            accel_plugin_error *error) {
  if (s->e->max_sequences && s->n >= s->e->max_sequences)
    return kit_fail(error, ACCEL_PLUGIN_E_LIMIT, -1, "the session holds %u sequences, its most",
                    s->n);
  if (s->n == s->room) {
    sequence **list = realloc(s->sequence, (s->room * 2 + 8) * sizeof *list);
    if (!list) return kit_no_memory(error, (s->room * 2 + 8) * sizeof *list);
    s->sequence = list;
    s->room = s->room * 2 + 8;
  }
  sequence *q = calloc(1, sizeof *q);
  if (q) q->slot = calloc(s->e->program->n_state + 1, sizeof *q->slot);
  if (!q || !q->slot) {
    free(q);
    return kit_no_memory(error, sizeof *q);
  }
  q->id = id;
  s->sequence[s->n++] = q;
  *out = q;
  return ACCEL_PLUGIN_OK;
}

static void sequence_drop(accel_plugin_session *s, sequence *q) {
  if (!q) return;
  for (uint32_t i = 0; i < s->n; i++)
    if (s->sequence[i] == q) s->sequence[i] = s->sequence[--s->n];
  for (uint32_t i = 0; i < s->e->program->n_state; i++) slot_clear(s->e, &q->slot[i]);
  free(q->slot);
  free(q);
}

/* ---- sessions and runs ---- */

int32_t kit_session_new(accel_plugin_endpoint *endpoint, accel_plugin_session **out,
                        accel_plugin_error *error) {
  *out = NULL;
  accel_plugin_session *s = calloc(1, sizeof *s);
  if (!s) return kit_no_memory(error, sizeof *s);
  s->endpoint = endpoint;
  s->e = kit_endpoint_state_of(endpoint);
  atomic_flag_clear(&s->busy);
  *out = s;
  return ACCEL_PLUGIN_OK;
}

void kit_session_free(accel_plugin_session *s) {
  if (!s) return;
  while (s->n) sequence_drop(s, s->sequence[s->n - 1]);
  free(s->sequence);
  free(s);
}

bool kit_session_of(const accel_plugin_session *session, const accel_plugin_endpoint *endpoint) {
  return session->endpoint == endpoint;
}

int32_t kit_session_begin(accel_plugin_session *s, const int32_t *id, uint32_t n,
                          const accel_plugin_host *host, kit_run_state **out,
                          accel_plugin_error *error) {
  if (!n || !id)
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "a session was given but no sequence ids");
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; k < i; k++)
      if (id[i] == id[k])
        return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "sequence %d appears twice in one run",
                        id[i]);
  if (atomic_flag_test_and_set(&s->busy))
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "the session is in use by another call");
  kit_run_state *r = calloc(1, sizeof *r + n * sizeof r->item[0]);
  if (!r) {
    atomic_flag_clear(&s->busy);
    return kit_no_memory(error, sizeof *r);
  }
  r->session = s;
  r->host = host;
  for (uint32_t i = 0; i < n; i++) {
    r->item[i] = sequence_find(s, id[i]);
    if (!r->item[i]) {
      int32_t rc = sequence_new(s, id[i], &r->item[i], error);
      if (rc) {
        kit_session_end(r, false);
        return rc;
      }
      r->item[i]->fresh = true;
    }
    r->n = i + 1;
  }
  *out = r;
  return ACCEL_PLUGIN_OK;
}

static void slot_settle(const kit_endpoint_state *e, slot *s, bool commit) {
  if (commit) {
    s->length += s->pending;
    if (s->next) {
      memory_free(e, s->current);
      s->current = s->next;
      s->next = NULL;
    }
  }
  memory_free(e, s->next);
  s->next = NULL;
  s->pending = 0;
}

void kit_session_end(kit_run_state *r, bool commit) {
  if (!r) return;
  accel_plugin_session *s = r->session;
  for (uint32_t i = 0; i < r->n; i++) {
    for (uint32_t k = 0; k < s->e->program->n_state; k++)
      slot_settle(s->e, &r->item[i]->slot[k], commit);
    if (!commit && r->item[i]->fresh)
      sequence_drop(s, r->item[i]);
    else
      r->item[i]->fresh = false;
  }
  atomic_flag_clear(&s->busy);
  free(r);
}

/* ---- what launches call ---- */

static int32_t find_slot(const kit_launch *l, uint32_t item, slot **out, kit_state_view *view,
                         accel_plugin_error *error) {
  kit_run_state *r = l->state;
  if (!r || l->node->state < 0)
    return kit_launch_fail(l, error, ACCEL_PLUGIN_E_ARGUMENT, "needs a session");
  if (item >= r->n)
    return kit_launch_fail(l, error, ACCEL_PLUGIN_E_ARGUMENT,
                           "item %u has no sequence id: the run names %u", item, r->n);
  const kit_endpoint_state *e = r->session->e;
  int32_t index = l->node->state;
  if (e->program->state[index].share >= 0) index = e->program->state[index].share;
  const accel_plugin_state *s = &e->program->state[index];
  *out = &r->item[item]->slot[index];
  *view = (kit_state_view){.state = s, .dtype = e->kv_dtype, .v_offset = v_offset(e, s)};
  view->k_head = kit_kv_head(e->kv_dtype, s->k_dim);
  view->v_head = kit_kv_head(e->kv_dtype, s->v_dim);
  view->k_row = e->backend->alloc ? k_row(e, s) : view->k_head;
  view->v_row = e->backend->alloc ? v_row(e, s) : view->v_head;
  if (e->backend->alloc) return ACCEL_PLUGIN_OK;
  view->k_head *= KIT_PAGE_ROWS;
  view->v_head *= KIT_PAGE_ROWS;
  return ACCEL_PLUGIN_OK;
}

static void show_rows(const slot *s, kit_state_view *view) {
  view->past = s->length;
  view->length = s->length + s->pending;
  view->position = s->position;
  view->page = s->address;
}

int32_t kit_state_append(const kit_launch *l, uint32_t item, int32_t rows, const int32_t *positions,
                         kit_state_view *out, accel_plugin_error *error) {
  slot *s = NULL;
  int32_t rc = find_slot(l, item, &s, out, error);
  if (rc) return rc;
  const kit_endpoint_state *e = l->state->session->e;
  int32_t from = s->length + s->pending;
  bool limited = out->state->kind == ACCEL_PLUGIN_STATE_KV && e->max_tokens;
  if (rows < 0 || rows > INT32_MAX - from ||
      (limited && (uint64_t)from + (uint64_t)rows > e->max_tokens))
    return kit_launch_fail(l, error, ACCEL_PLUGIN_E_LIMIT,
                           "sequence %d holds %d tokens, %d more pass the limit of %llu",
                           l->state->item[item]->id, from, rows, (unsigned long long)e->max_tokens);
  if (kit_fault(l->state->host, "allocation"))
    return kit_no_memory(error, page_bytes(e, out->state));
  rc = slot_reserve(e, out->state, s, from, from + rows, error);
  if (rc) return rc;
  for (int32_t i = 0; i < rows; i++) s->position[from + i] = positions ? positions[i] : from + i;
  s->pending += rows;
  show_rows(s, out);
  return ACCEL_PLUGIN_OK;
}

int32_t kit_state_read(const kit_launch *l, uint32_t item, kit_state_view *out,
                       accel_plugin_error *error) {
  slot *s = NULL;
  int32_t rc = find_slot(l, item, &s, out, error);
  if (!rc) show_rows(s, out);
  return rc;
}

int32_t kit_state_step(const kit_launch *l, uint32_t item, int32_t rows, uint64_t elements,
                       kit_state_view *out, accel_plugin_error *error) {
  slot *s = NULL;
  int32_t rc = find_slot(l, item, &s, out, error);
  if (rc) return rc;
  if (s->elements && s->elements != elements)
    return kit_launch_fail(l, error, ACCEL_PLUGIN_E_ARGUMENT,
                           "its state has %llu elements, expected %llu",
                           (unsigned long long)s->elements, (unsigned long long)elements);
  const kit_endpoint_state *e = l->state->session->e;
  out->elements = elements;
  out->current = s->current;
  out->past = s->length;
  if (kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_STATE_STATIC, 0)) return ACCEL_PLUGIN_OK;
  if (s->next)
    return kit_launch_fail(l, error, ACCEL_PLUGIN_E_ARGUMENT,
                           "its state is stepped twice in one run");
  if (kit_fault(l->state->host, "allocation")) return kit_no_memory(error, elements * 4);
  rc = memory_new(e, elements ? elements * 4 : 4, &s->next, error);
  if (rc) return rc;
  s->elements = elements;
  s->pending = rows;
  out->next = s->next;
  out->length = s->length + rows;
  return ACCEL_PLUGIN_OK;
}

static void write_codes(int8_t *code, const float *from, int32_t n) {
  float most = 0.0f, bad = 0.0f, scale; /* bad: NaN when an element is not finite */
  for (int32_t i = 0; i < n; i++) {
    most = fmaxf(most, fabsf(from[i]));
    bad += 0.0f * from[i];
  }
  const float inverse = most > 1e-30f && bad == 0.0f ? 127.0f / most : 0.0f;
  scale = bad == 0.0f ? most / 127.0f : NAN;
  for (int32_t i = 0; i < n; i++) code[i] = inverse > 0.0f ? (int8_t)lrintf(from[i] * inverse) : 0;
  memcpy(code + kit_kv_scale(n), &scale, sizeof scale);
}

static void write_head(uint8_t dtype, void *to, const float *from, int32_t n) {
  if (dtype == ACCEL_PLUGIN_F32) memcpy(to, from, (size_t)n * 4);
  if (dtype == ACCEL_PLUGIN_I8) write_codes(to, from, n);
  for (int32_t i = 0; dtype == ACCEL_PLUGIN_F16 && i < n; i++)
    ((uint16_t *)to)[i] = accel_f32_to_fp16(from[i]);
  for (int32_t i = 0; dtype == ACCEL_PLUGIN_BF16 && i < n; i++)
    ((uint16_t *)to)[i] = accel_f32_to_bf16(from[i]);
}

void kit_state_write(const kit_state_view *view, int32_t first, int32_t rows, const float *k,
                     int64_t k_stride, const float *v, int64_t v_stride) {
  const accel_plugin_state *s = view->state;
  for (int32_t i = 0; i < rows; i++)
    for (int32_t h = 0; h < s->heads; h++) {
      if (k)
        write_head(view->dtype, kit_state_k(view, first + i, h), k + i * k_stride + h * s->k_dim,
                   s->k_dim);
      if (v)
        write_head(view->dtype, kit_state_v(view, first + i, h), v + i * v_stride + h * s->v_dim,
                   s->v_dim);
    }
}

/* ---- control ---- */

static bool is_rows(const accel_plugin_state *s) {
  return s->kind == ACCEL_PLUGIN_STATE_KV || s->kind == ACCEL_PLUGIN_STATE_CROSS_KV;
}

/* Tokens held: the longest of the sequence's own states; cross attention counts only where there is
 * nothing else. */
static int32_t sequence_length(const kit_endpoint_state *e, const sequence *q) {
  int32_t own = 0, cross = 0;
  bool has_own = false;
  for (uint32_t i = 0; i < e->program->n_state; i++) {
    int32_t n = q->slot[i].length;
    if (e->program->state[i].kind == ACCEL_PLUGIN_STATE_CROSS_KV)
      cross = n > cross ? n : cross;
    else
      own = n > own ? n : own, has_own = true;
  }
  return has_own ? own : cross;
}

static int32_t truncate(accel_plugin_session *s, sequence *q, int64_t keep,
                        accel_plugin_error *error) {
  const kit_endpoint_state *e = s->e;
  if (keep < 0)
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "truncate to %lld tokens", (long long)keep);
  for (uint32_t i = 0; i < e->program->n_state; i++)
    if (!is_rows(&e->program->state[i]) && keep > 0 && keep < q->slot[i].length)
      return kit_fail(
          error, ACCEL_PLUGIN_E_UNSUPPORTED, -1,
          "state '%s' cannot go back to %lld tokens: keep a copy of the sequence instead",
          e->program->state[i].name, (long long)keep);
  for (uint32_t i = 0; i < e->program->n_state; i++) {
    slot *t = &q->slot[i];
    if (e->program->state[i].kind == ACCEL_PLUGIN_STATE_CROSS_KV || keep >= t->length) continue;
    if (!keep) slot_clear(e, t);
    t->length = (int32_t)keep;
    int32_t pages = t->length / KIT_PAGE_ROWS + (t->length % KIT_PAGE_ROWS != 0);
    while (t->n_page > pages) page_drop(e, t->page[--t->n_page]);
  }
  return ACCEL_PLUGIN_OK;
}

static int32_t slot_copy(const kit_endpoint_state *e, const slot *from, slot *to,
                         accel_plugin_error *error) {
  int32_t rc = slot_room(to, from->n_page, from->length, error);
  if (!rc && from->current)
    rc = memory_new(e, from->elements ? from->elements * 4 : 4, &to->current, error);
  if (!rc && from->current)
    rc = memory_copy(e, to->current, from->current, from->elements * 4, error);
  if (rc) return rc;
  if (from->length && from->position)
    memcpy(to->position, from->position, (size_t)from->length * sizeof *to->position);
  for (int32_t i = 0; i < from->n_page; i++) {
    to->page[i] = from->page[i];
    to->address[i] = from->address[i];
    to->page[i]->users++;
  }
  to->n_page = from->n_page;
  to->length = from->length;
  to->elements = from->elements;
  return ACCEL_PLUGIN_OK;
}

/* The copy is made under an id of its own kind first, so that a failure changes nothing. */
static int32_t copy_sequence(accel_plugin_session *s, const sequence *from, int64_t to,
                             accel_plugin_error *error) {
  if (to < INT32_MIN || to > INT32_MAX)
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "%lld is no sequence id", (long long)to);
  sequence *old = sequence_find(s, (int32_t)to), *q = NULL;
  if (old == from) return ACCEL_PLUGIN_OK;
  if (old) { /* build beside it, then swap the slots */
    sequence beside = {.slot = calloc(s->e->program->n_state + 1, sizeof *beside.slot)};
    if (!beside.slot) return kit_no_memory(error, sizeof *beside.slot);
    int32_t rc = ACCEL_PLUGIN_OK;
    for (uint32_t i = 0; !rc && i < s->e->program->n_state; i++)
      rc = slot_copy(s->e, &from->slot[i], &beside.slot[i], error);
    slot *gone = rc ? beside.slot : old->slot;
    if (!rc) old->slot = beside.slot;
    for (uint32_t i = 0; i < s->e->program->n_state; i++) slot_clear(s->e, &gone[i]);
    free(gone);
    return rc;
  }
  int32_t rc = sequence_new(s, (int32_t)to, &q, error);
  for (uint32_t i = 0; !rc && i < s->e->program->n_state; i++)
    rc = slot_copy(s->e, &from->slot[i], &q->slot[i], error);
  if (rc && q) sequence_drop(s, q);
  return rc;
}

/* ---- export and import: header; per state: slot header, positions, rows page by page (K then V),
 * vector ---- */

typedef struct export_header {
  uint32_t magic, n_state;
  uint64_t identity, bytes;
} export_header;
typedef struct export_slot {
  int32_t length, has_vector;
  uint64_t elements;
} export_slot;
enum { EXPORT_MAGIC = 0x324b4341 }; /* "ACK2": 2 since the rows of a key head lie together */

static uint64_t slot_bytes(const kit_endpoint_state *e, const accel_plugin_state *st,
                           int32_t length, bool vector, uint64_t elements) {
  uint64_t n = sizeof(export_slot) + (vector ? elements * 4 : 0);
  if (is_rows(st)) n += (uint64_t)length * (4 + k_row(e, st) + v_row(e, st));
  return n;
}

/* The first rows of a page, K and then V, to or from a file: what follows each other in memory at
 * once. */
static int32_t move_rows(const kit_endpoint_state *e, const accel_plugin_state *st, void *memory,
                         uint64_t rows, char *file, bool write, accel_plugin_error *error) {
  const uint64_t pieces = e->backend->alloc ? 1 : (uint64_t)st->heads;
  int32_t rc = ACCEL_PLUGIN_OK;
  for (int value = 0; value < 2; value++) {
    const uint64_t row = (value ? v_row(e, st) : k_row(e, st)) / pieces;
    for (uint64_t i = 0; !rc && i < pieces; i++, file += rows * row) {
      const uint64_t at = (value ? v_offset(e, st) : 0) + i * row * KIT_PAGE_ROWS;
      rc = write ? memory_write(e, memory, at, file, rows * row, error)
                 : memory_read(e, file, memory, at, rows * row, error);
    }
  }
  return rc;
}

static int32_t export_sequence(const accel_plugin_session *s, const sequence *q, void *buffer,
                               uint64_t *n, accel_plugin_error *error) {
  const kit_endpoint_state *e = s->e;
  uint64_t need = sizeof(export_header);
  for (uint32_t i = 0; i < e->program->n_state; i++)
    need += slot_bytes(e, &e->program->state[i], q->slot[i].length, q->slot[i].current != NULL,
                       q->slot[i].elements);
  uint64_t given = *n;
  *n = need;
  if (!buffer) return ACCEL_PLUGIN_OK;
  if (given < need)
    return kit_fail(error, ACCEL_PLUGIN_E_LIMIT, -1, "export needs %llu bytes, the buffer has %llu",
                    (unsigned long long)need, (unsigned long long)given);
  char *at = buffer;
  export_header h = {EXPORT_MAGIC, e->program->n_state, e->identity, need};
  memcpy(at, &h, sizeof h);
  at += sizeof h;
  int32_t rc = ACCEL_PLUGIN_OK;
  for (uint32_t i = 0; !rc && i < e->program->n_state; i++) {
    const accel_plugin_state *st = &e->program->state[i];
    const slot *t = &q->slot[i];
    export_slot hs = {t->length, t->current != NULL, t->elements};
    memcpy(at, &hs, sizeof hs);
    at += sizeof hs;
    if (is_rows(st) && t->length) {
      memcpy(at, t->position, (size_t)t->length * 4);
      at += (size_t)t->length * 4;
    }
    for (int32_t row = 0; !rc && is_rows(st) && row < t->length; row += KIT_PAGE_ROWS) {
      uint64_t rows = (uint64_t)(t->length - row < KIT_PAGE_ROWS ? t->length - row : KIT_PAGE_ROWS);
      rc = move_rows(e, st, t->address[row / KIT_PAGE_ROWS], rows, at, false, error);
      at += rows * (k_row(e, st) + v_row(e, st));
    }
    if (!rc && t->current) {
      rc = memory_read(e, at, t->current, 0, t->elements * 4, error);
      at += t->elements * 4;
    }
  }
  return rc;
}

static int32_t import_slot(const kit_endpoint_state *e, const accel_plugin_state *st,
                           const char **at, uint64_t *left, slot *t, accel_plugin_error *error) {
  export_slot h;
  if (*left < sizeof h)
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "import: the bytes end inside state '%s'",
                    st->name);
  memcpy(&h, *at, sizeof h);
  if (h.length < 0 || h.elements > *left / 4 ||
      slot_bytes(e, st, h.length, h.has_vector != 0, h.elements) > *left)
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "import: the bytes end inside state '%s'",
                    st->name);
  *left -= slot_bytes(e, st, h.length, h.has_vector != 0, h.elements);
  *at += sizeof h;
  t->length = h.length;
  t->elements = h.elements;
  int32_t rc = ACCEL_PLUGIN_OK;
  if (is_rows(st) && h.length) {
    rc = slot_reserve(e, st, t, 0, h.length, error);
    if (rc) return rc;
    memcpy(t->position, *at, (size_t)h.length * 4);
    *at += (size_t)h.length * 4;
  }
  for (int32_t row = 0; !rc && is_rows(st) && row < h.length; row += KIT_PAGE_ROWS) {
    uint64_t rows = (uint64_t)(h.length - row < KIT_PAGE_ROWS ? h.length - row : KIT_PAGE_ROWS);
    rc = move_rows(e, st, t->address[row / KIT_PAGE_ROWS], rows, (char *)*at, true, error);
    *at += rows * (k_row(e, st) + v_row(e, st));
  }
  if (!rc && h.has_vector) {
    rc = memory_new(e, h.elements ? h.elements * 4 : 4, &t->current, error);
    if (!rc) rc = memory_write(e, t->current, 0, *at, h.elements * 4, error);
    *at += h.elements * 4;
  }
  return rc;
}

static int32_t import_sequence(accel_plugin_session *s, int32_t id, const void *buffer, uint64_t n,
                               accel_plugin_error *error) {
  const kit_endpoint_state *e = s->e;
  export_header h;
  if (!buffer || n < sizeof h)
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1,
                    "import: %llu bytes are no exported sequence", (unsigned long long)n);
  memcpy(&h, buffer, sizeof h);
  if (h.magic != EXPORT_MAGIC || h.n_state != e->program->n_state || h.identity != e->identity ||
      h.bytes != n)
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1,
                    "import: the bytes come from another model, build or precision");
  slot *fresh = calloc(e->program->n_state + 1, sizeof *fresh);
  if (!fresh) return kit_no_memory(error, sizeof *fresh);
  const char *at = (const char *)buffer + sizeof h;
  uint64_t left = n - sizeof h;
  int32_t rc = ACCEL_PLUGIN_OK;
  for (uint32_t i = 0; !rc && i < e->program->n_state; i++)
    rc = import_slot(e, &e->program->state[i], &at, &left, &fresh[i], error);
  if (!rc && left)
    rc = kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "import: %llu bytes too many",
                  (unsigned long long)left);
  sequence *q = sequence_find(s, id);
  if (!rc && !q) rc = sequence_new(s, id, &q, error);
  slot *gone = rc ? fresh : q->slot;
  if (!rc) q->slot = fresh;
  for (uint32_t i = 0; i < e->program->n_state; i++) slot_clear(e, &gone[i]);
  free(gone);
  return rc;
}

static int32_t control(accel_plugin_session *s, int32_t verb, int32_t id, int64_t value,
                       void *buffer, uint64_t *n, accel_plugin_error *error) {
  sequence *q = sequence_find(s, id);
  switch (verb) {
    case ACCEL_PLUGIN_SESSION_RESET:
      sequence_drop(s, q);
      return ACCEL_PLUGIN_OK;
    case ACCEL_PLUGIN_SESSION_LENGTH:
      if (!n) return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "session length: n is NULL");
      *n = q ? (uint64_t)sequence_length(s->e, q) : 0;
      return ACCEL_PLUGIN_OK;
    case ACCEL_PLUGIN_SESSION_IMPORT:
      return import_sequence(s, id, buffer, n ? *n : 0, error);
    case ACCEL_PLUGIN_SESSION_TRUNCATE:
    case ACCEL_PLUGIN_SESSION_COPY:
    case ACCEL_PLUGIN_SESSION_EXPORT:
      break;
    default:
      return kit_fail(error, ACCEL_PLUGIN_E_UNSUPPORTED, -1,
                      "session verb %d is unknown to this plugin", verb);
  }
  if (!q)
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "sequence %d is not in the session", id);
  if (verb == ACCEL_PLUGIN_SESSION_TRUNCATE) return truncate(s, q, value, error);
  if (verb == ACCEL_PLUGIN_SESSION_COPY) return copy_sequence(s, q, value, error);
  if (!n) return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "session export: n is NULL");
  return export_sequence(s, q, buffer, n, error);
}

int32_t kit_session_control(accel_plugin_session *s, int32_t verb, int32_t sequence_id,
                            int64_t value, void *buffer, uint64_t *n, accel_plugin_error *error) {
  if (!s) return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "no session");
  if (atomic_flag_test_and_set(&s->busy))
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "the session is in use by another call");
  int32_t rc = control(s, verb, sequence_id, value, buffer, n, error);
  atomic_flag_clear(&s->busy);
  return rc;
}
