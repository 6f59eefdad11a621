/* gpu_op_select.c - rope, scatter_rows, topk, allreduce. */
#include <math.h>
#include <stdlib.h>

#include "gpu/gpu_layer.h"

/* ---- rope ---- */

enum { ROPE_FLOAT = 1, ROPE_SECTIONS = 2, ROPE_BY_ROW = 4 };

/* The rotation frequencies, computed in double and rounded to float as the reference plugin
 * does. */
static int32_t frequencies(gpu_run *run, const kit_launch *l, int64_t pairs, gpu_binding *out,
                           accel_plugin_error *error) {
  const double theta = kit_attr_f(l->node, ACCEL_PLUGIN_ATTR_THETA, 10000.0);
  float *f = malloc((size_t)pairs * sizeof *f + sizeof *f);
  if (!f) return kit_no_memory(error, (uint64_t)pairs * 4);
  for (int64_t i = 0; i < pairs; i++) f[i] = (float)pow(theta, -(double)i / (double)pairs);
  const int32_t rc = gpu_constant(run, f, (uint64_t)pairs * 4, out, error);
  free(f);
  return rc;
}

/* For each pair of columns the row of pos that its section reads (M-RoPE). */
static int32_t sections(gpu_run *run, const kit_launch *l, int64_t pairs, gpu_binding *out,
                        accel_plugin_error *error) {
  const int64_t *section;
  const uint32_t n = kit_attr_iv(l->node, ACCEL_PLUGIN_ATTR_SECTIONS, &section);
  int32_t *row_of = malloc((size_t)pairs * sizeof *row_of + sizeof *row_of);
  if (!row_of) return kit_no_memory(error, (uint64_t)pairs * 4);
  for (int64_t i = 0; i < pairs; i++) {
    int64_t row = 0, end = 0;
    while (row + 1 < (int64_t)n && i >= (end += section[row])) row++;
    row_of[i] = (int32_t)(row % l->in[1].dim[0]);
  }
  const int32_t rc = gpu_constant(run, row_of, (uint64_t)pairs * 4, out, error);
  free(row_of);
  return rc;
}

GPU_OP(rope) {
  const kit_tensor *x = &l->in[0], *pos = &l->in[1], *inv = &l->in[2];
  const int64_t cols = kit_cols(x), head = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_HEAD_DIM, cols),
                pairs = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_ROT_DIMS, head) / 2;
  const bool half = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_ROPE_STYLE, ACCEL_PLUGIN_ROPE_HALF) ==
                    ACCEL_PLUGIN_ROPE_HALF;
  gpu_binding frequency = gpu_at(run, inv), section = gpu_none(run);
  int32_t rc = ACCEL_PLUGIN_OK;
  if (head < 1 || cols % head || pairs * 2 > head)
    return kit_launch_fail(l, error, ACCEL_PLUGIN_E_ARGUMENT, "%lld columns are no heads of %lld",
                           (long long)cols, (long long)head);
  if (!kit_has(inv) && pairs) rc = frequencies(run, l, pairs, &frequency, error);
  if (!rc && pos->rank == 2 && pairs) rc = sections(run, l, pairs, &section, error);
  if (rc) return rc;
  gpu_call c = gpu_call_new(run, l, GPU_K_rope);
  gpu_tensor(&c, x);
  gpu_tensor(&c, pos);
  gpu_bind(&c, frequency);
  gpu_bind(&c, section);
  gpu_tensor(&c, &l->out[0]);
  const gpu_params_rope params = {
      .rows = kit_row_count(x),
      .heads = cols / head,
      .head = head,
      .pairs = pairs,
      .apart = half,
      .x_stride = x->row_stride,
      .pos_stride = kit_cols(pos),
      .f_stride = kit_has(inv) ? inv->row_stride : 0,
      .flags = (pos->dtype == ACCEL_PLUGIN_I32 ? 0 : ROPE_FLOAT) |
               (pos->rank == 2 ? ROPE_SECTIONS : 0) |
               (kit_has(inv) && inv->rank == 2 ? ROPE_BY_ROW : 0),
      .mscale = kit_attr_f(l->node, ACCEL_PLUGIN_ATTR_MSCALE, 1.0),
  };
  gpu_set_rope(&c, &params);
  return gpu_dispatch_items(&c, kit_row_count(x) * cols / head * (head - pairs), error);
}

/* ---- scatter_rows, allreduce ---- */

static bool same_place(gpu_binding a, gpu_binding b) {
  return a.buffer == b.buffer && a.offset == b.offset;
}

