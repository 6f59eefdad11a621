/* cpu_stream.c - cutting linears into segments, what stays, and packing the others as they come. */
#include "cpu_stream.h"

#include <stdlib.h>
#include <string.h>

#include "cpu_moe_stream.h"
#include "cpu_store.h"
#include "cpu_weights.h"

enum {
  SLOTS = 8,
  LEAST_SLOTS = 4,
  SLOT_BYTES = 1 << 20, /* of one piece, where the budget allows it: a ring that stays in caches */
  BLOCK = 4096,         /* what the host rounds a slot up to, and adds to it */
  HUGE_BYTES = 2 << 20, /* what the host's ring may take beside its slots */
  STAGING_SHARE = 4     /* of a budget so many parts: the most for staging, if that can be */
};

typedef struct cpu_streaming {
  cpu_expert_slots experts; /* n_expert 0: none is streamed */
  kit_stream *stream;
  kit_segment *segment;
  cpu_part *part;   /* [n]: panels NULL unless resident */
  uint32_t *linear; /* [n] whose segment it is */
  uint32_t n, slots;
  uint64_t slot_bytes;
  uint64_t kept_bytes;    /* of a segment of the cache, at most: cpu_segment_bytes */
  uint64_t whole_bytes;   /* to quantise what cannot be quantised by rows */
  uint64_t chunk_bytes;   /* of the largest segment, packed */
  uint64_t convert_bytes; /* of the rows of a panel as its packer reads them, for each task */
  uint32_t workers;
  char *resident, *chunk; /* all that stays; the segment of now */
  char *convert;
  uint64_t convert_capacity;
  const accel_plugin_host *host; /* of init */
  uint8_t *store;                /* [n_weight] the formats' */
} cpu_streaming;

/* ---- cutting ---- */

bool cpu_linear_by_rows(const cpu_linear *l, const uint8_t *row_dtype) {
  return !l->trans && row_dtype[l->w] != ACCEL_PLUGIN_NO_DTYPE &&
         (l->gate < 0 || row_dtype[l->gate] != ACCEL_PLUGIN_NO_DTYPE);
}

/* Streamed as it was packed once. */
static bool is_kept(const cpu_linear *l) { return cpu_is_coded(&l->format); }

uint64_t cpu_linear_stored(const cpu_linear *l, const uint8_t *row_dtype) {
  return is_kept(l) ? (uint64_t)l->panels * l->panel_bytes
                    : (uint64_t)((l->glu == ACCEL_PLUGIN_GLU_NONE ? 1 : 2) * l->n * l->k) *
                          kit_row_element(row_dtype[l->w]);
}

/* A table that is gathered from panels stays where its rows cannot be read instead. */
static bool is_streamed(const cpu_self *s, const cpu_linear *l, const uint8_t *row_dtype) {
  if (!is_kept(l)) return cpu_linear_by_rows(l, row_dtype);
  return l->panels && (row_dtype[l->w] != ACCEL_PLUGIN_NO_DTYPE || !s->weight[l->w].gathered ||
                       !cpu_panels_hold_rows(l, l->w));
}

/* Bytes of one of the pieces that a panel is made of, as stored. */
static uint64_t panel_piece(const cpu_self *s, const cpu_linear *l, const uint8_t *row_dtype) {
  uint64_t element = kit_row_element(row_dtype[l->w]);
  if (l->gate >= 0 && kit_row_element(row_dtype[l->gate]) > element) element = 4;
  const int64_t width = cpu_linear_width(l, cpu_linear_shape(&s->kernels, l).cols),
                rows = l->glu == ACCEL_PLUGIN_GLU_INTERLEAVED ? 2 * width : width;
  return (uint64_t)(rows * l->k) * element;
}

/* Panels of a segment for slots of so many bytes. */
static int64_t segment_panels(const cpu_self *s, const cpu_linear *l, const uint8_t *row_dtype,
                              uint64_t slot_bytes) {
  const int64_t n = (int64_t)(slot_bytes / panel_piece(s, l, row_dtype));
  return n < 1 ? 1 : n > l->panels ? l->panels : n;
}

