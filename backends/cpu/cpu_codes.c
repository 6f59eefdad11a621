/* cpu_codes.c - what stands between convolutions over codes: pools, resizes, sums, ReLUs and
 * concatenations of channels, a line of pixels by all channels at a time, which is fp32 only until
 * it is coded again, or, where a kernel resizes codes, not at all. */
#include "cpu_codes.h"

#include <string.h>

#include "cpu_conv_i8.h"
#include "kernels/resize_codes.h"

static const double NS_PIXEL = 10, NS_CHANNEL = 0.5; /* of a line */
enum { MOST_TAPS = 2 };                              /* of a resize, along each side */

typedef struct codes_job {
  const cpu_kernels *kernels;
  kit_plane plane;      /* of a pool; in and out of all */
  const cpu_taps *taps; /* of a resize, else NULL */
  cpu_resize_codes_fn *resize;
  uint32_t images; /* operands */
  const void *x[CPU_CODES_IMAGES];
  int64_t x_channels[CPU_CODES_IMAGES];
  bool x_positive[CPU_CODES_IMAGES]; /* without zeros */
  void *y;
  bool whole_lines, positive; /* of y */
  uint32_t op;
  float *lines; /* [workers][room] */
  int64_t count, channels, room, line;
  uint32_t tasks;
} codes_job;

static uint8_t flip_of(const codes_job *j) {
  return cpu_codes_flip(j->kernels->linear[CPU_LAYOUT_I8].x);
}

/* Line `line` of operand k as numbers [wide][its channels]. */
static void take_line(const codes_job *j, int k, int64_t image, int64_t line, float *to) {
  const int64_t channels = j->x_channels[k];
  const cpu_image x = cpu_image_at(j->x[k], image, cpu_area(j->plane.in), channels);
  const int64_t wide = j->plane.in[1], at = line * wide;
  const kit_plane same = {
      .in = {1, wide}, .out = {1, wide}, .kernel = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}};
  j->kernels->pool_pixels(&(cpu_pool_pixels){.plane = same,
                                             .codes = x.codes + at * channels,
                                             .scale = x.scale + at,
                                             .zero = j->x_positive[k] ? NULL : x.zero + at,
                                             .channels = channels,
                                             .sign = flip_of(j) != 0,
                                             .y = to},
                          0, 1);
}

static void put_line(const codes_job *j, int64_t image, int64_t line, const float *from) {
  const cpu_image y = cpu_image_at(j->y, image, cpu_area(j->plane.out), j->channels);
  const int64_t wide = j->plane.out[1], at = line * wide;
  j->kernels->codes_pixels(
      &(cpu_pixels){.x = from,
                    .y = y.codes + at * j->channels,
                    .scale = y.scale + at,
                    .zero = y.zero + at,
                    .pixels = wide,
                    .channels = j->channels,
                    .each = j->whole_lines ? wide : 1,
                    .most = cpu_codes_most(j->kernels->linear[CPU_LAYOUT_I8].x),
                    .flip = flip_of(j),
                    .positive = j->positive});
}

/* ---- launches ---- */

static codes_job job_of(const cpu_self *s, const kit_launch *l) {
  const int32_t y = l->node->out[0];
  codes_job j = {.kernels = &s->kernels,
                 .y = l->out[0].data,
                 .whole_lines = cpu_codes_of(&s->convs, y) == CPU_CODES_LINE,
                 .positive = cpu_codes_positive(&s->convs, y),
                 .lines = l->workspace,
                 .count = l->in[0].dim[0],
                 .channels = l->out[0].dim[1],
                 .op = l->node->op};
  for (; j.images < l->node->n_in && j.images < CPU_CODES_IMAGES; j.images++) {
    const uint32_t k = j.images;
    j.x[k] = l->in[k].data;
    j.x_channels[k] = l->in[k].dim[1];
    j.x_positive[k] = cpu_codes_positive(&s->convs, kit_operand(l->node, k));
  }
  for (int i = 0; i < 2; i++) {
    j.plane.in[i] = l->in[0].rank == 4 ? l->in[0].dim[2 + i] : i ? l->in[0].dim[2] : 1;
    j.plane.out[i] = l->out[0].rank == 4 ? l->out[0].dim[2 + i] : i ? l->out[0].dim[2] : 1;
  }
  j.line = cpu_aligned_floats(j.plane.out[1] * j.channels);
  return j;
}

/* Floats of a task's lines: what is coded next; a second operand; of a resize, lines of x, one as
 * it is and those that are resized along their pixels. */
static int64_t room_of(const kit_launch *l) {
  const int64_t channels = l->out[0].dim[1],
                in = cpu_aligned_floats(kit_cols(&l->in[0]) * channels),
                out = cpu_aligned_floats(kit_cols(&l->out[0]) * channels);
  if (l->node->op == ACCEL_PLUGIN_OP_RESIZE) return (1 + MOST_TAPS) * out + in;
  return (l->node->op == ACCEL_PLUGIN_OP_UNARY || l->node->op == ACCEL_PLUGIN_OP_POOL ? 1 : 2) *
         out;
}

