/* kit_pages.h - the memory of sessions: KV pages with reference counts, and slots, which hold one
 * sequence's part of one state.
 *
 * Pages are shared by copies of a sequence until one of them writes.  During a run rows are only
 * `pending`; they count once the run has succeeded.
 */
#ifndef ACCEL_KIT_PAGES_H
#define ACCEL_KIT_PAGES_H

#include "kit/kit_endpoint.h"

typedef struct kit_page {
  uint32_t users; /* slots that show it */
  uint64_t bytes; /* 0: of a block */
  void *buffer;
  struct kit_page_block *block; /* NULL: the buffer is the page's own */
} kit_page;

typedef struct kit_slot {
  int32_t length, pending; /* rows that count, and rows of the run under way */
  kit_page **page;         /* [n_page] */
  void **address;          /* [n_page] of the pages, as views show them */
  int32_t n_page, page_capacity;
  int32_t *position; /* [length + pending] */
  int32_t position_capacity;
  /* CONV and SSM: the vector that is read, the one that the run writes, and one that the next run
   * will write; of which there are two */
  void *current, *next, *spare;
  uint64_t elements; /* floats of each */
} kit_slot;

/* Bytes of a row of K or V, where V begins in a page, and bytes of a page. */
uint64_t kit_k_row(const accel_plugin_endpoint *e, const accel_plugin_state *s);
uint64_t kit_v_row(const accel_plugin_endpoint *e, const accel_plugin_state *s);
uint64_t kit_v_offset(const accel_plugin_endpoint *e, const accel_plugin_state *s);
uint64_t kit_page_bytes(const accel_plugin_endpoint *e, const accel_plugin_state *s);
/* Whether the state consists of rows in pages (KV and cross attention's KV), not of a vector. */
bool kit_state_is_rows(const accel_plugin_state *s);

/* A vector of a CONV or SSM state, which kit_slot_clear frees; what is in it is not set.  Large ones
 * in host memory are those of sequences that have ended. */
int32_t kit_vector_new(accel_plugin_endpoint *e, uint64_t elements, void **out,
                       accel_plugin_error *error);
/* Makes rows [from, to) writable: the page that `from` falls into becomes the slot's own, missing
 * pages are added.  E_LIMIT when the memory limit would be passed. */
int32_t kit_slot_reserve(accel_plugin_endpoint *e, const accel_plugin_state *state, kit_slot *s,
                         int32_t from, int32_t to, accel_plugin_error *error);
/* Ends a run: its rows and vector count from now on (commit), or are forgotten. */
void kit_slot_settle(kit_slot *s, bool commit);
/* `to` is empty; the pages are shared, a vector is copied. */
int32_t kit_slot_copy(accel_plugin_endpoint *e, const kit_slot *from, kit_slot *to,
                      accel_plugin_error *error);
/* Keeps the first `length` rows and the pages they are in. */
void kit_slot_truncate(accel_plugin_endpoint *e, kit_slot *s, int32_t length);
void kit_slot_clear(accel_plugin_endpoint *e, kit_slot *s);

#endif