uint32_t cpu_linear_pieces(const cpu_kernels *kernels, const cpu_linear *l, int64_t first,
                           int64_t n, kit_piece piece[KIT_PIECES]) {
  const int64_t width = cpu_linear_width(l, cpu_linear_shape(kernels, l).cols);
  const int64_t col = first * width, end = col + n * width < l->n ? col + n * width : l->n;
  const bool two = l->glu == ACCEL_PLUGIN_GLU_SEPARATE || l->glu == ACCEL_PLUGIN_GLU_GATE_FIRST ||
                   l->glu == ACCEL_PLUGIN_GLU_GATE_LAST,
             woven = l->glu == ACCEL_PLUGIN_GLU_INTERLEAVED;
  for (uint32_t i = 0; i < (two ? 2 : 1); i++)
    piece[i] = (kit_piece){.weight = (uint32_t)(i && l->gate >= 0 ? l->gate : l->w),
                           .first = woven ? 2 * col : cpu_linear_row(l, col, i == 1),
                           .rows = (end - col) * (woven ? 2 : 1)};
  return two ? 2 : 1;
}

/* Panels [first, first + n) of a linear; kept: which segment of the cache they are. */
static kit_segment segment_of(const cpu_self *s, const cpu_linear *l, int64_t first, int64_t n,
                              const uint8_t *row_dtype, uint32_t kept) {
  kit_segment out = {.bytes = (uint64_t)n * l->panel_bytes};
  if (is_kept(l)) {
    out.packed = true;
    out.n_piece = 1;
    out.piece[0].first = kept;
    out.read = out.bytes;
    return out;
  }
  out.n_piece = cpu_linear_pieces(&s->kernels, l, first, n, out.piece);
  for (uint32_t i = 0; i < out.n_piece; i++)
    out.read +=
        (uint64_t)(out.piece[i].rows * l->k) * kit_row_element(row_dtype[out.piece[i].weight]);
  return out;
}

/* Bytes of so many rows as the packer of the linear's layout reads them. */
static uint64_t converted_bytes(const cpu_linear *l, int64_t rows) {
  return (uint64_t)cpu_aligned(rows * l->k * (l->layout == CPU_LAYOUT_F32 ? 4 : 2));
}

/* Tasks that pack so many panels. */
static uint32_t pack_tasks(uint32_t workers, int64_t panels) {
  return panels < 2 * (int64_t)workers ? (uint32_t)panels : 2 * workers;
}

/* Of the rows of a panel for each task, where a linear is cut into so many segments; 0: they are
 * packed as they are stored. */
static uint64_t convert_bytes(const cpu_self *s, const cpu_streaming *t, const cpu_linear *l,
                              const uint8_t *row_dtype, uint32_t parts) {
  kit_piece piece[KIT_PIECES];
  uint64_t bytes = 0;
  bool as_stored = l->layout != CPU_LAYOUT_F32;
  const uint32_t n = cpu_linear_pieces(&s->kernels, l, 0, 1, piece);
  for (uint32_t i = 0; i < n; i++) {
    bytes += converted_bytes(l, piece[i].rows);
    as_stored &= row_dtype[piece[i].weight] == t->store[piece[i].weight];
  }
  return as_stored ? 0 : bytes * pack_tasks(t->workers, (l->panels + parts - 1) / parts);
}

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* Into how many segments a linear is cut. */
static uint32_t parts_of(const cpu_self *s, const cpu_streaming *t, const cpu_linear *l,
                         const uint8_t *row_dtype) {
  if (is_kept(l)) return cpu_segment_parts(l->panels, l->panel_bytes, t->kept_bytes);
  const int64_t each = segment_panels(s, l, row_dtype, t->slot_bytes);
  return (uint32_t)((l->panels + each - 1) / each);
}

/* Into how many parts each matrix of experts is cut. */
static void cut_experts(cpu_self *s, cpu_streaming *t, const uint8_t *row_dtype) {
  cpu_experts *e;
  for (uint32_t i = 0; (e = cpu_streamed_experts(s, i)); i++) {
    const cpu_linear l = cpu_expert_linear(e);
    e->parts = parts_of(s, t, &l, row_dtype);
    if (!is_kept(&l))
      t->convert_bytes = larger(t->convert_bytes, convert_bytes(s, t, &l, row_dtype, e->parts));
  }
}

/* Cuts all linears that can be streamed; the segments of one follow each other.  The cache has
 * those of all coded linears, in their order (cpu_weights.c). */
