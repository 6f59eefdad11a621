/* cpu_weights.c - what init does with the weights.
 *
 * Matrices of linear nodes are packed into panels in one huge-page friendly arena, which also has
 * copies of small weights (norms, biases, tables of positions); those of convolutions and experts
 * into memory of their own.  They are read from the cache, or lent by the core, packed and returned,
 * one after the other (cpu_store.h), so the peak while loading is the final size and one tensor.
 * What lies in a file as its format has it is read and packed by blocks.  Of large weights that are
 * not packed (embeddings) rows are read from the file where they lie there, else the core lends them
 * until cleanup.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu_weights.h"

#include "cpu_blas.h"
#include "cpu_file_blocks.h"
#include "cpu_moe_stream.h"
#include "cpu_ops.h"
#include "cpu_store.h"
#include "cpu_stream.h"

enum {
  /* weights of fewer bytes as fp32 are kept, also where rows could be read: to read one of the many
   * rows that a run gathers from tables of positions takes longer than to copy it */
  SMALL = 1 << 20
};

/* ---- which weights are packed ---- */

static int32_t weight_of(const accel_plugin_program *p, const accel_plugin_node *n,
                         uint32_t operand) {
  int32_t t = kit_operand(n, operand);
  return t >= 0 && p->tensor[t].kind == ACCEL_PLUGIN_TENSOR_WEIGHT ? p->tensor[t].weight : -1;
}

/* The packing a linear node asks for; false when its matrices are not weights of rank 2 (the scalar
 * kernel then runs it). */
static bool describe_linear(const accel_plugin_program *p, const accel_plugin_node *n,
                            cpu_linear *out) {
  if (n->op != ACCEL_PLUGIN_OP_LINEAR) return false;
  int32_t glu = (int32_t)kit_attr_i(n, ACCEL_PLUGIN_ATTR_GLU, ACCEL_PLUGIN_GLU_NONE),
          trans = kit_attr_i(n, ACCEL_PLUGIN_ATTR_TRANS, 0) != 0;
  int32_t w = weight_of(p, n, 1), gate = glu == ACCEL_PLUGIN_GLU_SEPARATE ? weight_of(p, n, 4) : -1;
  if (w < 0 || p->weight[w].rank != 2 ||
      (glu == ACCEL_PLUGIN_GLU_SEPARATE && (gate < 0 || p->weight[gate].rank != 2)))
    return false;
  const int64_t *dim = p->weight[w].dim;
  *out = (cpu_linear){.w = w,
                      .gate = gate,
                      .bias = -1,
                      .glu = glu,
                      .trans = trans,
                      .n = dim[trans ? 1 : 0],
                      .k = dim[trans ? 0 : 1]};
  if (gate >= 0 && memcmp(p->weight[gate].dim, dim, 2 * sizeof *dim)) return false;
  if (glu > ACCEL_PLUGIN_GLU_SEPARATE) out->n /= 2;
  if (glu == ACCEL_PLUGIN_GLU_INTERLEAVED && kit_operand(n, 2) >= 0) {
    out->bias = weight_of(p, n, 2);
    if (out->bias < 0) return false;
  }
  return true;
}

/* Is the operand a table whose rows are gathered?  Then any format will do. */
static bool is_gathered_table(const accel_plugin_program *p, const accel_plugin_node *n,
                              uint32_t operand) {
  int64_t axis = kit_attr_i(n, ACCEL_PLUGIN_ATTR_AXIS, 0);
  int32_t w = weight_of(p, n, operand);
  return n->op == ACCEL_PLUGIN_OP_GATHER && operand == 0 && w >= 0 && p->weight[w].rank == 2 &&
         (axis == 0 || axis == -2);
}

static bool is_small(const accel_plugin_weight *w) {
  return (uint64_t)kit_weight_elements(w) * sizeof(float) < SMALL;
}

bool cpu_panels_hold_rows(const cpu_linear *l, int32_t w) {
  return l->w == w && l->gate < 0 && l->glu == ACCEL_PLUGIN_GLU_NONE && !l->trans &&
         cpu_panel_reads(l->layout);
}

static bool same_packing(const cpu_linear *a, const cpu_linear *b) {
  return a->w == b->w && a->gate == b->gate && a->bias == b->bias && a->glu == b->glu &&
         a->trans == b->trans;
}

/* Decides how a linear is packed.  Transposed matrices are packed as fp32 only, and two of unlike
 * formats; so are rows of one block or two whose x would be codes of 7 bits, or rounded to bf16:
 * too few for errors to even out, and x would be filled up with more zeros than it has elements. */
