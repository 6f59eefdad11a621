/* cpu_conv.c - conv and conv_transpose: images by implicit GEMM or channel by channel, rows of
 * sequences likewise after a transpose, or tap by tap when every channel has a kernel of its
 * own. */
#include "cpu_conv.h"

#include <string.h>

#include "cpu_conv_i8.h"
#include "kit/kit_scalar.h"

/* ---- images ---- */

typedef struct images {
  cpu_conv_call c;  /* channels: of a group */
  float *workspace; /* [workers][scratch_floats] */
  int64_t scratch_floats;
  uint32_t pixel_parts, tile_parts;
} images;

/* Columns of the product: pixels, or windows or blocks of them. */
static int64_t columns_of(const images *j) {
  if (j->c.w->layout == CPU_CONV_IMPLICIT)
    return cpu_implicit_plan_of(&j->c.plane, j->c.channels).blocks;
  return j->c.w->layout == CPU_CONV_WINOGRAD ? cpu_winograd_tiles(&j->c.plane, j->c.w->n)
                                             : cpu_area(j->c.plane.out);
}

/* Columns that are worked on together. */
static int64_t panel_of(const images *j) {
  return j->c.w->layout == CPU_CONV_IMPLICIT ? 1 : j->c.kernels->panel_cols;
}

static void gemm_task(void *arg, uint32_t index, uint32_t worker) {
  const images *j = arg;
  const cpu_conv *w = j->c.w;
  const uint32_t part = index % j->tile_parts, pixels_part = index / j->tile_parts % j->pixel_parts;
  const int64_t unit = index / j->tile_parts / j->pixel_parts, group = unit % w->groups,
                image = unit / w->groups, size_in = cpu_area(j->c.plane.in),
                size_out = cpu_area(j->c.plane.out), columns = columns_of(j);
  const int64_t cols = panel_of(j), panels = (columns + cols - 1) / cols;
  int64_t stop = cpu_share(panels, pixels_part + 1, j->pixel_parts) * cols;
  cpu_conv_gemm g = {.plane = j->c.plane,
                     .rows = w->rows,
                     .height = w->height,
                     .k = w->k,
                     .tiles = w->tiles,
                     .n = w->n,
                     .x = j->c.x + (image * w->groups + group) * j->c.channels * size_in,
                     .w = w->packed + group * w->tiles * w->height * cpu_conv_depth(w),
                     .y = j->c.y + (image * j->c.outputs + group * j->c.w->rows) * size_out,
                     .ldy = size_out,
                     .bias = j->c.bias ? j->c.bias + group * j->c.w->rows : NULL,
                     .act = j->c.act,
                     .alpha = j->c.alpha};
  if (j->c.residual)
    g.residual = j->c.residual + (image * j->c.outputs + group * j->c.w->rows) * size_out;
  const cpu_kernels *k = j->c.kernels;
  cpu_conv_fn *run = w->layout == CPU_CONV_IMPLICIT   ? cpu_conv_implicit_of(k)
                     : w->layout == CPU_CONV_WINOGRAD ? w->pairs ? k->winograd_pairs : k->winograd
                     : w->pairs                       ? k->conv_pairs
                                                      : k->conv;
  run(&g, cpu_share(panels, pixels_part, j->pixel_parts) * cols, stop < columns ? stop : columns,
      cpu_share(w->tiles, part, j->tile_parts), cpu_share(w->tiles, part + 1, j->tile_parts),
      j->workspace + worker * j->scratch_floats);
}

static int64_t common_divisor(int64_t a, int64_t b) { return b ? common_divisor(b, a % b) : a; }

/* Tasks: all workers get the same number, at least `wanted` in all where there are so many columns.
 * Columns are cut first, but not below a few panels; w only where they do not suffice, for its
 * every part lays them out anew. */
