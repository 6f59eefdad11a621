/* cpu.h - what the files of the CPU plugin share.
 *
 * cpu_plugin.c   the table the core sees         cpu_device.c   the one device and its memory       cpu_isa.c      instruction sets and
 * kernel tables cpu_blas.c     OpenBLAS for processors without kernels of ours cpu_weights.c  packing at init cpu_launch.c   op ->
 * function, shared splitting    cpu_linear.c cpu_matmul.c cpu_attention.c cpu_rows.c   one family of ops each kernels/   what runs on one
 * core: cpu_kernels.def lists them, kernels.h says what they compute
 */
#ifndef ACCEL_CPU_H
#define ACCEL_CPU_H

#include "cpu_conv_weights.h"
#include "formats/weight_matrix.h"
#include "kernels/kernels.h"
#include "kit/kit.h"
#include "cpu_moe.h"
#include "cpu_pack.h"

static inline int64_t cpu_aligned(int64_t bytes) {
  return (bytes + KIT_ALIGN - 1) / KIT_ALIGN * KIT_ALIGN;
}

/* ---- weights ---- */

/* Weight matrices of one or more linear nodes, packed. */
typedef struct cpu_linear {
  int32_t w, gate; /* weight indices; gate -1: none, or in w */
  int32_t bias;    /* weight index; only INTERLEAVED, whose biases are stored apart */
  int32_t glu;     /* accel_plugin_kind GLU_ */
  int32_t trans;   /* stored [K,N] */
  int64_t n, k;    /* columns of the result */
  cpu_layout form;
  accel_plugin_format format; /* that w came in */
  int64_t panels;
  uint64_t panel_bytes;
  char *packed;               /* [panels][panel_bytes] */
  float *bias_up, *bias_gate; /* [n] each; INTERLEAVED with a bias only */
} cpu_linear;

typedef struct cpu_weight {
  bool raw; /* some op reads all of it as fp32: data */
  /* gather reads rows of it: data, or, when nothing else asks for fp32, panels or table */
  bool gathered;
  bool mapped; /* weight_map is held until cleanup */
  const float *data;
  float *copy;    /* of a mapping that is not aligned, or not fp32 */
  int32_t panels; /* index + 1 of the linear in whose panels its rows are; 0 none */
  accel_matrix table;
} cpu_weight;

/* cblas_sgemm */
typedef void cpu_sgemm_fn(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                          const float *a, int lda, const float *b, int ldb, float beta, float *c,
                          int ldc);

typedef struct cpu_limits cpu_limits; /* cpu_limit.c */

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
  void *arena;        /* all packed panels */
  uint64_t arena_bytes;
  cpu_convs convs;
  cpu_moes moes;
  cpu_limits *limits; /* what profiles have measured; NULL: no memory for it */
} cpu_self;

/* What the panels of a linear have in common: cpu_pack.h. */
cpu_panel cpu_linear_shape(const cpu_kernels *kernels, const cpu_linear *linear);

int32_t cpu_open(kit_open *open, void **self, accel_plugin_error *error);
void cpu_close(void *self);
void *cpu_weight_data(void *self, uint32_t index);
/* Gives back the mappings that were kept; before cpu_close. */
void cpu_unmap(cpu_self *self, const accel_plugin_host *host);
/* Bytes that cpu_open keeps for a weight: kit_backend.weight_bytes. */
uint64_t cpu_weight_bytes(const accel_plugin_program *program, uint32_t index,
                          const accel_plugin_format *format);
/* Whether it is read where the core mapped it: kit_backend.weight_in_place. */
bool cpu_weight_stays(const accel_plugin_program *program, uint32_t index,
                      const accel_plugin_format *format);
int32_t cpu_weight_format(const accel_plugin_program *program, uint32_t index,
                          const accel_plugin_format *format, char *why, size_t why_size);

/* Room for packed weights, in huge pages when it is large; free() it.  NULL: *error says so. */
void *cpu_alloc_weights(const accel_plugin_host *host, uint64_t bytes, accel_plugin_error *error);

/* Whether an operand is packed for convolutions or experts: cpu_conv_weights.h, cpu_moe.h. */
static inline bool cpu_op_packs(const accel_plugin_program *program, const accel_plugin_node *node,
                                uint32_t operand) {
  return cpu_conv_packs(program, node, operand) || cpu_moe_packs(program, node, operand);
}

/* ---- devices ---- */

int32_t cpu_devices(const accel_plugin_host *host, accel_plugin_device *out, uint32_t capacity,
                    uint32_t *n, accel_plugin_error *error);
int32_t cpu_memory(uint32_t device, accel_plugin_memory *out, accel_plugin_error *error);

