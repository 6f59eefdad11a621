/* cpu_conv_weights.c - weights of convolutions as their kernels read them, packed at init in
 * parallel, one tensor after the other. */
#include "cpu_conv_weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu.h"
#include "cpu_pack.h"
#include "formats/bf16.h"
#include "kernels/resize_codes.h"
#include "kit/kit_scalar.h"

static bool over_rows(const accel_plugin_node *n) {
  return n->state >= 0 || kit_attr_i(n, ACCEL_PLUGIN_ATTR_SPACE, -1) >= 0;
}

enum { WINOGRAD_TAPS = 9, WINOGRAD_CHANNELS = 16, WINOGRAD_MATRIX = 1 << 17 };

int64_t cpu_conv_window(const accel_plugin_node *n, const int64_t *d, uint32_t rank) {
  if (n->op != ACCEL_PLUGIN_OP_CONV || over_rows(n) || rank != 4 || d[2] != 3 || d[3] != 3)
    return 0;
  if (kit_attr_i(n, ACCEL_PLUGIN_ATTR_GROUPS, 1) != 1) return 0;
  for (uint32_t i = 0; i < 2; i++)
    if (kit_listed(n, ACCEL_PLUGIN_ATTR_STRIDE, i, 1) != 1 ||
        kit_listed(n, ACCEL_PLUGIN_ATTR_DILATION, i, 1) != 1)
      return 0;
  if (d[0] < WINOGRAD_CHANNELS || d[1] < WINOGRAD_CHANNELS) return 0;
  return d[0] <= WINOGRAD_MATRIX / d[1] ? 4 : 2;
}

static bool describe_conv(const accel_plugin_program *p, const accel_plugin_node *n,
                          cpu_conv *out) {
  if (n->op != ACCEL_PLUGIN_OP_CONV && n->op != ACCEL_PLUGIN_OP_CONV_TRANSPOSE) return false;
  int32_t t = kit_operand(n, 1),
          w = t >= 0 && p->tensor[t].kind == ACCEL_PLUGIN_TENSOR_WEIGHT ? p->tensor[t].weight : -1;
  int64_t groups = kit_attr_i(n, ACCEL_PLUGIN_ATTR_GROUPS, 1);
  if (w < 0 || p->weight[w].rank < 3 || p->weight[w].rank > 4 || groups < 1 ||
      p->weight[w].dim[0] % groups)
    return false;
  const int64_t *d = p->weight[w].dim, taps = d[2] * (p->weight[w].rank == 4 ? d[3] : 1);
  *out =
      (cpu_conv){.w = w, .groups = groups, .rows = d[0] / groups, .k = d[1] * taps, .taps = taps};
  if (n->op == ACCEL_PLUGIN_OP_CONV_TRANSPOSE) { /* w[C,O/g,taps] */
    out->layout = CPU_CONV_TRANSPOSED;
    out->rows = d[1] * taps;
    out->k = d[0] / groups;
  } else if (d[1] == 1 && groups > 1) {
    int64_t span = (taps - 1) * kit_listed(n, ACCEL_PLUGIN_ATTR_DILATION, 0, 1);
    out->layout =
        over_rows(n) && groups == d[0] && span <= CPU_CONV_SPAN ? CPU_CONV_TAPS : CPU_CONV_PLANES;
  }
  return true;
}

bool cpu_conv_packs(const accel_plugin_program *p, const accel_plugin_node *n, uint32_t operand) {
  cpu_conv unused;
  return operand == 1 && describe_conv(p, n, &unused);
}

static const accel_plugin_format coded_format = {.store = ACCEL_PLUGIN_I8,
                                                 .scale = ACCEL_PLUGIN_F32,
                                                 .zero = ACCEL_PLUGIN_NO_DTYPE,
                                                 .outer = ACCEL_PLUGIN_NO_DTYPE,
                                                 .group_n = 1};

static cpu_panel panel_of(const cpu_conv *c, const cpu_kernels *k) {
  return (cpu_panel){.layout = CPU_LAYOUT_I8,
                     .kernels = k,
                     .format = &coded_format,
                     .k = cpu_conv_depth(c),
                     .block = c->block,
                     .cols = k->linear[CPU_LAYOUT_I8].cols};
}

enum { CODED_MOST = 1 << 15 }; /* k whose products are sure to fit a sum of 32 bits: 2^15 255 127 */

/* A convolution of whole images over int8 weights.  Few channels are left to fp32: their codes
 * would cost what they save, those of 7 bits more often, which are also the least exact. */