static void split_gemm(images *j, int64_t units, int64_t workers, int64_t panels, int64_t wanted) {
  const int64_t least = j->c.w->layout == CPU_CONV_IMPLICIT ? 1 : 4;
  /* parts of a unit: so many, or a multiple */
  const int64_t even = workers / common_divisor(units, workers),
                most = panels > least ? panels / least : 1;
  int64_t parts = most, of_w = 1;
  if (wanted < 2) {
    parts = 1;
  } else if (most >= even) {
    const int64_t enough = ((wanted + units - 1) / units + even - 1) / even;
    parts = (enough < most / even ? enough : most / even) * even;
  } else {
    while (even % parts) parts--;
    of_w = even / parts < j->c.w->tiles ? even / parts : j->c.w->tiles;
  }
  j->pixel_parts = (uint32_t)parts;
  j->tile_parts = (uint32_t)of_w;
}

static void run_gemm(images *j, const kit_launch *l) {
  const int64_t units = j->c.count * j->c.w->groups, columns = columns_of(j),
                panels = (columns + panel_of(j) - 1) / panel_of(j);
  double products =
      (double)(j->c.w->layout == CPU_CONV_WINOGRAD ? columns * cpu_winograd_points(j->c.w->n)
                                                   : cpu_area(j->c.plane.out));
  /* ns, at 50 GFLOP/s */
  double cost = 2.0 / 50 * (double)j->c.w->rows * (double)j->c.w->k * products;
  split_gemm(j, units, cpu_workers(l), panels,
             cpu_tasks(l, units * panels * j->c.w->tiles, cost / (double)(panels * j->c.w->tiles)));
  cpu_parallel(l, (uint32_t)units * j->pixel_parts * j->tile_parts, gemm_task, j);
}

static void depthwise_task(void *arg, uint32_t index, uint32_t worker) {
  const images *j = arg;
  const int64_t all = j->c.count * j->c.outputs, size_in = cpu_area(j->c.plane.in),
                size_out = cpu_area(j->c.plane.out);
  const int64_t first = cpu_share(all, index, j->pixel_parts);
  for (int64_t i = first; i < cpu_share(all, index + 1, j->pixel_parts); i++) {
    const int64_t o = i % j->c.outputs;
    cpu_depthwise g = {
        .plane = j->c.plane,
        .x = j->c.x + (i / j->c.outputs * j->c.w->groups + o / j->c.w->rows) * size_in,
        .w = j->c.w->packed + o * j->c.w->k,
        .residual = j->c.residual ? j->c.residual + i * size_out : NULL,
        .y = j->c.y + i * size_out,
        .bias = j->c.bias ? j->c.bias[o] : 0.0f,
        .act = j->c.act,
        .alpha = j->c.alpha,
        .again = i > first};
    j->c.kernels->depthwise(&g, j->workspace + worker * j->scratch_floats);
  }
}

static void run_images(images *j, const kit_launch *l) {
  if (!j->c.count || !j->c.outputs || !cpu_area(j->c.plane.out)) return;
  if (j->c.w->layout != CPU_CONV_PLANES) {
    run_gemm(j, l);
    return;
  }
  double cost = 0.04 * (double)(j->c.w->k + 8) * (double)cpu_area(j->c.plane.out);
  j->pixel_parts = cpu_tasks(l, j->c.count * j->c.outputs, cost);
  cpu_parallel(l, j->pixel_parts, depthwise_task, j);
}

/* A 1x1 kernel sees an image as one long row. */
static void flatten_pointwise(kit_plane *p) {
  bool plain =
      cpu_area(p->kernel) == 1 && cpu_area(p->stride) == 1 && !memcmp(p->in, p->out, sizeof p->in);
  if (!plain || p->begin[0] || p->begin[1]) return;
  p->in[1] = p->out[1] = cpu_area(p->in);
  p->in[0] = p->out[0] = 1;
}

static int64_t scratch_floats_of(const kit_plane *p, bool depthwise) {
  return cpu_aligned_floats(depthwise ? cpu_depthwise_layout(p).all : CPU_CONV_WORKSPACE);
}

/* ---- rows of sequences, a kernel for each channel ---- */

