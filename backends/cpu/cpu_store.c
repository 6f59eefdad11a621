/* cpu_store.c - fills blocks of packed weights: segments that the cache has are read by all threads
 * at once, the others are packed, block by block, and kept. */
#include "cpu_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu.h"
#include "cpu_parallel.h"

enum { READ_AHEAD = 64 /* segments between two looks at whether to stop */ };

/* A segment and what it is of. */
typedef struct segment {
  const cpu_block *block;
  cpu_range range;
  uint64_t bytes;
  bool there;
} segment;

typedef struct filling {
  const cpu_load *load;
  const cpu_blocks *blocks;
  segment *segment; /* of all blocks, in order */
  uint64_t *bytes;  /* [n_kept] of those that are kept, as the cache is told */
  uint32_t n, n_kept;
  accel_plugin_store *store; /* NULL: nothing is kept */
  uint64_t chunk_bytes;      /* of the largest segment of blocks without memory; 0: all have */
  char *chunk;
} filling;

bool cpu_blocks_add(cpu_blocks *b, const cpu_block *block) {
  if (b->n == b->room) {
    const uint32_t room = b->room ? 2 * b->room : 64;
    cpu_block *more = realloc(b->at, room * sizeof *more);
    if (!more) return false;
    b->at = more;
    b->room = room;
  }
  b->at[b->n++] = *block;
  return true;
}

static uint64_t fnv1a(uint64_t h, const void *bytes, size_t n) { /* FNV-1a */
  for (size_t i = 0; i < n; i++) h = (h ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3u;
  return h;
}
static const uint64_t fnv1a_begin = 0xcbf29ce484222325u;

uint64_t cpu_block_identity(const void *facts, size_t n, const accel_plugin_format *format) {
  const uint64_t h = fnv1a(fnv1a(fnv1a_begin, facts, n), format, sizeof *format);
  return h ? h : 1;
}

/* ---- segments ---- */

uint64_t cpu_segment_bytes(const accel_plugin_program *program, const accel_plugin_format *format) {
  enum { LEAST = 128 << 10, MOST = 2 << 20, SHARE = 64 };
  uint64_t all = 0;
  for (uint32_t i = 0; i < program->n_weight; i++)
    if (cpu_is_coded(&format[i])) all += kit_format_bytes(&program->weight[i], &format[i]);
  all /= SHARE;
  return all < LEAST ? LEAST : all > MOST ? MOST : all;
}

uint32_t cpu_segment_parts(int64_t panels, uint64_t panel_bytes, uint64_t segment_bytes) {
  const uint64_t most =
                     panel_bytes && panel_bytes < segment_bytes ? segment_bytes / panel_bytes : 1,
                 parts = ((uint64_t)panels + most - 1) / most;
  return parts ? (uint32_t)parts : 1;
}

/* Segments of a unit; what is not kept is not cut. */
static uint32_t parts_of(const cpu_blocks *all, const cpu_block *b) {
  return b->identity ? cpu_segment_parts(b->panels, b->panel_bytes, all->segment_bytes) : 1;
}

static uint32_t count_segments(const cpu_blocks *all, const cpu_block *b) {
  return (uint32_t)b->units * parts_of(all, b);
}

uint32_t cpu_blocks_kept(const cpu_blocks *b) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < b->n; i++)
    if (b->at[i].identity) n += count_segments(b, &b->at[i]);
  return n;
}

/* Bytes of panels [first, end) of a unit. */
static uint64_t segment_bytes(const cpu_block *b, int64_t unit, int64_t first, int64_t end) {
  return (uint64_t)(end - first) * b->panel_bytes +
         (unit == b->units - 1 && end == b->panels ? b->tail_bytes : 0);
}

static void cut_block(const cpu_blocks *all, const cpu_block *b, segment *out) {
  const uint32_t parts = parts_of(all, b);
  for (int64_t unit = 0; unit < b->units; unit++)
    for (uint32_t i = 0; i < parts; i++) {
      const int64_t first = cpu_share(b->panels, i, parts),
                    end = cpu_share(b->panels, i + 1, parts);
      char *to =
          b->memory ? b->memory + (uint64_t)(unit * b->panels + first) * b->panel_bytes : NULL;
      *out++ = (segment){.block = b,
                         .range = {unit, first, end - first, to},
                         .bytes = segment_bytes(b, unit, first, end)};
    }
}

