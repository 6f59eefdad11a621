/* shard_split.c - what each op needs of its operands to compute a part of its result. */
#include <string.h>

#include "program/shard.h"

int64_t accel__axis_size(const accel__program *p, int32_t tensor, int32_t axis) {
  int64_t size = 0;
  if (tensor < 0 || axis < 0 || axis >= p->tensor[tensor].rank) return 0;
  return accel__dim_value(p, p->tensor[tensor].dim[axis], &size) ? size : 0;
}

static int32_t rank_of(const accel__sharder *s, int32_t tensor) {
  return s->p->tensor[tensor].rank;
}
static int32_t last_axis(const accel__sharder *s, int32_t tensor) { return rank_of(s, tensor) - 1; }

static accel__split part(int32_t axis, int64_t block, int64_t begin, int64_t end, int64_t times) {
  return (accel__split){.axis = axis, .begin = begin, .end = end, .block = block, .times = times};
}

accel__split accel__split_of(const accel__sharder *s, int32_t axis, int64_t size) {
  int64_t grain = 1;
  /* uneven parts begin where groups of codes begin */
  for (int64_t wide = 128; size % s->world && grain == 1 && wide > 1; wide /= 4)
    if (size / wide >= 4 * (int64_t)s->world) grain = wide;
  const int64_t grains = (size + grain - 1) / grain, world = s->world;
  const int64_t begin = grains * s->rank / world * grain,
                end = grains * (s->rank + 1) / world * grain;
  return part(axis, size, begin, end < size ? end : size, 1);
}

/* Whose begin differs between ranks alike: the parts are told apart by their blocks. */
bool accel__split_same(const accel__split *a, const accel__split *b) {
  return a->axis == b->axis &&
         (a->axis < 0 || (a->block == b->block && a->times == b->times && a->shared == b->shared));
}

/* The same part of another axis whose blocks are `block` elements long. */
static accel__split scaled(const accel__split *from, int32_t axis, int64_t block) {
  accel__split out = *from;
  out.axis = axis;
  out.begin = from->begin * block / from->block;
  out.end = from->end * block / from->block;
  out.block = block;
  return out;
}

/* Do the ends of the part fall between heads (or groups) of `unit` elements? */
static bool cuts_between(const accel__split *split, int64_t unit) {
  return unit > 0 && split->block % unit == 0 && split->begin % unit == 0 && split->end % unit == 0;
}

/* ---- shapes ---- */

/* An operand that is broadcast to the result. */
static accel__split broadcast_part(const accel__sharder *s, int32_t operand, int32_t result,
                                   const accel__split *want) {
  if (operand < 0) return accel__whole;
  const int32_t axis = want->axis - rank_of(s, result) + rank_of(s, operand);
  const int64_t size = accel__axis_size(s->p, operand, axis);
  if (axis < 0 || (size == 1 && want->block * want->times != 1)) return accel__whole;
  return scaled(want, axis, want->block);
}

/* Elements behind an axis; 0: not constant. */
static int64_t behind(const accel__sharder *s, int32_t tensor, int32_t axis) {
  int64_t n = 1;
  for (int32_t i = axis + 1; i < rank_of(s, tensor); i++) n *= accel__axis_size(s->p, tensor, i);
  return n;
}

/* The operand's axis whose blocks are those of the result: as many elements, cut at the same
 * places. */
static bool reshape_part(const accel__sharder *s, const accel_plugin_node *n,
                         const accel__split *want, accel__split *in) {
  const int64_t inner = behind(s, n->out[0], want->axis), all = want->block * inner;
  if (want->times != 1 || inner == 0) return false;
  for (int32_t axis = 0; axis < rank_of(s, n->in[0]); axis++) {
    const int64_t size = accel__axis_size(s->p, n->in[0], axis), each = behind(s, n->in[0], axis);
    if (size < 2 || each == 0 || size * each != all) continue;
    if (want->begin * inner % each || want->end * inner % each) continue;
    *in = scaled(want, axis, size);
    return true;
  }
  return false;
}

static bool transpose_part(const accel_plugin_node *n, const accel__split *want, accel__split *in) {
  const accel_plugin_attr *perm = accel__node_attr(n, ACCEL_PLUGIN_ATTR_PERM);
  if (!perm || (uint32_t)want->axis >= perm->n) return false;
  *in = scaled(want, (int32_t)perm->v[want->axis], want->block);
  return true;
}

static int32_t attr_axis(const accel__sharder *s, const accel_plugin_node *n) {
  const int64_t axis = accel__node_attr_int(n, ACCEL_PLUGIN_ATTR_AXIS, 0);
  return (int32_t)(axis < 0 ? axis + rank_of(s, n->out[0]) : axis);
}

/* ---- norms, rotations ---- */

