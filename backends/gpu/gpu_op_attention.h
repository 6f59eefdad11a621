/* gpu_op_attention.h - what attention over operands (gpu_op_attention.c) and over a session's pages
 * (gpu_op_kv.c) share. */
#ifndef ACCEL_GPU_OP_ATTENTION_H
#define ACCEL_GPU_OP_ATTENTION_H

#include "gpu/gpu_ops.h"

enum {
  GPU_Q,
  GPU_K,
  GPU_V,
  GPU_BIAS,
  GPU_Q_POS,
  GPU_KV_POS,
  GPU_MASK,
  GPU_SINKS,
  GPU_REL_K,
  GPU_REL_Q
};
enum { GPU_MAX_HEAD = 512 }; /* columns of a head: attention.k's MAX_D */

typedef struct gpu_attention {
  int64_t heads, kv_heads, dk, dv, bias_kind;
  kit_rows q, kv;
  int32_t whole_q[2], whole_kv[2];
  gpu_binding q_start, kv_start, more;
  const int64_t *probs;
  uint32_t n_probs;
} gpu_attention;

/* The kernel's buffer `more`; its flags 1 to 64. */
int32_t gpu_attention_more(gpu_run *run, const kit_launch *l, gpu_attention *a,
                           accel_plugin_error *error);
int32_t gpu_attention_flags(const kit_launch *l);
/* A dense bias too small for `rows` queries and `keys` keys. */
int32_t gpu_attention_check(const kit_launch *l, const gpu_attention *a, int32_t rows, int32_t keys,
                            accel_plugin_error *error);
/* gpu_op_kv.c: the whole op, for nodes with a state. */
int32_t gpu_attention_pages(gpu_run *run, const kit_launch *l, accel_plugin_error *error);

#endif