static void choose_layout(const cpu_kernels *kernels, const accel_plugin_format *w,
                          const accel_plugin_format *gate, cpu_linear *l) {
  l->format = *w;
  l->layout = l->trans ? CPU_LAYOUT_F32 : cpu_layout_of(kernels, &l->format);
  if (gate && memcmp(gate, w, sizeof *w)) l->layout = CPU_LAYOUT_F32;
  const cpu_act_format x = kernels->linear[l->layout].x;
  if (l->k < CPU_ACT_STEP && (x == CPU_ACT_U7B || x == CPU_ACT_BF16)) l->layout = CPU_LAYOUT_F32;
  cpu_panel shape = cpu_linear_shape(kernels, l);
  const int64_t width = cpu_linear_width(l, shape.cols);
  l->panels = (l->n + width - 1) / width;
  l->panel_bytes = cpu_panel_bytes(&shape);
}

/* Tables whose rows are read from panels. */
static void find_rows(cpu_self *s) {
  for (uint32_t i = 0; i < s->n_linear; i++)
    if (!s->linear[i].n_segment && cpu_panels_hold_rows(&s->linear[i], s->linear[i].w))
      s->weight[s->linear[i].w].panels = (int32_t)i + 1;
}

static bool op_packs(const accel_plugin_program *p, const accel_plugin_node *n, uint32_t operand) {
  const cpu_op *op = cpu_op_of(n->op);
  return op->packs && op->packs(p, n, operand);
}

static int32_t plan_weights(cpu_self *s, const accel_plugin_format *format,
                            accel_plugin_error *error) {
  const accel_plugin_program *p = s->program;
  s->weight = calloc(p->n_weight + 1, sizeof *s->weight);
  s->linear = calloc(p->n_node + 1, sizeof *s->linear);
  s->linear_of = malloc((p->n_node + 1) * sizeof *s->linear_of);
  if (!s->weight || !s->linear || !s->linear_of)
    return kit_no_memory(error, p->n_node * sizeof *s->linear);
  for (uint32_t i = 0; i < p->n_node; i++) {
    cpu_linear l;
    bool packed = !(s->sgemm && cpu_blas_takes(&p->node[i])) && describe_linear(p, &p->node[i], &l);
    s->linear_of[i] = -1;
    for (uint32_t k = 0; k < p->node[i].n_in; k++)
      if ((!packed || (k != 1 && k != 4)) && !op_packs(p, &p->node[i], k)) {
        int32_t w = weight_of(p, &p->node[i], k);
        if (w >= 0 && is_gathered_table(p, &p->node[i], k))
          s->weight[w].gathered = true;
        else if (w >= 0)
          s->weight[w].raw = true;
      }
    if (!packed) continue;
    uint32_t at = 0;
    while (at < s->n_linear && !same_packing(&s->linear[at], &l)) at++;
    choose_layout(&s->kernels, &format[l.w], l.gate >= 0 ? &format[l.gate] : NULL, &l);
    if (at == s->n_linear) s->linear[s->n_linear++] = l;
    s->linear_of[i] = (int32_t)at;
  }
  for (uint32_t i = 0; i < p->n_entry; i++) /* weights that are outputs themselves */
    for (uint32_t k = 0; k < p->entry[i].n_out; k++) {
      const accel_plugin_tensor *t = &p->tensor[p->entry[i].out[k]];
      if (t->kind == ACCEL_PLUGIN_TENSOR_WEIGHT) s->weight[t->weight].raw = true;
    }
  return ACCEL_PLUGIN_OK;
}

/* ---- memory ---- */

/* Bytes of one linear in the arena; places its parts when base is given. */
static uint64_t place_panels(cpu_linear *l, char *base) {
  uint64_t panels = l->n_segment ? 0 : (uint64_t)l->panels * l->panel_bytes;
  uint64_t bias = l->bias >= 0 ? (uint64_t)cpu_aligned(l->n * (int64_t)sizeof(float)) : 0;
  if (base) {
    l->packed = l->n_segment ? NULL : base;
    if (bias) {
      l->bias_up = (float *)(base + panels);
      l->bias_gate = (float *)(base + panels + bias);
    }
  }
  return panels + 2 * bias;
}

/* Is it read as it is, beside linears and convolutions that pack it? */
static bool stays_as_is(const cpu_weight *w) {
  return w->raw || (w->gathered && !w->panels && !w->by_rows);
}

/* Bytes of a small weight in the arena, where it lies when base is given; 0: it is not kept there. */
static uint64_t place_small(const cpu_self *s, uint32_t i, const accel_plugin_format *format,
                            char *base) {
  cpu_weight *w = &s->weight[i];
  const accel_plugin_weight *of = &s->program->weight[i];
  if (!stays_as_is(w) || format->store != ACCEL_PLUGIN_F32 || !is_small(of)) return 0;
  w->small = (float *)base;
  return (uint64_t)cpu_aligned(kit_weight_elements(of) * (int64_t)sizeof(float));
}

