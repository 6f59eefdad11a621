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

/* Segments of a unit; what is not kept is not cut. */
static uint32_t parts_of(const cpu_block *b) {
  const uint64_t most =
      b->panel_bytes && b->panel_bytes < CPU_SEGMENT ? CPU_SEGMENT / b->panel_bytes : 1;
  const uint64_t parts = ((uint64_t)b->panels + most - 1) / most;
  return b->identity && parts ? (uint32_t)parts : 1;
}

static uint32_t count_segments(const cpu_block *b) { return (uint32_t)b->units * parts_of(b); }

static void cut_block(const cpu_block *b, segment *out) {
  const uint32_t parts = parts_of(b);
  for (int64_t unit = 0; unit < b->units; unit++)
    for (uint32_t i = 0; i < parts; i++) {
      const int64_t first = cpu_share(b->panels, i, parts),
                    n = cpu_share(b->panels, i + 1, parts) - first;
      const bool last = unit == b->units - 1 && i == parts - 1;
      char *to = b->memory + (uint64_t)(unit * b->panels + first) * b->panel_bytes;
      *out++ = (segment){.block = b,
                         .range = {unit, first, n, to},
                         .bytes = (uint64_t)n * b->panel_bytes + (last ? b->tail_bytes : 0)};
    }
}

static int32_t cut_all(filling *f, accel_plugin_error *error) {
  const cpu_blocks *b = f->blocks;
  for (uint32_t i = 0; i < b->n; i++) f->n += count_segments(&b->at[i]);
  f->segment = calloc((size_t)f->n + 1, sizeof *f->segment);
  f->bytes = calloc((size_t)f->n + 1, sizeof *f->bytes);
  if (!f->segment || !f->bytes) return kit_no_memory(error, (uint64_t)f->n * sizeof *f->segment);
  segment *to = f->segment;
  for (uint32_t i = 0; i < b->n; i++) {
    cut_block(&b->at[i], to);
    for (uint32_t k = count_segments(&b->at[i]); k; k--, to++)
      if (b->at[i].identity) f->bytes[f->n_kept++] = to->bytes;
  }
  return ACCEL_PLUGIN_OK;
}

/* ---- what the cache has ---- */

static void open_store(filling *f) {
  const accel_plugin_host *host = f->load->host;
  char key[96];
  uint64_t h = fnv1a_begin;
  if (!f->n_kept || !host->store_open) return;
  for (uint32_t i = 0; i < f->blocks->n; i++) {
    const cpu_block *b = &f->blocks->at[i];
    const int64_t facts[] = {(int64_t)b->identity, b->units, b->panels, (int64_t)b->panel_bytes,
                             (int64_t)b->tail_bytes};
    if (b->identity) h = fnv1a(h, facts, sizeof facts);
  }
  snprintf(key, sizeof key, "segments %016llx %s %016llx",
           (unsigned long long)f->load->program->hash, cpu_isa_name(f->load->kernels->isa),
           (unsigned long long)h);
  if (host->store_open(host->self, key, f->bytes, f->n_kept, &f->store)) f->store = NULL;
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

/* The n segments of a block, of which the first that is kept has the cache's number `number`. */
static int32_t pack_block(const filling *f, segment *s, uint32_t n, uint32_t number,
                          accel_plugin_error *error) {
  const accel_plugin_host *host = f->load->host;
  const cpu_block *b = s->block;
  uint32_t missing = 0;
  cpu_range *range = malloc((size_t)n * sizeof *range);
  if (!range) return kit_no_memory(error, n * sizeof *range);
  for (uint32_t i = 0; i < n; i++)
    if (!s[i].there) range[missing++] = s[i].range;
  int32_t rc = missing ? b->pack(f->load, b->of, range, missing, error) : ACCEL_PLUGIN_OK;
  free(range);
  for (uint32_t i = 0; !rc && f->store && b->identity && i < n; i++)
    if (!s[i].there) /* declined: nothing is lost */
      host->store_put(host->self, f->store, number + i,
                      &(accel_plugin_part){s[i].range.to, s[i].bytes}, 1);
  return rc;
}

static int32_t pack_missing(filling *f, accel_plugin_error *error) {
  const accel_plugin_host *host = f->load->host;
  const accel_plugin_program *p = f->load->program;
  int32_t rc = ACCEL_PLUGIN_OK;
  uint32_t at = 0, number = 0;
  for (uint32_t i = 0; i < f->blocks->n && !rc; i++) {
    const cpu_block *b = &f->blocks->at[i];
    const uint32_t n = count_segments(b);
    rc = stopped(host, error);
    if (!rc && host->progress) host->progress(host->self, p->weight[b->weight].stage, p->n_stage);
    if (!rc) rc = pack_block(f, &f->segment[at], n, number, error);
    at += n;
    if (b->identity) number += n;
  }
  return rc;
}

int32_t cpu_blocks_fill(const cpu_blocks *blocks, const cpu_load *load, accel_plugin_error *error) {
  filling f = {.load = load, .blocks = blocks};
  int32_t rc = cut_all(&f, error);
  if (!rc) open_store(&f);
  if (!rc) rc = read_kept(&f, error);
  if (!rc) rc = pack_missing(&f, error);
  if (f.store) load->host->store_close(load->host->self, f.store);
  free(f.segment);
  free(f.bytes);
  return rc;
}
