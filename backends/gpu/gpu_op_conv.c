/* gpu_op_conv.c - conv over planes and over the rows of sequences, conv_transpose. */
#include "gpu/gpu_layer.h"
#include "kit/kit_scalar.h"

enum { TILE = 64, FEW = 8 }; /* groups of fewer outputs than FEW would leave tiles empty */
enum { BIAS = 1, RESIDUAL = 2 };

/* The weight as a matrix [first dim, all others], which must fit one binding. */
static int32_t bind_weight(gpu_run *run, const kit_launch *l, gpu_matrix *m, gpu_binding *part,
                           accel_plugin_error *error) {
  const kit_tensor *w = &l->in[1];
  *m = gpu_matrix_of(run, w);
  if (m->plain.bytes) {
    m->w.n = m->w.group_n = w->dim[0];
    m->w.k = m->w.group_k = m->w.row_words = w->dim[0] ? w->elements / w->dim[0] : 0;
  }
  if (m->w.store > GPU_STORE_I8)
    return kit_launch_fail(l, error, ACCEL_PLUGIN_E_UNSUPPORTED,
                           "there is no kernel for its weight's format");
  if (gpu_matrix_rows(run, m, 0, part) < m->w.n)
    return kit_launch_fail(
        l, error, ACCEL_PLUGIN_E_LIMIT, "a weight of %lld x %lld passes one binding of %llu bytes",
        (long long)m->w.n, (long long)m->w.k, (unsigned long long)run->self->limits.binding);
  return ACCEL_PLUGIN_OK;
}

static int64_t flags_of(const kit_launch *l) {
  return (kit_has(&l->in[2]) ? BIAS : 0) | (kit_has(&l->in[3]) ? RESIDUAL : 0);
}

static int32_t act_of(const kit_launch *l) {
  return (int32_t)kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_ACT, ACCEL_PLUGIN_ACT_NONE);
}

/* What convolutions of planes and their transposes have alike: results to compute, all outputs, the
 * channels of a group. */
static gpu_params_conv_tile plane_params(const kit_launch *l, const kit_plane *p,
                                         const gpu_matrix *m, int64_t points, int64_t outputs,
                                         int64_t channels) {
  const int32_t act = act_of(l);
  return (gpu_params_conv_tile){
      .points = points,
      .outputs = outputs,
      .cg = channels,
      .og = outputs / kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_GROUPS, 1),
      .flags = flags_of(l),
      .act = act,
      .alpha = (double)kit_act_alpha(l->node, act),
      .h = p->in[0],
      .w_in = p->in[1],
      .oh = p->out[0],
      .ow = p->out[1],
      .kh = p->kernel[0],
      .kw = p->kernel[1],
      .sy = p->stride[0],
      .sx = p->stride[1],
      .by = p->begin[0],
      .bx = p->begin[1],
      .dy = p->dilation[0],
      .dx = p->dilation[1],
      GPU_WEIGHT_PARAMS(m, 0),
  };
}

/* Dispatches either tiles of points x outputs for each group, or an invocation for each result. */
static int32_t start(gpu_call *c, bool tiles, int64_t points, int64_t outputs, int64_t groups,
                     accel_plugin_error *error) {
  if (!tiles) return gpu_dispatch_items(c, points * outputs, error);
  const uint32_t *most = c->run->self->limits.groups;
  return gpu_dispatch_grid(c, gpu_least(gpu_ceil_div(points, TILE), most[0]),
                           gpu_ceil_div(outputs / groups, TILE), groups, error);
}

/* ---- planes ---- */

static int32_t conv_planes(gpu_run *run, const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *w = &l->in[1], *out = &l->out[0];
  const kit_plane p = kit_plane_of(l, w);
  const int64_t groups = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_GROUPS, 1), outputs = w->dim[0],
                points = out->dim[0] * p.out[0] * p.out[1];
  const bool tiles = outputs / groups >= FEW;
  gpu_matrix m;
  gpu_binding part;
  const int32_t rc = bind_weight(run, l, &m, &part, error);
  if (rc) return rc;
  gpu_call c = gpu_call_new(
      run, l, gpu_kernel_of_store(tiles ? GPU_K_conv_tile_f32 : GPU_K_conv_direct_f32, m.w.store));
  gpu_tensor(&c, &l->in[0]);
  gpu_matrix_bind(&c, &m, part);
  gpu_tensor(&c, &l->in[2]);
  gpu_tensor(&c, &l->in[3]);
  gpu_tensor(&c, out);
  const gpu_params_conv_tile params = plane_params(l, &p, &m, points, outputs, w->dim[1]);
  gpu_set_conv_tile(&c, &params);
  return start(&c, tiles, points, outputs, groups, error);
}

/* ---- rows of sequences ---- */

typedef struct rows_conv {
  gpu_matrix m;
  gpu_binding part, starts, carried; /* carried: bytes 0 where there is none */
  int64_t groups, outputs, width, taps, dilation, before, channels;
  bool tiles;
} rows_conv;