uint64_t cpu_codes_workspace(const cpu_self *self, const cpu_kernels *kernels, const kit_launch *l,
                             uint32_t workers) {
  (void)kernels;
  const bool image = l->out[0].rank == 4 || l->node->op == ACCEL_PLUGIN_OP_POOL;
  if (!image || (self && !cpu_codes_of(&self->convs, l->node->out[0]))) return 0;
  return (uint64_t)(room_of(l) * (workers ? workers : 1)) * sizeof(float);
}

/* Lines of y, those of a task one after the other. */
static void run_lines(const kit_launch *l, codes_job *j, accel_plugin_task_fn task) {
  j->room = room_of(l);
  j->tasks = cpu_tasks(l, j->count * j->plane.out[0],
                       (NS_PIXEL + NS_CHANNEL * (double)j->channels) * (double)j->plane.out[1]);
  if (j->line) cpu_parallel(l, j->tasks, task, j);
}

/* ---- pool ---- */

static void pool_task(void *arg, uint32_t index, uint32_t worker) {
  const codes_job *j = arg;
  const int64_t lines = j->plane.out[0], all = j->count * lines;
  float *room = j->lines + worker * j->room;
  for (int64_t i = cpu_share(all, index, j->tasks); i < cpu_share(all, index + 1, j->tasks); i++) {
    const cpu_image x = cpu_image_at(j->x[0], i / lines, cpu_area(j->plane.in), j->channels);
    j->kernels->pool_pixels(&(cpu_pool_pixels){.plane = j->plane,
                                               .codes = x.codes,
                                               .scale = x.scale,
                                               .zero = j->x_positive[0] ? NULL : x.zero,
                                               .channels = j->channels,
                                               .sign = flip_of(j) != 0,
                                               .y = room},
                            i % lines, i % lines + 1);
    put_line(j, i / lines, i % lines, room);
  }
}

void cpu_launch_pool_codes(const cpu_self *s, const kit_launch *l) {
  codes_job j = job_of(s, l);
  j.plane = kit_plane_of(l, NULL);
  run_lines(l, &j, pool_task);
}

/* ---- resize ---- */

/* y[cols] = sum of weight[i] * x[i * step + c] over i < width; a NaN that counts for nothing does
 * count, as among planes. */
static void add_up(const codes_job *j, const float *x, int64_t step, const float *weight,
                   int64_t width, float *y, int64_t cols) {
  j->kernels->fold(ACCEL_PLUGIN_REDUCE_SUM, x, width, step, weight, y, cols);
}

/* A line of y whose lines of x have a scale each: with one that reaches as far as theirs, which is
 * known before anything is computed. */
static void resize_line(const codes_job *j, int64_t image, int64_t line, int16_t *room) {
  const int64_t channels = j->channels, in = j->plane.in[1], out = j->plane.out[1],
                width = j->taps->width[0];
  const cpu_image x = cpu_image_at(j->x[0], image, cpu_area(j->plane.in), channels),
                  y = cpu_image_at(j->y, image, cpu_area(j->plane.out), channels);
  const int32_t *at = j->taps->index[0] + line * width;
  const float *weight = j->taps->weight[0] + line * width;
  const bool two = width > 1 && at[1] != at[0] && weight[1] > 0;
  float scale, zero;
  cpu_image_join(x, in, cpu_codes_most(j->kernels->linear[CPU_LAYOUT_I8].x), at[0], at[two] + 1,
                 &scale, &zero);
  cpu_resize_codes g = {.to = zero,
                        .in = in,
                        .out = out,
                        .channels = channels,
                        .width = j->taps->width[1],
                        .index = j->taps->index[1],
                        .weight = j->taps->weight[1],
                        .line = room,
                        .y = y.codes + line * out * channels};
  for (int i = 0; i <= two && scale == scale; i++) {
    g.x[i] = x.codes + at[i] * in * channels;
    g.factor[i] = (two ? weight[i] : 1) * (x.scale[at[i] * in] / scale);
    g.from[i] = x.zero[at[i] * in];
  }
  if (scale == scale)
    j->resize(&g);
  else
    memset(g.y, 0, (size_t)(out * channels));
  for (int64_t p = line * out; p < (line + 1) * out; p++) y.scale[p] = scale, y.zero[p] = zero;
}

static void resize_codes_task(void *arg, uint32_t index, uint32_t worker) {
  const codes_job *j = arg;
  const int64_t lines = j->plane.out[0], all = j->count * lines;
  int16_t *room = (int16_t *)(void *)(j->lines + worker * j->room);
  for (int64_t i = cpu_share(all, index, j->tasks); i < cpu_share(all, index + 1, j->tasks); i++)
    resize_line(j, i / lines, i % lines, room);
}

