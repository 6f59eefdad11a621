/* cpu_image.c - pool, resize, group_norm: channels of images are independent, one task takes some
 * of them. */
#include "cpu_image.h"

#include <stdlib.h>
#include <string.h>

#include "cpu_codes.h"
#include "kit/kit_scalar.h"

static const double NS_TAP = 0.15, NS_NORM = 1.5;

/* ---- pool ---- */

typedef struct pool_job {
  const cpu_kernels *kernels;
  cpu_pool g;
  const float *x;
  float *y, *workspace;
  int64_t planes, room;
  bool adaptive, whole; /* whole: one window over all of it */
  uint32_t tasks;
} pool_job;

/* Windows of torch's adaptive pooling: floor(o n / out) .. ceil((o + 1) n / out). */
static void pool_adaptive(const kit_plane *p, const float *x, bool max, float *y) {
  for (int64_t o = 0; o < cpu_area(p->out); o++) {
    const int64_t oy = o / p->out[1], ox = o % p->out[1];
    const int64_t y0 = oy * p->in[0] / p->out[0],
                  y1 = ((oy + 1) * p->in[0] + p->out[0] - 1) / p->out[0];
    const int64_t x0 = ox * p->in[1] / p->out[1],
                  x1 = ((ox + 1) * p->in[1] + p->out[1] - 1) / p->out[1];
    double sum = 0;
    float most = -INFINITY;
    for (int64_t r = y0; r < y1; r++)
      for (int64_t c = x0; c < x1; c++) {
        float v = x[r * p->in[1] + c];
        sum += v;
        if (v > most || v != v) most = v;
      }
    y[o] = max ? most : y1 > y0 && x1 > x0 ? (float)(sum / (double)((y1 - y0) * (x1 - x0))) : 0.0f;
  }
}

static void pool_task(void *arg, uint32_t task, uint32_t worker) {
  const pool_job *j = arg;
  const int64_t in = cpu_area(j->g.plane.in), out = cpu_area(j->g.plane.out);
  const int64_t first = cpu_share(j->planes, task, j->tasks);
  for (int64_t i = first; i < cpu_share(j->planes, task + 1, j->tasks); i++) {
    cpu_pool g = j->g;
    g.again = i > first;
    g.x = j->x + i * in;
    g.y = j->y + i * out;
    if (j->whole)
      j->kernels->fold_row(g.max ? ACCEL_PLUGIN_REDUCE_MAX : ACCEL_PLUGIN_REDUCE_MEAN, g.x, in,
                           NULL, g.y);
    else if (j->adaptive)
      pool_adaptive(&g.plane, g.x, g.max, g.y);
    else
      j->kernels->pool(&g, j->workspace + worker * j->room);
  }
}

/* How many elements a window has along a dim; 1 where it has none, whose sum is 0. */
static void count(const kit_plane *p, int axis, bool pads, float *to) {
  for (int64_t o = 0; o < p->out[axis]; o++) {
    int64_t from = o * p->stride[axis] - p->begin[axis], end = from + p->kernel[axis];
    int64_t last = p->in[axis] + (pads ? p->end[axis] : 0);
    if (end > last) end = last;
    if (!pads && from < 0) from = 0;
    to[o] = end > from ? (float)(end - from) : 1.0f;
  }
}

static bool is_adaptive(const kit_launch *l) {
  const int64_t *sizes;
  return kit_attr_iv(l->node, ACCEL_PLUGIN_ATTR_ADAPTIVE, &sizes) > 0;
}

/* Counts of rows and columns, then a plane for each worker. */
uint64_t cpu_pool_workspace(const cpu_self *self, const cpu_kernels *kernels, const kit_launch *l,
                            uint32_t workers) {
  kit_plane p = kit_plane_of(l, NULL);
  if (is_adaptive(l) || !l->out[0].elements) return 0;
  const uint64_t planes = (uint64_t)(cpu_aligned_floats(p.out[0]) + cpu_aligned_floats(p.out[1]) +
                                     (workers ? workers : 1) *
                                         cpu_aligned_floats(cpu_depthwise_layout(&p).all)) *
                          sizeof(float),
                 coded = cpu_codes_workspace(self, kernels, l, workers);
  return planes > coded ? planes : coded;
}

