/* cpu.h - what the files of the CPU plugin share: an endpoint's data and the types of its
 * functions.
 *
 * From the kit's table to the kernels, each layer calling those below it:
 *
 *   cpu_plugin.c      the table that the core sees, made from the kit's
 *   cpu_launch.c      what the kit calls for each node: a look into the table of ops
 *   cpu_ops.c         the table of ops: launch, workspace, what may be fused, ...
 *   cpu_<family>.c    one family of ops each: linear, attention, conv, rows, select, shape, ...
 *   cpu_parallel.c    splits the work of a launch over the host's threads
 *   kernels/          what runs on one core: cpu_kernels.def lists them, kernels.h says what
 *                     they compute
 *
 * Beside them:
 *
 *   cpu_device.c      the one device and its memory
 *   cpu_weights.c     opens an endpoint: packs its weights (cpu_conv_weights.c and
 *                     cpu_moe_weights.c those of their ops, cpu_file_blocks.c what lies in files as
 *                     it is wanted)
 *   cpu_store.c       packed weights from the core's cache, segment by segment
 *   cpu_stream.c      weights that do not all stay in memory: what does, and packing the rest as it
 *                     is read
 *   cpu_moe_stream.c  experts that are read when they are routed
 *   cpu_pack*.c       the layouts of packed weights
 *   cpu_isa.c         the instruction sets of this machine, and the kernels of each
 *   cpu_limit.c       what the instructions allow, for profiles
 *   cpu_blas.c        OpenBLAS, for processors without kernels of ours
 */
#ifndef ACCEL_CPU_H
#define ACCEL_CPU_H

#include "cpu_conv_weights.h"
#include "cpu_limit.h"
#include "cpu_moe_weights.h"
#include "cpu_pack.h"
#include "cpu_parallel.h"
#include "formats/weight_matrix.h"
#include "kernels/kernels.h"
#include "kit/kit.h"

static inline int64_t cpu_aligned(int64_t bytes) {
  return (bytes + KIT_ALIGN - 1) / KIT_ALIGN * KIT_ALIGN;
}
/* The same of floats. */
static inline int64_t cpu_aligned_floats(int64_t floats) {
  return cpu_aligned(floats * (int64_t)sizeof(float)) / (int64_t)sizeof(float);
}

/* ---- weights ---- */

/* Weight matrices of one or more linear nodes, packed. */
typedef struct cpu_linear {
  int32_t w, gate; /* weight indices; gate -1: none, or in w */
  int32_t bias;    /* weight index; only INTERLEAVED, whose biases are stored apart */
  int32_t glu;     /* accel_plugin_kind GLU_ */
  int32_t trans;   /* stored [K,N] */
  int64_t n, k;    /* columns of the result */
  cpu_layout layout;
  accel_plugin_format format; /* that w came in */
  int64_t panels;
  uint64_t panel_bytes;
  char *packed;                /* [panels][panel_bytes]; NULL: in segments */
  uint32_t segment, n_segment; /* of cpu_streaming; n_segment 0: not streamed */
  float *bias_up, *bias_gate;  /* [n] each; INTERLEAVED with a bias only */
} cpu_linear;

typedef struct cpu_weight {
  bool raw; /* some op reads all of it as fp32: data */
  /* gather reads rows of it: data, or, when nothing else asks for fp32, panels or table */
  bool gathered;
  bool mapped; /* weight_map is held until cleanup */
  const float *data;
  float *small;   /* its place in the arena; NULL: it has none */
  float *copy;    /* of a mapping that is not aligned, or not fp32 */
  int32_t panels; /* index + 1 of the linear in whose panels its rows are; 0 none */
  bool by_rows;   /* rows are read from the file when they are gathered */
  accel_matrix table;
} cpu_weight;

/* cblas_sgemm */
typedef void cpu_sgemm_fn(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                          const float *a, int lda, const float *b, int ldb, float beta, float *c,
                          int ldc);

