/* gpu_op_attention.c - attention whose keys and values are operands.  Nodes with a state go to
 * gpu_op_kv.c. */
#include <math.h>

#include "gpu/gpu_attention_common.h"
#include "gpu/gpu_op_kv.h"

static int32_t check_items(const kit_launch *l, const gpu_attention *a, accel_plugin_error *error) {
  int32_t rc = ACCEL_PLUGIN_OK;
  if (a->kv.items != a->q.items)
    return kit_launch_fail(l, error, ACCEL_PLUGIN_E_ARGUMENT, "%d items of queries, %d of keys",
                           a->q.items, a->kv.items);
  for (int32_t i = 0; !rc && i < a->q.items; i++)
    rc = gpu_attention_check(l, a, a->q.start[i + 1] - a->q.start[i],
                             a->kv.start[i + 1] - a->kv.start[i], error);
  return rc;
}

static int32_t prepare(gpu_run *run, const kit_launch *l, gpu_attention *a,
                       accel_plugin_error *error) {
  const accel_plugin_node *n = l->node;
  *a = (gpu_attention){.heads = kit_attr_i(n, ACCEL_PLUGIN_ATTR_HEADS, 1)};
  a->kv_heads = kit_attr_i(n, ACCEL_PLUGIN_ATTR_KV_HEADS, a->heads);
  a->bias_kind = kit_attr_i(n, ACCEL_PLUGIN_ATTR_BIAS_KIND, ACCEL_PLUGIN_BIAS_NONE);
  a->n_probs = kit_attr_iv(n, ACCEL_PLUGIN_ATTR_PROBS, &a->probs);
  if (a->heads < 1 || a->kv_heads < 1 || a->heads % a->kv_heads || !kit_has(&l->in[GPU_Q]) ||
      !kit_has(&l->in[GPU_K]) || !kit_has(&l->in[GPU_V]))
    return kit_launch_fail(l, error, ACCEL_PLUGIN_E_ARGUMENT,
                           "%lld heads over %lld key heads, or no keys", (long long)a->heads,
                           (long long)a->kv_heads);
  a->dk = kit_cols(&l->in[GPU_K]) / a->kv_heads;
  a->dv = kit_cols(&l->in[GPU_V]) / a->kv_heads;
  if (a->dk > GPU_MAX_HEAD || a->dv > GPU_MAX_HEAD)
    return kit_launch_fail(l, error, ACCEL_PLUGIN_E_LIMIT,
                           "heads of %lld and %lld columns; kernels take %d", (long long)a->dk,
                           (long long)a->dv, GPU_MAX_HEAD);
  int32_t rc = gpu_starts(run, l, ACCEL_PLUGIN_ATTR_Q_SPACE, l->in[GPU_Q].dim[0], a->whole_q, &a->q,
                          &a->q_start, error);
  if (!rc)
    rc = gpu_starts(run, l, ACCEL_PLUGIN_ATTR_KV_SPACE, l->in[GPU_K].dim[0], a->whole_kv, &a->kv,
                    &a->kv_start, error);
  if (!rc) rc = check_items(l, a, error);
  return rc ? rc : gpu_attention_more(run, l, a, error);
}

/* The kernel for y or, with `probs`, for the probabilities of the listed heads. */
static uint32_t kernel_for(const gpu_run *run, const gpu_attention *a, bool probs) {
  const gpu_cpu_kernels *cpu = run->self->limits.cpu_kernels;
  if (probs) return GPU_K_attention_probs;
  if (a->bias_kind == ACCEL_PLUGIN_BIAS_DISENTANGLED) return GPU_K_attention_rows;
  if (cpu) return cpu->attention_rows;
  if (!gpu_attention_tiled(run->self, a)) return GPU_K_attention_rows;
  return a->dv <= GPU_MAX_TILE_HEAD / 2 ? GPU_K_attention_tile : GPU_K_attention_tile128;
}

static int32_t attend(gpu_run *run, const kit_launch *l, const gpu_attention *a, bool probs,
                      accel_plugin_error *error) {
  const int64_t rows = l->in[GPU_Q].dim[0];
  const uint32_t kernel = kernel_for(run, a, probs);
  const bool tiled = kernel == GPU_K_attention_tile || kernel == GPU_K_attention_tile128;
  gpu_call c = gpu_call_new(run, l, kernel);
  for (int i = GPU_Q; i <= GPU_REL_Q; i++) gpu_tensor(&c, &l->in[i]);
  gpu_bind(&c, a->q_start);
  gpu_bind(&c, a->kv_start);
  gpu_bind(&c, a->more);
  gpu_tensor(&c, &l->out[probs ? 1 : 0]);
  const gpu_params_attention_rows params = {
      .rows = rows,
      .items = a->q.items,
      .heads = a->heads,
      .share = a->heads / a->kv_heads,
      .dk = a->dk,
      .dv = a->dv,
      .q_stride = l->in[GPU_Q].row_stride,
      .k_stride = l->in[GPU_K].row_stride,
      .v_stride = l->in[GPU_V].row_stride,
      .flags = gpu_attention_flags(l),
      .left = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_WINDOW_LEFT, -1),
      .right = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_WINDOW_RIGHT, -1),
      .bias_kind = a->bias_kind,
      .scale =
          kit_attr_f(l->node, ACCEL_PLUGIN_ATTR_SCALE, a->dk ? 1.0 / sqrt((double)a->dk) : 1.0),
      .softcap = kit_attr_f(l->node, ACCEL_PLUGIN_ATTR_SOFTCAP, 0.0),
  };
  gpu_set_attention_rows(&c, &params);
  return gpu_dispatch_rows(
      &c, tiled ? gpu_attention_tiles(a, rows) : rows * (probs ? (int64_t)a->n_probs : a->heads),
      error);
}

GPU_OP(attention) {
  gpu_attention a;
  if (l->node->state >= 0) return gpu_attention_pages(run, l, error);
  int32_t rc = prepare(run, l, &a, error);
  if (!rc && kit_has(&l->out[0])) rc = attend(run, l, &a, false, error);
  if (!rc && kit_has(&l->out[1]) && l->out[1].elements) rc = attend(run, l, &a, true, error);
  return rc;
}
