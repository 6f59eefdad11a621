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
  char *packed; /* [experts][panels][panel_bytes]; NULL: of a cpu_moe that is streamed */
  /* streamed: an expert is read in so many parts, in coded formats segments of the cache, of which
   * the first expert's first has this number */
  uint32_t parts, segment;
  uint64_t stored; /* streamed: bytes of an expert as they are read */
} cpu_experts;

typedef struct cpu_moe {
  int64_t experts;
  /* not ACCEL_PLUGIN_GLU_NONE: up's panels hold both halves, which the kernel joins */
  int32_t glu;
  cpu_experts up, down;
  bool streamed;  /* its experts are read when they are routed: cpu_moe_stream.h */
  uint32_t first; /* streamed: the number of its first expert among those of all layers */
} cpu_moe;

typedef struct cpu_moes {
  cpu_moe *at;
  uint32_t n;
  int32_t *of; /* [n_node]: index into at, -1 none */
} cpu_moes;

struct cpu_linear;
/* The matrix of one expert as a linear of its own, whose weight it is a part of. */
struct cpu_linear cpu_expert_linear(const cpu_experts *e);
/* Rows of the weight that it takes. */
int64_t cpu_expert_rows(const cpu_experts *e);
/* Whether operand `operand` of the node is packed here. */
bool cpu_moe_packs(const accel_plugin_program *program, const accel_plugin_node *node,
                   uint32_t operand);
/* Finds them and how they are packed; cpu_moes_free also after a failure. */
int32_t cpu_moes_plan(const cpu_load *load, cpu_moes *out, accel_plugin_error *error);
/* Gives all of them memory (not where load->host is NULL, or they are streamed), and appends the
 * blocks that fill it, or the cache; these stay valid as long as `moes`. */
int32_t cpu_moes_open(const cpu_load *load, cpu_blocks *blocks, cpu_moes *moes,
                      accel_plugin_error *error);
void cpu_moes_free(cpu_moes *moes);

#endif