static int32_t cut_all(filling *f, accel_plugin_error *error) {
  const cpu_blocks *b = f->blocks;
  for (uint32_t i = 0; i < b->n; i++) f->n += count_segments(b, &b->at[i]);
  f->segment = calloc((size_t)f->n + 1, sizeof *f->segment);
  f->bytes = calloc((size_t)f->n + 1, sizeof *f->bytes);
  if (!f->segment || !f->bytes) return kit_no_memory(error, (uint64_t)f->n * sizeof *f->segment);
  segment *to = f->segment;
  for (uint32_t i = 0; i < b->n; i++) {
    cut_block(b, &b->at[i], to);
    for (uint32_t k = count_segments(b, &b->at[i]); k; k--, to++) {
      if (b->at[i].identity) f->bytes[f->n_kept++] = to->bytes;
      if (!b->at[i].memory && to->bytes > f->chunk_bytes) f->chunk_bytes = to->bytes;
    }
  }
  return ACCEL_PLUGIN_OK;
}

/* ---- what the cache has ---- */

uint64_t cpu_blocks_key(const cpu_blocks *blocks, const cpu_load *load, char key[96]) {
  enum { PAGE = 4096, RECORD = 32 };
  uint64_t h = fnv1a_begin, bytes = 0;
  key[0] = 0;
  for (uint32_t i = 0; i < blocks->n; i++) {
    const cpu_block *b = &blocks->at[i];
    const int64_t facts[] = {(int64_t)b->identity, b->units, b->panels, (int64_t)b->panel_bytes,
                             (int64_t)b->tail_bytes};
    if (!b->identity) continue;
    h = fnv1a(h, facts, sizeof facts);
    bytes += (uint64_t)(b->units * b->panels) * b->panel_bytes + b->tail_bytes +
             (uint64_t)count_segments(blocks, b) * (PAGE / 2 + RECORD);
  }
  if (bytes)
    snprintf(key, 96, "segments %016llx %s %016llx", (unsigned long long)load->program->hash,
             cpu_isa_name(load->kernels->isa), (unsigned long long)h);
  return bytes;
}

/* Without the cache there is nothing to stream from. */
static int32_t open_store(filling *f, accel_plugin_error *error) {
  const accel_plugin_host *host = f->load->host;
  char key[96];
  accel_plugin_error why = {.size = sizeof why, .node = -1};
  if (!f->n_kept) return ACCEL_PLUGIN_OK;
  cpu_blocks_key(f->blocks, f->load, key);
  if (!host->store_open || !host->store_stream ||
      host->store_open(host->self, key, f->bytes, f->n_kept, &f->store, &why))
    f->store = NULL;
  return f->store || !f->chunk_bytes
             ? ACCEL_PLUGIN_OK
             : kit_fail(error, ACCEL_PLUGIN_E_IO, -1, "weights to be streamed: %s", why.message);
}

/* Segments to read, those that are kept; the cache's number of at[0] is `first`. */
typedef struct reading {
  const filling *f;
  segment *at[READ_AHEAD];
  uint32_t first;
} reading;

static void read_task(void *arg, uint32_t index, uint32_t worker) {
  const reading *r = arg;
  const accel_plugin_host *host = r->f->load->host;
  segment *s = r->at[index];
  (void)worker;
  s->there = !host->store_get(host->self, r->f->store, r->first + index, s->range.to);
}

static int32_t stopped(const accel_plugin_host *host, accel_plugin_error *error) {
  return host->cancelled && host->cancelled(host->self)
             ? kit_fail(error, ACCEL_PLUGIN_E_CANCELLED, -1, "cancelled while loading")
             : ACCEL_PLUGIN_OK;
}

static int32_t read_kept(filling *f, accel_plugin_error *error) {
  const accel_plugin_host *host = f->load->host;
  reading r = {.f = f};
  int32_t rc = ACCEL_PLUGIN_OK;
  for (uint32_t i = 0; f->store && i < f->n && !rc;) {
    uint32_t n = 0;
    for (; i < f->n && n < READ_AHEAD; i++)
      if (f->segment[i].block->identity) r.at[n++] = &f->segment[i];
    rc = stopped(host, error);
    if (!rc && n > 1 && host->parallel)
      host->parallel(host->self, n, read_task, &r);
    else
      for (uint32_t k = 0; !rc && k < n; k++) read_task(&r, k, 0);
    r.first += n;
  }
  return rc;
}