/* Items first .. first+items-1, which have `rows` rows. */
static int32_t conv_items(gpu_run *run, const kit_launch *l, const rows_conv *r, int64_t first,
                          int64_t items, int64_t rows, accel_plugin_error *error) {
  if (!rows) return ACCEL_PLUGIN_OK;
  gpu_call c = gpu_call_new(
      run, l,
      gpu_kernel_of_store(r->tiles ? GPU_K_conv_rows_tile_f32 : GPU_K_conv_rows_direct_f32,
                          r->m.w.store));
  gpu_tensor(&c, &l->in[0]);
  gpu_matrix_bind(&c, &r->m, r->part);
  gpu_tensor(&c, &l->in[2]);
  gpu_tensor(&c, &l->in[3]);
  gpu_bind(&c, gpu_part(r->starts, (uint64_t)first * 4, (uint64_t)(items + 1) * 4));
  gpu_bind(&c, r->carried.bytes ? r->carried : gpu_none(run));
  gpu_tensor(&c, &l->out[0]);
  const int32_t act = act_of(l);
  const gpu_params_conv_rows_tile params = {
      .points = rows,
      .outputs = r->outputs,
      .cg = r->width,
      .og = r->outputs / r->groups,
      .flags = flags_of(l),
      .act = act,
      .alpha = (double)kit_act_alpha(l->node, act),
      .items = items,
      .channels = r->channels,
      .taps = r->taps,
      .dilation = r->dilation,
      .before = r->before,
      .x_stride = l->in[0].row_stride,
      .has_carried = r->carried.bytes != 0,
      GPU_WEIGHT_PARAMS(&r->m, 0),
  };
  gpu_set_conv_rows_tile(&c, &params);
  return start(&c, r->tiles, rows, r->outputs, r->groups, error);
}

static gpu_binding state_at(const void *buffer, uint64_t elements) {
  const gpu_memory *m = buffer;
  return m ? (gpu_binding){.buffer = m->buffer, .offset = m->offset, .bytes = elements * 4}
           : (gpu_binding){0};
}

/* Each item has state memory of its own, so it has a dispatch of its own, and another that
 * copies its last rows into the state for the next run. */
static int32_t conv_item(gpu_run *run, const kit_launch *l, rows_conv *r, const kit_rows *rows,
                         int32_t item, accel_plugin_error *error) {
  const kit_tensor *x = &l->in[0];
  const int32_t first = rows->start[item], n = rows->start[item + 1] - first;
  const uint64_t elements = (uint64_t)(r->before * r->channels);
  kit_state_view state = {0};
  int32_t rc = kit_state_step(l, (uint32_t)item, n, elements, &state, error);
  if (rc) return rc;
  r->carried = elements ? state_at(state.current, elements) : (gpu_binding){0};
  rc = conv_items(run, l, r, item, 1, n, error);
  if (rc || !state.next || !elements) return rc;
  const gpu_binding all = gpu_at(run, x);
  const uint64_t from = (uint64_t)first * (uint64_t)x->row_stride * 4;
  gpu_call c = gpu_call_new(run, l, GPU_K_conv_carry);
  gpu_bind(&c, n ? gpu_part(all, from, all.bytes - from) : gpu_none(run));
  gpu_bind(&c, r->carried.bytes ? r->carried : gpu_none(run));
  gpu_bind(&c, state_at(state.next, elements));
  const gpu_params_conv_carry params = {.n = n,
                                        .before = r->before,
                                        .channels = r->channels,
                                        .x_stride = x->row_stride,
                                        .has_carried = r->carried.bytes != 0};
  gpu_set_conv_carry(&c, &params);
  return gpu_dispatch_items(&c, (int64_t)elements, error);
}

static int32_t conv_rows(gpu_run *run, const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *x = &l->in[0], *w = &l->in[1];
  rows_conv r = {.groups = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_GROUPS, 1),
                 .outputs = w->dim[0],
                 .width = w->dim[1],
                 .taps = w->dim[2],
                 .dilation = kit_listed(l->node, ACCEL_PLUGIN_ATTR_DILATION, 0, 1),
                 .channels = kit_cols(x)};
  const bool carries = l->node->state >= 0;
  int32_t whole[2];
  kit_rows rows;
  r.before =
      kit_listed(l->node, ACCEL_PLUGIN_ATTR_PADS, 0, carries ? (r.taps - 1) * r.dilation : 0);
  r.tiles = r.outputs / r.groups >= FEW;
  int32_t rc = bind_weight(run, l, &r.m, &r.part, error);
  if (!rc)
    rc = gpu_starts(run, l, ACCEL_PLUGIN_ATTR_SPACE, x->dim[0], whole, &rows, &r.starts, error);
  if (!rc && !carries) return conv_items(run, l, &r, 0, rows.items, rows.rows, error);
  for (int32_t item = 0; !rc && item < rows.items; item++)
    rc = conv_item(run, l, &r, &rows, item, error);
  return rc;
}

GPU_OP(conv) {
  const bool rows = l->node->state >= 0 || kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_SPACE, -1) >= 0;
  return rows ? conv_rows(run, l, error) : conv_planes(run, l, error);
}

/* ---- conv_transpose ---- */

GPU_OP(conv_transpose) {
  const kit_tensor *x = &l->in[0], *w = &l->in[1], *out = &l->out[0]; /* w[C,O/g,kh,kw] */
  const kit_plane p = kit_plane_of(l, w);
  const int64_t groups = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_GROUPS, 1);
  gpu_matrix m;
  gpu_binding part;
  const int32_t rc = bind_weight(run, l, &m, &part, error);
  if (rc) return rc;
  gpu_call c = gpu_call_new(run, l, gpu_kernel_of_store(GPU_K_conv_transpose_f32, m.w.store));
  gpu_tensor(&c, x);
  gpu_matrix_bind(&c, &m, part);
  gpu_tensor(&c, &l->in[2]);
  gpu_tensor(&c, out);
  const gpu_params_conv_transpose params =
      plane_params(l, &p, &m, out->elements, w->dim[1] * groups, x->dim[1] / groups);
  gpu_set_conv_transpose(&c, &params);
  return gpu_dispatch_items(&c, out->elements, error);
}
