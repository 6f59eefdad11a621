/* gpu_disk.c - parts of weights from the host's reader, through pinned memory, to the ring. */
#include "gpu/gpu_disk.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/gpu_offload.h"

/* Pinned memory that a copy reads; it is filled again when `read`, the event behind that, is
 * reached. */
typedef struct chunk {
  gpu_buffer *buffer; /* NULL: `memory` is the heap's, and copies have read it when they are told */
  char *memory;
  gpu_event *read;
} chunk;

/* A weight that is cut into parts. */
typedef struct cut_weight {
  gpu_disk_shape shape;
  uint32_t n_part;
  uint32_t kept;    /* the cache's number of its first part; coded weights alone */
  uint32_t segment; /* the stream's, of those on the disk */
  bool coded;
} cut_weight;

struct gpu_disk {
  const gpu_self *self;
  const gpu_offload_plan *plan;
  const accel_plugin_host *host; /* of init, until close */
  cut_weight *weight;            /* [n_weight] n_part 0: it stays, or must lie in host memory */
  uint8_t *store_dtype;          /* [n_weight] the formats' store */
  kit_segment *segment;          /* [n] of weights on the disk */
  uint32_t n, n_kept;
  accel_plugin_store *store; /* until it is the reader's */
  kit_stream *stream;
  chunk chunk[GPU_DISK_CHUNKS];
  uint32_t next;   /* chunk */
  uint32_t *order; /* [room] segments of the run under way */
  uint32_t room;
  const accel_plugin_host *run; /* of the run under way; NULL: none */
};

/* ---- parts ---- */

uint32_t gpu_disk_parts(const gpu_disk *d, uint32_t weight) { return d->weight[weight].n_part; }

uint32_t gpu_disk_kept(const gpu_disk *d, uint32_t weight) {
  return d && d->n_kept && d->weight[weight].coded ? d->weight[weight].n_part : 0;
}

gpu_disk_part gpu_disk_part_of(const gpu_disk *d, uint32_t weight, uint32_t part) {
  const gpu_disk_cut *cut = &d->plan->cut;
  const gpu_disk_shape *s = &d->weight[weight].shape;
  const uint32_t data = gpu_disk_data_parts(cut, s);
  if (part < data) {
    const int64_t rows = gpu_disk_rows(cut, s), first = part * rows;
    const int64_t n = gpu_least(rows, s->rows - first);
    return (gpu_disk_part){(uint64_t)first * s->row, (uint64_t)n * s->row, first, n};
  }
  const uint64_t first = (part - data) * cut->part, left = s->scale - first;
  return (gpu_disk_part){gpu_offload_rounded(s->data) + first, left < cut->part ? left : cut->part,
                         (int64_t)first, 0};
}

/* ---- open and close ---- */

/* Which weights are cut: those on the disk; where there are coded ones among them, all coded ones
 * that may be offloaded. */
static void cut_weights(gpu_disk *d, const kit_open *open) {
  const accel_plugin_format *format = open->options->precision.format;
  bool coded = false;
  for (uint32_t i = 0; i < open->program->n_weight; i++)
    coded |= d->plan->on_disk[i] && gpu_disk_coded(&format[i]);
  for (uint32_t i = 0; i < open->program->n_weight; i++) {
    cut_weight *w = &d->weight[i];
    w->coded = gpu_disk_coded(&format[i]);
    d->store_dtype[i] = format[i].store;
    if (!d->plan->on_disk[i] && !(coded && w->coded && d->plan->readable[i])) continue;
    w->shape = gpu_disk_shape_of(open->program, i, &format[i]);
    w->n_part = gpu_disk_all_parts(&d->plan->cut, &w->shape);
    w->kept = d->n_kept;
    if (w->coded) d->n_kept += w->n_part;
    w->segment = d->n;
    if (d->plan->on_disk[i]) d->n += w->n_part;
  }
}