/* Everything that the arena has, behind one another; returns its bytes.  base NULL: no memory yet. */
static uint64_t place_all(cpu_self *s, const accel_plugin_format *format, char *base) {
  uint64_t at = 0;
  for (uint32_t i = 0; i < s->n_linear; i++)
    at += place_panels(&s->linear[i], base ? base + at : NULL);
  for (uint32_t i = 0; i < s->program->n_weight; i++)
    at += place_small(s, i, &format[i], base ? base + at : NULL);
  return at;
}

static int32_t make_arena(cpu_self *s, const cpu_load *load, accel_plugin_error *error) {
  s->arena_bytes = place_all(s, load->format, NULL);
  s->arena = cpu_alloc_weights(load->host, s->arena_bytes, error);
  if (!s->arena) return ACCEL_PLUGIN_E_HOST_MEMORY;
  (void)place_all(s, load->format, s->arena);
  return ACCEL_PLUGIN_OK;
}

/* ---- packing ---- */

typedef struct packing {
  const cpu_linear *l;
  const cpu_range *range;
  cpu_panel shape;
  cpu_matrix w, gate;   /* gate: of GLU_SEPARATE, or the rows that the gates come from */
  cpu_column origin[2]; /* as of cpu_pack_panels */
  uint32_t tasks;
} packing;

void cpu_pack_panels(const cpu_panel *shape, const cpu_linear *l, int64_t first, int64_t n,
                     const cpu_column origin[2], char *to) {
  const int64_t width = cpu_linear_width(l, shape->cols);
  cpu_column column[CPU_PANEL_COLS];
  for (int64_t i = 0; i < n; i++, to += l->panel_bytes) {
    for (int32_t c = 0; c < shape->cols; c++) {
      const int64_t col = (first + i) * width + c % width;
      const cpu_column *half = &origin[c >= width];
      column[c] = (cpu_column){half->from, cpu_linear_row(l, col, c >= width) - half->row};
      if (col >= l->n) column[c] = (cpu_column){0};
    }
    cpu_panel_pack(shape, column, to);
  }
}

static void pack_task(void *arg, uint32_t index, uint32_t worker) {
  const packing *p = arg;
  const int64_t begin = p->range->first + cpu_share(p->range->n, index, p->tasks),
                end = p->range->first + cpu_share(p->range->n, index + 1, p->tasks);
  (void)worker;
  cpu_pack_panels(&p->shape, p->l, begin, end - begin, p->origin,
                  p->range->to + (uint64_t)(begin - p->range->first) * p->l->panel_bytes);
}

static float *copy_of(const void *data, uint64_t bytes, accel_plugin_error *error) {
  float *copy = malloc(bytes ? bytes : 1);
  if (copy)
    memcpy(copy, data, bytes);
  else
    kit_no_memory(error, bytes);
  return copy;
}

static const float *aligned_f32(const void *data, uint64_t bytes, float **copy,
                                accel_plugin_error *error) {
  *copy = NULL;
  if ((uintptr_t)data % sizeof(float) == 0) return data;
  return *copy = copy_of(data, bytes, error);
}

/* All of a weight as fp32: the mapping itself, or a copy. */
static const float *all_as_f32(const accel_plugin_weight *w, const accel_plugin_format *format,
                               const accel_plugin_weight_view *view, float **copy,
                               accel_plugin_error *error) {
  const uint64_t bytes = (uint64_t)kit_weight_elements(w) * sizeof(float);
  if (format->store == ACCEL_PLUGIN_F32) return aligned_f32(view->data, bytes, copy, error);
  int64_t n, k;
  kit_weight_matrix(w, &n, &k);
  *copy = malloc(bytes ? bytes : 1);
  if (!*copy) {
    kit_no_memory(error, bytes);
    return NULL;
  }
  if (!kit_weight_rows(w, format, view, 0, n, *copy, error)) return *copy;
  free(*copy);
  *copy = NULL;
  return NULL;
}

/* A weight while it is packed. */
typedef struct source {
  cpu_matrix m;
  float *copy;
} source;

static int32_t source_open(const cpu_load *load, int32_t index, cpu_layout layout, source *out,
                           accel_plugin_error *error) {
  const accel_plugin_host *host = load->host;
  const accel_plugin_weight *w = &load->program->weight[index];
  *out = (source){.m = {.weight = w, .format = &load->format[index]}};
  kit_weight_matrix(w, &out->m.n, &out->m.k);
  int32_t rc = kit_weight_borrow(host, (uint32_t)index, &out->m.view, error);
  if (rc || layout != CPU_LAYOUT_F32) return rc;
  out->m.f32 = all_as_f32(w, out->m.format, &out->m.view, &out->copy, error);
  if (out->m.f32) return ACCEL_PLUGIN_OK;
  host->weight_unmap(host->self, (uint32_t)index);
  return ACCEL_PLUGIN_E_HOST_MEMORY;
}

