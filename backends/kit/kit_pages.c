/* kit_pages.c - pages, blocks of pages, and slots. */
#include "kit/kit_pages.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 2 << 20 }; /* pages of less in all are not worth a block */

/* Host memory of several pages at once, in huge pages: what is read row by row at every step comes
 * faster from them. */
typedef struct kit_page_block {
  uint32_t pages; /* that are in use */
  uint64_t bytes;
  void *memory;
} kit_page_block;

uint64_t kit_k_row(const accel_plugin_endpoint *e, const accel_plugin_state *s) {
  return (uint64_t)s->heads * kit_kv_head(e->kv_dtype, s->k_dim);
}
uint64_t kit_v_row(const accel_plugin_endpoint *e, const accel_plugin_state *s) {
  return (uint64_t)s->heads * kit_kv_head(e->kv_dtype, s->v_dim);
}
uint64_t kit_v_offset(const accel_plugin_endpoint *e, const accel_plugin_state *s) {
  return (kit_k_row(e, s) * (uint64_t)e->page_rows + KIT_ALIGN - 1) / KIT_ALIGN * KIT_ALIGN;
}
uint64_t kit_page_bytes(const accel_plugin_endpoint *e, const accel_plugin_state *s) {
  return (kit_v_offset(e, s) + kit_v_row(e, s) * (uint64_t)e->page_rows + KIT_ALIGN - 1) /
         KIT_ALIGN * KIT_ALIGN;
}

bool kit_state_is_rows(const accel_plugin_state *s) {
  return s->kind == ACCEL_PLUGIN_STATE_KV || s->kind == ACCEL_PLUGIN_STATE_CROSS_KV;
}

/* ---- pages ---- */

/* Counts memory of pages as taken. */
static int32_t count_as_taken(accel_plugin_endpoint *e, uint64_t bytes, accel_plugin_error *error) {
  if (kit_memory_take(&e->memory, bytes)) return ACCEL_PLUGIN_OK;
  return kit_fail(error, ACCEL_PLUGIN_E_LIMIT, -1,
                  "the KV cache is full: %llu bytes more beside %llu of weights and %llu of "
                  "scratch and caches pass the memory limit of %llu",
                  (unsigned long long)bytes, (unsigned long long)e->memory.weights,
                  (unsigned long long)atomic_load(&e->memory.taken),
                  (unsigned long long)e->memory.limit);
}

/* Whether the page's own memory goes to the next session: what is smaller stays in the heap
 * anyway. */
static bool is_recycled(accel_plugin_endpoint *e, const kit_page *p) {
  return !e->backend->alloc && p->bytes >= KIT_OWN_MAPPING;
}

static int32_t page_new(accel_plugin_endpoint *e, const accel_plugin_state *s, kit_page **out,
                        accel_plugin_error *error) {
  kit_page *p = calloc(1, sizeof *p);
  if (!p) return kit_no_memory(error, sizeof *p);
  *p = (kit_page){.users = 1, .bytes = kit_page_bytes(e, s)};
  uint64_t bytes = p->bytes;
  p->buffer = is_recycled(e, p)
                  ? kit_free_list_take(&e->memory.free_list, KIT_FREE_BUFFER, bytes, &bytes)
                  : NULL;
  int32_t rc = p->buffer ? ACCEL_PLUGIN_OK : count_as_taken(e, bytes, error);
  if (!rc && !p->buffer) {
    rc = kit_memory_alloc(&e->memory, p->bytes, &p->buffer, error);
    if (rc) kit_memory_give(&e->memory, p->bytes);
  }
  if (rc)
    free(p);
  else
    *out = p;
  return rc;
}

static void page_drop(accel_plugin_endpoint *e, kit_page *p) {
  if (!p || --p->users) return;
  kit_page_block *b = p->block;
  if (b && --b->pages == 0) {
    if (!kit_free_list_put(&e->memory.free_list, KIT_FREE_BLOCK, b->memory, b->bytes)) {
      free(b->memory);
      kit_memory_give(&e->memory, b->bytes);
    }
    free(b);
  }
  if (!b && !(is_recycled(e, p) &&
              kit_free_list_put(&e->memory.free_list, KIT_FREE_BUFFER, p->buffer, p->bytes))) {
    kit_memory_free(&e->memory, p->buffer);
    kit_memory_give(&e->memory, p->bytes);
  }
  free(p);
}

/* n pages in `memory`, which is counted as taken; that is given back when there is no room for what
 * describes them. */
static int32_t block_new(accel_plugin_endpoint *e, void *memory, uint64_t each, int32_t n,
                         kit_page **out, accel_plugin_error *error) {
  const uint64_t bytes = each * (uint64_t)n;
  kit_page_block *b = memory ? calloc(1, sizeof *b) : NULL;
  int32_t made = 0;
  for (; b && made < n && (out[made] = calloc(1, sizeof **out)); made++)
    *out[made] =
        (kit_page){.users = 1, .buffer = (char *)memory + (uint64_t)made * each, .block = b};
  if (b && made == n) {
    *b = (kit_page_block){.pages = (uint32_t)n, .bytes = bytes, .memory = memory};
    return ACCEL_PLUGIN_OK;
  }
  while (made > 0) free(out[--made]);
  free(b);
  free(memory);
  kit_memory_give(&e->memory, bytes);
  return kit_no_memory(error, bytes);
}

/* n pages, in blocks where they are worth it: in those of the free list, and the rest in one new
 * block. */