static bool runs_in_int8(const accel_plugin_node *n, const cpu_conv *c,
                         const accel_plugin_format *format, const cpu_kernels *k) {
  const int64_t least = k->linear[CPU_LAYOUT_I8].x == CPU_ACT_U7B ? 48 : 16;
  return c->layout == CPU_CONV_TILES && c->groups == 1 && format->store == ACCEL_PLUGIN_I8 &&
         !over_rows(n) && k->linear[CPU_LAYOUT_I8].run && c->k >= CPU_ACT_STEP &&
         c->rows >= least && c->block <= CODED_MOST;
}

/* k that are neighbours in an image that lies channels last, all of one scale: a row of the kernel,
 * or a tap of those that are dilated or run along a single line, whose pixels have scales of their
 * own.  Short ones would not pay: all k then. */
static int64_t block_of(const accel_plugin_node *n, const accel_plugin_weight *w, int64_t k) {
  const int64_t *d = w->dim, axis = w->rank - 3;
  const bool tap = axis == 0 || kit_listed(n, ACCEL_PLUGIN_ATTR_DILATION, (uint32_t)axis, 1) != 1;
  const int64_t block = tap ? d[1] : d[1] * d[2 + axis];
  return block < CPU_ACT_STEP ? k : block;
}

/* Short rows of a kernel as parts of a block, where not much is padded: k that windows can read in
 * place. */
static void take_parts(const accel_plugin_node *n, const accel_plugin_weight *w, cpu_conv *c) {
  if (w->rank != 4 || c->block != c->k || kit_listed(n, ACCEL_PLUGIN_ATTR_DILATION, 1, 1) != 1)
    return;
  const int64_t run = w->dim[1] * w->dim[3], part = (run + 7) / 8 * 8, depth = w->dim[2] * part;
  if (run >= CPU_ACT_STEP || depth > (c->k + 15) / 16 * 18) return;
  c->part = part;
  c->block = depth;
}

/* Steps of tiles that reading windows in place may take for one of all their codes side by side,
 * which have to be copied together before. */
enum { STEPS_IN_PLACE = 3 };

/* Parts that are whole steps of a tile register, from lines of pixels that share a scale: a tap's
 * channels, or a row of the kernel where those would be filled up with more. */
static void take_steps(const accel_plugin_node *n, const accel_plugin_weight *w, cpu_conv *c) {
  if (w->rank != 4 || c->taps < 2) return;
  const int64_t channels = w->dim[1], steps = (channels + CPU_ACT_STEP - 1) / CPU_ACT_STEP,
                by_tap = steps * c->taps,
                run = (channels * w->dim[3] + CPU_ACT_STEP - 1) / CPU_ACT_STEP,
                by_row = run * w->dim[2];
  const bool rows = by_row < by_tap && kit_listed(n, ACCEL_PLUGIN_ATTR_DILATION, 1, 1) == 1;
  const int64_t depth = (rows ? by_row : by_tap) * CPU_ACT_STEP;
  if (depth > CODED_MOST || (c->block == c->k && depth > STEPS_IN_PLACE * cpu_act_padded(c->k)))
    return;
  c->part = CPU_ACT_STEP;
  c->pixel = rows ? channels : steps * CPU_ACT_STEP;
  c->block = depth;
}

/* Whether a coded convolution may multiply words, too: then it has both packings, as large pictures
 * alone are worth it.  Pairs of channels are limited, for words are read from memory in each run;
 * where three instructions multiply bytes (codes of seven bits) twice as many are still worth it. */
static bool as_words(const accel_plugin_node *n, const accel_plugin_weight *w, const cpu_conv *c,
                     const cpu_kernels *k) {
  const cpu_linear_kernel *linear = &k->linear[CPU_LAYOUT_I8];
  const int64_t most = linear->x == CPU_ACT_U7B ? 2 * WINOGRAD_MATRIX : WINOGRAD_MATRIX;
  return k->winograd_i16 && !k->tile_registers && linear->x != CPU_ACT_S8B &&
         cpu_conv_window(n, w->dim, w->rank) && c->rows <= most / w->dim[1] &&
         c->rows % linear->cols == 0 && w->dim[1] % CPU_WINOGRAD_WORDS == 0;
}

/* Tiles as equal in height as whole rows allow. */
static void cut_tiles(cpu_conv *c, const cpu_kernels *k) {
  if (c->layout == CPU_CONV_I8) {
    const cpu_panel p = panel_of(c, k);
    c->height = p.cols;
    c->tiles = (c->rows + p.cols - 1) / p.cols;
    c->panel_bytes = cpu_i8_panel_bytes(&p);
    return;
  }
  if (c->unit > 1) {
    c->height = CPU_PAIRS_ROWS;
    c->tiles = (c->rows + CPU_PAIRS_ROWS - 1) / CPU_PAIRS_ROWS;
    return;
  }
  int64_t tiles = (c->rows + k->tile_rows - 1) / k->tile_rows;
  c->height = tiles ? (c->rows + tiles - 1) / tiles : 1;
  c->tiles = (c->rows + c->height - 1) / c->height;
}