static void source_close(const accel_plugin_host *host, int32_t index, source *s) {
  free(s->copy);
  host->weight_unmap(host->self, (uint32_t)index);
}

static void run_packing(packing *p, const accel_plugin_host *host) {
  uint32_t workers = host->parallel && host->workers ? host->workers(host->self) : 1;
  p->tasks = workers > 1 && p->range->n > 1 ? workers * 4 : 1;
  if ((int64_t)p->tasks > p->range->n) p->tasks = (uint32_t)p->range->n;
  if (p->tasks > 1)
    host->parallel(host->self, p->tasks, pack_task, p);
  else if (p->tasks)
    pack_task(p, 0, 0);
}

static int32_t split_bias(const cpu_load *load, cpu_linear *l, accel_plugin_error *error) {
  source bias;
  int32_t rc = source_open(load, l->bias, CPU_LAYOUT_F32, &bias, error);
  for (int64_t i = 0; !rc && i < l->n; i++) {
    l->bias_gate[i] = bias.m.f32[2 * i];
    l->bias_up[i] = bias.m.f32[2 * i + 1];
  }
  if (!rc) source_close(load->host, l->bias, &bias);
  return rc;
}

/* ---- linears ---- */

/* Packs from whole matrices. */
static int32_t pack_whole(const cpu_load *load, const cpu_linear *l, const cpu_ranges *ranges,
                          accel_plugin_error *error) {
  source w, gate;
  const bool two = l->gate >= 0;
  int32_t rc = source_open(load, l->w, l->layout, &w, error);
  if (rc) return rc;
  if (two) rc = source_open(load, l->gate, l->layout, &gate, error);
  if (!rc) {
    packing p = {
        .l = l, .shape = cpu_linear_shape(load->kernels, l), .w = w.m, .gate = two ? gate.m : w.m};
    p.w.trans = p.gate.trans = l->trans != 0;
    if (l->trans) p.w.n = w.m.k; /* columns of the stored matrix */
    p.origin[0].from = &p.w;
    p.origin[1].from = two ? &p.gate : &p.w;
    for (uint32_t i = 0; !rc && i < ranges->n; i++) {
      p.range = &ranges->at[i];
      run_packing(&p, load->host);
      if (ranges->packed) rc = ranges->packed(ranges->user, i, error);
    }
    if (two) source_close(load->host, l->gate, &gate);
  }
  source_close(load->host, l->w, &w);
  return rc;
}

/* Rows of a weight in its format while they are packed. */
typedef struct some_rows {
  cpu_matrix m;
  void *mapping;
  float *copy;
} some_rows;

static int32_t some_rows_open(const cpu_load *load, cpu_layout layout, const kit_piece *piece,
                              some_rows *out, accel_plugin_error *error) {
  const accel_plugin_host *host = load->host;
  const accel_plugin_format *format = &load->format[piece->weight];
  int64_t n, k;
  kit_weight_matrix(&load->program->weight[piece->weight], &n, &k);
  *out = (some_rows){.m = {.format = format, .n = piece->rows, .k = k}};
  cpu_matrix *m = &out->m;
  int32_t rc = host->rows_map(host->self, piece->weight, piece->first, piece->rows, &m->view,
                              &out->mapping, error);
  if (rc || layout != CPU_LAYOUT_F32) return rc;
  if (format->store == ACCEL_PLUGIN_F32) {
    m->f32 = m->view.data;
    return ACCEL_PLUGIN_OK;
  }
  const uint64_t bytes = (uint64_t)(piece->rows * k) * sizeof(float);
  m->f32 = out->copy = malloc(bytes ? bytes : 1);
  if (!out->copy) return kit_no_memory(error, bytes);
  const accel_matrix stored = {.format = *format,
                               .n = piece->rows,
                               .k = k,
                               .data = m->view.data,
                               .scale = m->view.scale,
                               .zero = m->view.zero,
                               .outer = m->view.outer};
  accel_matrix_rows(&stored, 0, piece->rows, out->copy);
  return ACCEL_PLUGIN_OK;
}