static int32_t pages_new(accel_plugin_endpoint *e, const accel_plugin_state *s, int32_t n,
                         kit_page **out, accel_plugin_error *error) {
  const uint64_t each = kit_page_bytes(e, s);
  int32_t rc = ACCEL_PLUGIN_OK, made = 0;
  while (!rc && made < n) {
    uint64_t bytes = each * (uint64_t)(n - made);
    const bool together = n - made > 1 && bytes >= BLOCK_BYTES && !e->backend->alloc;
    void *recycled =
        together ? kit_free_list_take(&e->memory.free_list, KIT_FREE_BLOCK, each, &bytes) : NULL;
    const int32_t got = together ? (int32_t)(bytes / each) : 1;
    if (!together)
      rc = page_new(e, s, &out[made], error);
    else if (recycled || !(rc = count_as_taken(e, bytes, error)))
      rc = block_new(e, recycled ? recycled : kit_alloc_pages(bytes), each, got, out + made, error);
    if (!rc) made += got;
  }
  while (rc && made > 0) page_drop(e, out[--made]);
  return rc;
}

/* ---- vectors ----
 * They do not count as taken, but what lies in the free list does. */

static bool is_recycled_vector(const accel_plugin_endpoint *e, uint64_t bytes) {
  return !e->backend->alloc && bytes >= KIT_OWN_MAPPING;
}

int32_t kit_vector_new(accel_plugin_endpoint *e, uint64_t elements, void **out,
                       accel_plugin_error *error) {
  uint64_t bytes = elements ? elements * 4 : 4;
  *out = is_recycled_vector(e, bytes)
             ? kit_free_list_take(&e->memory.free_list, KIT_FREE_BUFFER, bytes, &bytes)
             : NULL;
  if (!*out) return kit_memory_alloc(&e->memory, bytes, out, error);
  kit_memory_give(&e->memory, bytes);
  return ACCEL_PLUGIN_OK;
}

static void vector_drop(accel_plugin_endpoint *e, void *vector, uint64_t elements) {
  const uint64_t bytes = elements * 4;
  if (vector && is_recycled_vector(e, bytes) && kit_memory_take(&e->memory, bytes)) {
    if (kit_free_list_put(&e->memory.free_list, KIT_FREE_BUFFER, vector, bytes)) return;
    kit_memory_give(&e->memory, bytes);
  }
  kit_memory_free(&e->memory, vector);
}

/* ---- slots ---- */

void kit_slot_clear(accel_plugin_endpoint *e, kit_slot *s) {
  for (int32_t i = 0; i < s->n_page; i++) page_drop(e, s->page[i]);
  free(s->page);
  free(s->address);
  free(s->position);
  vector_drop(e, s->current, s->elements);
  vector_drop(e, s->next, s->elements);
  vector_drop(e, s->spare, s->elements);
  *s = (kit_slot){0};
}

static int32_t slot_capacity(kit_slot *s, int32_t pages, int32_t rows, accel_plugin_error *error) {
  if (pages > s->page_capacity) {
    int32_t capacity = pages + pages / 2 + 4;
    kit_page **list = realloc(s->page, (size_t)capacity * sizeof *list);
    if (list) s->page = list;
    void **address = realloc(s->address, (size_t)capacity * sizeof *address);
    if (address) s->address = address;
    if (!list || !address) return kit_no_memory(error, (uint64_t)capacity * sizeof *list);
    s->page_capacity = capacity;
  }
  if (rows > s->position_capacity) {
    int32_t capacity = rows < INT32_MAX / 2 ? rows + rows / 2 + 64 : rows;
    int32_t *position = realloc(s->position, (size_t)capacity * sizeof *position);
    if (!position) return kit_no_memory(error, (uint64_t)capacity * sizeof *position);
    s->position = position;
    s->position_capacity = capacity;
  }
  return ACCEL_PLUGIN_OK;
}

int32_t kit_slot_reserve(accel_plugin_endpoint *e, const accel_plugin_state *st, kit_slot *s,
                         int32_t from, int32_t to, accel_plugin_error *error) {
  int32_t pages = to / e->page_rows + (to % e->page_rows != 0);
  int32_t rc = slot_capacity(s, pages, to, error);
  if (rc) return rc;
  for (int32_t i = from / e->page_rows; i < pages && i < s->n_page; i++) {
    kit_page *fresh = NULL;
    if (s->page[i]->users == 1) continue;
    rc = page_new(e, st, &fresh, error);
    if (!rc)
      rc = kit_memory_copy(&e->memory, fresh->buffer, 0, s->page[i]->buffer, 0,
                           kit_page_bytes(e, st), error);
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

void kit_slot_settle(kit_slot *s, bool commit) {
  if (commit) s->length += s->pending;
  if (s->next) { /* then there is no spare: the run has taken it */
    s->spare = commit ? s->current : s->next;
    if (commit) s->current = s->next;
    s->next = NULL;
  }
  s->pending = 0;
}

int32_t kit_slot_copy(accel_plugin_endpoint *e, const kit_slot *from, kit_slot *to,
                      accel_plugin_error *error) {
  int32_t rc = slot_capacity(to, from->n_page, from->length, error);
  if (!rc && from->current) rc = kit_vector_new(e, from->elements, &to->current, error);
  if (!rc && from->current)
    rc = kit_memory_copy(&e->memory, to->current, 0, from->current, 0, from->elements * 4, error);
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

void kit_slot_truncate(accel_plugin_endpoint *e, kit_slot *s, int32_t length) {
  if (!length) kit_slot_clear(e, s);
  s->length = length;
  const int32_t pages = length / e->page_rows + (length % e->page_rows != 0);
  while (s->n_page > pages) page_drop(e, s->page[--s->n_page]);
}
