/* gpu_attention_common.c - what attention over operands (gpu_op_attention.c) and over a
 * session's pages (gpu_op_kv.c) share: the kernel's flags, its tables of biases and listed
 * heads, and the check of a dense bias. */
#include "gpu/gpu_attention_common.h"

#include <stdlib.h>

enum {
  MORE = 8,         /* words of the buffer `more` (attention.k) before its lists */
  MAX_TABLE = 65536 /* distances on one side of the table of relative positions, at most */
};

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

bool gpu_attention_tiled(const gpu_self *self, const gpu_attention *a) {
  return !self->limits.cpu && !self->limits.attention_rows && a->dv <= GPU_MAX_TILE_HEAD &&
         a->bias_kind != ACCEL_PLUGIN_BIAS_DISENTANGLED;
}

int64_t gpu_attention_tiles(const gpu_attention *a, int64_t rows) {
  return (rows / GPU_TILE_ROWS + a->q.items) * a->heads;
}

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

int32_t gpu_attention_flags(const kit_launch *l) {
  static const uint8_t operand[] = {GPU_Q_POS, GPU_KV_POS, GPU_MASK,
                                    GPU_SINKS, GPU_REL_K,  GPU_REL_Q};
  int32_t flags = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_CAUSAL, 0) != 0;
  for (int i = 0; i < 6; i++) flags |= kit_has(&l->in[operand[i]]) ? 2 << i : 0;
  return flags;
}
