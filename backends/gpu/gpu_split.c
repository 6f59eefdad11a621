/* gpu_split.c - nodes whose operands pass what one binding holds, launched in parts along the
 * first dim of their result, where each part of it depends on one part of the operands alone.
 * Linear layers cut themselves (gpu_op_linear.c), weights are panels (gpu_weights.c); what is
 * left is refused with the tensor's name (gpu_run.c). */
#include "gpu/gpu_layer.h"
#include "kit/kit_scalar.h"

/* Operands of fewer dims than the result, or with a first dim of 1, are whole in every part. */
enum { BROADCASTS = 1u << 31 };

/* Operands (bit i) of which each part of the result needs the same part alone; 0: the op needs
 * all of every operand at once. */
static uint32_t split_operands(uint32_t op) {
  switch (op) {
    case ACCEL_PLUGIN_OP_UNARY:
    case ACCEL_PLUGIN_OP_CAST:
    case ACCEL_PLUGIN_OP_SOFTMAX:
    case ACCEL_PLUGIN_OP_REDUCE:
    case ACCEL_PLUGIN_OP_GROUP_NORM:
    case ACCEL_PLUGIN_OP_POOL:
    case ACCEL_PLUGIN_OP_RESIZE:
    case ACCEL_PLUGIN_OP_CONV_TRANSPOSE:
      return 1u;
    case ACCEL_PLUGIN_OP_NORM:
    case ACCEL_PLUGIN_OP_CONV:
      return 1u | 1u << 3; /* x and the residual */
    case ACCEL_PLUGIN_OP_BINARY:
      return 7u | BROADCASTS;
    case ACCEL_PLUGIN_OP_MATMUL:
      return 3u | BROADCASTS;
    default:
      return 0;
  }
}

/* Whether each entry of the result's first dim depends on that entry of the split operands
 * alone, with the node's attributes as they are. */
static bool splits_first_dim(const kit_launch *l) {
  const accel_plugin_node *n = l->node;
  const kit_tensor *x = &l->in[0], *y = &l->out[0];
  switch (n->op) {
    case ACCEL_PLUGIN_OP_SOFTMAX:
    case ACCEL_PLUGIN_OP_REDUCE:
      return kit_attr_i(n, ACCEL_PLUGIN_ATTR_SPACE, -1) < 0 && kit_axis(n, -1, x->rank) != 0;
    case ACCEL_PLUGIN_OP_CONV:
      return n->state < 0 && kit_attr_i(n, ACCEL_PLUGIN_ATTR_SPACE, -1) < 0;
    case ACCEL_PLUGIN_OP_MATMUL:
      return y->rank > 2;
    default:
      return true;
  }
}

/* Entries [first, first + count) of a tensor's first dim. */
static kit_tensor part_of(const kit_tensor *t, int64_t first, int64_t count) {
  kit_tensor part = *t;
  const int64_t rows = t->rank > 1 ? kit_row_count(t) / t->dim[0] : 1,
                step = t->rank > 1 ? t->row_stride : 1;
  part.elements = t->elements / t->dim[0] * count;
  part.dim[0] = count;
  if (t->rank == 1) part.row_stride = count;
  part.offset += (uint64_t)(first * rows * step) * 4;
  return part;
}

static bool is_split(const kit_launch *l, uint32_t mask, uint32_t i) {
  const kit_tensor *t = &l->in[i], *y = &l->out[0];
  return i < 31 && mask >> i & 1 && kit_has(t) && t->rank &&
         (!(mask & BROADCASTS) || t->rank == y->rank) && t->dim[0] == y->dim[0];
}

/* Entries of the first dim that every binding holds; all of them where nothing passes one, or
 * nothing can be done. */
static int64_t entries(const gpu_run *run, const kit_launch *l, uint32_t mask) {
  const kit_tensor *y = &l->out[0];
  const int64_t all = y->rank ? y->dim[0] : 1;
  const uint64_t most = run->self->limits.binding;
  uint64_t largest = 0; /* bytes of an entry */
  bool passes = false;
  for (uint32_t i = 0; i < l->n_in + l->n_out; i++) {
    const kit_tensor *t = i < l->n_in ? &l->in[i] : &l->out[i - l->n_in];
    if (!kit_has(t) || (i < l->n_in && !is_split(l, mask, i))) continue;
    if (i >= l->n_in && (!t->rank || t->dim[0] != all)) return all;
    const uint64_t bytes =
        (uint64_t)(kit_row_count(t) * (t->rank > 1 ? t->row_stride : kit_cols(t))) * 4;
    passes |= bytes > most;
    if (bytes / (uint64_t)all > largest) largest = bytes / (uint64_t)all;
  }
  return passes && largest && most >= largest ? (int64_t)(most / largest) : all;
}

int32_t gpu_launch_split(gpu_run *run, const kit_launch *l, accel_plugin_error *error) {
  const gpu_op *op = gpu_op_of(l->node->op);
  const uint32_t mask = split_operands(l->node->op);
  const bool may = mask && l->n_in <= GPU_BINDINGS && l->n_out <= 2 && kit_has(&l->out[0]) &&
                   l->out[0].rank && l->out[0].dim[0] > 1 && splits_first_dim(l);
  const int64_t all = may ? l->out[0].dim[0] : 1, most = may ? entries(run, l, mask) : 1;
  if (most >= all) return op->launch(run, l, error);
  kit_tensor in[GPU_BINDINGS + 1], out[2];
  kit_launch part = *l;
  int32_t rc = ACCEL_PLUGIN_OK;
  part.in = in;
  part.out = out;
  for (int64_t first = 0; !rc && first < all; first += most) {
    const int64_t count = gpu_least(most, all - first);
    for (uint32_t i = 0; i < GPU_BINDINGS; i++) in[i].id = -1;
    for (uint32_t i = 0; i < l->n_in; i++)
      in[i] = is_split(l, mask, i) ? part_of(&l->in[i], first, count) : l->in[i];
    out[1].id = -1;
    for (uint32_t i = 0; i < l->n_out; i++)
      out[i] = kit_has(&l->out[i]) ? part_of(&l->out[i], first, count) : l->out[i];
    rc = op->launch(run, &part, error);
  }
  return rc;
}
