/* gpu_attention_common.h - what attention over operands (gpu_op_attention.c) and over a
 * session's pages (gpu_op_kv.c) share. */
#ifndef ACCEL_GPU_ATTENTION_COMMON_H
#define ACCEL_GPU_ATTENTION_COMMON_H

#include "gpu/gpu_layer.h"

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
enum {
  GPU_MAX_HEAD = 512,      /* columns of a head: attention.k's MAX_D */
  GPU_MAX_TILE_HEAD = 128, /* columns of its values: attention_tile.k's largest DV */
  GPU_TILE_ROWS = 64       /* its ROWS */
};

typedef struct gpu_attention {
  int64_t heads, kv_heads, dk, dv, bias_kind;
  kit_rows q, kv;
  int32_t whole_q[2], whole_kv[2];
  gpu_binding q_start, kv_start, more;
  const int64_t *probs;
  uint32_t n_probs;
} gpu_attention;

/* Whether attention_tile.k computes the result of such heads: not where a CPU is behind the API,
 * which compiles it for seconds and gains nothing. */
bool gpu_attention_tiled(const gpu_self *self, const gpu_attention *a);
/* Workgroups of it for `rows` rows. */
int64_t gpu_attention_tiles(const gpu_attention *a, int64_t rows);

/* Fills a->more, the kernel's buffer `more`: what it needs of a dense bias, the heads whose
 * probabilities are outputs, and the table of relative positions (kernels/attention.k). */
int32_t gpu_attention_more(gpu_run *run, const kit_launch *l, gpu_attention *a,
                           accel_plugin_error *error);
/* The kernel's flags 1 to 64: causal, and which operands are there. */
int32_t gpu_attention_flags(const kit_launch *l);
/* Fails when a dense bias, or the output of probabilities, is too small for `rows` queries and
 * `keys` keys. */
int32_t gpu_attention_check(const kit_launch *l, const gpu_attention *a, int32_t rows, int32_t keys,
                            accel_plugin_error *error);
#endif