/* Layouts of tiles of rows. */
static bool in_tiles(const cpu_conv *c) {
  return c->layout <= CPU_CONV_TRANSPOSED || c->layout == CPU_CONV_IMPLICIT;
}

static int64_t floats_of(const cpu_conv *c) {
  if (c->layout == CPU_CONV_I8)
    return (int64_t)((c->panel_bytes + c->word_bytes) / sizeof(float)) * c->tiles;
  int64_t rows = in_tiles(c) ? c->tiles * c->height : c->rows;
  return c->groups * rows * cpu_conv_depth(c) *
         (c->layout == CPU_CONV_WINOGRAD ? cpu_winograd_points(c->n) : 1);
}

typedef struct packing {
  const cpu_conv *c;
  const cpu_kernels *kernels;
  const accel_plugin_weight *weight;
  const accel_plugin_format *format;
  accel_plugin_weight_view view;
  float *rows; /* [workers][room] */
  int64_t room;
  uint32_t tasks;
  int32_t *rc; /* [workers] */
  accel_plugin_error *error;
} packing;

/* Rows [first, first + count) of w seen as [dim 0, the rest]; the format may see it as more,
 * shorter rows. */
static int32_t read_rows(const packing *p, int64_t first, int64_t count, float *out,
                         accel_plugin_error *error) {
  int64_t n, k;
  kit_weight_matrix(p->weight, &n, &k);
  const int64_t each = p->weight->dim[0] ? n / p->weight->dim[0] : 1;
  return kit_weight_rows(p->weight, p->format, &p->view, first * each, count * each, out, error);
}

/* Where the code of a tap and channel lies in a column; run: taps of a row of the kernel. */
static int64_t code_at(const cpu_conv *c, int64_t tap, int64_t channel, int64_t channels,
                       int64_t run) {
  if (!c->part) return tap * channels + channel;
  const int64_t in_row = tap % run * channels + channel;
  if (!c->pixel) return tap / run * c->part + in_row;
  if (cpu_conv_by_tap(c)) return (channel / c->part * c->taps + tap) * c->part + channel % c->part;
  const int64_t parts = (run * channels + c->part - 1) / c->part;
  return tap / run * parts * c->part + in_row;
}

/* Columns of a panel from their rows [channels][taps]: codes of 8 bits, a scale a column; the same
 * codes and scales again where the weights are stored so. */
static int32_t pack_panel(const packing *p, int64_t index, float *rows, accel_plugin_error *error) {
  const cpu_conv *c = p->c;
  const cpu_panel panel = panel_of(c, p->kernels);
  const int64_t first = index * c->height,
                have = c->rows - first < c->height ? c->rows - first : c->height,
                channels = p->weight->dim[1], taps = c->k / channels;
  float scale[CPU_PANEL_COLS];
  int8_t *codes = (int8_t *)(rows + c->height * c->k);
  const int64_t depth = cpu_conv_depth(c), run = p->weight->dim[p->weight->rank - 1];
  cpu_matrix m = {
      .format = &coded_format, .view = {.data = codes, .scale = scale}, .n = have, .k = depth};
  cpu_column column[CPU_PANEL_COLS] = {0};
  int32_t rc = read_rows(p, first, have, rows, error);
  for (int64_t i = 0; !rc && i < have; i++) {
    const float *w = rows + i * c->k;
    float most = 0;
    for (int64_t k = 0; k < c->k; k++) most = fmaxf(most, fabsf(w[k]));
    scale[i] = most / 127.0f;
    const float factor = most > 0 ? 127.0f / most : 0;
    memset(codes + i * depth, 0, (size_t)depth);
    for (int64_t t = 0; t < taps; t++)
      for (int64_t k = 0; k < channels; k++)
        codes[i * depth + code_at(c, t, k, channels, run)] =
            (int8_t)lrintf(w[k * taps + t] * factor);
    column[i] = (cpu_column){.from = &m, .row = i};
  }
  if (!rc) cpu_i8_panel_pack(&panel, column, (char *)c->packed + (uint64_t)index * c->panel_bytes);
  if (!rc && c->word_bytes)
    cpu_winograd_i16_pack(
        rows, channels, c->height, rows + c->height * c->k,
        (char *)c->packed + (uint64_t)c->tiles * c->panel_bytes + (uint64_t)index * c->word_bytes);
  return rc;
}

/* Where the pair of element k of row i of a tile lies, in pairs. */
static int64_t pair_at(const cpu_conv *c, int64_t k, int64_t i) {
  const int64_t pair = k / c->taps / 2, tap = k % c->taps,
                at = c->unit > 1 ? pair * c->taps + tap : k / 2;
  if (c->layout == CPU_CONV_IMPLICIT) {
    const int64_t step = pair / CPU_PAIRS_UNIT * c->taps + tap;
    return (step * c->height + i / 16 * 16 + pair % CPU_PAIRS_UNIT) * 16 + i % 16;
  }
  return (at / c->unit * c->height + i) * c->unit + at % c->unit;
}