GPU_OP(scatter_rows) {
  enum { ADD = 1, INTEGER = 2 };
  const kit_tensor *dst = &l->in[0], *idx = &l->in[1], *src = &l->in[2], *out = &l->out[0];
  const int64_t cols = kit_cols(dst), rows = kit_row_count(dst);
  const bool add = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_SCATTER_MODE, 0) == 1;
  gpu_binding errors;
  int32_t word, rc = ACCEL_PLUGIN_OK;
  if (!same_place(gpu_at(run, dst), gpu_at(run, out)))
    rc = gpu_copy(run, gpu_at(run, out), gpu_at(run, dst), error);
  if (rc || !idx->elements) return rc;
  rc = gpu_check_indices(run, l, "row", idx, rows, &errors, &word, error);
  if (rc) return rc;
  gpu_call c = gpu_call_new(run, l, GPU_K_scatter_rows);
  gpu_tensor(&c, idx);
  gpu_tensor(&c, src);
  gpu_tensor(&c, out);
  gpu_bind(&c, errors);
  const gpu_params_scatter_rows params = {
      .rows = rows,
      .cols = cols,
      .count = idx->elements,
      .word = word,
      .flags = add ? ADD | (out->dtype == ACCEL_PLUGIN_I32 ? INTEGER : 0) : 0,
  };
  gpu_set_scatter_rows(&c, &params);
  return gpu_dispatch_items(&c, cols, error);
}

/* Between the devices of the ranks, where they have a way for it; E_UNSUPPORTED: they have none. */
static int32_t sum_on_devices(gpu_run *run, const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *x = &l->in[0], *out = &l->out[0];
  const gpu_binding from = gpu_at(run, x), to = gpu_at(run, out);
  int32_t rc = ACCEL_PLUGIN_OK;
  if (!gpu_plugin_api.allreduce || !l->host->allreduce_device) return ACCEL_PLUGIN_E_UNSUPPORTED;
  if (!same_place(from, to)) rc = gpu_copy(run, to, from, error);
  if (rc) return rc;
  rc = gpu_plugin_api.allreduce(run->stream, &to, (uint64_t)x->elements, l->host);
  return rc && rc != ACCEL_PLUGIN_E_UNSUPPORTED
             ? kit_launch_fail(l, error, rc, "allreduce on devices failed with code %d", rc)
             : rc;
}

/* The ranks' sum is the host's: there and back. */
static int32_t sum_on_host(gpu_run *run, const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *x = &l->in[0], *out = &l->out[0];
  const gpu_binding from = gpu_at(run, x), to = gpu_at(run, out);
  const size_t bytes = (size_t)x->elements * 4;
  float *data = malloc(bytes + 1);
  if (!data) return kit_no_memory(error, bytes);
  int32_t rc = gpu_wait_and_go_on(run, l->host, error);
  const gpu_binding read = gpu_part(from, 0, bytes), written = gpu_part(to, 0, bytes);
  if (!rc) rc = gpu_plugin_api.read(run->self->device, data, &read, error);
  if (!rc) {
    rc = l->host->allreduce(l->host->self, data, (size_t)x->elements, x->dtype);
    if (rc) kit_launch_fail(l, error, rc, "allreduce failed with code %d", rc);
  }
  if (!rc) rc = gpu_plugin_api.write(run->self->device, &written, data, error);
  free(data);
  return rc;
}

static int32_t sum_over_ranks(gpu_run *run, const kit_launch *l, accel_plugin_error *error) {
  if (run->self->offload)
    return kit_launch_fail(l, error, ACCEL_PLUGIN_E_UNSUPPORTED,
                           "ranks keep their weights in device memory: use more ranks");
  const int32_t rc = sum_on_devices(run, l, error);
  return rc == ACCEL_PLUGIN_E_UNSUPPORTED ? sum_on_host(run, l, error) : rc;
}

GPU_OP(allreduce) {
  const kit_tensor *x = &l->in[0], *out = &l->out[0];
  if (l->host && l->host->allreduce) return sum_over_ranks(run, l, error);
  if (same_place(gpu_at(run, x), gpu_at(run, out))) return ACCEL_PLUGIN_OK;
  return gpu_copy(run, gpu_at(run, out), gpu_at(run, x), error);
}

/* ---- topk ---- */

GPU_OP(topk) {
  enum { INTEGER = 1, VALUES = 2, INDICES = 4, UNSORTED = 8 };
  const kit_tensor *x = &l->in[0], *values = &l->out[0], *indices = &l->out[1];
  const int64_t n = kit_cols(x), k = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_K, 1),
                rows = kit_row_count(x);
  if (k < 1 || k > n)
    return kit_launch_fail(l, error, ACCEL_PLUGIN_E_ARGUMENT, "k %lld of %lld elements",
                           (long long)k, (long long)n);
  gpu_call c = gpu_call_new(run, l, GPU_K_topk);
  gpu_tensor(&c, x);
  gpu_tensor(&c, values);
  gpu_tensor(&c, indices);
  const gpu_params_topk params = {
      .rows = rows,
      .n = n,
      .k = k,
      .flags = (x->dtype == ACCEL_PLUGIN_I32 ? INTEGER : 0) | (kit_has(values) ? VALUES : 0) |
               (kit_has(indices) ? INDICES : 0) |
               (kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_SORTED, 1) ? 0 : UNSORTED),
  };
  gpu_set_topk(&c, &params);
  return gpu_dispatch_rows(&c, rows, error);
}
