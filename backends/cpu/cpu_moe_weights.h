/* cpu_moe_weights.h - weights of experts, packed at init by cpu_moe_weights.c in the panels of
 * cpu_linear.c. */
#ifndef ACCEL_CPU_MOE_WEIGHTS_H
#define ACCEL_CPU_MOE_WEIGHTS_H

#include "cpu_store.h"
#include "kernels/kernels.h"
#include "kit/kit.h"

/* One matrix of every expert: [experts][n, k]. */
typedef struct cpu_experts {
  const struct cpu_moe *moe;
  int32_t w; /* weight index */
  accel_plugin_format format;
  cpu_layout layout;
  int64_t n, k, panels; /* n: columns of the result */
  uint64_t panel_bytes;
  char *packed; /* [experts][panels][panel_bytes] */
} cpu_experts;

typedef struct cpu_moe {
  int64_t experts;
  int32_t glu;
  /* up's panels hold both halves of the gate and the kernel joins them; else its columns are the
   * rows of w_gate_up */
  bool fused;
  cpu_experts up, down;
} cpu_moe;

typedef struct cpu_moes {
  cpu_moe *at;
  uint32_t n;
  int32_t *of; /* [n_node]: index into at, -1 none */
} cpu_moes;

/* Whether operand `operand` of the node is packed here. */
bool cpu_moe_packs(const accel_plugin_program *program, const accel_plugin_node *node,
                   uint32_t operand);
/* Gives all of them memory (not where load->host is NULL), and appends the blocks that fill it,
 * which stay valid as long as `out`.  cpu_moes_free also after a failure. */
int32_t cpu_moes_open(const cpu_load *load, cpu_blocks *blocks, cpu_moes *out,
                      accel_plugin_error *error);
void cpu_moes_free(cpu_moes *moes);

#endif