static bool norm_part(accel__sharder *s, const accel_plugin_node *n, const accel__split *want,
                      accel__split *in) {
  const int64_t groups = accel__node_attr_int(n, ACCEL_PLUGIN_ATTR_GROUPS, 1);
  in[0] = *want;
  if (n->n_in > 3) in[3] = *want;
  if (want->axis != last_axis(s, n->out[0])) return true;
  if (groups < 2 || want->times != 1 || !cuts_between(want, want->block / groups)) return false;
  for (uint32_t k = 1; k < 3 && k < n->n_in; k++) in[k] = scaled(want, 0, want->block);
  return true;
}

/* ---- linear ---- */

static bool is_weight(const accel__sharder *s, int32_t tensor) {
  return tensor >= 0 && s->p->tensor[tensor].kind == ACCEL_PLUGIN_TENSOR_WEIGHT;
}

/* The rows of a weight that make columns `want` of a product; of a gated one, gate and up. */
static accel__split gated_rows(int64_t glu, const accel__split *want, int32_t axis) {
  accel__split rows = scaled(want, axis, want->block);
  if (glu == ACCEL_PLUGIN_GLU_INTERLEAVED) return scaled(&rows, axis, 2 * want->block);
  if (glu == ACCEL_PLUGIN_GLU_GATE_FIRST || glu == ACCEL_PLUGIN_GLU_GATE_LAST) rows.times = 2;
  return rows;
}

static bool linear_part(accel__sharder *s, const accel_plugin_node *n, const accel__split *want,
                        accel__split *in) {
  const int64_t glu = accel__node_attr_int(n, ACCEL_PLUGIN_ATTR_GLU, 0);
  const int32_t axis = accel__node_attr_int(n, ACCEL_PLUGIN_ATTR_TRANS, 0) ? 1 : 0;
  if (want->axis != last_axis(s, n->out[0]) || want->times != 1 || !is_weight(s, n->in[1]))
    return false;
  in[1] = gated_rows(glu, want, axis);
  if (n->n_in > 2) in[2] = gated_rows(glu, want, 0);
  if (n->n_in > 3) in[3] = *want;
  if (n->n_in > 4) in[4] = scaled(want, axis, want->block);
  if (n->n_in > 5) in[5] = scaled(want, 0, want->block);
  if (accel__node_in(n, 4) >= 0 && !is_weight(s, n->in[4])) return false;
  /* two parts of a vector are read from a file, but no one slice of a value */
  return in[1].times == 1 || accel__node_in(n, 2) < 0 || is_weight(s, n->in[2]);
}

/* x of which the rank has some columns, times the same columns of w. */
static bool linear_sum(accel__sharder *s, const accel_plugin_node *n, accel__split *in) {
  const int32_t axis = last_axis(s, n->in[0]);
  const int64_t columns = accel__axis_size(s->p, n->in[0], axis);
  if (accel__node_attr_int(n, ACCEL_PLUGIN_ATTR_ACT, 0) ||
      accel__node_attr_int(n, ACCEL_PLUGIN_ATTR_GLU, 0) || !is_weight(s, n->in[1]) ||
      columns < s->world)
    return false;
  in[0] = accel__split_of(s, axis, columns);
  in[1] = scaled(&in[0], accel__node_attr_int(n, ACCEL_PLUGIN_ATTR_TRANS, 0) ? 0 : 1, columns);
  return true;
}

/* Every expert's inner columns are shared among the ranks. */
static bool moe_sum(accel__sharder *s, const accel_plugin_node *n, accel__split *in) {
  const int64_t inner = accel__axis_size(s->p, n->in[4], 2),
                glu = accel__node_attr_int(n, ACCEL_PLUGIN_ATTR_GLU, 0);
  const bool biased = accel__node_in(n, 5) >= 0;
  if (inner < s->world || !is_weight(s, n->in[3]) || !is_weight(s, n->in[4]) ||
      (biased && !is_weight(s, n->in[5])))
    return false;
  in[4] = accel__split_of(s, 2, inner);
  in[3] = gated_rows(glu, &in[4], 1);
  if (biased) in[5] = gated_rows(glu, &in[4], 1);
  return true;
}

bool accel__split_sum(accel__sharder *s, const accel_plugin_node *n, accel__split *in) {
  for (uint32_t k = 0; k < n->n_in; k++) in[k] = accel__whole;
  return n->op == ACCEL_PLUGIN_OP_MOE ? moe_sum(s, n, in) : linear_sum(s, n, in);
}

/* ---- attention ---- */

int64_t accel__local_kv_heads(const accel__sharder *s, int64_t kv_heads) {
  return kv_heads % s->world == 0 ? kv_heads / s->world : 1;
}

static bool divides(accel__sharder *s, const accel_plugin_node *n, int64_t heads,
                    int64_t kv_heads) {
  const char *name = s->p->tensor[n->out[0]].name;
  const bool kv = heads % s->world == 0;
  if (kv && (kv_heads % s->world == 0 || s->world % kv_heads == 0)) return true;
  s->p->undivided = kv ? kv_heads : heads;
  accel__program_fail(s->p, ACCEL_ERROR_UNSUPPORTED,
                      "'%s' has %lld heads%s, which %u ranks do not divide", name,
                      (long long)s->p->undivided, kv ? " of keys and values" : "", s->world);
  return false;
}