static int32_t cut(cpu_self *s, cpu_streaming *t, const uint8_t *row_dtype,
                   accel_plugin_error *error) {
  uint64_t n = 0;
  for (uint32_t i = 0; i < s->n_linear; i++) {
    cpu_linear *l = &s->linear[i];
    l->segment = (uint32_t)n;
    l->n_segment = 0;
    if (!is_streamed(s, l, row_dtype)) continue;
    l->n_segment = parts_of(s, t, l, row_dtype);
    n += l->n_segment;
  }
  free(t->segment);
  t->n = (uint32_t)n;
  t->chunk_bytes = t->convert_bytes = 0;
  t->segment = calloc(n + 1, sizeof *t->segment);
  if (!t->segment) return kit_no_memory(error, n * sizeof *t->segment);
  uint32_t kept = 0;
  for (uint32_t i = 0; i < s->n_linear; i++) {
    const cpu_linear *l = &s->linear[i];
    for (uint32_t k = 0; k < l->n_segment; k++) {
      const int64_t first = cpu_share(l->panels, k, l->n_segment),
                    end = cpu_share(l->panels, k + 1, l->n_segment);
      kit_segment *g = &t->segment[l->segment + k];
      *g = segment_of(s, l, first, end - first, row_dtype, kept + k);
      if (g->packed) continue;
      t->chunk_bytes = larger(t->chunk_bytes, g->bytes);
    }
    if (l->n_segment && !is_kept(l))
      t->convert_bytes = larger(t->convert_bytes, convert_bytes(s, t, l, row_dtype, l->n_segment));
    if (is_kept(l)) kept += parts_of(s, t, l, row_dtype);
  }
  cut_experts(s, t, row_dtype);
  return ACCEL_PLUGIN_OK;
}

/* Tables whose rows are read when they are asked for. */
static void find_tables(const cpu_self *s, const uint8_t *row_dtype) {
  for (uint32_t i = 0; i < s->program->n_weight; i++)
    s->weight[i].by_rows =
        s->weight[i].gathered && !s->weight[i].raw && row_dtype[i] != ACCEL_PLUGIN_NO_DTYPE;
}

static bool is_output(const accel_plugin_entry *e, int32_t tensor) {
  for (uint32_t i = 0; i < e->n_out; i++)
    if (e->out[i] == tensor) return true;
  return false;
}

/* A linear that makes several of the entry's outputs (scores of last tokens, scores of all) makes
 * one of them in a run. */
static void count_uses(const cpu_self *s, cpu_streaming *t) {
  const accel_plugin_program *p = s->program;
  const accel_plugin_entry *e = &p->entry[kit_stream_entry(p)];
  for (uint32_t i = 0; p->n_entry && i < e->n_node; i++) {
    uint32_t first, n;
    cpu_stream_segments((void *)(uintptr_t)s, (uint32_t)e->node[i], &first, &n);
    const bool other = n && t->segment[first].uses && is_output(e, p->node[e->node[i]].out[0]);
    for (uint32_t k = 0; k < n && !other; k++) t->segment[first + k].uses++;
  }
}

/* ---- within a budget ---- */

/* What packing from whole matrices takes: their codes, and as fp32 where the packer reads that. */
static uint64_t whole_bytes(const cpu_self *s, const cpu_linear *l,
                            const accel_plugin_format *format) {
  const int32_t weight[2] = {l->w, l->gate};
  uint64_t bytes = 0;
  for (int i = 0; i < 2 && weight[i] >= 0; i++) {
    const accel_plugin_weight *w = &s->program->weight[weight[i]];
    bytes += kit_format_bytes(w, &format[weight[i]]);
    if (l->layout == CPU_LAYOUT_F32) bytes += (uint64_t)kit_weight_elements(w) * sizeof(float);
  }
  return bytes;
}

/* Slots of the reader for experts, beside those of the queue of what is known before. */
static uint32_t expert_slots(const cpu_streaming *t) { return t->experts.n_expert ? t->slots : 0; }

static uint64_t staging(const cpu_streaming *t) {
  const uint64_t slot = (t->slot_bytes + BLOCK - 1) / BLOCK * BLOCK + BLOCK,
                 ring = (t->slots + expert_slots(t)) * slot;
  return larger(t->whole_bytes, ring + (ring < HUGE_BYTES ? 0 : HUGE_BYTES) +
                                    kit_alloc_pages_size(t->chunk_bytes) +
                                    kit_alloc_pages_size(t->convert_bytes));
}