typedef struct taps_job {
  const cpu_kernels *kernels;
  cpu_tap g;
  const kit_rows *rows;
  const float *x, *const *carried; /* [items]: rows [before][cols] ahead of the item, or NULL */
  const float *zeros;              /* a row */
  int64_t ldx, before;
  uint32_t tasks;
} taps_job;

enum { TAP_ROWS = 64, TAP_POINTERS = CPU_CONV_SPAN + TAP_ROWS };

static const float *sequence_row(const taps_job *j, int32_t item, int64_t t) {
  int64_t n = j->rows->start[item + 1] - j->rows->start[item];
  if (t >= n || t < -j->before) return j->zeros;
  if (t >= 0) return j->x + (j->rows->start[item] + t) * j->ldx;
  return j->carried && j->carried[item] ? j->carried[item] + (t + j->before) * j->g.cols : j->zeros;
}

static void taps_task(void *arg, uint32_t index, uint32_t worker) {
  const taps_job *j = arg;
  const float *row[TAP_POINTERS];
  const int64_t span = (j->g.taps - 1) * j->g.dilation;
  int64_t at = cpu_share(j->rows->rows, index, j->tasks),
          stop = cpu_share(j->rows->rows, index + 1, j->tasks);
  int32_t item = 0;
  (void)worker;
  while (at < stop) {
    while (j->rows->start[item + 1] <= at) item++;
    int64_t n = j->rows->start[item + 1] < stop ? j->rows->start[item + 1] - at : stop - at;
    if (n > TAP_ROWS) n = TAP_ROWS;
    for (int64_t i = 0; i < n + span; i++)
      row[i] = sequence_row(j, item, at - j->rows->start[item] - j->before + i);
    cpu_tap g = j->g;
    g.x = row;
    g.y += at * g.cols;
    if (g.residual) g.residual += at * g.cols;
    j->kernels->taps(&g, n);
    at += n;
  }
}

/* The last `before` rows of what was carried and the item's own. */
static void carry_rows(const taps_job *j, int32_t item, float *next) {
  int64_t n = j->rows->start[item + 1] - j->rows->start[item];
  for (int64_t i = 0; i < j->before; i++)
    memcpy(next + i * j->g.cols, sequence_row(j, item, n - j->before + i),
           (size_t)j->g.cols * sizeof *next);
}

static int64_t before_of(const kit_launch *l) {
  int64_t dilation = kit_listed(l->node, ACCEL_PLUGIN_ATTR_DILATION, 0, 1);
  return kit_listed(l->node, ACCEL_PLUGIN_ATTR_PADS, 0,
                    l->node->state >= 0 ? (l->in[1].dim[2] - 1) * dilation : 0);
}

/* Asks for the state of every item; j->carried is set, and what comes next is written. */
static int32_t step_states(const kit_launch *l, taps_job *j, const float **carried,
                           accel_plugin_error *error) {
  for (int32_t item = 0; item < j->rows->items; item++) {
    kit_state_view state = {0};
    int32_t rc = kit_state_step(l, (uint32_t)item, j->rows->start[item + 1] - j->rows->start[item],
                                (uint64_t)(j->before * j->g.cols), &state, error);
    if (rc) return rc;
    carried[item] = state.current;
    j->carried = carried;
    if (state.next) carry_rows(j, item, state.next);
  }
  return ACCEL_PLUGIN_OK;
}

static int64_t items_of(const kit_launch *l) {
  int64_t space = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_SPACE, -1);
  return space >= 0 ? l->dim[l->program->space[space].items] : 1;
}

/* ---- rows of sequences, any kernel: transposed, they are an image of height 1 ---- */

static void finish_rows(const kit_launch *l, images *j, int64_t rows, int64_t first) {
  const kit_tensor *residual = &l->in[3];
  const int64_t n = rows * j->c.outputs;
  float *y = kit_f32(&l->out[0]) + first * j->c.outputs;
  j->c.kernels->transpose(j->c.y, rows, y, j->c.outputs, rows, j->c.outputs);
  int32_t act = (int32_t)kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_ACT, ACCEL_PLUGIN_ACT_NONE);
  if (!kit_has(residual)) return;
  j->c.kernels->binary(ACCEL_PLUGIN_BINARY_ADD, y, 1, kit_f32(residual) + first * j->c.outputs, 1,
                       y, n);
  if (act != ACCEL_PLUGIN_ACT_NONE) j->c.kernels->activate(act, j->c.alpha, y, y, n);
}

