/* gpu_op_attention.c - attention over operands. */
#include <math.h>
#include <stdlib.h>

#include "gpu/gpu_op_attention.h"

enum { MORE = 8, MAX_TABLE = 65536 }; /* attention.k: words before the lists */

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* The distance beyond which the bucket or row no longer changes. */
static int32_t table_reach(const kit_launch *l, int64_t kind) {
  const int64_t span = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_REL_SPAN, 0),
                distance = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_MAX_DISTANCE, 128),
                buckets = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_REL_BUCKETS, 0);
  if (kind != ACCEL_PLUGIN_BIAS_DISENTANGLED)
    return (int32_t)most(distance, kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_NUM_BUCKETS, 32));
  int32_t reach = (int32_t)most(span, 1);
  while (
      buckets > 0 && reach < MAX_TABLE &&
      (kit_deberta_row(-reach, (int32_t)span, (int32_t)buckets, (int32_t)distance) != 0 ||
       kit_deberta_row(reach, (int32_t)span, (int32_t)buckets, (int32_t)distance) != 2 * span - 1))
    reach *= 2;
  return reach;
}

static int32_t table_value(const kit_launch *l, int64_t kind, int32_t distance) {
  const int32_t far = (int32_t)kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_MAX_DISTANCE, 128);
  if (kind == ACCEL_PLUGIN_BIAS_DISENTANGLED)
    return kit_deberta_row(distance, (int32_t)kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_REL_SPAN, 0),
                           (int32_t)kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_REL_BUCKETS, 0), far);
  return kit_t5_bucket(distance, kind == ACCEL_PLUGIN_BIAS_T5_BIDIRECTIONAL,
                       (int32_t)kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_NUM_BUCKETS, 32), far);
}

/* The kernel's buffer `more`. */
int32_t gpu_attention_more(gpu_run *run, const kit_launch *l, gpu_attention *a,
                           accel_plugin_error *error) {
  const kit_tensor *b = &l->in[GPU_BIAS], *probs = &l->out[1];
  const bool table = a->bias_kind == ACCEL_PLUGIN_BIAS_T5_BIDIRECTIONAL ||
                     a->bias_kind == ACCEL_PLUGIN_BIAS_T5_UNIDIRECTIONAL ||
                     a->bias_kind == ACCEL_PLUGIN_BIAS_DISENTANGLED,
             dense = a->bias_kind == ACCEL_PLUGIN_BIAS_DENSE;
  const int32_t reach = table ? table_reach(l, a->bias_kind) : 0;
  const size_t n = MORE + a->n_probs + (table ? 2 * (size_t)reach + 1 : 0);
  int32_t *more = calloc(n, sizeof *more);
  if (!more) return kit_no_memory(error, n * sizeof *more);
  more[0] = dense ? (int32_t)kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_BIAS_PERIOD, b->dim[0]) : 1;
  for (int i = 0; dense && i < 4; i++) more[1 + i] = (int32_t)b->dim[i];
  more[5] = reach;
  more[6] = kit_has(probs) ? (int32_t)probs->dim[2] : 0;
  more[7] = (int32_t)a->n_probs;
  for (uint32_t i = 0; i < a->n_probs; i++) more[MORE + i] = (int32_t)a->probs[i];
  for (int32_t i = -reach; table && i <= reach; i++)
    more[MORE + (int32_t)a->n_probs + reach + i] = table_value(l, a->bias_kind, i);
  const int32_t rc =
      more[0] < 1 ? kit_launch_fail(l, error, ACCEL_PLUGIN_E_ARGUMENT, "bias_period %d", more[0])
                  : gpu_constant(run, more, n * sizeof *more, &a->more, error);
  free(more);
  return rc;
}

int32_t gpu_attention_check(const kit_launch *l, const gpu_attention *a, int32_t rows, int32_t keys,
                            accel_plugin_error *error) {
  const kit_tensor *b = &l->in[GPU_BIAS], *probs = &l->out[1];
  if (a->bias_kind == ACCEL_PLUGIN_BIAS_DENSE &&
      ((b->dim[2] > 1 && rows > b->dim[2]) || (b->dim[3] > 1 && keys > b->dim[3])))
    return kit_launch_fail(l, error, ACCEL_PLUGIN_E_ARGUMENT,
                           "dense bias of %lld x %lld is too small for %d x %d",
                           (long long)b->dim[2], (long long)b->dim[3], rows, keys);
  if (kit_has(probs) && keys > probs->dim[2])
    return kit_launch_fail(l, error, ACCEL_PLUGIN_E_ARGUMENT,
                           "probabilities of %d keys do not fit %lld columns", keys,
                           (long long)probs->dim[2]);
  return ACCEL_PLUGIN_OK;
}

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

int32_t gpu_attention_flags(const kit_launch *l) {
  static const uint8_t operand[] = {GPU_Q_POS, GPU_KV_POS, GPU_MASK,
                                    GPU_SINKS, GPU_REL_K,  GPU_REL_Q};
  int32_t flags = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_CAUSAL, 0) != 0;
  for (int i = 0; i < 6; i++) flags |= kit_has(&l->in[operand[i]]) ? 2 << i : 0;
  return flags;
}

/* y, or the probabilities of the listed heads. */
static int32_t attend(gpu_run *run, const kit_launch *l, const gpu_attention *a, bool probs,
                      accel_plugin_error *error) {
  const int64_t rows = l->in[GPU_Q].dim[0];
  const bool wide = gpu_wide(run) && !probs && a->bias_kind != ACCEL_PLUGIN_BIAS_DISENTANGLED;
  gpu_call c = gpu_call_new(run, l,
                            probs  ? GPU_K_attention_probs
                            : wide ? GPU_K_attention_cpu
                                   : GPU_K_attention_rows);
  for (int i = GPU_Q; i <= GPU_REL_Q; i++) gpu_tensor(&c, &l->in[i]);
  gpu_bind(&c, a->q_start);
  gpu_bind(&c, a->kv_start);
  gpu_bind(&c, a->more);
  gpu_tensor(&c, &l->out[probs ? 1 : 0]);
  gpu_int(&c, rows);
  gpu_int(&c, a->q.items);
  gpu_int(&c, a->heads);
  gpu_int(&c, a->heads / a->kv_heads);
  gpu_int(&c, a->dk);
  gpu_int(&c, a->dv);
  for (int i = GPU_Q; i <= GPU_V; i++) gpu_int(&c, l->in[i].row_stride);
  gpu_int(&c, gpu_attention_flags(l));
  gpu_int(&c, kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_WINDOW_LEFT, -1));
  gpu_int(&c, kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_WINDOW_RIGHT, -1));
  gpu_int(&c, a->bias_kind);
  gpu_float(&c,
            kit_attr_f(l->node, ACCEL_PLUGIN_ATTR_SCALE, a->dk ? 1.0 / sqrt((double)a->dk) : 1.0));
  gpu_float(&c, kit_attr_f(l->node, ACCEL_PLUGIN_ATTR_SOFTCAP, 0.0));
  const int64_t units = rows * (probs ? (int64_t)a->n_probs : a->heads);
  return gpu_dispatch_rows(&c, wide ? gpu_pieces(run, units) : units, error);
}

GPU_OP(attention) {
  gpu_attention a;
  if (l->node->state >= 0) return gpu_attention_pages(run, l, error);
  int32_t rc = prepare(run, l, &a, error);
  if (!rc && kit_has(&l->out[0])) rc = attend(run, l, &a, false, error);
  if (!rc && kit_has(&l->out[1]) && l->out[1].elements) rc = attend(run, l, &a, true, error);
  return rc;
}