typedef struct least {
  uint64_t slot;  /* holds one panel of each linear, and the segments of the cache */
  uint64_t whole; /* memory to quantise what cannot be quantised by rows, before anything else is in
                     memory */
  bool plain;     /* are there linears of plain formats? */
} least;

static void add_least(const cpu_self *s, const cpu_streaming *t, const accel_plugin_options *o,
                      const cpu_linear *l, least *out) {
  out->plain |= !is_kept(l);
  if (!is_kept(l)) {
    out->slot = larger(out->slot, panel_piece(s, l, o->row_dtype));
    return;
  }
  const int64_t parts = cpu_segment_parts(l->panels, l->panel_bytes, t->kept_bytes);
  const uint64_t segment = (uint64_t)((l->panels + parts - 1) / parts) * l->panel_bytes;
  out->slot = larger(out->slot, segment);
  if (!cpu_linear_by_rows(l, o->row_dtype))
    out->whole = larger(out->whole, segment + whole_bytes(s, l, o->precision.format));
}

static least least_of(cpu_self *s, const cpu_streaming *t, const accel_plugin_options *o) {
  least out = {0};
  const cpu_experts *e;
  for (uint32_t i = 0; i < s->n_linear; i++)
    if (is_streamed(s, &s->linear[i], o->row_dtype)) add_least(s, t, o, &s->linear[i], &out);
  for (uint32_t i = 0; (e = cpu_streamed_experts(s, i)); i++) {
    const cpu_linear l = cpu_expert_linear(e);
    add_least(s, t, o, &l, &out);
  }
  return out;
}

/* Chooses slots and segments for the budget, the largest that leave most of it to residents; 0: the
 * least there are.  *fixed: what stays whatever is streamed, and memory of one expert; t->n is 0
 * when nothing can be. */
static int32_t plan(cpu_self *s, cpu_streaming *t, const accel_plugin_options *o, uint64_t budget,
                    uint64_t *fixed, accel_plugin_error *error) {
  cpu_expert_slots_plan(s, o->row_dtype, &t->experts);
  const least at_least = least_of(s, t, o);
  t->whole_bytes = at_least.whole;
  t->slots = budget ? SLOTS : LEAST_SLOTS;
  t->slot_bytes = budget && at_least.plain ? larger(at_least.slot, SLOT_BYTES) : at_least.slot;
  find_tables(s, o->row_dtype);
  for (;;) {
    int32_t rc = cut(s, t, o->row_dtype, error);
    if (rc || !t->n) return rc;
    *fixed = cpu_fixed_bytes(s, o) + t->experts.slot_bytes;
    const uint64_t takes = staging(t);
    if (takes <= budget / STAGING_SHARE && *fixed + takes <= budget) break;
    if (t->slot_bytes > at_least.slot)
      t->slot_bytes = larger(at_least.slot, t->slot_bytes / 2);
    else if (t->slots > LEAST_SLOTS)
      t->slots -= 2;
    else
      break;
  }
  count_uses(s, t);
  return ACCEL_PLUGIN_OK;
}

int32_t cpu_stream_new(cpu_self *s, const accel_plugin_options *o, accel_plugin_error *error) {
  const uint32_t n = s->program->n_weight;
  cpu_streaming *t = s->stream = calloc(1, sizeof *t);
  if (!t) return kit_no_memory(error, sizeof *t);
  t->host = o->host;
  t->workers = cpu_workers(&(kit_launch){.host = o->host});
  t->kept_bytes = cpu_segment_bytes(s->program, o->precision.format);
  t->store = malloc(n + 1);
  if (!t->store) return kit_no_memory(error, n);
  for (uint32_t i = 0; i < n; i++) t->store[i] = o->precision.format[i].store;
  return ACCEL_PLUGIN_OK;
}

/* Of what a budget leaves: residents first, as a run uses all of them, then memory of experts, of
 * which it uses some.  Answers the bytes of residents; *experts: those of further experts;
 * *results: of staging of theirs. */