static void make_segments(gpu_disk *d, uint32_t n_weight) {
  for (uint32_t i = 0; i < n_weight; i++)
    for (uint32_t k = 0; d->plan->on_disk[i] && k < d->weight[i].n_part; k++) {
      const cut_weight *w = &d->weight[i];
      const gpu_disk_part part = gpu_disk_part_of(d, i, k);
      kit_segment *s = &d->segment[w->segment + k];
      *s = (kit_segment){.packed = w->coded, .n_piece = 1, .bytes = part.bytes};
      s->piece[0] = w->coded ? (kit_piece){.first = w->kept + k}
                             : (kit_piece){.weight = i, .first = part.first, .rows = part.rows};
    }
}

static int32_t open_store(gpu_disk *d, const accel_plugin_program *p, accel_plugin_error *error) {
  const accel_plugin_host *host = d->host;
  accel_plugin_error why = {.size = sizeof why, .node = -1};
  char key[96];
  if (!d->n_kept) return ACCEL_PLUGIN_OK;
  uint64_t *bytes = calloc(d->n_kept, sizeof *bytes), *to = bytes;
  if (!bytes) return kit_no_memory(error, d->n_kept * sizeof *bytes);
  for (uint32_t i = 0; i < p->n_weight; i++)
    for (uint32_t k = 0; d->weight[i].coded && k < d->weight[i].n_part; k++)
      *to++ = gpu_disk_part_of(d, i, k).bytes;
  gpu_disk_key(p, &d->plan->cut, key);
  const int32_t rc = host->store_open && host->store_stream
                         ? host->store_open(host->self, key, bytes, d->n_kept, &d->store, &why)
                         : kit_fail(&why, ACCEL_PLUGIN_E_IO, -1, "the host keeps none");
  free(bytes);
  if (!rc) return rc;
  d->store = NULL;
  return kit_fail(error, ACCEL_PLUGIN_E_IO, -1, "weights to be streamed: %s", why.message);
}

static int32_t open_chunks(gpu_disk *d, accel_plugin_error *error) {
  int32_t rc = ACCEL_PLUGIN_OK;
  for (uint32_t i = 0; !rc && i < GPU_DISK_CHUNKS; i++) {
    chunk *c = &d->chunk[i];
    rc = gpu_offload_pin(d->self, (d->plan->cut.chunk + 3) / 4 * 4, &c->buffer, &c->memory, error);
    if (!rc && c->buffer) rc = gpu_plugin_api.event_new(d->self->device, &c->read, error);
  }
  return rc;
}

int32_t gpu_disk_open(gpu_self *self, const kit_open *open, const gpu_offload_plan *plan,
                      gpu_disk **out, accel_plugin_error *error) {
  const accel_plugin_program *p = open->program;
  const accel_plugin_host *host = open->options->host;
  if (!plan->disk && !plan->host_least) return ACCEL_PLUGIN_OK;
  bool any = false;
  for (uint32_t i = 0; i < p->n_weight; i++) any |= plan->on_disk[i];
  if (!any) return ACCEL_PLUGIN_OK;
  gpu_disk *d = calloc(1, sizeof *d);
  if (!d) return kit_no_memory(error, sizeof *d);
  *out = d; /* from here gpu_disk_close frees it */
  d->self = self;
  d->plan = plan;
  d->host = host;
  d->weight = calloc(p->n_weight + 1, sizeof *d->weight);
  d->store_dtype = calloc(p->n_weight + 1, 1);
  if (!d->weight || !d->store_dtype) return kit_no_memory(error, p->n_weight * sizeof *d->weight);
  if (!host || !host->rows_open)
    return kit_fail(error, ACCEL_PLUGIN_E_UNSUPPORTED, -1,
                    "weights that host memory has no room for: the host reads no files");
  cut_weights(d, open);
  d->segment = calloc(d->n + 1, sizeof *d->segment);
  if (!d->segment) return kit_no_memory(error, d->n * sizeof *d->segment);
  make_segments(d, p->n_weight);
  int32_t rc =
      kit_stream_open(host, p, d->segment, GPU_DISK_SLOTS, 0, plan->cut.slot, &d->stream, error);
  if (!rc) rc = open_chunks(d, error);
  return rc ? rc : open_store(d, p, error);
}