int32_t cpu_pack_rows(const cpu_load *load, const cpu_linear *l, int64_t row,
                      const cpu_range *range, accel_plugin_error *error) {
  kit_piece piece[KIT_PIECES];
  some_rows rows[KIT_PIECES] = {{.mapping = NULL}};
  const uint32_t n = cpu_linear_pieces(load->kernels, l, range->first, range->n, piece);
  int32_t rc = ACCEL_PLUGIN_OK;
  for (uint32_t i = 0; i < n && !rc; i++) {
    kit_piece stored = piece[i];
    stored.first += row;
    rc = some_rows_open(load, l->layout, &stored, &rows[i], error);
  }
  if (!rc) {
    packing p = {.l = l, .range = range, .shape = cpu_linear_shape(load->kernels, l)};
    for (uint32_t i = 0; i < KIT_PIECES; i++)
      p.origin[i] = (cpu_column){&rows[i < n ? i : 0].m, piece[i < n ? i : 0].first};
    run_packing(&p, load->host);
  }
  for (uint32_t i = 0; i < n; i++) {
    free(rows[i].copy);
    load->host->rows_unmap(load->host->self, rows[i].mapping);
  }
  return rc;
}

/* A cpu_block_pack_fn. */
static int32_t pack_linear(const cpu_load *load, void *of, const cpu_ranges *ranges,
                           accel_plugin_error *error) {
  const cpu_linear *l = of;
  int32_t rc = ACCEL_PLUGIN_OK;
  if (cpu_lies_in_file(load, l)) {
    for (uint32_t i = 0; !rc && i < ranges->n; i++) {
      rc = cpu_pack_from_file(load, l, &ranges->at[i], error);
      if (!rc && ranges->packed) rc = ranges->packed(ranges->user, i, error);
    }
    return rc;
  }
  if (!load->row_dtype || !cpu_linear_by_rows(l, load->row_dtype))
    return pack_whole(load, l, ranges, error);
  for (uint32_t i = 0; !rc && i < ranges->n; i++) {
    rc = cpu_pack_rows(load, l, 0, &ranges->at[i], error);
    if (!rc && ranges->packed) rc = ranges->packed(ranges->user, i, error);
  }
  return rc;
}

static bool add_linears(cpu_self *s, cpu_blocks *blocks) {
  bool good = true;
  for (uint32_t i = 0; i < s->n_linear && good; i++) {
    cpu_linear *l = &s->linear[i];
    const int64_t facts[] = {'l', l->w, l->gate, l->glu, l->trans, l->n, l->k, l->layout};
    if (l->n_segment && !cpu_is_coded(&l->format)) continue; /* cpu_stream.c packs it */
    const cpu_block block = {.memory = l->packed,
                             .units = 1,
                             .panels = l->panels,
                             .panel_bytes = l->panel_bytes,
                             .pack = pack_linear,
                             .of = l,
                             .weight = (uint32_t)l->w,
                             .identity = cpu_is_coded(&l->format)
                                             ? cpu_block_identity(facts, sizeof facts, &l->format)
                                             : 0};
    good = cpu_blocks_add(blocks, &block);
  }
  return good;
}

/* ---- open and close ---- */

static int32_t keep_raw(cpu_self *s, uint32_t i, const accel_plugin_options *o,
                        accel_plugin_error *error) {
  const accel_plugin_host *host = o->host;
  const accel_plugin_format *format = &o->precision.format[i];
  cpu_weight *w = &s->weight[i];
  const bool wide = format->store == ACCEL_PLUGIN_F32, table = !w->raw && !wide;
  accel_plugin_weight_view view;
  int32_t rc = table || (wide && !w->small) ? host->weight_map(host->self, i, &view, error)
                                            : kit_weight_borrow(host, i, &view, error);
  if (rc) return rc;
  w->mapped = true;
  if (table) {
    w->table = (accel_matrix){.format = *format,
                              .data = view.data,
                              .scale = view.scale,
                              .zero = view.zero,
                              .outer = view.outer};
    kit_weight_matrix(&s->program->weight[i], &w->table.n, &w->table.k);
    /* checks the parts */
    return kit_weight_rows(&s->program->weight[i], format, &view, 0, 0, NULL, error);
  }
  if (w->small)
    memcpy(w->small, view.data,
           (size_t)kit_weight_elements(&s->program->weight[i]) * sizeof *w->small);
  w->data =
      w->small ? w->small : all_as_f32(&s->program->weight[i], format, &view, &w->copy, error);
  if (!w->data) return ACCEL_PLUGIN_E_HOST_MEMORY;
  if (w->small || w->copy) {
    host->weight_unmap(host->self, i);
    w->mapped = false;
  }
  return ACCEL_PLUGIN_OK;
}

/* Memory of everything that is packed (not where load->host is NULL), and what fills it. */
static int32_t make_blocks(cpu_self *s, const cpu_load *load, cpu_blocks *blocks,
                           accel_plugin_error *error) {
  int32_t rc = load->host ? make_arena(s, load, error) : ACCEL_PLUGIN_OK;
  if (!rc && !add_linears(s, blocks)) rc = kit_no_memory(error, s->n_linear * sizeof *blocks->at);
  if (!rc) rc = cpu_convs_open(load, blocks, &s->convs, error);
  if (!rc) rc = cpu_moes_open(load, blocks, &s->moes, error);
  for (uint32_t i = 0; !rc && load->host && i < s->n_linear; i++)
    if (s->linear[i].bias >= 0) rc = split_bias(load, &s->linear[i], error);
  return rc;
}