/* The last one of an odd number is followed by zero. */
static void put_pair(const cpu_conv *c, float *tile, int64_t k, int64_t i, float value) {
  const int64_t half = c->unit > 1 ? k / c->taps % 2 : k % 2;
  uint16_t *pair = (uint16_t *)(tile + pair_at(c, k, i));
  pair[half] = accel_f32_to_bf16(value);
  if (half == 0) pair[1] = 0;
}

/* Tile `index` at all points. */
static int32_t pack_winograd(const packing *p, int64_t index, float *rows,
                             accel_plugin_error *error) {
  const cpu_conv *c = p->c;
  const int64_t row = index * c->height,
                have = c->rows - row < c->height ? c->rows - row : c->height;
  const int64_t step = c->tiles * cpu_conv_depth(c) * c->height, points = cpu_winograd_points(c->n);
  float *to = c->packed + index * cpu_conv_depth(c) * c->height,
        one[CPU_WINOGRAD_MOST * CPU_WINOGRAD_MOST];
  int32_t rc = read_rows(p, row, have, rows, error);
  memset(rows + have * c->k * WINOGRAD_TAPS, 0,
         (size_t)((c->height - have) * c->k * WINOGRAD_TAPS) * sizeof *rows);
  for (int64_t k = 0; !rc && k < c->k; k++)
    for (int64_t i = 0; i < c->height; i++) {
      const float *from = rows + (i * c->k + k) * WINOGRAD_TAPS;
      if (!c->pairs) {
        cpu_winograd_weights(c->n, from, to + k * c->height + i, step);
        continue;
      }
      cpu_winograd_weights(c->n, from, one, 1);
      for (int64_t j = 0; j < points; j++) put_pair(c, to + j * step, k, i, one[j]);
    }
  return rc;
}

/* Tile `index` of all groups' tiles. */
static int32_t pack_tile(const packing *p, int64_t index, float *rows, accel_plugin_error *error) {
  const cpu_conv *c = p->c;
  if (c->layout == CPU_CONV_I8) return pack_panel(p, index, rows, error);
  const int64_t group = index / c->tiles, row = index % c->tiles * c->height,
                have = c->rows - row < c->height ? c->rows - row : c->height;
  float *to = c->packed + index * cpu_conv_depth(c) * c->height;
  if (c->layout == CPU_CONV_WINOGRAD) return pack_winograd(p, index, rows, error);
  if (c->layout == CPU_CONV_TRANSPOSED) {
    for (int64_t k = 0; k < c->k; k++) {
      int32_t rc = read_rows(p, group * c->k + k, 1, rows, error);
      if (rc) return rc;
      memcpy(to + k * c->height, rows + row, (size_t)have * sizeof *to);
      memset(to + k * c->height + have, 0, (size_t)(c->height - have) * sizeof *to);
    }
    return ACCEL_PLUGIN_OK;
  }
  int32_t rc = read_rows(p, group * c->rows + row, have, rows, error);
  if (c->unit > 1) memset(to, 0, (size_t)(cpu_conv_depth(c) * c->height) * sizeof *to);
  for (int64_t k = 0; !rc && k < c->k; k++)
    for (int64_t i = 0; i < c->height; i++) {
      const float value = i < have ? rows[i * c->k + k] : 0.0f;
      if (c->pairs)
        put_pair(c, to, k, i, value);
      else
        to[k * c->height + i] = value;
    }
  return rc;
}

static void pack_task(void *arg, uint32_t task, uint32_t worker) {
  const packing *p = arg;
  const int64_t all = p->c->groups * p->c->tiles;
  for (int64_t i = cpu_share(all, task, p->tasks);
       i < cpu_share(all, task + 1, p->tasks) && !p->rc[worker]; i++)
    p->rc[worker] = pack_tile(p, i, p->rows + worker * p->room, &p->error[worker]);
}