void gpu_disk_close(gpu_disk *d) {
  if (!d) return;
  gpu_device *device = d->self->device;
  for (uint32_t i = 0; i < GPU_DISK_CHUNKS; i++) {
    gpu_plugin_api.event_free(device, d->chunk[i].read);
    if (d->chunk[i].buffer)
      gpu_plugin_api.release(device, d->chunk[i].buffer);
    else
      free(d->chunk[i].memory);
  }
  if (d->store) d->host->store_close(d->host->self, d->store);
  kit_stream_close(d->stream);
  free(d->segment);
  free(d->weight);
  free(d->store_dtype);
  free(d->order);
  free(d);
}

/* ---- loading ---- */

bool gpu_disk_get(const gpu_disk *d, uint32_t weight, uint32_t part, void *out) {
  return !d->host->store_get(d->host->self, d->store, d->weight[weight].kept + part, out);
}

int32_t gpu_disk_put(const gpu_disk *d, uint32_t weight, uint32_t part, const void *bytes,
                     accel_plugin_error *error) {
  const accel_plugin_host *host = d->host;
  accel_plugin_error why = {.size = sizeof why, .node = -1};
  const accel_plugin_part whole = {bytes, gpu_disk_part_of(d, weight, part).bytes};
  const int32_t rc =
      host->store_put(host->self, d->store, d->weight[weight].kept + part, &whole, 1, &why);
  return rc ? kit_fail(error, ACCEL_PLUGIN_E_IO, -1, "weights to be streamed: %s", why.message)
            : ACCEL_PLUGIN_OK;
}

int32_t gpu_disk_loaded(gpu_disk *d, accel_plugin_error *error) {
  if (!d || !d->store) return ACCEL_PLUGIN_OK;
  accel_plugin_store *store = d->store;
  d->store = NULL; /* the host's, whatever it answers */
  return d->host->store_stream(d->host->self, store, error);
}

/* ---- runs ---- */

int32_t gpu_disk_begin(gpu_disk *d, const kit_begin *begin, const uint32_t *weight, uint32_t n,
                       accel_plugin_error *error) {
  uint32_t count = 0, at = 0;
  if (!d) return ACCEL_PLUGIN_OK;
  for (uint32_t i = 0; i < n; i++) count += d->weight[weight[i]].n_part;
  if (count > d->room) {
    uint32_t *more = realloc(d->order, count * sizeof *more);
    if (!more) return kit_no_memory(error, count * sizeof *more);
    d->order = more;
    d->room = count;
  }
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; k < d->weight[weight[i]].n_part; k++)
      d->order[at++] = d->weight[weight[i]].segment + k;
  d->run = begin->host;
  return kit_stream_begin(d->stream, begin->entry, d->order, count, error);
}

/* The part as the device keeps it, from what the reader gives. */
static void arrange(const gpu_disk *d, uint32_t weight, const gpu_disk_part *part,
                    const accel_plugin_rows *from, char *to) {
  const cut_weight *w = &d->weight[weight];
  const uint8_t store = d->store_dtype[weight];
  if (w->coded) {
    memcpy(to, from->data, part->bytes);
    return;
  }
  const int64_t k = d->self->weight[weight].k;
  const uint64_t row = (uint64_t)k * kit_row_element(from->dtype),
                 kept = (uint64_t)k * kit_row_element(store);
  const bool same = from->dtype == store, gaps = kept != w->shape.row;
  /* rows without gaps are one long row */
  const int64_t rows = gaps ? part->rows : 1, times = gaps ? 1 : part->rows;
  for (int64_t r = 0; r < rows; r++) {
    const char *source = (const char *)from->data + (uint64_t)r * row;
    char *target = to + (uint64_t)r * w->shape.row;
    if (gaps) memset(target + w->shape.row - 4, 0, 4);
    if (same)
      memcpy(target, source, (uint64_t)times * kept);
    else
      kit_rows_convert(from->dtype, store, store == ACCEL_PLUGIN_F32, source, (size_t)(times * k),
                       target);
  }
}

