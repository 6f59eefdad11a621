/* gpu_ops.c - the table of ops. An op without a line is refused by name when a program asks for
 * it. */
#include "gpu/gpu_layer.h"

static const gpu_op table[ACCEL_PLUGIN_OP_COUNT + 1] = {
    [ACCEL_PLUGIN_OP_SOFTMAX] = {gpu_op_softmax, NULL, 0, NULL},
    [ACCEL_PLUGIN_OP_RESHAPE] = {gpu_op_reshape, NULL, 0, NULL},
    [ACCEL_PLUGIN_OP_TRANSPOSE] = {gpu_op_move, NULL, 1, NULL},
    [ACCEL_PLUGIN_OP_SLICE] = {gpu_op_move, NULL, 1, NULL},
    [ACCEL_PLUGIN_OP_BROADCAST] = {gpu_op_move, NULL, 1, NULL},
    [ACCEL_PLUGIN_OP_CONCAT] = {gpu_op_concat, NULL, 0xffffffffu, NULL},
    [ACCEL_PLUGIN_OP_PAD] = {gpu_op_pad, NULL, 0, NULL},
    [ACCEL_PLUGIN_OP_REDUCE] = {gpu_op_reduce, NULL, 0, NULL},
    [ACCEL_PLUGIN_OP_GROUP_NORM] = {gpu_op_group_norm, NULL, 0, NULL},
    [ACCEL_PLUGIN_OP_POOL] = {gpu_op_pool, NULL, 0, NULL},
    [ACCEL_PLUGIN_OP_CONV] = {gpu_op_conv, NULL, 0, NULL},
    [ACCEL_PLUGIN_OP_CONV_TRANSPOSE] = {gpu_op_conv_transpose, NULL, 0, NULL},
    [ACCEL_PLUGIN_OP_RESIZE] = {gpu_op_resize, NULL, 0, NULL},
    [ACCEL_PLUGIN_OP_UNARY] = {gpu_op_unary, gpu_support_unary, 0, NULL},
    [ACCEL_PLUGIN_OP_BINARY] = {gpu_op_binary, NULL, 0, NULL},
    [ACCEL_PLUGIN_OP_CAST] = {gpu_op_cast, NULL, 0, NULL},
    [ACCEL_PLUGIN_OP_LINEAR] = {gpu_op_linear, NULL, 1, gpu_workspace_linear},
    [ACCEL_PLUGIN_OP_MATMUL] = {gpu_op_matmul, NULL, 0, NULL},
    [ACCEL_PLUGIN_OP_GATHER] = {gpu_op_gather, NULL, 0, NULL},
    [ACCEL_PLUGIN_OP_NORM] = {gpu_op_norm, NULL, 1, NULL},
    [ACCEL_PLUGIN_OP_ATTENTION] = {gpu_op_attention, NULL, 7, gpu_workspace_attention},
    [ACCEL_PLUGIN_OP_ROPE] = {gpu_op_rope, NULL, 1, NULL},
    [ACCEL_PLUGIN_OP_SCATTER_ROWS] = {gpu_op_scatter_rows, NULL, 0, NULL},
    [ACCEL_PLUGIN_OP_TOPK] = {gpu_op_topk, NULL, 0, NULL},
    [ACCEL_PLUGIN_OP_MOE] = {gpu_op_moe, NULL, 1, gpu_workspace_moe},
    [ACCEL_PLUGIN_OP_SELECTIVE_SCAN] = {gpu_op_selective_scan, NULL, 0x5b, NULL},
    [ACCEL_PLUGIN_OP_ALLREDUCE] = {gpu_op_allreduce, NULL, 0, NULL},
};

const gpu_op *gpu_op_of(uint32_t op) { return &table[op <= ACCEL_PLUGIN_OP_COUNT ? op : 0]; }