/* An endpoint's private part; immutable after open. */
typedef struct cpu_self {
  const accel_plugin_program *program;
  cpu_kernels kernels;
  bool codes, bf16;    /* the precision is int8, bf16: attention may multiply 8-bit codes, bf16 */
  cpu_sgemm_fn *sgemm; /* OpenBLAS runs the linear nodes it takes; NULL: our kernels do */
  cpu_weight *weight;  /* [n_weight] */
  cpu_linear *linear;
  uint32_t n_linear;
  int32_t *linear_of; /* [n_node]: index into linear, -1 none */
  void *arena;        /* all packed panels, and small weights */
  uint64_t arena_bytes;
  cpu_convs convs;
  cpu_moes moes;
  struct cpu_streaming *stream; /* cpu_stream.h; NULL: all weights stay in memory */
  cpu_limits *limits;           /* what profiles have measured; NULL: no memory for it */
} cpu_self;

/* What the panels of a linear have in common: cpu_pack.h. */
static inline cpu_panel cpu_linear_shape(const cpu_kernels *kernels, const cpu_linear *l) {
  return (cpu_panel){.layout = l->layout,
                     .kernels = kernels,
                     .format = &l->format,
                     .k = l->k,
                     .cols = kernels->linear[l->layout].cols};
}

/* The row of its stored matrix (w, or gate) that column `col` of a linear comes from: of its up
 * half, or of its gate. */
static inline int64_t cpu_linear_row(const cpu_linear *l, int64_t col, bool gate) {
  switch (l->glu) {
    case ACCEL_PLUGIN_GLU_GATE_FIRST:
      return gate ? col : l->n + col;
    case ACCEL_PLUGIN_GLU_GATE_LAST:
      return gate ? l->n + col : col;
    case ACCEL_PLUGIN_GLU_INTERLEAVED:
      return 2 * col + !gate;
  }
  return col;
}

/* Columns of the result in one of its panels. */
static inline int64_t cpu_linear_width(const cpu_linear *l, int32_t panel_cols) {
  return l->glu == ACCEL_PLUGIN_GLU_NONE ? panel_cols : panel_cols / 2;
}

/* Memory for packed weights, in huge pages when it is large; free() it.  NULL: *error says so. */
static inline void *cpu_alloc_weights(const accel_plugin_host *host, uint64_t bytes,
                                      accel_plugin_error *error) {
  void *memory = kit_fault(host, "allocation") ? NULL : kit_alloc_pages(bytes);
  if (!memory) kit_no_memory(error, bytes);
  return memory;
}

/* ---- devices ---- */

int32_t cpu_devices(const accel_plugin_host *host, accel_plugin_device *out, uint32_t capacity,
                    uint32_t *n, accel_plugin_error *error);
int32_t cpu_memory(uint32_t device, accel_plugin_memory *out, accel_plugin_error *error);

/* ---- the functions of an op: cpu_ops.h ---- */

/* Runs a node; ACCEL_PLUGIN_OK, or an error that *error describes. */
typedef int32_t cpu_launch_fn(const cpu_self *self, const kit_launch *launch,
                              accel_plugin_error *error);
/* Bytes of workspace that a launch of these shapes needs; data pointers are NULL.  self: NULL
 * before there is an endpoint, then the most that any choice of weights may need. */
typedef uint64_t cpu_workspace_fn(const cpu_self *self, const cpu_kernels *kernels,
                                  const kit_launch *shapes, uint32_t workers);
/* Whether `other` runs in one launch with `first`: beside it or after it. */
typedef bool cpu_fuse_fn(const cpu_self *self, const accel_plugin_program *program,
                         const accel_plugin_node *first, const accel_plugin_node *other);
/* Microseconds that a launch would take with all operands in the caches; 0: not known. */
typedef double cpu_limit_fn(const cpu_self *self, const kit_launch *launch);

#endif
