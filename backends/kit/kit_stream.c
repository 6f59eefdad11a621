/* kit_stream.c - the fixed set of residents; a queue of posted segments over the host's slots. */
#include "kit/kit_stream.h"

#include <stdlib.h>
#include <string.h>

#include "formats/convert.h"

/* ---- which segments stay ---- */

uint32_t kit_stream_entry(const accel_plugin_program *p) {
  for (uint32_t i = 0; i < p->n_entry; i++)
    if (!strcmp(p->entry[i].name, "decode")) return i;
  return 0;
}

/* Of the segments with so many uses: all, or those that an even spread over the list takes. */
static uint64_t choose_level(kit_segment *segment, uint32_t n, uint32_t uses, uint64_t budget) {
  uint64_t all = 0, seen = 0, taken = 0;
  for (uint32_t i = 0; i < n; i++) all += segment[i].uses == uses ? segment[i].bytes : 0;
  const double share = all > budget ? (double)budget / (double)all : 1.0;
  for (uint32_t i = 0; i < n; i++) {
    if (segment[i].uses != uses) continue;
    seen += segment[i].bytes;
    if ((double)(taken + segment[i].bytes) >
            share * (double)seen + 0.5 * (double)segment[i].bytes ||
        taken + segment[i].bytes > budget)
      continue;
    segment[i].resident = true;
    taken += segment[i].bytes;
  }
  for (uint32_t i = 0; i < n; i++) /* what the spread left over */
    if (segment[i].uses == uses && !segment[i].resident && taken + segment[i].bytes <= budget) {
      segment[i].resident = true;
      taken += segment[i].bytes;
    }
  return taken;
}

uint64_t kit_stream_choose(kit_segment *segment, uint32_t n, uint64_t budget) {
  uint64_t taken = 0;
  uint32_t level = UINT32_MAX;
  for (uint32_t i = 0; i < n; i++) segment[i].resident = false;
  for (;;) {
    bool any = false;
    uint32_t next = 0;
    for (uint32_t i = 0; i < n; i++) {
      if (segment[i].uses >= level) continue;
      any = true;
      if (segment[i].uses > next) next = segment[i].uses;
    }
    if (!any) return taken;
    taken += choose_level(segment, n, level = next, budget - taken);
  }
}

uint64_t kit_stream_read(const kit_segment *segment, uint32_t n) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < n; i++)
    if (!segment[i].resident) bytes += segment[i].read * segment[i].uses;
  return bytes;
}

/* ---- rows as the host gives them ---- */

static void to_f32(uint32_t dtype, const char *from, size_t n, float *out) {
  if (dtype == ACCEL_PLUGIN_F32)
    memcpy(out, from, n * sizeof *out);
  else if (dtype == ACCEL_PLUGIN_F16)
    accel_fp16_array_to_f32(from, n, out);
  else
    accel_bf16_array_to_f32(from, n, out);
}

static void to_halves(uint32_t store, const float *from, size_t n, void *out) {
  if (store == ACCEL_PLUGIN_F16)
    accel_f32_array_to_fp16(from, n, out);
  else
    accel_f32_array_to_bf16(from, n, out);
}

void kit_rows_convert(uint32_t dtype, uint32_t store, bool wide, const char *from, size_t n,
                      char *out) {
  enum { CHUNK = 512 };
  float f[CHUNK];
  uint16_t half[CHUNK];
  const size_t size = kit_row_element(dtype);
  for (size_t at = 0, m; at < n; at += m) {
    m = n - at < CHUNK ? n - at : CHUNK;
    to_f32(dtype, from + at * size, m, f);
    if (store != ACCEL_PLUGIN_F32 && (!wide || store != dtype)) {
      to_halves(store, f, m, half);
      if (wide) to_f32(store, (const char *)half, m, f);
    }
    if (wide)
      memcpy(out + at * sizeof *f, f, m * sizeof *f);
    else
      memcpy(out + at * sizeof *half, half, m * sizeof *half);
  }
}

/* ---- the queue ---- */

