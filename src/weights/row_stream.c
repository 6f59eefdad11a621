/* row_stream.c - slots of rows over a range reader. */
#include "weights/row_stream.h"

#include <pthread.h>
#include <stdlib.h>

#include "core/threads.h"

typedef struct row_slot {
  bool used, in_file; /* in_file: the reader has it */
  bool segment;       /* of the store, else rows of a weight */
  uint32_t index;
  int64_t first, rows;
  float *computed; /* of rows that are not in one piece; NULL: not asked for yet */
} row_slot;

/* Pieces in the order in which they were posted. */
typedef struct piece_list {
  struct piece {
    uint32_t index;
    int64_t first, rows; /* rows 0: segment `index` of the store */
  } * item;
  uint32_t n, capacity;
} piece_list;

struct accel__row_stream {
  const accel__source *source;
  accel__range_reader *reader; /* NULL: random values, and no store */
  accel__cache_store *store;   /* NULL: none was given */
  bool lent;                   /* the store is another stream's */
  uint32_t store_file;         /* of the reader */
  row_slot *slot;
  uint32_t n;
  uint64_t slot_bytes;
  pthread_mutex_t lock; /* everything below */
  struct {
    uint64_t segments, bytes, ns;
  } computed;
  accel__expert_counters experts;
  piece_list now, last; /* posted since the last mark; between the last two */
  uint64_t marks;
};

/* c NULL: of no files. */
static accel_status open_reader(const accel__checkpoint *c, uint32_t slots, uint64_t slot_bytes,
                                accel__range_reader **out) {
  uint32_t n = 0;
  while (c && accel__checkpoint_file(c, n)) n++;
  const char **path = malloc((n + 1) * sizeof *path);
  accel__file_state *state = malloc((n + 1) * sizeof *state);
  accel_status status = path && state ? ACCEL_OK : accel__no_memory(n * sizeof *state);
  for (uint32_t i = 0; status == ACCEL_OK && i < n; i++) {
    path[i] = accel__checkpoint_file(c, i);
    state[i] = *accel__checkpoint_file_state(c, i);
  }
  const accel__range_options options = {.slots = slots, .slot_bytes = slot_bytes};
  if (status == ACCEL_OK) status = accel__range_reader_open(path, state, n, &options, out);
  free(path);
  free(state);
  return status;
}

accel_status accel__row_stream_open(const accel__source *source, uint32_t slots,
                                    uint64_t slot_bytes, accel__row_stream **out) {
  const accel__checkpoint *c = accel__source_checkpoint(source);
  *out = NULL;
  accel__row_stream *s = calloc(1, sizeof *s);
  if (!s) return accel__no_memory(sizeof *s);
  pthread_mutex_init(&s->lock, NULL);
  s->source = source;
  s->n = slots;
  s->slot_bytes = slot_bytes;
  s->slot = calloc(slots ? slots : 1, sizeof *s->slot);
  accel_status status = s->slot ? ACCEL_OK : accel__no_memory(slots * sizeof *s->slot);
  if (status == ACCEL_OK && c) status = open_reader(c, slots, slot_bytes, &s->reader);
  if (status != ACCEL_OK) accel__row_stream_close(&s);
  *out = s;
  return status;
}

void accel__row_stream_close(accel__row_stream **stream) {
  accel__row_stream *s = *stream;
  *stream = NULL;
  if (!s) return;
  for (uint32_t i = 0; s->slot && i < s->n; i++) free(s->slot[i].computed);
  accel__range_reader_close(&s->reader);
  if (!s->lent) accel__cache_store_close(&s->store);
  pthread_mutex_destroy(&s->lock);
  free(s->now.item);
  free(s->last.item);
  free(s->slot);
  free(s);
}

/* A piece that there is no memory for is left out. */
static void note(accel__row_stream *s, uint32_t index, int64_t first, int64_t rows) {
  piece_list *l = &s->now;
  pthread_mutex_lock(&s->lock);
  if (l->n == l->capacity) {
    const uint32_t capacity = 2 * l->capacity + 64;
    struct piece *more = realloc(l->item, capacity * sizeof *more);
    if (more) l->item = more;
    if (more) l->capacity = capacity;
  }
  if (l->n < l->capacity) l->item[l->n++] = (struct piece){index, first, rows};
  pthread_mutex_unlock(&s->lock);
}