/* Tables that stay in the file; of an endpoint that streams cpu_stream.c has found them. */
static void find_tables(cpu_self *s, const accel_plugin_options *o) {
  const bool rows = o->in_file && o->host && o->host->rows_read && !o->stream_budget;
  for (uint32_t i = 0; rows && i < s->program->n_weight; i++)
    s->weight[i].by_rows = o->in_file[i] && !s->weight[i].panels &&
                           cpu_weight_by_rows(s->program, i, &o->precision.format[i]);
}

static int32_t load_weights(cpu_self *s, const accel_plugin_options *o, accel_plugin_error *error) {
  const cpu_load load = {.program = s->program,
                         .kernels = &s->kernels,
                         .format = o->precision.format,
                         .host = o->host,
                         .row_dtype = o->stream_budget ? o->row_dtype : NULL,
                         .in_file = o->host && o->host->rows_map ? o->in_file : NULL};
  cpu_blocks blocks = {.segment_bytes = cpu_segment_bytes(s->program, load.format)};
  int32_t rc = plan_weights(s, load.format, error);
  if (!rc) rc = cpu_moes_plan(&load, &s->moes, error);
  if (!rc && o->stream_budget) rc = cpu_stream_open(s, o, error);
  find_rows(s);
  find_tables(s, o);
  if (!rc) rc = make_blocks(s, &load, &blocks, error);
  if (!rc) rc = cpu_blocks_fill(&blocks, &load, error);
  free(blocks.at);
  for (uint32_t i = 0; !rc && i < s->program->n_weight; i++)
    if (stays_as_is(&s->weight[i])) rc = keep_raw(s, i, o, error);
  if (!rc && s->stream) rc = cpu_stream_load(s, o, error);
  if (rc) cpu_unmap(s, o->host);
  return rc;
}

int32_t cpu_open(kit_open *open, void **self, accel_plugin_error *error) {
  char refused[160];
  cpu_isa isa = cpu_isa_choose(refused, sizeof refused);
  if (refused[0]) return kit_fail(error, ACCEL_PLUGIN_E_UNSUPPORTED, -1, "%s", refused);
  const accel_plugin_host *host = open->options->host;
  if (open->program->n_weight && (!host || !host->weight_map || !host->weight_unmap))
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1,
                    "the host gives no weights (weight_map is NULL)");
  cpu_self *s = calloc(1, sizeof *s);
  if (!s) return kit_no_memory(error, sizeof *s);
  *self = s;
  s->program = open->program;
  s->limits = cpu_limits_new();
  uint8_t kv = open->options->precision.kv;
  if (kv == ACCEL_PLUGIN_F16 || kv == ACCEL_PLUGIN_BF16 || kv == ACCEL_PLUGIN_I8)
    open->kv_dtype = kv;
  cpu_kernels_of(isa, &s->kernels);
  s->codes = !strncmp(open->options->precision.name, "int8", sizeof open->options->precision.name);
  s->bf16 = !strncmp(open->options->precision.name, "bf16", sizeof open->options->precision.name);
  if (cpu_blas_wanted(isa)) s->sgemm = cpu_blas_open();
  if (!s->sgemm && getenv("ACCEL_ISA") && !strcmp(getenv("ACCEL_ISA"), "openblas"))
    return kit_fail(
        error, ACCEL_PLUGIN_E_UNSUPPORTED, -1,
        "ACCEL_ISA is 'openblas', but libopenblas.so.0 is missing; install it or unset ACCEL_ISA");
  int32_t rc = load_weights(s, open->options, error);
  if (!rc && s->stream) open->stream = cpu_stream_of(s);
  return rc;
}

void cpu_unmap(cpu_self *s, const accel_plugin_host *host) {
  for (uint32_t i = 0; s && s->weight && host && host->weight_unmap && i < s->program->n_weight;
       i++) {
    if (s->weight[i].mapped) host->weight_unmap(host->self, i);
    s->weight[i].mapped = false;
  }
}

void cpu_close(void *self) {
  cpu_self *s = self;
  if (!s) return;
  for (uint32_t i = 0; s->weight && i < s->program->n_weight; i++) free(s->weight[i].copy);
  free(s->weight);
  free(s->linear);
  free(s->linear_of);
  free(s->arena);
  cpu_stream_close(s);
  cpu_convs_free(&s->convs);
  cpu_moes_free(&s->moes);
  cpu_limits_free(s->limits);
  free(s);
}

void *cpu_weight_data(void *self, uint32_t index) {
  const cpu_self *s = self;
  return (void *)s->weight[index].data; /* NULL: packed only */
}

