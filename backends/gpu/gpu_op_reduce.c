/* gpu_op_reduce.c - reduce and group_norm. */
#include "gpu/gpu_layer.h"
#include "kit/kit_scalar.h"

/* Rows as long as this are worth a workgroup each. */
enum { LONG_ROW = 64 };

static int32_t reduce_rows(gpu_run *run, const kit_launch *l, kit_around a, int64_t kind,
                           accel_plugin_error *error) {
  gpu_call c = gpu_call_new(run, l, GPU_K_reduce_rows);
  gpu_tensor(&c, &l->in[0]);
  gpu_tensor(&c, &l->in[1]);
  gpu_tensor(&c, &l->out[0]);
  const gpu_params_reduce_rows params = {
      .rows = a.outer,
      .n = a.n,
      .kind = kind,
      .weighted = kit_has(&l->in[1]),
  };
  gpu_set_reduce_rows(&c, &params);
  return gpu_dispatch_rows(&c, a.outer, error);
}

GPU_OP(reduce) {
  const kit_tensor *x = &l->in[0];
  const int64_t kind = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_KIND, ACCEL_PLUGIN_REDUCE_SUM);
  const bool spaced = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_SPACE, -1) >= 0,
             real = x->dtype == ACCEL_PLUGIN_F32;
  /* [outer, n, inner] */
  const kit_around a = kit_split(x, spaced ? 0 : kit_axis(l->node, -1, x->rank));
  int64_t outer = a.outer;
  gpu_binding start = gpu_at(run, &(kit_tensor){.id = -1});
  if (!spaced && real && a.inner == 1 && a.n >= LONG_ROW && kind <= ACCEL_PLUGIN_REDUCE_ARGMAX)
    return reduce_rows(run, l, a, kind, error);
  if (spaced) {
    kit_rows rows;
    int32_t whole[2];
    const int32_t rc =
        gpu_starts(run, l, ACCEL_PLUGIN_ATTR_SPACE, x->dim[0], whole, &rows, &start, error);
    if (rc) return rc;
    outer = rows.items;
  }
  gpu_call c = gpu_call_new(run, l, real ? GPU_K_reduce_strided : GPU_K_reduce_strided_i32);
  gpu_tensor(&c, x);
  gpu_tensor(&c, &l->in[1]);
  gpu_bind(&c, start);
  gpu_tensor(&c, &l->out[0]);
  const gpu_params_reduce_strided params = {
      .outer = outer,
      .n = a.n,
      .inner = a.inner,
      .kind = kind,
      .weighted = kit_has(&l->in[1]),
      .spaced = spaced,
  };
  gpu_set_reduce_strided(&c, &params);
  return gpu_dispatch_items(&c, outer * a.inner, error);
}

GPU_OP(group_norm) {
  const kit_tensor *x = &l->in[0];
  const accel_plugin_node *n = l->node;
  const int64_t groups = kit_attr_i(n, ACCEL_PLUGIN_ATTR_GROUPS, 1), items = x->dim[0] * groups;
  const int32_t act = (int32_t)kit_attr_i(n, ACCEL_PLUGIN_ATTR_ACT, ACCEL_PLUGIN_ACT_NONE);
  gpu_call c = gpu_call_new(run, l, GPU_K_group_norm);
  for (int i = 0; i < 3; i++) gpu_tensor(&c, &l->in[i]); /* x, gamma, beta */
  gpu_tensor(&c, &l->out[0]);
  const gpu_params_group_norm params = {
      .items = items,
      .groups = groups,
      .per = x->dim[1] / groups,
      .inner = kit_split(x, 1).inner,
      .has_gamma = kit_has(&l->in[1]),
      .has_beta = kit_has(&l->in[2]),
      .act = act,
      .alpha = kit_act_alpha(n, act),
      .eps = kit_attr_f(n, ACCEL_PLUGIN_ATTR_EPS, 1e-5),
  };
  gpu_set_group_norm(&c, &params);
  return gpu_dispatch_rows(&c, items, error);
}
