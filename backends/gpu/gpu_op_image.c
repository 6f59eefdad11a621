/* gpu_op_image.c - pool and resize: planes are independent, and so are their pixels. */
#include <stdlib.h>

#include "gpu/gpu_layer.h"
#include "kit/kit_scalar.h"

GPU_OP(pool) {
  const int64_t *sizes;
  const kit_plane p = kit_plane_of(l, NULL);
  const bool adaptive = kit_attr_iv(l->node, ACCEL_PLUGIN_ATTR_ADAPTIVE, &sizes) > 0,
             max = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_KIND, ACCEL_PLUGIN_POOL_MAX) ==
                   ACCEL_PLUGIN_POOL_MAX;
  gpu_call c = gpu_call_new(run, l, GPU_K_pool_planes);
  gpu_tensor(&c, &l->in[0]);
  gpu_tensor(&c, &l->out[0]);
  const gpu_params_pool_planes params = {
      .n = l->out[0].elements,
      .h = p.in[0],
      .w = p.in[1],
      .oh = p.out[0],
      .ow = p.out[1],
      .kh = p.kernel[0],
      .kw = p.kernel[1],
      .sy = p.stride[0],
      .sx = p.stride[1],
      .by = p.begin[0],
      .bx = p.begin[1],
      .ey = p.end[0],
      .ex = p.end[1],
      .adapt_y = adaptive && l->in[0].rank == 4,
      .adapt_x = adaptive,
      .maximum = max,
      .count_pads = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_COUNT_INCLUDE_PAD, 0) != 0,
  };
  gpu_set_pool_planes(&c, &params);
  return gpu_dispatch_items(&c, l->out[0].elements, error);
}

/* One dim's table on the device: places and weights, [out][width]. */
static int32_t taps_up(gpu_run *run, const kit_taps *taps, int64_t out, gpu_binding *places,
                       gpu_binding *weights, accel_plugin_error *error) {
  const int64_t n = out * taps->width;
  int32_t *place = malloc((size_t)n * sizeof *place), rc = ACCEL_PLUGIN_OK;
  float *weight = malloc((size_t)n * sizeof *weight);
  if (!place || !weight) rc = kit_no_memory(error, (uint64_t)n * 8);
  for (int64_t i = 0; !rc && i < n; i++) {
    place[i] = (int32_t)taps->index[i];
    weight[i] = (float)taps->weight[i];
  }
  if (!rc) rc = gpu_constant(run, place, (uint64_t)n * sizeof *place, places, error);
  if (!rc) rc = gpu_constant(run, weight, (uint64_t)n * sizeof *weight, weights, error);
  free(place);
  free(weight);
  return rc;
}

GPU_OP(resize) {
  const kit_tensor *x = &l->in[0], *out = &l->out[0];
  const bool two = x->rank == 4;
  const int64_t oh = two ? out->dim[2] : 1, ow = kit_cols(out);
  kit_taps taps[2];
  gpu_binding table[4];
  if (!x->elements)
    return kit_launch_fail(l, error, ACCEL_PLUGIN_E_ARGUMENT, "there is nothing to resize");
  int32_t rc = kit_taps_new(l, taps, error);
  if (!rc) rc = taps_up(run, &taps[0], oh, &table[0], &table[1], error);
  if (!rc) rc = taps_up(run, &taps[1], ow, &table[2], &table[3], error);
  if (!rc) {
    gpu_call c = gpu_call_new(run, l, GPU_K_resize_planes);
    gpu_tensor(&c, x);
    for (int i = 0; i < 4; i++) gpu_bind(&c, table[i]);
    gpu_tensor(&c, out);
    const gpu_params_resize_planes params = {
        .n = out->elements,
        .h = two ? x->dim[2] : 1,
        .w = kit_cols(x),
        .oh = oh,
        .ow = ow,
        .ty = taps[0].width,
        .tx = taps[1].width,
    };
    gpu_set_resize_planes(&c, &params);
    rc = gpu_dispatch_items(&c, out->elements, error);
  }
  kit_taps_free(taps);
  return rc;
}
