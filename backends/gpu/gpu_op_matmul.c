/* gpu_op_matmul.c - matmul of activations; leading dims broadcast. */
#include <stdlib.h>

#include "gpu/gpu_layer.h"

/* First element of the matrix of `t` that belongs to result matrix `index`. */
static int64_t matrix_at(const kit_tensor *t, const kit_tensor *out, int64_t index) {
  int64_t offset = 0, step = t->dim[t->rank - 2] * t->dim[t->rank - 1];
  for (int i = 3; i <= out->rank; i++) {
    const int64_t at = index % out->dim[out->rank - i];
    index /= out->dim[out->rank - i];
    if (i > t->rank) continue;
    if (t->dim[t->rank - i] > 1) offset += at * step;
    step *= t->dim[t->rank - i];
  }
  return offset;
}

static int32_t offsets(gpu_run *run, const kit_launch *l, int64_t batch, gpu_binding *at,
                       accel_plugin_error *error) {
  int32_t *first = malloc((size_t)batch * 2 * sizeof *first);
  int32_t rc = first ? ACCEL_PLUGIN_OK : kit_no_memory(error, (uint64_t)batch * 8);
  for (int64_t i = 0; !rc && i < batch; i++) {
    const int64_t a = matrix_at(&l->in[0], &l->out[0], i), b = matrix_at(&l->in[1], &l->out[0], i);
    if (a > INT32_MAX || b > INT32_MAX)
      rc = kit_launch_fail(l, error, ACCEL_PLUGIN_E_LIMIT,
                           "operands of more than 2^31 elements: use a smaller batch");
    first[2 * i] = (int32_t)a;
    first[2 * i + 1] = (int32_t)b;
  }
  if (!rc) rc = gpu_constant(run, first, (uint64_t)batch * 8, at, error);
  free(first);
  return rc;
}

GPU_OP(matmul) {
  const kit_tensor *out = &l->out[0];
  const int64_t m = out->dim[out->rank - 2], n = kit_cols(out), k = kit_cols(&l->in[0]),
                batch = out->elements / (m * n);
  const uint32_t *most = run->self->limits.groups;
  const int64_t rows = (m + 31) / 32;
  gpu_binding first;
  const int32_t rc = offsets(run, l, batch, &first, error);
  if (rc) return rc;
  gpu_call c = gpu_call_new(run, l, GPU_K_matmul);
  gpu_tensor(&c, &l->in[0]);
  gpu_tensor(&c, &l->in[1]);
  gpu_bind(&c, first);
  gpu_tensor(&c, out);
  const gpu_params_matmul params = {
      .batch = batch,
      .m = m,
      .n = n,
      .k = k,
      .trans = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_TRANS_B, 0) != 0,
      .factor = kit_attr_f(l->node, ACCEL_PLUGIN_ATTR_SCALE, 1.0),
  };
  gpu_set_matmul(&c, &params);
  return gpu_dispatch_grid(&c, (n + 31) / 32, rows < most[1] ? rows : most[1],
                           batch < most[2] ? batch : most[2], error);
}
