/* cpu_ops.c - from an op that is no matrix product of the token rows to the function that runs it. */
#include "cpu_ops.h"

int32_t cpu_launch_op(const cpu_self *s, const kit_launch *l, accel_plugin_error *error) {
  switch (l->node->op) {
    case ACCEL_PLUGIN_OP_CONV:
      return cpu_launch_conv(s, l, error);
    case ACCEL_PLUGIN_OP_CONV_TRANSPOSE:
      return cpu_launch_conv_transpose(s, l, error);
    case ACCEL_PLUGIN_OP_MOE:
      return cpu_launch_moe(s, l, error);
    case ACCEL_PLUGIN_OP_POOL:
      return cpu_launch_pool(s, l, error);
    case ACCEL_PLUGIN_OP_RESIZE:
      return cpu_launch_resize(s, l, error);
    case ACCEL_PLUGIN_OP_GROUP_NORM:
      return cpu_launch_group_norm(s, l, error);
    case ACCEL_PLUGIN_OP_SELECTIVE_SCAN:
      return cpu_launch_scan(s, l, error);
    case ACCEL_PLUGIN_OP_TRANSPOSE:
    case ACCEL_PLUGIN_OP_SLICE:
    case ACCEL_PLUGIN_OP_BROADCAST:
      return cpu_launch_move(s, l, error);
    case ACCEL_PLUGIN_OP_CONCAT:
      return cpu_launch_concat(s, l, error);
    case ACCEL_PLUGIN_OP_PAD:
      return cpu_launch_pad(s, l, error);
    case ACCEL_PLUGIN_OP_CAST:
      return cpu_launch_cast(s, l, error);
    case ACCEL_PLUGIN_OP_TOPK:
      return cpu_launch_topk(s, l, error);
    case ACCEL_PLUGIN_OP_SCATTER_ROWS:
      return cpu_launch_scatter(s, l, error);
  }
  return kit_scalar(l->node->op)(l, error);
}

uint64_t cpu_op_workspace(const cpu_self *self, const cpu_kernels *kernels, const kit_launch *l,
                          uint32_t workers) {
  switch (l->node->op) {
    case ACCEL_PLUGIN_OP_CONV:
    case ACCEL_PLUGIN_OP_CONV_TRANSPOSE:
      return cpu_conv_workspace(self, kernels, l, workers);
    case ACCEL_PLUGIN_OP_MOE:
      return cpu_moe_workspace(l);
    case ACCEL_PLUGIN_OP_POOL:
      return cpu_pool_workspace(l, workers);
    case ACCEL_PLUGIN_OP_RESIZE:
      return cpu_resize_workspace(l, workers);
    case ACCEL_PLUGIN_OP_SELECTIVE_SCAN:
      return cpu_scan_workspace(kernels, l, workers);
    case ACCEL_PLUGIN_OP_TOPK:
      return cpu_topk_workspace(l, workers);
  }
  return 0;
}