void accel__row_stream_mark(accel__row_stream *s) {
  pthread_mutex_lock(&s->lock);
  if (s->marks++ && s->now.n) { /* of runs at once some have not posted yet */
    const piece_list last = s->last;
    s->last = s->now;
    s->now = last;
  }
  s->now.n = 0;
  pthread_mutex_unlock(&s->lock);
}

accel_status accel__row_stream_post(accel__row_stream *s, uint32_t slot, uint32_t index,
                                    int64_t first, int64_t rows) {
  accel__row_range at;
  if (slot >= s->n || s->slot[slot].used)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "slot %u of %u is in use", slot, s->n);
  row_slot *to = &s->slot[slot];
  const bool in_file = s->reader && accel__source_row_range(s->source, index, first, rows, &at);
  if (in_file) ACCEL_TRY(accel__range_reader_post(s->reader, slot, at.file, at.offset, at.bytes));
  *to = (row_slot){.used = true, .in_file = in_file, .index = index, .first = first, .rows = rows};
  note(s, index, first, rows);
  return ACCEL_OK;
}

/* ---- segments of the cache ---- */

/* s has none yet. */
static accel_status use_store(accel__row_stream *s, accel__cache_store *store, bool lent) {
  s->store = store;
  s->lent = lent;
  if (!s->reader) ACCEL_TRY(open_reader(NULL, s->n, s->slot_bytes, &s->reader));
  ACCEL_TRY(accel__range_reader_add(s->reader, accel__cache_store_path(store), &s->store_file));
  for (uint32_t i = 0; accel__cache_store_has(store, i); i++) {
    accel__cache_segment at;
    accel__cache_store_segment(store, i, &at);
    ACCEL_TRY(accel__range_reader_expect(s->reader, s->store_file, at.offset, at.bytes, at.sum));
  }
  return ACCEL_OK;
}

accel_status accel__row_stream_store(accel__row_stream *s, accel__cache_store *store) {
  if (!s->store) return use_store(s, store, false);
  accel__cache_store_close(&store);
  return accel__fail(ACCEL_ERROR_ARGUMENT, "the stream has a store already");
}

accel_status accel__row_stream_post_segment(accel__row_stream *s, uint32_t slot, uint32_t index) {
  accel__cache_segment at;
  if (slot >= s->n || s->slot[slot].used || !s->store || !accel__cache_store_has(s->store, index))
    return accel__fail(ACCEL_ERROR_ARGUMENT, "slot %u of %u, segment %u: in use, or not there",
                       slot, s->n, index);
  accel__cache_store_segment(s->store, index, &at);
  ACCEL_TRY(accel__range_reader_post(s->reader, slot, s->store_file, at.offset, at.bytes));
  s->slot[slot] = (row_slot){.used = true, .in_file = true, .segment = true, .index = index};
  note(s, index, 0, 0);
  return ACCEL_OK;
}

static accel_status wait_segment(accel__row_stream *s, uint32_t slot, accel_plugin_rows *out) {
  out->dtype = ACCEL_PLUGIN_NO_DTYPE;
  const accel_status status = accel__range_reader_wait(s->reader, slot, &out->data);
  if (status == ACCEL_OK) return status;
  accel__failure failure = {.status = ACCEL_OK};
  accel__failure_keep(&failure, status);
  if (accel__cache_store_recheck(s->store, s->slot[slot].index))
    return accel__fail(status,
                       "%s: segment %u is damaged: load the model again, then it is made anew",
                       accel__cache_store_path(s->store), s->slot[slot].index);
  return accel__failure_raise(&failure);
}

/* ---- rows of weights ---- */

/* Rows that are in several pieces, or in no file. */
static accel_status compute(accel__row_stream *s, row_slot *slot) {
  const uint64_t n =
      (uint64_t)slot->rows * (uint64_t)accel__source_row_elements(s->source, slot->index);
  const uint64_t begin = accel__now_ns();
  slot->computed = accel__fault("allocation") ? NULL : malloc((n ? n : 1) * sizeof(float));
  if (!slot->computed) return accel__no_memory(n * sizeof(float));
  ACCEL_TRY(accel__source_rows(s->source, slot->index, slot->first, slot->rows, slot->computed));
  pthread_mutex_lock(&s->lock);
  s->computed.segments++;
  s->computed.bytes += n * sizeof(float);
  s->computed.ns += accel__now_ns() - begin;
  pthread_mutex_unlock(&s->lock);
  return ACCEL_OK;
}