static int32_t pack_tiles(packing *p, const accel_plugin_host *host, accel_plugin_error *error) {
  uint32_t workers = host->parallel && host->workers ? host->workers(host->self) : 1;
  int64_t all = p->c->groups * p->c->tiles;
  p->room = p->c->layout == CPU_CONV_TRANSPOSED
                ? p->c->rows
                : p->c->height * p->c->k * (p->c->layout == CPU_CONV_I8 ? 2 : 1);
  if (p->c->layout == CPU_CONV_WINOGRAD) p->room *= WINOGRAD_TAPS;
  if (p->c->word_bytes) p->room += 4 * p->c->k; /* 36 points of a column */
  p->tasks = workers > 1 && all > 1 ? (uint32_t)(all < workers * 4 ? all : workers * 4) : 1;
  p->rows = malloc((size_t)(workers * p->room + 1) * sizeof *p->rows);
  p->rc = calloc(workers, sizeof *p->rc);
  p->error = calloc(workers, sizeof *p->error);
  int32_t rc = p->rows && p->rc && p->error
                   ? ACCEL_PLUGIN_OK
                   : kit_no_memory(error, (uint64_t)(workers * p->room) * 4);
  for (uint32_t i = 0; !rc && i < workers; i++) p->error[i].size = sizeof *p->error;
  if (!rc && p->tasks > 1)
    host->parallel(host->self, p->tasks, pack_task, p);
  else if (!rc)
    pack_task(p, 0, 0);
  for (uint32_t i = 0; !rc && i < workers; i++)
    if (p->rc[i]) {
      rc = p->rc[i];
      if (error) *error = p->error[i];
    }
  free(p->rows);
  free(p->rc);
  free(p->error);
  return rc;
}

/* [outputs][taps], or its transpose. */
static int32_t pack_small(const packing *p, accel_plugin_error *error) {
  const cpu_conv *c = p->c;
  const int64_t outputs = c->groups * c->rows;
  if (c->layout == CPU_CONV_PLANES) return read_rows(p, 0, outputs, c->packed, error);
  float *row = malloc((size_t)(c->k + 1) * sizeof *row);
  int32_t rc = row ? ACCEL_PLUGIN_OK : kit_no_memory(error, (uint64_t)c->k * 4);
  for (int64_t o = 0; !rc && o < outputs; o++) {
    rc = read_rows(p, o, 1, row, error);
    for (int64_t t = 0; !rc && t < c->k; t++) c->packed[t * outputs + o] = row[t];
  }
  free(row);
  return rc;
}

/* A cpu_block_pack_fn: the tensor as a whole, whichever range is missing. */
static int32_t pack_weights(const cpu_load *load, void *of, const cpu_ranges *ranges,
                            accel_plugin_error *error) {
  cpu_conv *c = of;
  const accel_plugin_host *host = load->host;
  packing p = {.c = c,
               .kernels = load->kernels,
               .weight = &load->program->weight[c->w],
               .format = &load->format[c->w]};
  int32_t rc = kit_weight_borrow(host, (uint32_t)c->w, &p.view, error);
  if (rc) return rc;
  rc =
      in_tiles(c) || c->layout == CPU_CONV_I8 ? pack_tiles(&p, host, error) : pack_small(&p, error);
  host->weight_unmap(host->self, (uint32_t)c->w);
  for (uint32_t i = 0; !rc && ranges->packed && i < ranges->n; i++)
    rc = ranges->packed(ranges->user, i, error);
  return rc;
}

/* Memory of one convolution, and the block that fills it. */
static int32_t add_block(const cpu_load *load, cpu_conv *c, cpu_blocks *blocks,
                         accel_plugin_error *error) {
  enum { PIECE = 1 << 16 }; /* bytes; where a segment is cut is of no matter */
  const accel_plugin_format *format = &load->format[c->w];
  const uint64_t bytes = (uint64_t)floats_of(c) * sizeof(float);
  const int64_t facts[] = {'c',
                           c->w,
                           c->layout,
                           c->pairs,
                           c->unit,
                           c->groups,
                           c->rows,
                           c->k,
                           c->height,
                           c->tiles,
                           c->n,
                           c->block,
                           c->part,
                           c->pixel,
                           (int64_t)c->panel_bytes,
                           (int64_t)c->word_bytes};
  if (load->host) c->packed = cpu_alloc_weights(load->host, bytes, error);
  if (load->host && !c->packed) return ACCEL_PLUGIN_E_HOST_MEMORY;
  const cpu_block block = {
      .memory = (char *)c->packed,
      .units = 1,
      .panels = (int64_t)(bytes / PIECE),
      .panel_bytes = PIECE,
      .tail_bytes = bytes % PIECE,
      .pack = pack_weights,
      .of = c,
      .weight = (uint32_t)c->w,
      .identity = cpu_is_coded(format) ? cpu_block_identity(facts, sizeof facts, format) : 0};
  return cpu_blocks_add(blocks, &block) ? ACCEL_PLUGIN_OK : kit_no_memory(error, sizeof block);
}

static bool same_packing(const cpu_conv *a, const cpu_conv *b) {
  return a->w == b->w && a->layout == b->layout && a->groups == b->groups && a->block == b->block &&
         a->pixel == b->pixel && a->word_bytes == b->word_bytes;
}

/* Weights that may be rounded to pairs of bf16: int8 that no codes are multiplied with (groups, few
 * channels) has lost as many bits before. */
static bool fits_pairs(const accel_plugin_format *format) {
  return format->store == ACCEL_PLUGIN_BF16 || format->store == ACCEL_PLUGIN_I8;
}

