/* cpu_ops.c - the table of ops.  Those without a line run the kit's scalar kernels. */
#include "cpu_ops.h"

#include "cpu_attention.h"
#include "cpu_codes.h"
#include "cpu_conv.h"
#include "cpu_delta.h"
#include "cpu_elementwise.h"
#include "cpu_gather.h"
#include "cpu_image.h"
#include "cpu_linear.h"
#include "cpu_lora.h"
#include "cpu_matmul.h"
#include "cpu_moe.h"
#include "cpu_rows.h"
#include "cpu_scan.h"
#include "cpu_select.h"
#include "cpu_shape.h"

enum { FIRST = 1u << 0, FIRST_THREE = 7u, FIRST_FIVE = 31u }; /* operands: cpu_op.strided */

static const cpu_op table[ACCEL_PLUGIN_OP_COUNT + 1] = {
    [ACCEL_PLUGIN_OP_LINEAR] = {.launch = cpu_launch_linear,
                                .workspace = cpu_linear_workspace,
                                .strided = FIRST,
                                .fuse_parallel = cpu_linear_fuse_parallel,
                                .fuse_chain = cpu_linear_fuse_chain,
                                .limit = cpu_linear_limit},
    [ACCEL_PLUGIN_OP_MATMUL] = {.launch = cpu_launch_matmul, .workspace = cpu_matmul_workspace},
    [ACCEL_PLUGIN_OP_ATTENTION] = {.launch = cpu_launch_attention,
                                   .workspace = cpu_attention_workspace,
                                   .strided = FIRST_THREE, /* q, k, v */
                                   .limit = cpu_attention_limit},
    [ACCEL_PLUGIN_OP_ROPE] = {.launch = cpu_launch_rope,
                              .workspace = cpu_rope_workspace,
                              .strided = FIRST},
    [ACCEL_PLUGIN_OP_CONV] = {.launch = cpu_launch_conv,
                              .workspace = cpu_conv_workspace,
                              .strided = FIRST,
                              .strided_when = cpu_conv_over_rows,
                              .fuse_chain = cpu_conv_fuse_chain,
                              .packs = cpu_conv_packs},
    [ACCEL_PLUGIN_OP_CONV_TRANSPOSE] = {.launch = cpu_launch_conv_transpose,
                                        .workspace = cpu_conv_workspace,
                                        .packs = cpu_conv_packs},
    [ACCEL_PLUGIN_OP_MOE] = {.launch = cpu_launch_moe,
                             .workspace = cpu_moe_workspace,
                             .packs = cpu_moe_packs},
    [ACCEL_PLUGIN_OP_LOW_RANK] = {.launch = cpu_launch_lora,
                                  .fuse_parallel = cpu_lora_fuse_parallel},
    [ACCEL_PLUGIN_OP_POOL] = {.launch = cpu_launch_pool, .workspace = cpu_pool_workspace},
    [ACCEL_PLUGIN_OP_RESIZE] = {.launch = cpu_launch_resize, .workspace = cpu_resize_workspace},
    [ACCEL_PLUGIN_OP_SELECTIVE_SCAN] = {.launch = cpu_launch_scan, .workspace = cpu_scan_workspace},
    [ACCEL_PLUGIN_OP_GATED_DELTA_RULE] = {.launch = cpu_launch_delta,
                                          .workspace = cpu_delta_workspace,
                                          .strided = FIRST_FIVE},
    [ACCEL_PLUGIN_OP_TOPK] = {.launch = cpu_launch_topk, .workspace = cpu_topk_workspace},
    [ACCEL_PLUGIN_OP_NORM] = {.launch = cpu_launch_norm},
    [ACCEL_PLUGIN_OP_SOFTMAX] = {.launch = cpu_launch_softmax},
    [ACCEL_PLUGIN_OP_UNARY] = {.launch = cpu_launch_unary, .workspace = cpu_codes_workspace},
    [ACCEL_PLUGIN_OP_BINARY] = {.launch = cpu_launch_binary, .workspace = cpu_codes_workspace},
    [ACCEL_PLUGIN_OP_GATHER] = {.launch = cpu_launch_gather, .fuse_chain = cpu_gather_fuse_chain},
    [ACCEL_PLUGIN_OP_REDUCE] = {.launch = cpu_launch_reduce},
    [ACCEL_PLUGIN_OP_GROUP_NORM] = {.launch = cpu_launch_group_norm},
    [ACCEL_PLUGIN_OP_TRANSPOSE] = {.launch = cpu_launch_move},
    [ACCEL_PLUGIN_OP_SLICE] = {.launch = cpu_launch_move},
    [ACCEL_PLUGIN_OP_BROADCAST] = {.launch = cpu_launch_move},
    [ACCEL_PLUGIN_OP_CONCAT] = {.launch = cpu_launch_concat, .workspace = cpu_codes_workspace},
    [ACCEL_PLUGIN_OP_PAD] = {.launch = cpu_launch_pad},
    [ACCEL_PLUGIN_OP_CAST] = {.launch = cpu_launch_cast},
    [ACCEL_PLUGIN_OP_SCATTER_ROWS] = {.launch = cpu_launch_scatter},
};

const cpu_op *cpu_op_of(uint32_t op) { return &table[op <= ACCEL_PLUGIN_OP_COUNT ? op : 0]; }