static void any_rows(const kit_launch *l, const taps_job *t, images *j, float *workspace) {
  const int64_t span = (l->in[1].dim[2] - 1) * t->g.dilation;
  float *x = workspace,
        *y = workspace + cpu_aligned_floats((t->rows->longest + t->before) * t->g.cols);
  if (kit_has(&l->in[3])) j->c.act = ACCEL_PLUGIN_ACT_NONE; /* it follows the residual */
  for (int32_t item = 0; item < t->rows->items; item++) {
    const int64_t first = t->rows->start[item], n = t->rows->start[item + 1] - first;
    const float *carried = t->carried ? t->carried[item] : NULL;
    const int64_t ahead = carried ? t->before : 0, all = n + ahead;
    if (!n) continue;
    if (ahead) t->kernels->transpose(carried, t->g.cols, x, all, t->g.cols, ahead);
    t->kernels->transpose(t->x + first * t->ldx, t->ldx, x + ahead, all, t->g.cols, n);
    j->c.plane = (kit_plane){.in = {1, all},
                             .out = {1, n},
                             .kernel = {1, l->in[1].dim[2]},
                             .stride = {1, 1},
                             .begin = {0, carried ? 0 : t->before},
                             .end = {0, span},
                             .dilation = {1, t->g.dilation}};
    j->c.x = x;
    j->c.y = y;
    run_images(j, l);
    finish_rows(l, j, n, first);
  }
}

/* In floats: pointers of the items, a row of zeros; then per worker or for the transposes. */
static int64_t rows_head(const kit_launch *l) {
  return cpu_aligned_floats(items_of(l) * 2) + cpu_aligned_floats(kit_cols(&l->in[0]));
}

static uint64_t rows_workspace(const kit_launch *l, uint32_t workers) {
  const int64_t rows = l->in[0].dim[0], groups = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_GROUPS, 1);
  int64_t all = rows_head(l) + 16;
  kit_plane p = {
      .in = {1, rows}, .out = {1, rows}, .kernel = {1, l->in[1].dim[2]}, .stride = {1, 1}};
  p.dilation[0] = 1;
  p.dilation[1] = kit_listed(l->node, ACCEL_PLUGIN_ATTR_DILATION, 0, 1);
  if (l->in[1].dim[1] != 1 || groups != l->in[1].dim[0] || groups == 1 ||
      (p.kernel[1] - 1) * p.dilation[1] > CPU_CONV_SPAN)
    all += cpu_aligned_floats((rows + before_of(l)) * kit_cols(&l->in[0])) +
           cpu_aligned_floats(rows * l->in[1].dim[0]) +
           scratch_floats_of(&p, l->in[1].dim[1] == 1 && groups > 1) * workers;
  return (uint64_t)all * sizeof(float);
}

