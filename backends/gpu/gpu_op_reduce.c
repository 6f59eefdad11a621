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
  gpu_int(&c, a.outer);
  gpu_int(&c, a.n);
  gpu_int(&c, kind);
  gpu_int(&c, kit_has(&l->in[1]));
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
  gpu_int(&c, outer);
  gpu_int(&c, a.n);
  gpu_int(&c, a.inner);
  gpu_int(&c, kind);
  gpu_int(&c, kit_has(&l->in[1]));
  gpu_int(&c, spaced);
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
  gpu_int(&c, items);
  gpu_int(&c, groups);
  gpu_int(&c, x->dim[1] / groups);
  gpu_int(&c, kit_split(x, 1).inner);
  gpu_int(&c, kit_has(&l->in[1]));
  gpu_int(&c, kit_has(&l->in[2]));
  gpu_int(&c, act);
  gpu_float(&c, kit_act_alpha(n, act));
  gpu_float(&c, kit_attr_f(n, ACCEL_PLUGIN_ATTR_EPS, 1e-5));
  return gpu_dispatch_rows(&c, items, error);
}