typedef struct sequence {
  uint32_t *segment;
  uint32_t n, capacity;
} sequence;

typedef struct posted {
  uint32_t segment, slot, n; /* slots [slot, slot + n), modulo the slots there are */
} posted;

struct kit_stream {
  const accel_plugin_host *host;
  const kit_segment *segment;
  sequence *order;    /* [n_entry + 1] of the last run of each entry */
  uint32_t *followed; /* [n_entry + 1] by which entry; itself at first */
  uint32_t n_entry;
  uint32_t entry; /* of the run under way, or the last one */
  bool began;     /* any run */
  posted *queue;  /* [slots] ring: posted and not done */
  uint32_t slots, first, n, next_slot, used_slots;
  uint32_t at; /* segments of the run that were done */
  bool waited; /* the first of the queue is taken */
};

int32_t kit_stream_open(const accel_plugin_host *host, const accel_plugin_program *program,
                        const kit_segment *segment, uint32_t slots, uint32_t others,
                        uint64_t slot_bytes, kit_stream **out, accel_plugin_error *error) {
  *out = NULL;
  kit_stream *s = calloc(1, sizeof *s);
  if (!s) return kit_no_memory(error, sizeof *s);
  s->host = host;
  s->segment = segment;
  s->n_entry = program->n_entry;
  s->slots = slots;
  s->order = calloc(s->n_entry + 1, sizeof *s->order);
  s->followed = calloc(s->n_entry + 1, sizeof *s->followed);
  s->queue = calloc(slots, sizeof *s->queue);
  if (!s->order || !s->followed || !s->queue) {
    kit_stream_close(s);
    return kit_no_memory(error, slots * sizeof *s->queue);
  }
  for (uint32_t i = 0; i < s->n_entry; i++) s->followed[i] = i;
  s->followed[s->n_entry] = kit_stream_entry(program);
  *out = s;
  int32_t rc = host->rows_open(host->self, slots + others, slot_bytes, error);
  if (!rc) return rc;
  kit_stream_close(s);
  *out = NULL;
  return rc;
}

void kit_stream_close(kit_stream *s) {
  if (!s) return;
  for (uint32_t i = 0; s->order && i <= s->n_entry; i++) free(s->order[i].segment);
  free(s->order);
  free(s->followed);
  free(s->queue);
  free(s);
}

static posted *queue_at(kit_stream *s, uint32_t i) { return &s->queue[(s->first + i) % s->slots]; }

/* Gives up all that is posted from place `keep` of the queue on, the newest first. */
static void drop_behind(kit_stream *s, uint32_t keep) {
  while (s->n > keep) {
    const posted *last = queue_at(s, --s->n);
    for (uint32_t i = last->n; i-- > 0;)
      s->host->rows_release(s->host->self, (last->slot + i) % s->slots);
    s->used_slots -= last->n;
    s->next_slot = last->slot;
  }
}

/* The segment in place `i` of what is to come: of this run, then of the run that is expected
 * behind it; -1: nothing is. */
static int64_t to_come(const kit_stream *s, uint32_t i) {
  const sequence *now = &s->order[s->entry], *then = &s->order[s->followed[s->entry]];
  if (i < now->n) return now->segment[i];
  i -= now->n;
  return i < then->n ? (int64_t)then->segment[i] : -1;
}

static int32_t post(kit_stream *s, uint32_t segment, accel_plugin_error *error) {
  const kit_segment *from = &s->segment[segment];
  posted *to = queue_at(s, s->n);
  *to = (posted){.segment = segment, .slot = s->next_slot};
  s->n++;
  for (; to->n < from->n_piece; to->n++) {
    const kit_piece *p = &from->piece[to->n];
    int32_t rc =
        from->packed
            ? s->host->store_post(s->host->self, s->next_slot, (uint32_t)p->first, error)
            : s->host->rows_post(s->host->self, s->next_slot, p->weight, p->first, p->rows, error);
    if (rc) {
      drop_behind(s, s->n - 1);
      return rc;
    }
    s->next_slot = (s->next_slot + 1) % s->slots;
    s->used_slots++;
  }
  return ACCEL_PLUGIN_OK;
}