accel_status accel__row_stream_wait(accel__row_stream *s, uint32_t slot, accel_plugin_rows *out) {
  *out = (accel_plugin_rows){0};
  if (slot >= s->n || !s->slot[slot].used)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "slot %u of %u: nothing was posted", slot, s->n);
  row_slot *from = &s->slot[slot];
  if (from->segment) return wait_segment(s, slot, out);
  if (from->in_file) {
    out->dtype = accel__source_row_dtype(s->source, from->index);
    return accel__range_reader_wait(s->reader, slot, &out->data);
  }
  if (!from->computed) ACCEL_TRY(compute(s, from));
  out->dtype = ACCEL_PLUGIN_F32;
  out->data = from->computed;
  return ACCEL_OK;
}

bool accel__row_stream_ready(accel__row_stream *s, uint32_t slot) {
  return slot >= s->n || !s->slot[slot].used || !s->slot[slot].in_file ||
         accel__range_reader_ready(s->reader, slot);
}

void accel__row_stream_release(accel__row_stream *s, uint32_t slot) {
  if (slot >= s->n || !s->slot[slot].used) return;
  if (s->slot[slot].in_file) accel__range_reader_release(s->reader, slot);
  free(s->slot[slot].computed);
  s->slot[slot] = (row_slot){0};
}

void accel__row_stream_count(accel__row_stream *s, accel__range_counters *out) {
  *out = (accel__range_counters){0};
  if (s->reader) accel__range_reader_count(s->reader, out);
  pthread_mutex_lock(&s->lock);
  out->segments += s->computed.segments;
  out->bytes += s->computed.bytes;
  out->wait_ns += s->computed.ns;
  pthread_mutex_unlock(&s->lock);
}

void accel__row_stream_count_experts(accel__row_stream *s, uint32_t hits, uint32_t misses,
                                     uint64_t bytes) {
  pthread_mutex_lock(&s->lock);
  s->experts.hits += hits;
  s->experts.misses += misses;
  s->experts.bytes += bytes;
  pthread_mutex_unlock(&s->lock);
}

void accel__row_stream_experts(accel__row_stream *s, accel__expert_counters *sum) {
  pthread_mutex_lock(&s->lock);
  sum->hits += s->experts.hits;
  sum->misses += s->experts.misses;
  sum->bytes += s->experts.bytes;
  pthread_mutex_unlock(&s->lock);
}

/* ---- reading again ---- */

static accel_status post_piece(accel__row_stream *s, uint32_t slot, const struct piece *p) {
  return p->rows ? accel__row_stream_post(s, slot, p->index, p->first, p->rows)
                 : accel__row_stream_post_segment(s, slot, p->index);
}

/* The first n pieces, n not more than there are. */
static accel_status read_pieces(accel__row_stream *s, const piece_list *list, uint32_t n) {
  uint32_t posted = 0;
  for (uint32_t done = 0; done < n; done++) {
    accel_plugin_rows rows;
    for (; posted < n && posted < done + s->n; posted++)
      ACCEL_TRY(post_piece(s, posted % s->n, &list->item[posted]));
    ACCEL_TRY(accel__row_stream_wait(s, done % s->n, &rows));
    accel__row_stream_release(s, done % s->n);
  }
  return ACCEL_OK;
}

accel_status accel__row_stream_read_again(accel__row_stream *s, uint64_t *bytes, uint64_t *ns) {
  accel__row_stream *again;
  accel__range_counters before, count;
  piece_list list = {0};
  *bytes = *ns = 0;
  ACCEL_TRY(accel__row_stream_open(s->source, s->n, s->slot_bytes, &again));
  accel_status status = s->store ? use_store(again, s->store, true) : ACCEL_OK;
  pthread_mutex_lock(&s->lock);
  list.item = malloc((s->last.n + 1) * sizeof *list.item);
  if (list.item) list.n = s->last.n;
  for (uint32_t i = 0; i < list.n; i++) list.item[i] = s->last.item[i];
  pthread_mutex_unlock(&s->lock);
  if (!list.item) status = accel__no_memory(sizeof *list.item);
  /* threads begin and memory is touched before the clock runs, as in an endpoint that has run */
  if (status == ACCEL_OK) status = read_pieces(again, &list, list.n < s->n ? list.n : s->n);
  accel__row_stream_count(again, &before);
  const uint64_t begin = accel__now_ns();
  if (status == ACCEL_OK) status = read_pieces(again, &list, list.n);
  *ns = accel__now_ns() - begin;
  accel__row_stream_count(again, &count);
  *bytes = count.bytes - before.bytes;
  accel__row_stream_close(&again);
  free(list.item);
  return status;
}