int32_t cpu_weight_format(const accel_plugin_program *program, uint32_t index,
                          const accel_plugin_format *format, char *why, size_t why_size) {
  cpu_kernels kernels;
  if (format->store == ACCEL_PLUGIN_F32) return ACCEL_PLUGIN_NATIVE;
  if (!kit_format_known(format)) {
    snprintf(why, why_size, "weight '%s': store %u with scale %u is not read",
             program->weight[index].name, format->store, format->scale);
    return ACCEL_PLUGIN_NO;
  }
  cpu_kernels_of(cpu_isa_choose(NULL, 0), &kernels);
  if (cpu_layout_of(&kernels, format) != CPU_LAYOUT_F32) return ACCEL_PLUGIN_NATIVE;
  snprintf(why, why_size, "weight '%s' is widened to fp32 while loading",
           program->weight[index].name);
  return ACCEL_PLUGIN_EMULATED;
}

/* The panels that hold weight `index`, its half of them where two matrices share their panels. */
static uint64_t packed_bytes(const accel_plugin_program *p, int32_t index,
                             const accel_plugin_format *format) {
  cpu_kernels kernels;
  cpu_linear l, earlier;
  cpu_kernels_of(cpu_isa_choose(NULL, 0), &kernels);
  uint64_t bytes = cpu_conv_bytes(p, (uint32_t)index, format, &kernels);
  for (uint32_t i = 0; i < p->n_node; i++) {
    if (!describe_linear(p, &p->node[i], &l) || (l.w != index && l.gate != index)) continue;
    bool again = false; /* linears of one packing share it */
    for (uint32_t j = 0; j < i && !again; j++)
      again = describe_linear(p, &p->node[j], &earlier) && same_packing(&earlier, &l);
    if (again) continue;
    choose_layout(&kernels, format, NULL, &l);
    bytes += place_panels(&l, NULL) / (l.gate >= 0 ? 2 : 1);
  }
  return bytes;
}

/* Who reads a weight, beside the linears and convolutions that pack it. */
typedef struct readers {
  bool experts, raw;
  bool gathered; /* from a table: no panels have its rows */
} readers;

static readers readers_of(const accel_plugin_program *p, uint32_t index,
                          const accel_plugin_format *format) {
  cpu_kernels kernels;
  readers r = {0};
  bool rows = false;
  cpu_kernels_of(cpu_isa_choose(NULL, 0), &kernels);
  for (uint32_t i = 0; i < p->n_node; i++)
    for (uint32_t k = 0; k < p->node[i].n_in; k++) {
      const accel_plugin_node *n = &p->node[i];
      cpu_linear l;
      if (weight_of(p, n, k) != (int32_t)index || cpu_conv_packs(p, n, k)) continue;
      if (cpu_moe_packs(p, n, k)) {
        r.experts = true;
      } else if (is_gathered_table(p, n, k)) {
        r.gathered = true;
      } else if ((k == 1 || k == 4) && describe_linear(p, n, &l)) {
        choose_layout(&kernels, format, NULL, &l);
        rows |= cpu_panels_hold_rows(&l, (int32_t)index);
      } else {
        r.raw = true;
      }
    }
  r.gathered &= !rows || r.raw;
  return r;
}

/* Panels of the linears and convolutions that read it, and what other nodes read: the mapping, or a
 * copy as fp32. */
uint64_t cpu_weight_bytes(const accel_plugin_program *p, uint32_t index,
                          const accel_plugin_format *format) {
  const readers r = readers_of(p, index, format);
  const uint64_t packed = packed_bytes(p, (int32_t)index, format);
  if (packed && !r.experts && !r.raw && !r.gathered) return packed;
  const bool wide = r.raw || format->store == ACCEL_PLUGIN_F32;
  return packed + (wide ? (uint64_t)kit_weight_elements(&p->weight[index]) * sizeof(float)
                        : kit_format_bytes(&p->weight[index], format));
}

bool cpu_weight_stays(const accel_plugin_program *p, uint32_t index,
                      const accel_plugin_format *format) {
  const readers r = readers_of(p, index, format);
  return format->store == ACCEL_PLUGIN_F32 ? (r.gathered || r.raw) && !is_small(&p->weight[index])
                                           : r.gathered && !r.raw;
}

bool cpu_weight_by_rows(const accel_plugin_program *p, uint32_t index,
                        const accel_plugin_format *format) {
  const readers r = readers_of(p, index, format);
  return r.gathered && !r.raw && !is_small(&p->weight[index]);
}

/* ---- streaming ---- */

