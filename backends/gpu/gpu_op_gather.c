/* gpu_op_gather.c - rows of a table by index, decoded when the table is a weight. */
#include "gpu/gpu_layer.h"
#include "kit/kit_scalar.h"

GPU_OP(gather) {
  const kit_tensor *table = &l->in[0], *idx = &l->in[1], *out = &l->out[0];
  const kit_around a = kit_split(table, kit_axis(l->node, 0, table->rank));
  const gpu_matrix t = gpu_matrix_of(run, table);
  const double factor = kit_attr_f(l->node, ACCEL_PLUGIN_ATTR_SCALE, 1.0);
  gpu_binding errors, part;
  int32_t word, rc = gpu_check_indices(run, l, "index", idx, a.n, &errors, &word, error);
  for (int64_t first = 0; !rc && first < t.w.n;) {
    const int64_t rows = gpu_matrix_rows(run, &t, first, &part);
    gpu_call c = gpu_call_new(run, l, gpu_kernel_of_store(GPU_K_gather_f32, t.w.store));
    gpu_matrix_bind(&c, &t, part);
    gpu_tensor(&c, idx);
    gpu_tensor(&c, out);
    gpu_bind(&c, errors);
    const gpu_params_gather params = {
        .slices = a.outer,
        .n = a.n,
        .inner = a.inner,
        .count = idx->elements,
        .cols = t.w.k,
        .rows = rows,
        .word = word,
        /* 1: words are copied without arithmetic, which keeps integers and NaNs as they are */
        .bits = t.w.store == GPU_STORE_F32 && (factor == 1.0 || out->dtype == ACCEL_PLUGIN_I32),
        .factor = factor,
        GPU_WEIGHT_PARAMS(&t, first),
    };
    gpu_set_gather(&c, &params);
    rc = gpu_dispatch_rows(&c, a.outer * idx->elements, error);
    first += rows;
  }
  return rc;
}