/* ---- what it has not ---- */

/* The segments of a block that are packed now. */
typedef struct missing {
  const filling *f;
  cpu_range *range;
  uint32_t *segment;  /* of the block */
  uint32_t n, number; /* number: the cache's of the block's first */
  const segment *first;
} missing;

static int32_t keep_packed(void *user, uint32_t i, accel_plugin_error *error) {
  const missing *m = user;
  const accel_plugin_host *host = m->f->load->host;
  const uint32_t k = m->segment[i];
  const bool streamed = !m->first[k].block->memory;
  accel_plugin_error why = {.size = sizeof why, .node = -1};
  int32_t rc = stopped(host, error);
  if (rc || !m->f->store) return rc;
  rc = host->store_put(host->self, m->f->store, m->number + k,
                       &(accel_plugin_part){m->range[i].to, m->first[k].bytes}, 1, &why);
  if (!rc || !streamed) return ACCEL_PLUGIN_OK; /* declined: nothing is lost */
  return kit_fail(error, ACCEL_PLUGIN_E_IO, -1, "weights to be streamed: %s", why.message);
}

/* The segments of a block, of which the first that is kept has the cache's number `number`. */
static int32_t pack_block(const filling *f, const segment *s, uint32_t number,
                          accel_plugin_error *error) {
  const cpu_block *b = s->block;
  const uint32_t n = count_segments(f->blocks, b);
  missing m = {.f = f, .first = s, .number = number};
  m.range = malloc((size_t)n * sizeof *m.range);
  m.segment = malloc((size_t)n * sizeof *m.segment);
  int32_t rc = m.range && m.segment ? ACCEL_PLUGIN_OK : kit_no_memory(error, n * sizeof *m.range);
  for (uint32_t i = 0; !rc && i < n; i++) {
    if (s[i].there) continue;
    m.range[m.n] = s[i].range;
    if (!b->memory) m.range[m.n].to = f->chunk;
    m.segment[m.n++] = i;
  }
  if (!rc && m.n)
    rc = b->pack(f->load, b->of,
                 &(cpu_ranges){m.range, m.n, f->store && b->identity ? keep_packed : NULL, &m},
                 error);
  free(m.range);
  free(m.segment);
  return rc;
}

static int32_t pack_missing(filling *f, accel_plugin_error *error) {
  const accel_plugin_host *host = f->load->host;
  const accel_plugin_program *p = f->load->program;
  int32_t rc = ACCEL_PLUGIN_OK;
  uint32_t at = 0, number = 0;
  if (f->chunk_bytes && !(f->chunk = cpu_alloc_weights(host, f->chunk_bytes, error)))
    return ACCEL_PLUGIN_E_HOST_MEMORY;
  for (uint32_t i = 0; i < f->blocks->n && !rc; i++) {
    const cpu_block *b = &f->blocks->at[i];
    const uint32_t n = count_segments(f->blocks, b);
    rc = stopped(host, error);
    if (!rc && host->progress) host->progress(host->self, p->weight[b->weight].stage, p->n_stage);
    if (!rc) rc = pack_block(f, &f->segment[at], number, error);
    at += n;
    if (b->identity) number += n;
  }
  free(f->chunk);
  return rc;
}

int32_t cpu_blocks_fill(const cpu_blocks *blocks, const cpu_load *load, accel_plugin_error *error) {
  const accel_plugin_host *host = load->host;
  filling f = {.load = load, .blocks = blocks};
  int32_t rc = cut_all(&f, error);
  if (!rc) rc = open_store(&f, error);
  if (!rc) rc = read_kept(&f, error);
  if (!rc) rc = pack_missing(&f, error);
  if (f.store && !rc && f.chunk_bytes)
    rc = host->store_stream(host->self, f.store, error);
  else if (f.store)
    host->store_close(host->self, f.store);
  free(f.segment);
  free(f.bytes);
  return rc;
}
