/* decode_chunk.h - what the ways to decode share: the keys and values that are read together, and
 * how they are prefetched; included after vec_<isa>.h by decode_body.h and decode_pairs_body.h. */
#ifndef ACCEL_CPU_DECODE_CHUNK_H
#define ACCEL_CPU_DECODE_CHUNK_H

#include "kernels/kernels.h"

enum {
  /* of a chunk, between two steps of the softmax; a page is some of them */
  DECODE_KEYS = 64,
  /* a key is prefetched into the first-level cache so many keys before it is used */
  DECODE_AHEAD = 12,
  /* rows that go past a chunk together, at most: heads of one query row */
  DECODE_ROWS = 8,
  DECODE_FEW = 4, /* of these, for which a key is loaded at once */
  /* so many rows pay for turning keys into columns */
  DECODE_TURNED = V == 16 ? 3 : DECODE_ROWS + 1,
  /* of keys that are turned, or multiplied as pairs, at most */
  DECODE_DIM = CPU_DECODE_DIM
};
_Static_assert(CPU_PAGE_ROWS % DECODE_KEYS == 0, "a chunk lies in one page");
typedef float decode_scores[DECODE_KEYS] __attribute__((aligned(64)));

/* Some keys that lie in one piece, and their values.  Memory is kept busy all along: values are
 * asked for while the keys go by, the next chunk's keys while the values do. */
typedef struct chunk {
  int64_t from, n;
  const char *k, *v, *next;  /* next: NULL when no keys follow */
  const char *far_k, *far_v; /* keys after the next ones, values after these; or NULL */
  int64_t k_row, v_row;      /* bytes from one to the next */
  int64_t k_bytes, v_bytes;  /* bytes that are read of each */
} chunk;

static chunk chunk_at(const cpu_attention *a, int64_t from, int64_t high) {
  const int64_t size = cpu_kv_bytes(a->kv), whole = DECODE_KEYS - from % DECODE_KEYS;
  chunk c = {.from = from, .n = high - from < whole ? high - from : whole};
  c.k = cpu_key_at(a, from);
  c.v = cpu_value_at(a, from);
  c.next = from + c.n < high ? cpu_key_at(a, from + c.n) : NULL;
  c.far_k = from + c.n + DECODE_KEYS < high ? cpu_key_at(a, from + c.n + DECODE_KEYS) : NULL;
  c.far_v = c.next ? cpu_value_at(a, from + c.n) : NULL;
  c.k_row = a->ldk * size;
  c.v_row = a->ldv * size;
  c.k_bytes = a->kv == ACCEL_PLUGIN_I8 ? a->k_scale + 4 : a->dk * size;
  c.v_bytes = a->kv == ACCEL_PLUGIN_I8 ? a->v_scale + 4 : a->dv * size;
  return c;
}

/* The lines that begin in a row: of rows one behind the other each line is asked for once. */
V_INLINE const char *first_line(const char *row) { return row + (-(uintptr_t)row & 63); }
V_INLINE void prefetch_row(const char *row, int64_t bytes) {
  for (const char *line = first_line(row); line < row + bytes; line += 64) v_prefetch(line);
}
V_INLINE void prefetch_row_far(const char *row, int64_t bytes) {
  for (const char *line = first_line(row); line < row + bytes; line += 64) v_prefetch_far(line);
}

#endif