/* Operand k of which each head has its own slice along an axis. */
static accel__split by_head(const accel__sharder *s, const accel_plugin_node *n, uint32_t k,
                            int32_t axis, int64_t heads) {
  const int32_t t = accel__node_in(n, k);
  const int64_t size = t >= 0 ? accel__axis_size(s->p, t, axis) : 0;
  if (size == 0 || size % heads) return accel__whole;
  return part(axis, size, size * s->rank / s->world, size * (s->rank + 1) / s->world, 1);
}

static accel__split kv_part(const accel__sharder *s, const accel_plugin_node *n, uint32_t k,
                            int64_t kv_heads) {
  if (accel__node_in(n, k) < 0) return accel__whole;
  if (kv_heads % s->world == 0) return by_head(s, n, k, 1, kv_heads);
  const int64_t size = accel__axis_size(s->p, n->in[k], 1), each = size / kv_heads,
                head = kv_heads * s->rank / s->world;
  accel__split out = part(1, size, head * each, (head + 1) * each, 1);
  out.shared = true;
  return out;
}

static bool attention_part(accel__sharder *s, const accel_plugin_node *n, const accel__split *want,
                           accel__split *in) {
  const int64_t heads = accel__node_attr_int(n, ACCEL_PLUGIN_ATTR_HEADS, 1),
                kv_heads = accel__node_attr_int(n, ACCEL_PLUGIN_ATTR_KV_HEADS, heads),
                kind = accel__node_attr_int(n, ACCEL_PLUGIN_ATTR_BIAS_KIND, 0);
  if ((n->n_out > 1 && n->out[1] >= 0) || want->axis != 1 || want->times != 1) return false;
  if (!divides(s, n, heads, kv_heads)) return false;
  if (!cuts_between(want, want->block / heads)) return false;
  in[0] = by_head(s, n, 0, 1, heads);
  for (uint32_t k = 1; k < 3 && k < n->n_in; k++) in[k] = kv_part(s, n, k, kv_heads);
  const int32_t bias = accel__node_in(n, 3);
  const int32_t axis = kind == ACCEL_PLUGIN_BIAS_ALIBI ? 0 : 1;
  if (bias >= 0 && accel__axis_size(s->p, bias, axis) == heads && heads > 1)
    in[3] = by_head(s, n, 3, axis, heads);
  if (n->n_in > 7) in[7] = by_head(s, n, 7, 0, heads);
  for (uint32_t k = 8; k < 10 && k < n->n_in; k++) in[k] = by_head(s, n, k, 1, heads);
  return true;
}

/* ---- all ops ---- */

static bool same_axis(accel__sharder *s, const accel_plugin_node *n, const accel__split *want,
                      accel__split *in) {
  if (want->axis == attr_axis(s, n)) return false;
  for (uint32_t k = 0; k < n->n_in; k++) in[k] = *want;
  return true;
}

bool accel__split_operands(accel__sharder *s, const accel_plugin_node *n, const accel__split *want,
                           accel__split *in) {
  for (uint32_t k = 0; k < n->n_in; k++) in[k] = accel__whole;
  switch (n->op) {
    case ACCEL_PLUGIN_OP_UNARY:
    case ACCEL_PLUGIN_OP_CAST:
      in[0] = *want;
      return true;
    case ACCEL_PLUGIN_OP_BINARY:
    case ACCEL_PLUGIN_OP_BROADCAST:
      for (uint32_t k = 0; k < n->n_in; k++) in[k] = broadcast_part(s, n->in[k], n->out[0], want);
      return true;
    case ACCEL_PLUGIN_OP_RESHAPE:
      return reshape_part(s, n, want, &in[0]);
    case ACCEL_PLUGIN_OP_TRANSPOSE:
      return transpose_part(n, want, &in[0]);
    case ACCEL_PLUGIN_OP_SLICE:
    case ACCEL_PLUGIN_OP_CONCAT:
    case ACCEL_PLUGIN_OP_SOFTMAX:
      return same_axis(s, n, want, in);
    case ACCEL_PLUGIN_OP_NORM:
      return norm_part(s, n, want, in);
    case ACCEL_PLUGIN_OP_ROPE:
      in[0] = *want;
      return cuts_between(want, accel__node_attr_int(n, ACCEL_PLUGIN_ATTR_HEAD_DIM, 0));
    case ACCEL_PLUGIN_OP_LINEAR:
      return linear_part(s, n, want, in);
    case ACCEL_PLUGIN_OP_ATTENTION:
      return attention_part(s, n, want, in);
    default:
      return false;
  }
}