static int32_t conv_rows(const cpu_self *s, const kit_launch *l, const cpu_conv *w,
                         accel_plugin_error *error) {
  const kit_tensor *x = &l->in[0], *out = &l->out[0];
  int32_t whole[2];
  kit_rows rows = kit_rows_of(l, ACCEL_PLUGIN_ATTR_SPACE, x->dim[0], whole);
  float *workspace = l->workspace, *zeros = workspace + cpu_aligned_floats(items_of(l) * 2);
  images j = {.c = {.kernels = &s->kernels, .w = w, .count = 1, .bias = kit_f32(&l->in[2])}};
  j.c.channels = l->in[1].dim[1];
  j.c.outputs = w->groups * w->rows;
  j.c.act = (int32_t)kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_ACT, ACCEL_PLUGIN_ACT_NONE);
  j.c.alpha = kit_act_alpha(l->node, j.c.act);
  taps_job t = {
      .kernels = &s->kernels, .rows = &rows, .x = kit_f32(x), .zeros = zeros, .ldx = x->row_stride};
  t.before = before_of(l);
  t.g = (cpu_tap){.w = w->packed,
                  .bias = j.c.bias,
                  .residual = kit_f32(&l->in[3]),
                  .y = kit_f32(out),
                  .cols = kit_cols(x),
                  .taps = l->in[1].dim[2],
                  .dilation = kit_listed(l->node, ACCEL_PLUGIN_ATTR_DILATION, 0, 1),
                  .act = j.c.act,
                  .alpha = j.c.alpha};
  memset(zeros, 0, (size_t)t.g.cols * sizeof *zeros);
  if (l->node->state >= 0) {
    int32_t rc = step_states(l, &t, l->workspace, error);
    if (rc) return rc;
  }
  if (!out->elements) return ACCEL_PLUGIN_OK;
  if (w->layout == CPU_CONV_TAPS) {
    t.tasks = cpu_tasks(l, rows.rows, 0.1 * (double)(t.g.taps + 2) * (double)t.g.cols);
    cpu_parallel(l, t.tasks, taps_task, &t);
    return ACCEL_PLUGIN_OK;
  }
  kit_plane p = {.out = {1, x->dim[0]},
                 .kernel = {1, t.g.taps},
                 .stride = {1, 1},
                 .dilation = {1, t.g.dilation}};
  j.scratch_floats = scratch_floats_of(&p, w->layout == CPU_CONV_PLANES);
  j.workspace = zeros + cpu_aligned_floats(t.g.cols);
  any_rows(l, &t, &j, j.workspace + (int64_t)cpu_workers(l) * j.scratch_floats);
  return ACCEL_PLUGIN_OK;
}

/* ---- launches ---- */

bool cpu_conv_over_rows(const accel_plugin_node *node) {
  return node->op == ACCEL_PLUGIN_OP_CONV &&
         (node->state >= 0 || kit_attr_i(node, ACCEL_PLUGIN_ATTR_SPACE, -1) >= 0);
}

bool cpu_conv_fuse_chain(const cpu_self *s, const accel_plugin_program *p,
                         const accel_plugin_node *first, const accel_plugin_node *next) {
  (void)p;
  return first->op == ACCEL_PLUGIN_OP_CONV && next->op == ACCEL_PLUGIN_OP_POOL &&
         cpu_codes_of(&s->convs, first->out[0]) && cpu_codes_of(&s->convs, next->out[0]) &&
         kit_operand(first, 3) < 0;
}

/* The node as a convolution of images; operands are codes where `s` has settled it, none
 * without. */
static cpu_conv_call call_of(const cpu_self *s, const cpu_kernels *kernels, const kit_launch *l,
                             kit_plane *pool) {
  cpu_conv_call c = {.kernels = kernels,
                     .w = s ? &s->convs.at[s->convs.of[l->index]] : NULL,
                     .plane = kit_plane_of(l, &l->in[1]),
                     .count = l->in[0].dim[0],
                     .channels = l->in[1].dim[1],
                     .outputs = l->out[0].dim[1],
                     .x = kit_f32(&l->in[0]),
                     .bias = kit_f32(&l->in[2]),
                     .residual = kit_f32(&l->in[3]),
                     .y = kit_f32(&l->out[0])};
  c.act = (int32_t)kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_ACT, ACCEL_PLUGIN_ACT_NONE);
  c.alpha = kit_act_alpha(l->node, c.act);
  c.x_codes = s ? cpu_codes_of(&s->convs, kit_operand(l->node, 0)) : CPU_CODES_NONE;
  c.residual_codes = s ? cpu_codes_of(&s->convs, kit_operand(l->node, 3)) : CPU_CODES_NONE;
  c.y_codes = s ? cpu_codes_of(&s->convs, l->node->out[0]) : CPU_CODES_NONE;
  c.x_positive = s && cpu_codes_positive(&s->convs, kit_operand(l->node, 0));
  c.residual_positive = s && cpu_codes_positive(&s->convs, kit_operand(l->node, 3));
  c.line = c.plane.out[1];
  if (l->n_fused) { /* the pool's lines are what matters then */
    *pool = kit_plane_of(l->joined, NULL);
    c.pool = pool;
    c.y = kit_f32(&l->joined->out[0]);
    c.y_codes = cpu_codes_of(&s->convs, l->joined->node->out[0]);
    return c;
  }
  flatten_pointwise(&c.plane);
  return c;
}

