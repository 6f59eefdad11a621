/* gpu_ops.c - the table of ops. An op without a line is refused by name when a program asks for
 * it. */
#include "gpu/gpu_layer.h"

static const gpu_op table[ACCEL_PLUGIN_OP_COUNT + 1] = {
    [ACCEL_PLUGIN_OP_SOFTMAX] = {.launch = gpu_op_softmax},
    [ACCEL_PLUGIN_OP_RESHAPE] = {.launch = gpu_op_reshape},
    [ACCEL_PLUGIN_OP_TRANSPOSE] = {.launch = gpu_op_move, .strided = 1},
    [ACCEL_PLUGIN_OP_SLICE] = {.launch = gpu_op_move, .strided = 1},
    [ACCEL_PLUGIN_OP_BROADCAST] = {.launch = gpu_op_move, .strided = 1},
    [ACCEL_PLUGIN_OP_CONCAT] = {.launch = gpu_op_concat, .strided = 0xffffffffu},
    [ACCEL_PLUGIN_OP_PAD] = {.launch = gpu_op_pad},
    [ACCEL_PLUGIN_OP_REDUCE] = {.launch = gpu_op_reduce},
    [ACCEL_PLUGIN_OP_GROUP_NORM] = {.launch = gpu_op_group_norm},
    [ACCEL_PLUGIN_OP_POOL] = {.launch = gpu_op_pool},
    [ACCEL_PLUGIN_OP_CONV] = {.launch = gpu_op_conv},
    [ACCEL_PLUGIN_OP_CONV_TRANSPOSE] = {.launch = gpu_op_conv_transpose},
    [ACCEL_PLUGIN_OP_RESIZE] = {.launch = gpu_op_resize},
    [ACCEL_PLUGIN_OP_UNARY] = {.launch = gpu_op_unary, .support = gpu_support_unary},
    [ACCEL_PLUGIN_OP_BINARY] = {.launch = gpu_op_binary},
    [ACCEL_PLUGIN_OP_CAST] = {.launch = gpu_op_cast},
    [ACCEL_PLUGIN_OP_LINEAR] = {.launch = gpu_op_linear,
                                .strided = 1,
                                .workspace = gpu_workspace_linear,
                                .fuse_parallel = gpu_fuse_linear},
    [ACCEL_PLUGIN_OP_MATMUL] = {.launch = gpu_op_matmul},
    [ACCEL_PLUGIN_OP_GATHER] = {.launch = gpu_op_gather},
    [ACCEL_PLUGIN_OP_NORM] = {.launch = gpu_op_norm, .strided = 1},
    [ACCEL_PLUGIN_OP_ATTENTION] = {.launch = gpu_op_attention,
                                   .strided = 7,
                                   .workspace = gpu_workspace_attention},
    [ACCEL_PLUGIN_OP_ROPE] = {.launch = gpu_op_rope, .strided = 1},
    [ACCEL_PLUGIN_OP_SCATTER_ROWS] = {.launch = gpu_op_scatter_rows},
    [ACCEL_PLUGIN_OP_TOPK] = {.launch = gpu_op_topk},
    [ACCEL_PLUGIN_OP_MOE] = {.launch = gpu_op_moe, .strided = 1, .workspace = gpu_workspace_moe},
    [ACCEL_PLUGIN_OP_SELECTIVE_SCAN] = {.launch = gpu_op_selective_scan, .strided = 0x5b},
    [ACCEL_PLUGIN_OP_GATED_DELTA_RULE] = {.launch = gpu_op_gated_delta_rule,
                                          .support = gpu_support_delta,
                                          .strided = 0x1f},
    [ACCEL_PLUGIN_OP_ALLREDUCE] = {.launch = gpu_op_allreduce},
};

const gpu_op *gpu_op_of(uint32_t op) { return &table[op <= ACCEL_PLUGIN_OP_COUNT ? op : 0]; }
