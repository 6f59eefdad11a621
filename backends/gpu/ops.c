/* ops.c - the table of ops.  An op without a line is refused by name when a program asks for it. */
#include "gpu/ops.h"

static const gpu_op table[ACCEL_PLUGIN_OP_COUNT + 1] = {
    [ACCEL_PLUGIN_OP_SOFTMAX] = {gpu_op_softmax, NULL, 0, NULL},
    [ACCEL_PLUGIN_OP_UNARY] = {gpu_op_unary, NULL, 0, NULL},
};

const gpu_op *gpu_op_of(uint32_t op) { return &table[op <= ACCEL_PLUGIN_OP_COUNT ? op : 0]; }