/* ---- launches ---- */

int32_t cpu_launch(void *self, const kit_launch *launch, accel_plugin_error *error);
uint64_t cpu_workspace(void *self, const kit_launch *shapes, uint32_t workers);
bool cpu_fuse_parallel(void *self, const accel_plugin_program *program,
                       const accel_plugin_node *first, const accel_plugin_node *other);
bool cpu_fuse_chain(void *self, const accel_plugin_program *program, const accel_plugin_node *first,
                    const accel_plugin_node *next);
bool cpu_strided(const accel_plugin_program *program, const accel_plugin_node *node,
                 uint32_t operand);

uint32_t cpu_workers(const kit_launch *launch);
/* fn(arg, i, worker) for i < n on the host's threads; on the calling one when n is 1 or there are
 * no others. */
void cpu_parallel(const kit_launch *launch, uint32_t n, accel_plugin_task_fn fn, void *arg);
/* Splits `rows` rows of `cost` (rough nanoseconds each) into tasks: 1 when splitting would not pay,
 * else a few per worker.
 */
uint32_t cpu_tasks(const kit_launch *launch, int64_t rows, double cost);
static inline int64_t cpu_share(int64_t all, uint32_t i, uint32_t n) { return all * i / n; }

/* ---- what instructions allow, for profiles ---- */

enum { CPU_LIMIT_KEY = 8 };
cpu_limits *cpu_limits_new(void);
void cpu_limits_free(cpu_limits *limits);
/* Microseconds of fn(arg, i) when all threads, i < cpu_workers, run it at once, again and again.
 * key: of what kind it is; each is measured once.  0: too many kinds. */
typedef void cpu_repeat_fn(const void *arg, uint32_t i);
double cpu_limit(cpu_limits *limits, const kit_launch *launch, const int64_t key[CPU_LIMIT_KEY],
                 cpu_repeat_fn *fn, const void *arg);
double cpu_limit_us(void *self, const kit_launch *launch); /* kit_backend.limit_us */
double cpu_linear_limit(const cpu_self *self, const kit_launch *launch);
double cpu_attention_limit(const cpu_self *self, const kit_launch *launch);

/* ---- */

/* Linears over the same x whose weights lie alike run as one product. */
bool cpu_linear_fuse_parallel(const cpu_self *self, const accel_plugin_program *program,
                              const accel_plugin_node *first, const accel_plugin_node *other);
/* Two linears, the second over the result of the first: block of rows by block of rows. */
bool cpu_linear_fuse_chain(const cpu_self *self, const accel_plugin_program *program,
                           const accel_plugin_node *first, const accel_plugin_node *next);
int32_t cpu_launch_linear(const cpu_self *self, const kit_launch *launch,
                          accel_plugin_error *error);
uint64_t cpu_linear_workspace(const cpu_self *self, const kit_launch *shapes, uint32_t workers);
int32_t cpu_launch_attention(const cpu_self *self, const kit_launch *launch,
                             accel_plugin_error *error);
uint64_t cpu_attention_workspace(const cpu_kernels *kernels, const kit_launch *shapes,
                                 uint32_t workers);
bool cpu_blas_wanted(cpu_isa isa);
cpu_sgemm_fn *cpu_blas_open(void); /* NULL: not installed */
bool cpu_blas_takes(const accel_plugin_node *node);
int32_t cpu_launch_blas(const cpu_self *self, const kit_launch *launch, accel_plugin_error *error);
uint64_t cpu_blas_workspace(const kit_launch *shapes);
int32_t cpu_launch_matmul(const cpu_self *self, const kit_launch *launch,
                          accel_plugin_error *error);
uint64_t cpu_matmul_workspace(const cpu_kernels *kernels, const kit_launch *shapes,
                              uint32_t workers);
int32_t cpu_launch_norm(const cpu_self *self, const kit_launch *launch, accel_plugin_error *error);
int32_t cpu_launch_softmax(const cpu_self *self, const kit_launch *launch,
                           accel_plugin_error *error);
int32_t cpu_launch_unary(const cpu_self *self, const kit_launch *launch, accel_plugin_error *error);
int32_t cpu_launch_binary(const cpu_self *self, const kit_launch *launch,
                          accel_plugin_error *error);
int32_t cpu_launch_gather(const cpu_self *self, const kit_launch *launch,
                          accel_plugin_error *error);
int32_t cpu_launch_reduce(const cpu_self *self, const kit_launch *launch,
                          accel_plugin_error *error);
int32_t cpu_launch_rope(const cpu_self *self, const kit_launch *launch, accel_plugin_error *error);
uint64_t cpu_rope_workspace(const kit_launch *shapes, uint32_t workers);

#endif