/* Of images only: sequences are long in one direction, and so are their kernels. */
static bool runs_implicit(const accel_plugin_node *n, const accel_plugin_weight *w,
                          const cpu_kernels *kernels) {
  kit_plane p;
  if (!cpu_conv_implicit_of(kernels) || over_rows(n) || w->rank != 4) return false;
  for (uint32_t i = 0; i < 2; i++) {
    p.kernel[i] = w->dim[2 + i];
    p.stride[i] = kit_listed(n, ACCEL_PLUGIN_ATTR_STRIDE, i, 1);
    p.dilation[i] = kit_listed(n, ACCEL_PLUGIN_ATTR_DILATION, i, 1);
  }
  return cpu_implicit_fits(&p, w->dim[1]);
}

/* Few rows leave most of a tile register empty, which columns laid out for them would not be worth. */
static bool takes_pairs(const cpu_conv *c, const accel_plugin_format *format,
                        const cpu_kernels *kernels, bool implicit) {
  return fits_pairs(format) && kernels->conv_pairs &&
         (!kernels->tile_registers || c->rows >= CPU_PAIRS_ROWS / 2 ||
          (implicit && c->groups == 1));
}

/* What a described node keeps of its weight in `format`: layout and size. */
static void choose_layout(const accel_plugin_program *p, const accel_plugin_node *n,
                          const cpu_kernels *kernels, const accel_plugin_format *format,
                          cpu_conv *c) {
  const accel_plugin_weight *w = &p->weight[c->w];
  const int64_t window = cpu_conv_window(n, w->dim, w->rank);
  const bool tiles = kernels->tile_registers, implicit = runs_implicit(n, w, kernels),
             pairs = takes_pairs(c, format, kernels, implicit);
  c->block = block_of(n, w, c->k);
  c->unit = 1;
  if (runs_in_int8(n, c, format, kernels)) {
    c->layout = CPU_CONV_I8;
    if (tiles)
      take_steps(n, w, c); /* else short rows are copied together */
    else
      take_parts(n, w, c);
  } else if (window && !(pairs && tiles)) {
    c->layout = CPU_CONV_WINOGRAD;
    c->n = window;
    c->k = w->dim[1];
  }
  c->pairs = pairs && (c->layout == CPU_CONV_TILES || c->layout == CPU_CONV_WINOGRAD);
  if (c->pairs && tiles) {
    c->unit = CPU_PAIRS_UNIT;
    if (implicit) c->layout = CPU_CONV_IMPLICIT;
  }
  if (c->pairs && window) c->n = 2; /* transforms to 4x4 would enlarge what is rounded */
  cut_tiles(c, kernels);
  if (c->layout == CPU_CONV_I8 && as_words(n, w, c, kernels))
    c->word_bytes =
        (uint64_t)cpu_winograd_i16_panel(w->dim[1], kernels->linear[CPU_LAYOUT_I8].cols);
}

/* What node `index` keeps of `weight`; false when it is no convolution over it. */
static bool layout_of_node(const accel_plugin_program *p, uint32_t index, uint32_t weight,
                           const cpu_kernels *kernels, const accel_plugin_format *format,
                           cpu_conv *out) {
  if (!describe_conv(p, &p->node[index], out) || out->w != (int32_t)weight) return false;
  choose_layout(p, &p->node[index], kernels, format, out);
  return true;
}

uint64_t cpu_conv_bytes(const accel_plugin_program *p, uint32_t weight,
                        const accel_plugin_format *format, const cpu_kernels *kernels) {
  uint64_t bytes = 0;
  cpu_conv c, earlier;
  for (uint32_t i = 0; i < p->n_node; i++) {
    if (!layout_of_node(p, i, weight, kernels, format, &c)) continue;
    bool again = false; /* nodes of one packing share it */
    for (uint32_t j = 0; j < i && !again; j++)
      again = layout_of_node(p, j, weight, kernels, format, &earlier) && same_packing(&earlier, &c);
    if (!again) bytes += kit_alloc_pages_size((uint64_t)floats_of(&c) * sizeof(float));
  }
  return bytes;
}

/* ---- codes between convolutions ---- */

static const cpu_conv *coded_at(const accel_plugin_program *p, const cpu_convs *c, uint32_t node) {
  const cpu_conv *w = c->of[node] >= 0 ? &c->at[c->of[node]] : NULL;
  return w && w->layout == CPU_CONV_I8 && p->node[node].out[0] >= 0 ? w : NULL;
}

