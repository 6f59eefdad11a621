/* kit_graph_support.c - which nodes can be lowered to a static graph. */
#include <stdio.h>

#include "kit/kit_lower.h"

static bool activation_known(int64_t kind) {
  switch (kind) {
#define ACCEL_ACT(NAME, number, key, text) case number:
#include "accel/ops.def"
    return true;
  }
  return false;
}

static bool unary_known(const accel_plugin_program *p, const accel_plugin_node *n) {
  const int64_t kind = kit_attr_i(n, ACCEL_PLUGIN_ATTR_KIND, -1);
  if (kit_operand(n, 0) >= 0 && p->tensor[kit_operand(n, 0)].dtype == ACCEL_PLUGIN_I32)
    return kind == ACCEL_PLUGIN_UNARY_NEG || kind == ACCEL_PLUGIN_UNARY_ABS ||
           kind == ACCEL_PLUGIN_ACT_RELU || kind == ACCEL_PLUGIN_UNARY_CLAMP ||
           kind == ACCEL_PLUGIN_UNARY_AFFINE;
  switch (kind) {
#define ACCEL_UNARY(NAME, number, key, text) case number:
#include "accel/ops.def"
    return true;
  }
  return activation_known(kind);
}

static const char *refusal(const accel_plugin_program *p, const accel_plugin_node *n) {
  const int64_t *v, kind = kit_attr_i(n, ACCEL_PLUGIN_ATTR_KIND, 0);
  switch (n->op) {
    case ACCEL_PLUGIN_OP_LOW_RANK:
      return "adapters beside a model are not part of a static graph";
    case ACCEL_PLUGIN_OP_GATED_DELTA_RULE:
      return "the recurrence of a delta rule is not part of a static graph";
    case ACCEL_PLUGIN_OP_SELECTIVE_SCAN:
      return lower_scan_refusal(p, n);
    case ACCEL_PLUGIN_OP_UNARY:
      return unary_known(p, n) ? NULL : "a kind or element type that it does not take";
    case ACCEL_PLUGIN_OP_BINARY:
      return kind >= ACCEL_PLUGIN_BINARY_ADD && kind <= ACCEL_PLUGIN_BINARY_WHERE
                 ? NULL
                 : "a kind that it does not take";
    case ACCEL_PLUGIN_OP_REDUCE:
      return p->tensor[kit_operand(n, 0)].dtype == ACCEL_PLUGIN_I32 &&
                     kind == ACCEL_PLUGIN_REDUCE_MEAN
                 ? "a mean of integers"
                 : NULL;
    case ACCEL_PLUGIN_OP_POOL:
      return kind == ACCEL_PLUGIN_POOL_MAX && kit_attr_iv(n, ACCEL_PLUGIN_ATTR_ADAPTIVE, &v)
                 ? "an adaptive maximum"
                 : NULL;
    default:
      return activation_known(kit_attr_i(n, ACCEL_PLUGIN_ATTR_ACT, ACCEL_PLUGIN_ACT_NONE))
                 ? NULL
                 : "an activation that it does not know";
  }
}

int32_t kit_graph_support(const accel_plugin_program *p, const accel_plugin_node *node, char *why,
                          size_t why_size) {
  const char *no = refusal(p, node);
  if (!no) return ACCEL_PLUGIN_NATIVE;
  snprintf(why, why_size, "%s: %s", kit_op_name(node->op), no);
  return ACCEL_PLUGIN_NO;
}