/* Posts as many as there are slots for. */
static int32_t post_ahead(kit_stream *s, accel_plugin_error *error) {
  for (;;) {
    const int64_t next = to_come(s, s->at + s->n);
    if (next < 0 || s->used_slots + s->segment[next].n_piece > s->slots) return ACCEL_PLUGIN_OK;
    int32_t rc = post(s, (uint32_t)next, error);
    if (rc) return rc;
  }
}

/* Keeps the order of a run, without what is resident already. */
static int32_t remember(kit_stream *s, uint32_t entry, const uint32_t *order, uint32_t n,
                        accel_plugin_error *error) {
  sequence *to = &s->order[entry];
  const bool load = entry == s->n_entry;
  if (n > to->capacity) {
    uint32_t *more = realloc(to->segment, n * sizeof *more);
    if (!more) return kit_no_memory(error, n * sizeof *more);
    to->segment = more;
    to->capacity = n;
  }
  to->n = 0;
  for (uint32_t i = 0; i < n; i++)
    if (load || !s->segment[order[i]].resident) to->segment[to->n++] = order[i];
  return ACCEL_PLUGIN_OK;
}

int32_t kit_stream_begin(kit_stream *s, uint32_t entry, const uint32_t *order, uint32_t n,
                         accel_plugin_error *error) {
  if (s->began && s->entry < s->n_entry) s->followed[s->entry] = entry;
  s->began = true;
  s->entry = entry;
  s->at = 0;
  s->waited = false;
  int32_t rc = remember(s, entry, order, n, error);
  uint32_t same = 0;
  while (!rc && same < s->n && to_come(s, same) == queue_at(s, same)->segment) same++;
  drop_behind(s, same); /* another run was expected */
  return rc ? rc : post_ahead(s, error);
}

/* The first of the queue is not wanted any more. */
static void leave_first(kit_stream *s) {
  const posted *first = queue_at(s, 0);
  for (uint32_t i = 0; i < first->n; i++)
    s->host->rows_release(s->host->self, (first->slot + i) % s->slots);
  s->used_slots -= first->n;
  s->first = (s->first + 1) % s->slots;
  s->n--;
  s->at++;
  s->waited = false;
}

int32_t kit_stream_take(kit_stream *s, uint32_t segment, accel_plugin_rows rows[KIT_PIECES],
                        accel_plugin_error *error) {
  int32_t rc = post_ahead(s, error);
  while (!rc && s->n && queue_at(s, 0)->segment != segment && s->at < s->order[s->entry].n) {
    leave_first(s); /* of a launch that had nothing to do */
    rc = post_ahead(s, error);
  }
  if (rc) return rc;
  if (!s->n || s->waited || s->at >= s->order[s->entry].n || queue_at(s, 0)->segment != segment)
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "segment %u is not the next one", segment);
  const posted *first = queue_at(s, 0);
  for (uint32_t i = 0; i < first->n; i++) {
    rc = s->host->rows_wait(s->host->self, (first->slot + i) % s->slots, &rows[i], error);
    if (rc) return rc;
  }
  s->waited = true;
  return ACCEL_PLUGIN_OK;
}

bool kit_stream_ready(kit_stream *s, uint32_t segment) {
  post_ahead(s, NULL); /* a failure comes again when the segment is taken */
  const posted *first = queue_at(s, 0);
  if (!s->n || first->segment != segment || !s->host->rows_ready) return false;
  for (uint32_t i = 0; i < first->n; i++)
    if (!s->host->rows_ready(s->host->self, (first->slot + i) % s->slots)) return false;
  return true;
}

void kit_stream_done(kit_stream *s, uint32_t segment) {
  if (!s->waited || queue_at(s, 0)->segment != segment) return;
  leave_first(s);
  post_ahead(s, NULL); /* a failure comes again when the segment is taken */
}

void kit_stream_end(kit_stream *s, bool ok) {
  if (!ok) drop_behind(s, 0);
  s->waited = false;
}