/* What weight i takes whatever is streamed; s->linear has its segments. */
static uint64_t fixed_bytes(const cpu_self *s, uint32_t i, const accel_plugin_format *format) {
  const accel_plugin_program *p = s->program;
  const readers r = readers_of(p, i, format);
  const cpu_weight *w = &s->weight[i];
  const bool table = w->gathered && !w->panels && !w->by_rows;
  uint64_t bytes = cpu_conv_bytes(p, i, format, &s->kernels);
  if ((r.experts && !cpu_experts_stream(s, (int32_t)i)) || w->raw || table)
    bytes += w->raw || format->store == ACCEL_PLUGIN_F32
                 ? (uint64_t)kit_weight_elements(&p->weight[i]) * sizeof(float)
                 : kit_format_bytes(&p->weight[i], format);
  return bytes;
}

uint64_t cpu_fixed_bytes(cpu_self *s, const accel_plugin_options *o) {
  uint64_t bytes = 0;
  find_rows(s);
  for (uint32_t i = 0; i < s->n_linear; i++) bytes += place_panels(&s->linear[i], NULL);
  for (uint32_t i = 0; i < s->program->n_weight; i++)
    bytes += fixed_bytes(s, i, &o->precision.format[i]);
  return bytes;
}

/* What the cache must hold of a model that is streamed. */
static int32_t answer_store(cpu_self *s, const accel_plugin_options *o, accel_plugin_estimate *out,
                            accel_plugin_error *error) {
  const cpu_load load = {
      .program = s->program, .kernels = &s->kernels, .format = o->precision.format};
  cpu_blocks blocks = {.segment_bytes = cpu_segment_bytes(s->program, load.format)};
  bool any = false;
  for (uint32_t i = 0; i < s->n_linear; i++)
    any |= s->linear[i].n_segment && cpu_is_coded(&s->linear[i].format);
  for (uint32_t i = 0; i < s->moes.n; i++)
    any |= s->moes.at[i].streamed &&
           (cpu_is_coded(&s->moes.at[i].up.format) || cpu_is_coded(&s->moes.at[i].down.format));
  int32_t rc = any ? make_blocks(s, &load, &blocks, error) : ACCEL_PLUGIN_OK;
  if (!rc && any) out->stream_store = cpu_blocks_key(&blocks, &load, out->stream_key);
  free(blocks.at);
  return rc;
}

/* A self whose linears and experts are known; to be freed after a failure, too. */
static int32_t new_plan(cpu_self *s, const accel_plugin_program *p, const accel_plugin_options *o,
                        accel_plugin_error *error) {
  const cpu_isa isa = cpu_isa_choose(NULL, 0);
  *s = (cpu_self){.program = p};
  cpu_kernels_of(isa, &s->kernels);
  if (cpu_blas_wanted(isa)) s->sgemm = cpu_blas_open();
  const cpu_load load = {.program = p, .kernels = &s->kernels, .format = o->precision.format};
  const int32_t rc = plan_weights(s, o->precision.format, error);
  return rc ? rc : cpu_moes_plan(&load, &s->moes, error);
}

static void free_plan(cpu_self *s) {
  cpu_stream_close(s);
  cpu_convs_free(&s->convs);
  cpu_moes_free(&s->moes);
  free(s->weight);
  free(s->linear);
  free(s->linear_of);
}

/* Layouts of convolutions, without memory for them. */
static int32_t plan_convs(cpu_self *s, const accel_plugin_format *format,
                          accel_plugin_error *error) {
  const cpu_load load = {.program = s->program, .kernels = &s->kernels, .format = format};
  cpu_blocks unused = {.segment_bytes = cpu_segment_bytes(s->program, format)};
  const int32_t rc = cpu_convs_open(&load, &unused, &s->convs, error);
  free(unused.at);
  return rc;
}

int32_t cpu_plan_open(const accel_plugin_program *p, const accel_plugin_options *o, void **self,
                      accel_plugin_error *error) {
  *self = NULL;
  cpu_self *s = calloc(1, sizeof *s);
  if (!s) return kit_no_memory(error, sizeof *s);
  int32_t rc = new_plan(s, p, o, error);
  if (!rc) rc = plan_convs(s, o->precision.format, error);
  if (!rc && o->row_dtype) rc = cpu_stream_new(s, o, error);
  if (rc)
    cpu_plan_close(s);
  else
    *self = s;
  return rc;
}

void cpu_plan_close(void *self) {
  free_plan(self);
  free(self);
}

int32_t cpu_stream_estimate(uint32_t device, const accel_plugin_program *p,
                            const accel_plugin_options *o, accel_plugin_estimate *out,
                            accel_plugin_error *error) {
  (void)device;
  cpu_self s;
  int32_t rc = new_plan(&s, p, o, error);
  if (!rc) rc = cpu_stream_answer(&s, o, out, error);
  if (!rc && out->stream_least) rc = answer_store(&s, o, out, error);
  free_plan(&s);
  return rc;
}