static uint64_t divide(cpu_streaming *t, uint64_t left, uint64_t *experts, uint64_t *results) {
  const uint64_t stay = kit_stream_choose(t->segment, t->n, left);
  *experts = cpu_expert_slots_take(&t->experts, left - stay, results);
  return stay;
}

int32_t cpu_stream_answer(cpu_self *s, const accel_plugin_options *o, accel_plugin_estimate *out,
                          accel_plugin_error *error) {
  uint64_t fixed = 0;
  int32_t rc = cpu_stream_new(s, o, error);
  if (!rc) rc = plan(s, s->stream, o, 0, &fixed, error);
  if (rc || !s->stream->n) return rc;
  out->stream_least = fixed + staging(s->stream);
  const uint64_t budget = o->stream_budget ? o->stream_budget : out->stream_least;
  if (o->stream_budget) rc = plan(s, s->stream, o, o->stream_budget, &fixed, error);
  if (rc) return rc;
  const uint64_t takes = fixed + staging(s->stream);
  out->stream_staging = staging(s->stream);
  uint64_t more, results;
  const uint64_t stay = divide(s->stream, budget > takes ? budget - takes : 0, &more, &results);
  out->stream_resident = fixed + stay + more;
  out->stream_staging += results;
  out->stream_read = kit_stream_read(s->stream->segment, s->stream->n);
  return cpu_expert_slots_answer(s, &s->stream->experts, out, error);
}

/* ---- open and close ---- */

/* Where each segment's panels are: behind one another for those that stay. */
static int32_t place(const cpu_self *s, cpu_streaming *t, uint64_t bytes,
                     accel_plugin_error *error) {
  uint64_t at = 0;
  t->part = calloc(t->n + 1, sizeof *t->part);
  t->linear = calloc(t->n + 1, sizeof *t->linear);
  t->resident = cpu_alloc_weights(t->host, bytes ? bytes : 1, error);
  t->chunk = cpu_alloc_weights(t->host, t->chunk_bytes ? t->chunk_bytes : 1, error);
  if (!t->part || !t->linear) return kit_no_memory(error, t->n * sizeof *t->part);
  if (!t->resident || !t->chunk) return ACCEL_PLUGIN_E_HOST_MEMORY;
  for (uint32_t i = 0; i < s->n_linear; i++) {
    const cpu_linear *l = &s->linear[i];
    for (uint32_t k = 0; k < l->n_segment; k++) {
      const kit_segment *g = &t->segment[l->segment + k];
      cpu_part *part = &t->part[l->segment + k];
      t->linear[l->segment + k] = i;
      part->first = cpu_share(l->panels, k, l->n_segment);
      part->n = cpu_share(l->panels, k + 1, l->n_segment) - part->first;
      if (!g->resident) continue;
      part->panels = t->resident + at;
      at += g->bytes;
    }
  }
  return ACCEL_PLUGIN_OK;
}

int32_t cpu_stream_open(cpu_self *s, const accel_plugin_options *o, accel_plugin_error *error) {
  uint64_t fixed = 0;
  int32_t rc = cpu_stream_new(s, o, error);
  cpu_streaming *t = s->stream;
  if (!rc) rc = plan(s, t, o, o->stream_budget, &fixed, error);
  if (rc) return rc;
  if (!t->n)
    return kit_fail(error, ACCEL_PLUGIN_E_UNSUPPORTED, -1,
                    "no weight of the model can be streamed");
  const uint64_t takes = fixed + staging(t);
  if (takes > o->stream_budget)
    return kit_fail(error, ACCEL_PLUGIN_E_HOST_MEMORY, -1,
                    "%llu bytes for weights: streaming takes at least %llu",
                    (unsigned long long)o->stream_budget, (unsigned long long)takes);
  uint64_t more, results;
  const uint64_t stay = divide(t, o->stream_budget - takes, &more, &results);
  rc = place(s, t, stay, error);
  if (!rc) rc = cpu_expert_slots_open(&t->experts, o->host, t->slots, expert_slots(t), error);
  if (rc) return rc;
  return kit_stream_open(o->host, s->program, t->segment, t->slots, expert_slots(t), t->slot_bytes,
                         &t->stream, error);
}

