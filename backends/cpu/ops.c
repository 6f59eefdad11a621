/* ops.c - from an op that is no matrix product of the token rows to the function that runs it. */
#include "ops.h"

int32_t cpu_launch_op(const cpu_self *s, const kit_launch *l, accel_plugin_error *error) {
  switch (l->node->op) {
    case ACCEL_PLUGIN_OP_CONV:
      return cpu_launch_conv(s, l, error);
    case ACCEL_PLUGIN_OP_CONV_TRANSPOSE:
      return cpu_launch_conv_transpose(s, l, error);
  }
  return kit_scalar(l->node->op)(l, error);
}

uint64_t cpu_op_workspace(const cpu_kernels *kernels, const kit_launch *l, uint32_t workers) {
  switch (l->node->op) {
    case ACCEL_PLUGIN_OP_CONV:
    case ACCEL_PLUGIN_OP_CONV_TRANSPOSE:
      return cpu_conv_workspace(kernels, l, workers);
  }
  return 0;
}