/* Lines of x that a task has resized along their pixels. */
typedef struct resized_lines {
  int64_t image, line[MOST_TAPS]; /* -1: none */
  float *at[MOST_TAPS], *x;       /* x: a line as it is */
} resized_lines;

/* Where line `line` of x is, or is put: in place of one that is not `other`. */
static const float *resized_line(const codes_job *j, resized_lines *r, int64_t line,
                                 int64_t other) {
  const int64_t width = j->taps->width[1], channels = j->channels;
  for (int i = 0; i < MOST_TAPS; i++)
    if (r->line[i] == line) return r->at[i];
  const int to = r->line[0] == other;
  take_line(j, 0, r->image, line, r->x);
  for (int64_t p = 0; p < j->plane.out[1]; p++) {
    const int32_t *at = j->taps->index[1] + p * width;
    add_up(j, r->x + at[0] * channels, (at[width - 1] - at[0]) * channels,
           j->taps->weight[1] + p * width, width, r->at[to] + p * channels, channels);
  }
  r->line[to] = line;
  return r->at[to];
}

static void resize_task(void *arg, uint32_t index, uint32_t worker) {
  const codes_job *j = arg;
  const int64_t lines = j->plane.out[0], all = j->count * lines, width = j->taps->width[0];
  float *room = j->lines + worker * j->room;
  resized_lines r = {.image = -1, .x = room + (1 + MOST_TAPS) * j->line};
  for (int i = 0; i < MOST_TAPS; i++) r.at[i] = room + (1 + i) * j->line;
  for (int64_t i = cpu_share(all, index, j->tasks); i < cpu_share(all, index + 1, j->tasks); i++) {
    const int32_t *at = j->taps->index[0] + i % lines * width;
    if (r.image != i / lines)
      for (int k = 0; k < MOST_TAPS; k++) r.line[k] = -1;
    r.image = i / lines;
    const float *first = resized_line(j, &r, at[0], at[width - 1]),
                *last = resized_line(j, &r, at[width - 1], at[0]);
    add_up(j, first, last - first, j->taps->weight[0] + i % lines * width, width, room,
           j->plane.out[1] * j->channels);
    put_line(j, i / lines, i % lines, room);
  }
}

void cpu_launch_resize_codes(const cpu_self *s, const kit_launch *l, const cpu_taps *taps) {
  codes_job j = job_of(s, l);
  const bool lines = cpu_codes_of(&s->convs, kit_operand(l->node, 0)) == CPU_CODES_LINE;
  j.taps = taps;
  j.resize = cpu_resize_codes_of(&s->kernels);
  run_lines(l, &j, lines && j.resize ? resize_codes_task : resize_task);
}

/* ---- sums, ReLUs and concatenations ---- */

/* The channels of all operands side by side; part: a line of one of them. */
static void join_line(const codes_job *j, int64_t image, int64_t line, float *part, float *to) {
  const int64_t wide = j->plane.in[1];
  int64_t at = 0;
  for (uint32_t k = 0; k < j->images; at += j->x_channels[k++]) {
    const int64_t channels = j->x_channels[k];
    take_line(j, (int)k, image, line, part);
    for (int64_t p = 0; p < wide; p++)
      memcpy(to + p * j->channels + at, part + p * channels, (size_t)channels * sizeof *to);
  }
}

static void element_task(void *arg, uint32_t index, uint32_t worker) {
  const codes_job *j = arg;
  const int64_t lines = j->plane.out[0], all = j->count * lines, n = j->plane.out[1] * j->channels;
  float *room = j->lines + worker * j->room;
  for (int64_t i = cpu_share(all, index, j->tasks); i < cpu_share(all, index + 1, j->tasks); i++) {
    if (j->op == ACCEL_PLUGIN_OP_CONCAT)
      join_line(j, i / lines, i % lines, room + j->line, room);
    else
      take_line(j, 0, i / lines, i % lines, room);
    if (j->op == ACCEL_PLUGIN_OP_BINARY) {
      take_line(j, 1, i / lines, i % lines, room + j->line);
      j->kernels->binary(ACCEL_PLUGIN_BINARY_ADD, room, 1, room + j->line, 1, room, n);
    } else if (j->op == ACCEL_PLUGIN_OP_UNARY && !j->positive) { /* else coding does it */
      j->kernels->activate(ACCEL_PLUGIN_ACT_RELU, 0, room, room, n);
    }
    put_line(j, i / lines, i % lines, room);
  }
}

int32_t cpu_launch_codes(const cpu_self *s, const kit_launch *l) {
  codes_job j = job_of(s, l);
  run_lines(l, &j, element_task);
  return ACCEL_PLUGIN_OK;
}