int32_t cpu_launch_conv(const cpu_self *s, const kit_launch *l, accel_plugin_error *error) {
  if (s->convs.of[l->index] < 0) return kit_scalar(ACCEL_PLUGIN_OP_CONV)(l, error);
  const cpu_conv *w = &s->convs.at[s->convs.of[l->index]];
  if (cpu_conv_over_rows(l->node)) return conv_rows(s, l, w, error);
  kit_plane pool;
  images j = {.c = call_of(s, &s->kernels, l, &pool), .workspace = l->workspace};
  if (w->layout == CPU_CONV_I8) {
    cpu_conv_i8(&j.c, l);
    return ACCEL_PLUGIN_OK;
  }
  j.scratch_floats =
      w->layout == CPU_CONV_WINOGRAD
          ? cpu_aligned_floats(cpu_winograd_layout(&j.c.plane, w->n, w->rows, w->k).all)
          : scratch_floats_of(&j.c.plane, w->layout == CPU_CONV_PLANES);
  run_images(&j, l);
  return ACCEL_PLUGIN_OK;
}

typedef struct spread_job {
  const cpu_kernels *kernels;
  kit_plane plane;
  const float *columns, *bias; /* columns[image][outputs][taps][in] */
  float *y;
  int64_t planes, outputs;
  int32_t act;
  float alpha;
  uint32_t tasks;
} spread_job;

/* Adds a tap's plane where it falls: out = in * stride - begin + tap * dilation. */
static void spread_tap(const spread_job *j, const float *from, int64_t ky, int64_t kx, float *y) {
  const kit_plane *p = &j->plane;
  const int64_t at = kx * p->dilation[1] - p->begin[1], step = p->stride[1];
  int64_t first = at < 0 ? (-at + step - 1) / step : 0,
          end = p->out[1] > at ? (p->out[1] - at + step - 1) / step : 0;
  if (end > p->in[1]) end = p->in[1];
  for (int64_t i = 0; i < p->in[0] && first < end; i++) {
    const int64_t o = i * p->stride[0] - p->begin[0] + ky * p->dilation[0];
    if (o < 0 || o >= p->out[0]) continue;
    const float *x = from + i * p->in[1];
    float *to = y + o * p->out[1] + at;
    if (step == 1)
      j->kernels->accumulate(1.0f, x + first, to + first, end - first);
    else
      for (int64_t k = first; k < end; k++) to[k * step] += x[k];
  }
}

static void spread_task(void *arg, uint32_t index, uint32_t worker) {
  const spread_job *j = arg;
  const int64_t size = cpu_area(j->plane.out), taps = cpu_area(j->plane.kernel),
                in = cpu_area(j->plane.in);
  (void)worker;
  for (int64_t i = cpu_share(j->planes, index, j->tasks);
       i < cpu_share(j->planes, index + 1, j->tasks); i++) {
    float *y = j->y + i * size, b = j->bias ? j->bias[i % j->outputs] : 0.0f;
    for (int64_t k = 0; k < size; k++) y[k] = b;
    for (int64_t t = 0; t < taps; t++)
      spread_tap(j, j->columns + (i * taps + t) * in, t / j->plane.kernel[1],
                 t % j->plane.kernel[1], y);
    if (j->act != ACCEL_PLUGIN_ACT_NONE) j->kernels->activate(j->act, j->alpha, y, y, size);
  }
}