void cpu_stream_close(cpu_self *s) {
  cpu_streaming *t = s->stream;
  if (!t) return;
  kit_stream_close(t->stream);
  cpu_expert_slots_close(&t->experts);
  free(t->segment);
  free(t->part);
  free(t->linear);
  free(t->resident);
  free(t->chunk);
  free(t->convert);
  free(t->store);
  free(t);
  s->stream = NULL;
}

cpu_expert_slots *cpu_stream_experts(const cpu_self *s) { return &s->stream->experts; }

kit_stream *cpu_stream_of(const cpu_self *s) { return s->stream->stream; }

void cpu_stream_segments(void *self, uint32_t node, uint32_t *first, uint32_t *n) {
  const cpu_self *s = self;
  const int32_t linear = s->linear_of[node];
  *first = linear >= 0 ? s->linear[linear].segment : 0;
  *n = linear >= 0 ? s->linear[linear].n_segment : 0;
}

/* ---- packing what was read ---- */

typedef struct packing {
  const cpu_self *s;
  const cpu_linear *l;
  const kit_segment *segment;
  cpu_part part;
  char *to;
  cpu_panel shape;
  accel_plugin_rows rows[KIT_PIECES];
  bool converts[KIT_PIECES]; /* else rows are packed as they are */
  char *convert;             /* [tasks][each] */
  uint64_t each;
  uint32_t tasks;
} packing;

/* Rows of a panel are converted and packed while they are in the processor's cache. */
static void pack_panel(const packing *p, int64_t panel, char *convert, char *to) {
  const cpu_linear *l = p->l;
  const bool wide = l->layout == CPU_LAYOUT_F32;
  kit_piece piece[KIT_PIECES];
  cpu_matrix matrix[KIT_PIECES];
  const uint32_t n = cpu_linear_pieces(&p->s->kernels, l, panel, 1, piece);
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t dtype = p->rows[i].dtype;
    const int64_t skipped = (piece[i].first - p->segment->piece[i].first) * l->k;
    const void *data =
        (const char *)p->rows[i].data + (size_t)skipped * (size_t)kit_row_element(dtype);
    if (p->converts[i]) {
      kit_rows_convert(dtype, p->s->stream->store[piece[i].weight], wide, data,
                       (size_t)(piece[i].rows * l->k), convert);
      data = convert;
      convert += converted_bytes(l, piece[i].rows);
    }
    matrix[i] = (cpu_matrix){.format = &l->format,
                             .view = {.data = data},
                             .f32 = wide ? data : NULL,
                             .n = piece[i].rows,
                             .k = l->k};
  }
  const cpu_column origin[2] = {{&matrix[0], piece[0].first}, {&matrix[n - 1], piece[n - 1].first}};
  cpu_pack_panels(&p->shape, l, panel, 1, origin, to);
}

static void pack_task(void *arg, uint32_t index, uint32_t worker) {
  const packing *p = arg;
  char *convert = p->each ? p->convert + index * p->each : NULL;
  const int64_t end = cpu_share(p->part.n, index + 1, p->tasks);
  (void)worker;
  for (int64_t i = cpu_share(p->part.n, index, p->tasks); i < end; i++)
    pack_panel(p, p->part.first + i, convert, p->to + (uint64_t)i * p->l->panel_bytes);
}

/* Memory for the pieces that the packer cannot read as they are. */
static int32_t find_converted(cpu_streaming *t, packing *p, accel_plugin_error *error) {
  const bool wide = p->l->layout == CPU_LAYOUT_F32;
  kit_piece piece[KIT_PIECES];
  const uint32_t n = cpu_linear_pieces(&p->s->kernels, p->l, p->part.first, 1, piece);
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t store = t->store[piece[i].weight];
    p->converts[i] =
        p->rows[i].dtype != store ||
        (wide && (store != ACCEL_PLUGIN_F32 || (uintptr_t)p->rows[i].data % sizeof(float) != 0));
    if (p->converts[i]) p->each += converted_bytes(p->l, piece[i].rows);
  }
  const uint64_t need = p->each * p->tasks;
  if (need > t->convert_capacity) {
    free(t->convert);
    t->convert = cpu_alloc_weights(t->host, need, error);
    t->convert_capacity = t->convert ? need : 0;
    if (!t->convert) return ACCEL_PLUGIN_E_HOST_MEMORY;
  }
  p->convert = t->convert;
  return ACCEL_PLUGIN_OK;
}