/* A pool that can take codes and give codes: the largest of small windows. */
static bool is_pool_of_codes(const accel_plugin_program *p, uint32_t node) {
  const accel_plugin_node *n = &p->node[node];
  const int64_t *list;
  if (n->op != ACCEL_PLUGIN_OP_POOL || n->out[0] < 0 || kit_operand(n, 0) < 0) return false;
  if (kit_attr_i(n, ACCEL_PLUGIN_ATTR_KIND, ACCEL_PLUGIN_POOL_MAX) != ACCEL_PLUGIN_POOL_MAX)
    return false;
  if (kit_attr_iv(n, ACCEL_PLUGIN_ATTR_ADAPTIVE, &list) > 0) return false;
  int64_t taps = 1;
  const int64_t dims = kit_attr_iv(n, ACCEL_PLUGIN_ATTR_KERNEL, &list);
  for (int64_t i = 0; i < dims; i++)
    taps = list[i] <= CPU_POOL_TAPS ? taps * list[i] : CPU_POOL_TAPS + 1;
  return dims > 0 && taps <= CPU_POOL_TAPS;
}

static bool same_shape(const accel_plugin_program *p, int32_t a, int32_t b) {
  const accel_plugin_tensor *x = &p->tensor[a], *y = &p->tensor[b];
  return x->rank == y->rank && !memcmp(x->dim, y->dim, x->rank * sizeof *x->dim);
}

/* The operands of a concatenation of channels, if few; else 0. */
static uint32_t images_joined(const accel_plugin_program *p, const accel_plugin_node *n) {
  const accel_plugin_tensor *y = n->out[0] >= 0 ? &p->tensor[n->out[0]] : NULL;
  if (!y || y->rank != 4 || n->n_in > CPU_CODES_IMAGES ||
      kit_attr_i(n, ACCEL_PLUGIN_ATTR_AXIS, 0) != 1)
    return 0;
  for (uint32_t k = 0; k < n->n_in; k++) {
    if (n->in[k] < 0) return 0;
    const accel_plugin_tensor *x = &p->tensor[n->in[k]];
    if (x->rank != 4 || x->dim[0] != y->dim[0] || x->dim[2] != y->dim[2] || x->dim[3] != y->dim[3])
      return 0;
  }
  return n->n_in;
}

/* What can take images as codes and give codes: a pool, a resize whose outputs depend on two inputs
 * along each side at most, a sum of two, ReLU and a concatenation of channels; answers how many
 * images it takes, 0 for other nodes. */
static uint32_t images_recoded(const accel_plugin_program *p, uint32_t node) {
  const accel_plugin_node *n = &p->node[node];
  const int32_t x = kit_operand(n, 0), y = n->out[0], other = kit_operand(n, 1);
  const int64_t kind = kit_attr_i(n, ACCEL_PLUGIN_ATTR_KIND, -1);
  if (n->op == ACCEL_PLUGIN_OP_POOL) return is_pool_of_codes(p, node);
  if (x < 0 || y < 0 || p->tensor[x].rank != 4) return 0;
  if (n->op == ACCEL_PLUGIN_OP_CONCAT) return images_joined(p, n);
  if (n->op == ACCEL_PLUGIN_OP_RESIZE)
    return p->tensor[y].rank == 4 && kind != ACCEL_PLUGIN_RESIZE_CUBIC &&
           !kit_attr_i(n, ACCEL_PLUGIN_ATTR_ANTIALIAS, 0);
  if (!same_shape(p, x, y)) return 0;
  if (n->op == ACCEL_PLUGIN_OP_UNARY) return kind == ACCEL_PLUGIN_ACT_RELU;
  if (n->op == ACCEL_PLUGIN_OP_BINARY && kind == ACCEL_PLUGIN_BINARY_ADD && other >= 0)
    return same_shape(p, other, y) ? 2 : 0;
  return 0;
}

static bool gives_codes(const accel_plugin_program *p, const cpu_convs *c, uint32_t node) {
  return coded_at(p, c, node) || images_recoded(p, node);
}

/* How the node at `node` reads its operand `k`, if not as codes: NONE. */
static cpu_codes codes_read_by(const accel_plugin_program *p, const cpu_kernels *kernels,
                               const cpu_convs *c, uint32_t node, uint32_t k) {
  if (k < images_recoded(p, node))
    return p->node[node].op == ACCEL_PLUGIN_OP_RESIZE && cpu_resize_codes_of(kernels)
               ? CPU_CODES_LINE
               : CPU_CODES_PIXEL;
  const cpu_conv *w = coded_at(p, c, node);
  const int64_t channels = w ? p->weight[w->w].dim[1] : 0;
  if (!w || (k != 0 && k != 3)) return CPU_CODES_NONE;
  if (k == 3 || (w->block == channels && !w->pixel)) return CPU_CODES_PIXEL;
  return w->block < w->k || w->pixel ? CPU_CODES_LINE : CPU_CODES_NONE;
}

/* One of a node's result and an image it takes beside it is codes, the other is not, and must be:
 * both become fp32.  Answers whether that is so. */