int32_t cpu_launch_pool(const cpu_self *s, const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *x = &l->in[0], *out = &l->out[0];
  pool_job j = {
      .kernels = &s->kernels, .x = kit_f32(x), .y = kit_f32(out), .adaptive = is_adaptive(l)};
  kit_plane *p = &j.g.plane;
  *p = kit_plane_of(l, NULL);
  if (!out->elements) return ACCEL_PLUGIN_OK;
  if (!x->elements) return kit_scalar(ACCEL_PLUGIN_OP_POOL)(l, error);
  if (cpu_codes_of(&s->convs, l->node->out[0])) {
    cpu_launch_pool_codes(s, l);
    return ACCEL_PLUGIN_OK;
  }
  j.g.max =
      kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_KIND, ACCEL_PLUGIN_POOL_MAX) == ACCEL_PLUGIN_POOL_MAX;
  j.planes = x->dim[0] * x->dim[1];
  bool covers = !p->begin[0] && !p->begin[1] && !p->end[0] && !p->end[1] &&
                !memcmp(p->kernel, p->in, sizeof p->in);
  j.whole = cpu_area(p->out) == 1 && (j.adaptive || covers);
  if (!j.adaptive) {
    bool pads = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_COUNT_INCLUDE_PAD, 0) != 0;
    float *rows = l->workspace, *cols = rows + cpu_aligned_floats(p->out[0]);
    count(p, 0, pads, rows);
    count(p, 1, pads, cols);
    j.g.row_count = rows;
    j.g.col_count = cols;
    j.workspace = cols + cpu_aligned_floats(p->out[1]);
    j.room = cpu_aligned_floats(cpu_depthwise_layout(p).all);
  }
  double cost = NS_TAP * (double)(j.whole || j.adaptive
                                      ? cpu_area(p->in)
                                      : cpu_area(p->in) + cpu_area(p->out) * cpu_area(p->kernel));
  j.tasks = cpu_tasks(l, j.planes, cost + 10);
  cpu_parallel(l, j.tasks, pool_task, &j);
  return ACCEL_PLUGIN_OK;
}

/* ---- resize ---- */

typedef struct resize_job {
  const cpu_kernels *kernels;
  cpu_resize g;
  const float *x;
  float *y, *workspace;
  int64_t planes, room;
  uint32_t tasks;
} resize_job;

static void resize_task(void *arg, uint32_t task, uint32_t worker) {
  const resize_job *j = arg;
  for (int64_t i = cpu_share(j->planes, task, j->tasks);
       i < cpu_share(j->planes, task + 1, j->tasks); i++) {
    cpu_resize g = j->g;
    g.x = j->x + i * cpu_area(g.in);
    g.y = j->y + i * cpu_area(g.out);
    j->kernels->resize(&g, j->workspace + worker * j->room);
  }
}

static void sizes(const kit_launch *l, int64_t in[2], int64_t out[2]) {
  bool two = l->in[0].rank == 4;
  in[0] = two ? l->in[0].dim[2] : 1;
  out[0] = two ? l->out[0].dim[2] : 1;
  in[1] = kit_cols(&l->in[0]);
  out[1] = kit_cols(&l->out[0]);
}

uint64_t cpu_resize_workspace(const cpu_self *self, const cpu_kernels *kernels, const kit_launch *l,
                              uint32_t workers) {
  int64_t in[2], out[2];
  sizes(l, in, out);
  const uint64_t planes = (uint64_t)((workers ? workers : 1) *
                                     cpu_aligned_floats(cpu_resize_floats(in, out))) *
                          sizeof(float),
                 coded = cpu_codes_workspace(self, kernels, l, workers);
  return planes > coded ? planes : coded;
}

int32_t cpu_taps_new(const kit_launch *l, const int64_t out[2], cpu_taps *to,
                     accel_plugin_error *error) {
  kit_taps taps[2];
  int32_t rc = kit_taps_new(l, taps, error);
  for (int i = 0; !rc && i < 2; i++) {
    const int64_t n = out[i] * taps[i].width;
    to->width[i] = taps[i].width;
    to->index[i] = malloc((size_t)n * sizeof *to->index[i]);
    to->weight[i] = malloc((size_t)n * sizeof *to->weight[i]);
    if (!to->index[i] || !to->weight[i]) rc = kit_no_memory(error, (uint64_t)n * 8);
    for (int64_t k = 0; !rc && k < n; k++) {
      to->index[i][k] = (int32_t)taps[i].index[k];
      to->weight[i][k] = (float)taps[i].weight[k];
    }
  }
  kit_taps_free(taps);
  return rc;
}