int32_t cpu_stream_pack(const cpu_self *s, const cpu_linear *l, const kit_segment *segment,
                        const cpu_part *part, const accel_plugin_rows *rows,
                        const accel_plugin_host *host, accel_plugin_error *error) {
  const kit_launch launch = {.host = host};
  packing p = {.s = s,
               .l = l,
               .segment = segment,
               .part = *part,
               .to = (char *)(uintptr_t)part->panels,
               .shape = cpu_linear_shape(&s->kernels, l),
               .tasks = pack_tasks(cpu_workers(&launch), part->n)};
  memcpy(p.rows, rows, segment->n_piece * sizeof *rows);
  const int32_t rc = find_converted(s->stream, &p, error);
  if (!rc) cpu_parallel(&launch, p.tasks, pack_task, &p);
  return rc;
}

/* Takes segment `at` of the stream and packs it to `to`. */
static int32_t take_rows(const cpu_self *s, uint32_t at, char *to, const accel_plugin_host *host,
                         accel_plugin_error *error) {
  cpu_streaming *t = s->stream;
  const cpu_part part = {to, t->part[at].first, t->part[at].n};
  accel_plugin_rows rows[KIT_PIECES];
  int32_t rc = kit_stream_take(t->stream, at, rows, error);
  if (rc) return rc;
  rc = cpu_stream_pack(s, &s->linear[t->linear[at]], &t->segment[at], &part, rows, host, error);
  kit_stream_done(t->stream, at);
  return rc;
}

/* Takes segment `at`, a resident one, to where it stays. */
static int32_t take_resident(const cpu_self *s, uint32_t at, const accel_plugin_host *host,
                             accel_plugin_error *error) {
  cpu_streaming *t = s->stream;
  char *to = (char *)(uintptr_t)t->part[at].panels;
  accel_plugin_rows bytes[KIT_PIECES];
  if (!t->segment[at].packed) return take_rows(s, at, to, host, error);
  int32_t rc = kit_stream_take(t->stream, at, bytes, error);
  if (!rc) memcpy(to, bytes[0].data, t->segment[at].bytes);
  if (!rc) kit_stream_done(t->stream, at);
  return rc;
}

int32_t cpu_stream_load(cpu_self *s, const accel_plugin_options *o, accel_plugin_error *error) {
  cpu_streaming *t = s->stream;
  const accel_plugin_host *host = o->host;
  uint32_t n = 0, *order = calloc(t->n + 1, sizeof *order);
  if (!order) return kit_no_memory(error, t->n * sizeof *order);
  for (uint32_t i = 0; i < t->n; i++)
    if (t->segment[i].resident) order[n++] = i;
  int32_t rc = kit_stream_begin(t->stream, s->program->n_entry, order, n, error);
  for (uint32_t i = 0; !rc && i < n; i++) {
    if (host->cancelled && host->cancelled(host->self))
      rc = kit_fail(error, ACCEL_PLUGIN_E_CANCELLED, -1, "cancelled while loading");
    if (!rc) rc = take_resident(s, order[i], host, error);
  }
  kit_stream_end(t->stream, !rc);
  free(order);
  return rc;
}

/* ---- for launches ---- */

int32_t cpu_stream_take(const cpu_self *s, const cpu_linear *l, uint32_t index,
                        const kit_launch *launch, cpu_part *out, accel_plugin_error *error) {
  cpu_streaming *t = s->stream;
  const uint32_t at = l->segment + index;
  *out = t->part[at];
  if (out->panels) return ACCEL_PLUGIN_OK;
  const accel_plugin_host *host = launch->host;
  if (host && host->cancelled && host->cancelled(host->self))
    return kit_launch_fail(launch, error, ACCEL_PLUGIN_E_CANCELLED, "cancelled");
  if (!t->segment[at].packed) {
    out->panels = t->chunk;
    return take_rows(s, at, t->chunk, host ? host : t->host, error);
  }
  accel_plugin_rows bytes[KIT_PIECES];
  int32_t rc = kit_stream_take(t->stream, at, bytes, error);
  out->panels = bytes[0].data;
  return rc;
}

void cpu_stream_done(const cpu_self *s, const cpu_linear *l, uint32_t index) {
  const uint32_t at = l->segment + index;
  if (s->stream->segment[at].packed) kit_stream_done(s->stream->stream, at);
}