/* y = every tap's product of w and x, spread over the output. */
int32_t cpu_launch_conv_transpose(const cpu_self *s, const kit_launch *l,
                                  accel_plugin_error *error) {
  const kit_tensor *x = &l->in[0], *out = &l->out[0];
  if (s->convs.of[l->index] < 0) return kit_scalar(ACCEL_PLUGIN_OP_CONV_TRANSPOSE)(l, error);
  const cpu_conv *w = &s->convs.at[s->convs.of[l->index]];
  if (!out->elements) return ACCEL_PLUGIN_OK;
  spread_job spread = {
      .kernels = &s->kernels, .plane = kit_plane_of(l, &l->in[1]), .bias = kit_f32(&l->in[2])};
  const int64_t pixels = cpu_area(spread.plane.in);
  images j = {.c = {.kernels = &s->kernels,
                    .w = w,
                    .plane = {.in = {1, pixels},
                              .out = {1, pixels},
                              .kernel = {1, 1},
                              .stride = {1, 1},
                              .dilation = {1, 1}},
                    .count = x->dim[0],
                    .channels = w->k,
                    .outputs = w->groups * w->rows,
                    .x = kit_f32(x)},
              .scratch_floats = CPU_CONV_WORKSPACE,
              .workspace = l->workspace};
  j.c.y = j.workspace + (int64_t)cpu_workers(l) * j.scratch_floats;
  run_images(&j, l);
  spread.columns = j.c.y;
  spread.y = kit_f32(out);
  spread.outputs = out->dim[1];
  spread.planes = x->dim[0] * out->dim[1];
  spread.act = (int32_t)kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_ACT, ACCEL_PLUGIN_ACT_NONE);
  spread.alpha = kit_act_alpha(l->node, spread.act);
  spread.tasks =
      cpu_tasks(l, spread.planes, 0.5 * (double)(cpu_area(spread.plane.kernel) * pixels));
  cpu_parallel(l, spread.tasks, spread_task, &spread);
  return ACCEL_PLUGIN_OK;
}

static uint64_t coded_workspace(const cpu_self *self, const cpu_kernels *kernels,
                                const kit_launch *l, uint32_t workers) {
  kit_plane pool;
  const cpu_conv_call c = call_of(self, kernels, l, &pool);
  return cpu_conv_i8_workspace(&c, workers);
}

uint64_t cpu_conv_workspace(const cpu_self *self, const cpu_kernels *kernels, const kit_launch *l,
                            uint32_t workers) {
  if (!workers) workers = 1;
  if (cpu_conv_over_rows(l->node)) return rows_workspace(l, workers);
  if (self && self->convs.of[l->index] >= 0 &&
      self->convs.at[self->convs.of[l->index]].layout == CPU_CONV_I8)
    return coded_workspace(self, kernels, l, workers);
  kit_plane p = kit_plane_of(l, &l->in[1]);
  if (l->node->op == ACCEL_PLUGIN_OP_CONV_TRANSPOSE) {
    int64_t columns = l->in[0].dim[0] * l->out[0].dim[1] * cpu_area(p.kernel) * cpu_area(p.in);
    return (uint64_t)(CPU_CONV_WORKSPACE * (int64_t)workers + columns) * sizeof(float);
  }
  const int64_t *w = l->in[1].dim, groups = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_GROUPS, 1),
                n = cpu_conv_window(l->node, w, l->in[1].rank);
  int64_t scratch = n ? cpu_aligned_floats(cpu_winograd_layout(&p, n, w[0], w[1]).all)
                      : scratch_floats_of(&p, w[1] == 1 && groups > 1);
  int64_t pairs = 0; /* where w may be pairs: by Winograd's other transform, or as products */
  if (n && kernels->tile_registers)
    pairs = scratch_floats_of(&p, false);
  else if (n && kernels->winograd_pairs)
    pairs = cpu_aligned_floats(cpu_winograd_layout(&p, 2, w[0], w[1]).all);
  if (scratch < pairs) scratch = pairs;
  const uint64_t bytes = (uint64_t)(scratch * workers) * sizeof(float),
                 coded = self || groups > 1 ? 0 : coded_workspace(self, kernels, l, workers);
  return bytes > coded ? bytes : coded;
}
