/* kit_sequence_file.c - export and import of sequences. */
#include "kit/kit_sequence_file.h"

#include <stdlib.h>
#include <string.h>

typedef struct export_header {
  uint32_t magic, n_state;
  uint64_t identity, bytes;
} export_header;
typedef struct export_slot {
  int32_t length, has_vector;
  uint64_t elements;
} export_slot;
enum { EXPORT_MAGIC = 0x324b4341 }; /* "ACK2": 2 since the rows of a key head lie together */

static uint64_t slot_bytes(accel_plugin_endpoint *e, const accel_plugin_state *st, int32_t length,
                           bool vector, uint64_t elements) {
  uint64_t n = sizeof(export_slot) + (vector ? elements * 4 : 0);
  if (kit_state_is_rows(st)) n += (uint64_t)length * (4 + kit_k_row(e, st) + kit_v_row(e, st));
  return n;
}

/* Up to KIT_PAGE_ROWS rows from row `first` on, K and then V, to or from a file, whatever pages the
 * endpoint has: what follows each other in memory at once. */
static int32_t move_rows(accel_plugin_endpoint *e, const accel_plugin_state *st, const kit_slot *t,
                         int32_t first, int32_t rows, char *file, bool write,
                         accel_plugin_error *error) {
  const uint64_t pieces = e->backend->alloc ? 1 : (uint64_t)st->heads;
  int32_t rc = ACCEL_PLUGIN_OK;
  for (int value = 0; value < 2; value++) {
    const uint64_t row = (value ? kit_v_row(e, st) : kit_k_row(e, st)) / pieces,
                   head = row * (uint64_t)e->page_rows;
    for (uint64_t i = 0; i < pieces; i++)
      for (int32_t r = 0, n; !rc && r < rows; r += n) {
        void *page = t->address[(first + r) / e->page_rows];
        const uint64_t at = (value ? kit_v_offset(e, st) : 0) + i * head;
        n = rows - r < e->page_rows ? rows - r : e->page_rows;
        rc = write ? kit_memory_write(&e->memory, page, at, file, (uint64_t)n * row, error)
                   : kit_memory_read(&e->memory, file, page, at, (uint64_t)n * row, error);
        file += (uint64_t)n * row;
      }
  }
  return rc;
}

int32_t kit_sequence_export(const accel_plugin_session *s, const kit_sequence *q, void *buffer,
                            uint64_t *n, accel_plugin_error *error) {
  accel_plugin_endpoint *e = s->e;
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
    const kit_slot *t = &q->slot[i];
    export_slot hs = {t->length, t->current != NULL, t->elements};
    memcpy(at, &hs, sizeof hs);
    at += sizeof hs;
    if (kit_state_is_rows(st) && t->length) {
      memcpy(at, t->position, (size_t)t->length * 4);
      at += (size_t)t->length * 4;
    }
    for (int32_t row = 0; !rc && kit_state_is_rows(st) && row < t->length; row += KIT_PAGE_ROWS) {
      const int32_t rows = t->length - row < KIT_PAGE_ROWS ? t->length - row : KIT_PAGE_ROWS;
      rc = move_rows(e, st, t, row, rows, at, false, error);
      at += (uint64_t)rows * (kit_k_row(e, st) + kit_v_row(e, st));
    }
    if (!rc && t->current) {
      rc = kit_memory_read(&e->memory, at, t->current, 0, t->elements * 4, error);
      at += t->elements * 4;
    }
  }
  return rc;
}

static int32_t import_slot(accel_plugin_endpoint *e, const accel_plugin_state *st, const char **at,
                           uint64_t *left, kit_slot *t, accel_plugin_error *error) {
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
  if (kit_state_is_rows(st) && h.length) {
    rc = kit_slot_reserve(e, st, t, 0, h.length, error);
    if (rc) return rc;
    memcpy(t->position, *at, (size_t)h.length * 4);
    *at += (size_t)h.length * 4;
  }
  for (int32_t row = 0; !rc && kit_state_is_rows(st) && row < h.length; row += KIT_PAGE_ROWS) {
    const int32_t rows = h.length - row < KIT_PAGE_ROWS ? h.length - row : KIT_PAGE_ROWS;
    rc = move_rows(e, st, t, row, rows, (char *)*at, true, error);
    *at += (uint64_t)rows * (kit_k_row(e, st) + kit_v_row(e, st));
  }
  if (!rc && h.has_vector) {
    rc = kit_memory_alloc(&e->memory, h.elements ? h.elements * 4 : 4, &t->current, error);
    if (!rc) rc = kit_memory_write(&e->memory, t->current, 0, *at, h.elements * 4, error);
    *at += h.elements * 4;
  }
  return rc;
}

int32_t kit_sequence_import(accel_plugin_session *s, int32_t id, const void *buffer, uint64_t n,
                            accel_plugin_error *error) {
  accel_plugin_endpoint *e = s->e;
  export_header h;
  if (!buffer || n < sizeof h)
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1,
                    "import: %llu bytes are no exported sequence", (unsigned long long)n);
  memcpy(&h, buffer, sizeof h);
  if (h.magic != EXPORT_MAGIC || h.n_state != e->program->n_state || h.identity != e->identity ||
      h.bytes != n)
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1,
                    "import: the bytes come from another model, build or precision");
  kit_slot *fresh = calloc(e->program->n_state + 1, sizeof *fresh);
  if (!fresh) return kit_no_memory(error, sizeof *fresh);
  const char *at = (const char *)buffer + sizeof h;
  uint64_t left = n - sizeof h;
  int32_t rc = ACCEL_PLUGIN_OK;
  for (uint32_t i = 0; !rc && i < e->program->n_state; i++)
    rc = import_slot(e, &e->program->state[i], &at, &left, &fresh[i], error);
  if (!rc && left)
    rc = kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "import: %llu bytes too many",
                  (unsigned long long)left);
  kit_sequence *q = kit_sequence_find(s, id);
  if (!rc && !q) rc = kit_sequence_new(s, id, &q, error);
  kit_slot *gone = rc ? fresh : q->slot;
  if (!rc) q->slot = fresh;
  for (uint32_t i = 0; i < e->program->n_state; i++) kit_slot_clear(e, &gone[i]);
  free(gone);
  return rc;
}