static bool settle_codes(cpu_convs *c, int32_t y, int32_t beside, bool both) {
  const bool left = c->codes[y] && !c->codes[beside],
             right = both && !c->codes[y] && c->codes[beside];
  if (left) c->codes[y] = CPU_CODES_NONE;
  if (right) c->codes[beside] = CPU_CODES_NONE;
  return left || right;
}

/* Results of coded convolutions that only such ones read are codes, also with what images_recoded
 * knows between.  A residual must be codes where the result is; of the others all are codes, or
 * none. */
static void lay_codes(const accel_plugin_program *p, const cpu_kernels *kernels, cpu_convs *c) {
  for (uint32_t i = 0; i < p->n_node; i++)
    if (gives_codes(p, c, i)) c->codes[p->node[i].out[0]] = CPU_CODES_PIXEL;
  for (uint32_t i = 0; i < p->n_node; i++)
    for (uint32_t k = 0; k < p->node[i].n_in; k++) {
      const int32_t t = kit_operand(&p->node[i], k);
      if (t < 0 || !c->codes[t]) continue;
      const cpu_codes how = codes_read_by(p, kernels, c, i, k);
      if (how != CPU_CODES_PIXEL) c->codes[t] = (uint8_t)how;
    }
  for (uint32_t e = 0; e < p->n_entry; e++)
    for (uint32_t i = 0; i < p->entry[e].n_out; i++) c->codes[p->entry[e].out[i]] = CPU_CODES_NONE;
  for (bool changed = true; changed;) { /* each round takes one away, at least */
    changed = false;
    for (uint32_t i = 0; i < p->n_node; i++) {
      if (!gives_codes(p, c, i)) continue;
      const uint32_t images = images_recoded(p, i);
      const int32_t y = p->node[i].out[0], residual = kit_operand(&p->node[i], 3);
      for (uint32_t k = 0; k < images; k++)
        changed |= settle_codes(c, y, kit_operand(&p->node[i], k), true);
      if (!images && residual >= 0) changed |= settle_codes(c, y, residual, false);
    }
  }
}

/* Whether the result has no element below 0, as those before it have been found. */
static bool is_positive(const accel_plugin_program *p, const cpu_convs *c, uint32_t node) {
  const accel_plugin_node *n = &p->node[node];
  const uint32_t images = images_recoded(p, node);
  if (!images || n->op == ACCEL_PLUGIN_OP_UNARY)
    return images || kit_attr_i(n, ACCEL_PLUGIN_ATTR_ACT, -1) == ACCEL_PLUGIN_ACT_RELU;
  bool positive = true;
  for (uint32_t k = 0; k < images; k++) positive &= cpu_codes_positive(c, kit_operand(n, k));
  return positive;
}

/* Results of a ReLU, and what is made of such. */
static void mark_positive(const accel_plugin_program *p, const cpu_kernels *kernels, cpu_convs *c) {
  if (cpu_codes_flip(kernels->linear[CPU_LAYOUT_I8].x)) return;
  for (uint32_t i = 0; i < p->n_node; i++) {
    const accel_plugin_node *n = &p->node[i];
    if (!gives_codes(p, c, i) || !c->codes[n->out[0]]) continue;
    if (is_positive(p, c, i)) c->codes[n->out[0]] |= CPU_CODES_POSITIVE;
  }
}

int32_t cpu_convs_open(const cpu_load *load, cpu_blocks *blocks, cpu_convs *out,
                       accel_plugin_error *error) {
  const accel_plugin_program *program = load->program;
  out->at = calloc(program->n_node + 1, sizeof *out->at);
  out->of = malloc((program->n_node + 1) * sizeof *out->of);
  out->codes = calloc(program->n_tensor + 1, 1);
  if (!out->at || !out->of || !out->codes)
    return kit_no_memory(error, program->n_node * sizeof *out->at);
  for (uint32_t i = 0; i < program->n_node; i++) {
    cpu_conv c;
    uint32_t at = 0;
    out->of[i] = -1;
    if (!describe_conv(program, &program->node[i], &c)) continue;
    choose_layout(program, &program->node[i], load->kernels, &load->format[c.w], &c);
    while (at < out->n && !same_packing(&out->at[at], &c)) at++;
    out->of[i] = (int32_t)at;
    if (at < out->n) continue;
    out->at[out->n++] = c;
    int32_t rc = add_block(load, &out->at[at], blocks, error);
    if (rc) return rc;
  }
  lay_codes(program, load->kernels, out);
  mark_positive(program, load->kernels, out);
  return ACCEL_PLUGIN_OK;
}

void cpu_convs_free(cpu_convs *c) {
  for (uint32_t i = 0; i < c->n; i++) free(c->at[i].packed);
  free(c->at);
  free(c->of);
  free(c->codes);
  memset(c, 0, sizeof *c);
}