static int32_t copy_chunk(gpu_stream *copies, const chunk *c, gpu_memory to,
                          accel_plugin_error *error) {
  int32_t rc = ACCEL_PLUGIN_OK;
  const gpu_binding target = gpu_memory_at(&to);
  if (c->buffer) {
    const gpu_binding source = {.buffer = c->buffer, .offset = 0, .bytes = to.bytes};
    rc = gpu_plugin_api.copy(copies, &target, &source, error);
    return rc ? rc : gpu_plugin_api.record(copies, c->read, error);
  }
  for (uint64_t at = 0; !rc && at < to.bytes; at += GPU_UPDATE) {
    const gpu_binding some =
        gpu_part(target, at, to.bytes - at < GPU_UPDATE ? to.bytes - at : GPU_UPDATE);
    rc = gpu_plugin_api.update(copies, &some, c->memory + at, error);
  }
  return rc;
}

/* Makes sure that the chunk may be filled. */
static int32_t free_chunk(const gpu_disk *d, const chunk *c, bool wait, bool *out,
                          accel_plugin_error *error) {
  *out = true;
  if (!c->buffer) return ACCEL_PLUGIN_OK;
  int32_t rc = gpu_plugin_api.reached(d->self->device, c->read, false, out, error);
  if (!rc && !*out && wait) rc = gpu_plugin_api.reached(d->self->device, c->read, true, out, error);
  const gpu_binding whole = {.buffer = c->buffer, .bytes = (d->plan->cut.chunk + 3) / 4 * 4};
  if (!rc && *out && gpu_plugin_api.host_writes)
    rc = gpu_plugin_api.host_writes(d->self->device, &whole, error);
  return rc;
}

static int32_t copy_part(gpu_disk *d, gpu_stream *copies, uint32_t weight, uint32_t index,
                         const gpu_memory *to, bool wait, bool *done, accel_plugin_error *error) {
  chunk *c = &d->chunk[d->next];
  const uint32_t segment = d->weight[weight].segment + index;
  const gpu_disk_part part = gpu_disk_part_of(d, weight, index);
  accel_plugin_rows rows[KIT_PIECES];
  *done = false;
  if (!wait && !kit_stream_ready(d->stream, segment)) return ACCEL_PLUGIN_OK;
  if (d->run && d->run->cancelled && d->run->cancelled(d->run->self))
    return kit_fail(error, ACCEL_PLUGIN_E_CANCELLED, -1, "cancelled");
  int32_t rc = free_chunk(d, c, wait, done, error);
  if (rc || !*done) return rc;
  rc = kit_stream_take(d->stream, segment, rows, error);
  if (rc) return rc;
  arrange(d, weight, &part, &rows[0], c->memory);
  kit_stream_done(d->stream, segment);
  d->next = (d->next + 1) % GPU_DISK_CHUNKS;
  return copy_chunk(
      copies, c,
      (gpu_memory){
          .buffer = to->buffer, .offset = to->offset + part.at, .bytes = (part.bytes + 3) / 4 * 4},
      error);
}

int32_t gpu_disk_copy(gpu_disk *d, gpu_stream *copies, uint32_t weight, uint32_t *part,
                      const gpu_memory *to, bool wait, accel_plugin_error *error) {
  int32_t rc = ACCEL_PLUGIN_OK;
  bool done = true;
  while (!rc && done && *part < d->weight[weight].n_part) {
    rc = copy_part(d, copies, weight, *part, to, wait, &done, error);
    if (!rc && done) ++*part;
  }
  return rc;
}

void gpu_disk_end(gpu_disk *d, bool ok) {
  if (!d) return;
  kit_stream_end(d->stream, ok);
  d->run = NULL;
}