void cpu_taps_free(cpu_taps *taps) {
  for (int i = 0; i < 2; i++) {
    free(taps->index[i]);
    free(taps->weight[i]);
  }
}

int32_t cpu_launch_resize(const cpu_self *s, const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *x = &l->in[0], *out = &l->out[0];
  cpu_taps taps = {.width = {0}};
  if (!out->elements || !x->elements) return kit_scalar(ACCEL_PLUGIN_OP_RESIZE)(l, error);
  resize_job j = {
      .kernels = &s->kernels, .x = kit_f32(x), .y = kit_f32(out), .workspace = l->workspace};
  sizes(l, j.g.in, j.g.out);
  const int32_t rc = cpu_taps_new(l, j.g.out, &taps, error);
  if (!rc && cpu_codes_of(&s->convs, l->node->out[0])) {
    cpu_launch_resize_codes(s, l, &taps);
  } else if (!rc) {
    for (int i = 0; i < 2; i++) {
      j.g.width[i] = taps.width[i];
      j.g.index[i] = taps.index[i];
      j.g.weight[i] = taps.weight[i];
    }
    j.planes = x->dim[0] * x->dim[1];
    j.room = cpu_aligned_floats(cpu_resize_floats(j.g.in, j.g.out));
    j.tasks =
        cpu_tasks(l, j.planes,
                  NS_TAP * (double)((cpu_area(j.g.out) + j.room) * (j.g.width[0] + j.g.width[1])));
    cpu_parallel(l, j.tasks, resize_task, &j);
  }
  cpu_taps_free(&taps);
  return rc;
}

/* ---- group_norm ---- */

typedef struct group_job {
  const cpu_kernels *kernels;
  cpu_group g;
  int64_t all, groups; /* of all images, of one */
  uint32_t tasks;
} group_job;

static void group_task(void *arg, uint32_t task, uint32_t worker) {
  const group_job *j = arg;
  const int64_t size = j->g.channels * j->g.inner;
  (void)worker;
  for (int64_t i = cpu_share(j->all, task, j->tasks); i < cpu_share(j->all, task + 1, j->tasks);
       i++) {
    cpu_group g = j->g;
    g.x += i * size;
    g.y += i * size;
    if (g.gamma) g.gamma += i % j->groups * g.channels;
    if (g.beta) g.beta += i % j->groups * g.channels;
    j->kernels->group_norm(&g);
  }
}

int32_t cpu_launch_group_norm(const cpu_self *s, const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *x = &l->in[0];
  const accel_plugin_node *n = l->node;
  group_job j = {.kernels = &s->kernels, .groups = kit_attr_i(n, ACCEL_PLUGIN_ATTR_GROUPS, 1)};
  (void)error;
  if (!x->elements) return ACCEL_PLUGIN_OK;
  j.all = x->dim[0] * j.groups;
  j.g = (cpu_group){.x = kit_f32(x),
                    .gamma = kit_f32(&l->in[1]),
                    .beta = kit_f32(&l->in[2]),
                    .y = kit_f32(&l->out[0]),
                    .channels = x->dim[1] / j.groups,
                    .inner = kit_split(x, 1).inner,
                    .eps = (float)kit_attr_f(n, ACCEL_PLUGIN_ATTR_EPS, 1e-5),
                    .act = (int32_t)kit_attr_i(n, ACCEL_PLUGIN_ATTR_ACT, ACCEL_PLUGIN_ACT_NONE)};
  j.g.alpha = kit_act_alpha(n, j.g.act);
  j.tasks = cpu_tasks(l, j.all, NS_NORM * (double)(j.g.channels * j.g.inner));
  cpu_parallel(l, j.tasks, group_task, &j);
  return ACCEL_PLUGIN_OK;
}
