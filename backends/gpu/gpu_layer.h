/* gpu_layer.h - the op layer's own header: what the files of backends/gpu share.
 *
 * An op is a function that turns one node into dispatches:
 *
 *   int32_t gpu_op_softmax(gpu_run *run, const kit_launch *l, accel_plugin_error *error) {
 *     gpu_call c = gpu_call_new(run, l, GPU_K_softmax_rows);
 *     gpu_tensor(&c, &l->in[0]);             buffers, in the order of the kernel's BUFFERS
 *     gpu_tensor(&c, &l->out[0]);
 *     const gpu_params_softmax_rows params = {.rows = rows, .cols = cols};
 *     gpu_set_softmax_rows(&c, &params);     parameters: made of the kernel's PARAMS
 *     return gpu_dispatch_rows(&c, rows, error);
 *   }
 *
 * and a line in gpu_ops.c. Results without elements never reach an op.
 *
 * Files, from the top: gpu_plugin.c (the plugin's table), gpu_backend.c (the kit's hooks:
 * support, open, launch), gpu_buffers.c (memory of no endpoint), gpu_variants.c (which kernels
 * of some devices an endpoint takes; gpu_probe*.c try and time them), gpu_split.c (nodes whose
 * operands pass a binding), gpu_ops.c (the table of ops), gpu_op_*.c (the ops), gpu_product.c
 * and gpu_attention_common.c (what two of them share), gpu_run.c (constants, checks, dispatch),
 * gpu_weights.c (formats, upload), gpu_offload.c, gpu_disk.c and gpu_offload_plan.c (weights in
 * host memory and on the disk; the last asks gpu_weights.c for sizes), gpu_memory.c (pool, upload,
 * download). Each calls only
 * those that follow it otherwise. */
#ifndef ACCEL_GPU_LAYER_H
#define ACCEL_GPU_LAYER_H

#include <pthread.h>

#include "gpu/gpu.h"

static inline int64_t gpu_least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t gpu_ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* ---- gpu_memory.c: pooled sub-allocation ---- */

typedef struct gpu_chunk gpu_chunk;

/* A part of a chunk; what the kit knows as a device buffer. */
typedef struct gpu_memory {
  gpu_buffer *buffer;
  uint64_t offset, bytes;
  gpu_chunk *chunk;
} gpu_memory;

static inline gpu_binding gpu_memory_at(const gpu_memory *m) {
  return (gpu_binding){.buffer = m->buffer, .offset = m->offset, .bytes = m->bytes};
}

typedef struct gpu_pool {
  gpu_device *device;
  const gpu_limits *limits;
  pthread_mutex_t lock;
  gpu_chunk *chunks;
} gpu_pool;

void gpu_pool_open(gpu_pool *pool, gpu_device *device, const gpu_limits *limits);
void gpu_pool_close(gpu_pool *pool); /* everything is released, whatever was not given back */
/* bytes > 0.  E_DEVICE_MEMORY says how much was asked for and what would help. */
int32_t gpu_pool_take(gpu_pool *pool, uint64_t bytes, gpu_memory **out, accel_plugin_error *error);
/* NULL: nothing.  Empty chunks go back to the device */
void gpu_pool_give(gpu_pool *pool, gpu_memory *memory);

/* The whole chunk that a part lies in, from its first byte: parts' offsets are theirs in it. */
gpu_binding gpu_pool_chunk(const gpu_memory *memory);

/* ---- gpu_weights.c ---- */

/* What a group's scale is stored as: w = (code - zero) * scale * outer. */
typedef enum gpu_scale {
  GPU_SCALE_NONE = 0, /* plain stores */
  GPU_SCALE_F32 = 1,  /* a word: scale * outer as a float; no zero */
  GPU_SCALE_HALF = 2, /* a word: fp16 scale in the low half, zero (0..255) in the high half */
  GPU_SCALE_BF16 = 3, /* the same with a bf16 scale */
  GPU_SCALE_PAIR = 4  /* two words: scale * outer as a float, then the zero as a float */
} gpu_scale;
/* A weight as the matrix [n, k] on the device.  data: rows of row_words 32-bit words, codes from
 * the low bits up, zeros beyond k.  scale: for each group, [groups_n][groups_k]. */
typedef struct gpu_weight {
  int64_t n, k;
  gpu_store store;
  gpu_scale scale_kind;
  uint32_t row_words;        /* words of one row, gpu_row_words */
  uint32_t group_k, group_n; /* never 0: the whole axis is its length */
  uint32_t groups_k;
  float outer;
  gpu_memory *data, *scale; /* scale NULL for plain stores */
  /* [n_panel] when data does not fit one allocation: rows_per_panel rows each; then data is NULL */
  gpu_memory **panel;
  uint32_t n_panel;
  int64_t rows_per_panel;
  /* of gpu_cpu_kernels.pack; then data and scale are NULL where linear nodes alone read it */
  struct gpu_packed *packed;
} gpu_weight;

/* A weight that is being loaded: what the host gives, and room to arrange parts of it. */
typedef struct gpu_weight_source {
  struct gpu_self *self;
  const accel_plugin_weight *weight;
  const accel_plugin_format *format;
  accel_plugin_weight_view *view;  /* data NULL: not lent yet */
  const accel_plugin_host *lender; /* of what is lent */
  bool lent;
  uint32_t *staging; /* GPU_STAGING bytes */
  char *host;        /* of an offloaded weight: where it goes in place of device memory */
} gpu_weight_source;
enum { GPU_STAGING = 4 << 20 };

extern const uint8_t gpu_store_bits[GPU_STORES];
/* Words of a row of k numbers: I8 in multiples of 16 bytes, which kernels load at once. */
uint32_t gpu_row_words(gpu_store store, int64_t k);
/* Whether kernels read weights stored as this accel_plugin_dtype; *out: as which store. */
bool gpu_store_of(uint8_t dtype, gpu_store *out);

/* accel_plugin_answer, and why not. */
int32_t gpu_weight_format(const accel_plugin_program *program, uint32_t index,
                          const accel_plugin_format *format, char *why, size_t why_size);
uint64_t gpu_weight_bytes(const accel_plugin_program *program, uint32_t index,
                          const accel_plugin_format *format);
/* The same as two numbers: answers the data's, *scale gets that of the scales. */
uint64_t gpu_weight_parts(const accel_plugin_program *program, uint32_t index,
                          const accel_plugin_format *format, uint64_t *scale);
struct gpu_self;
int32_t gpu_weights_load(struct gpu_self *self, const kit_open *open, accel_plugin_error *error);
void gpu_weights_free(struct gpu_self *self);

/* Binding of rows [first, ...) of a weight's data: as many as one allocation and one binding hold.
 * Answers how many. */
int64_t gpu_weight_rows(const struct gpu_self *self, const gpu_weight *w, int64_t first,
                        gpu_binding *out);

/* ---- gpu_backend.c ---- */

typedef struct gpu_self { /* an endpoint */
  gpu_device *device;
  gpu_limits limits;
  gpu_pool pool;
  const accel_plugin_program *program;
  gpu_weight *weight; /* [program.n_weight] */
  gpu_memory *none;   /* a few zeros: bound where an operand is absent */
  uint8_t kv_dtype;
  uint32_t variants;           /* gpu_variant: those that may be taken */
  struct gpu_offload *offload; /* NULL: all weights are in device memory */
} gpu_self;

/* The kit_backend hooks. */
int32_t gpu_support(const accel_plugin_program *program, const accel_plugin_node *node,
                    const accel_plugin_precision *precision, char *why, size_t why_size);
int32_t gpu_open(kit_open *open, void **self, accel_plugin_error *error);
void gpu_close(void *self);
void *gpu_weight_buffer(void *self, uint32_t index);
bool gpu_fuse_parallel(void *self, const accel_plugin_program *program,
                       const accel_plugin_node *first, const accel_plugin_node *other);
int32_t gpu_launch(void *self, const kit_launch *launch, accel_plugin_error *error);
bool gpu_strided(const accel_plugin_program *program, const accel_plugin_node *node,
                 uint32_t operand);
uint64_t gpu_workspace(void *self, const kit_launch *shapes, uint32_t workers);
int32_t gpu_alloc(void *self, uint64_t bytes, void **buffer, accel_plugin_error *error);
void gpu_release(void *self, void *buffer);
int32_t gpu_upload(void *self, void *buffer, uint64_t offset, const void *source, uint64_t bytes,
                   accel_plugin_error *error);
int32_t gpu_download(void *self, void *destination, void *buffer, uint64_t offset, uint64_t bytes,
                     accel_plugin_error *error);
int32_t gpu_begin(void *self, const kit_begin *begin, void **run, accel_plugin_error *error);
int32_t gpu_finish(void *self, void *run, bool ok, double *device_ms, accel_plugin_error *error);

/* Initialisers of a kit_backend: all of its hooks that the GPU plugins have. */
#define GPU_BACKEND_HOOKS                                                                       \
  .support = gpu_support, .weight_format = gpu_weight_format, .weight_bytes = gpu_weight_bytes, \
  .open = gpu_open, .close = gpu_close, .weight = gpu_weight_buffer, .launch = gpu_launch,      \
  .fuse_parallel = gpu_fuse_parallel, .strided = gpu_strided, .workspace = gpu_workspace,       \
  .alloc = gpu_alloc, .release = gpu_release, .upload = gpu_upload, .download = gpu_download,   \
  .begin = gpu_begin, .finish = gpu_finish, .stream_estimate = gpu_offload_estimate

int32_t gpu_offload_estimate(uint32_t device, const accel_plugin_program *program,
                             const accel_plugin_options *options, accel_plugin_estimate *out,
                             accel_plugin_error *error); /* gpu_offload.h */

/* ---- gpu_buffers.c: the plugin's buffer_* ---- */

int32_t gpu_buffer_alloc(uint32_t device, uint64_t n, void **out, accel_plugin_error *error);
void gpu_buffer_free(uint32_t device, void *buffer);
int32_t gpu_buffer_copy(uint32_t device, void *dst, uint64_t dst_offset, const void *src,
                        uint64_t src_offset, uint64_t n, int32_t to_device,
                        accel_plugin_error *error);

/* ---- gpu_run.c: one run ---- */

enum {
  GPU_CHECKS = 1024, /* checks of indices in one run that are told apart */
  GPU_SCRATCHES = 24 /* sizes of gpu_scratch */
};

/* What a kernel checks for the host: error word i starts at INT32_MAX and sinks to the first
 * position of `idx` whose value is outside 0..limit-1. */
typedef struct gpu_check {
  uint32_t node;
  int64_t limit;
  gpu_binding idx;
  const char *what; /* "index", "row", "expert" */
} gpu_check;

typedef struct gpu_run {
  gpu_self *self;
  gpu_stream *stream;
  const accel_plugin_program *program;
  const kit_rows *rows;
  double *node_us;    /* kit_begin's; NULL: not profiled */
  gpu_memory *errors; /* int32 [GPU_CHECKS] */
  gpu_check *check;   /* [n_check] */
  uint32_t n_check;
  gpu_memory *scratch[GPU_SCRATCHES]; /* of 64 KiB, 128 KiB and so on, where one was asked for */
  gpu_memory **block;                 /* of constants; the last is being filled */
  uint32_t n_block, room_block;
  uint64_t used;           /* bytes of the last block */
  struct gpu_known *known; /* [n_known] small constants so far: what is told again is not copied */
  uint32_t n_known, room_known;
  gpu_binding *start; /* [program.n_space]; bytes 0 until asked for */
  double earlier_ms;  /* on the device, of streams before this one */
} gpu_run;

/* Waits for all that the run has told the device, so that the host may read and write what lies
 * there, and begins a stream for the rest of the run. */
int32_t gpu_wait_and_go_on(gpu_run *run, const accel_plugin_host *host, accel_plugin_error *error);

/* What the device does from here to the next mark counts for `node` of a profiled run. */
int32_t gpu_mark(gpu_run *run, uint32_t node, accel_plugin_error *error);
/* Host data that this run's kernels only read: copied now, on the device before the next dispatch,
 * valid until the run ends. The same data is copied once, if it is small. bytes > 0 and a multiple
 * of 4. */
int32_t gpu_constant(gpu_run *run, const void *data, uint64_t bytes, gpu_binding *out,
                     accel_plugin_error *error);
/* Memory for what kernels of one node tell one another, where its size is not known before the run
 * (else: gpu_op.workspace): the node's until its last dispatch, as the next node may get the same.
 * bytes > 0. */
int32_t gpu_scratch(gpu_run *run, uint64_t bytes, gpu_binding *out, accel_plugin_error *error);
/* int32 start[items + 1] of the rows that attribute `key` names, as kit_rows_of; uploaded once for
 * each space and run. */
int32_t gpu_starts(gpu_run *run, const kit_launch *l, uint32_t key, int64_t rows, int32_t whole[2],
                   kit_rows *host, gpu_binding *device, accel_plugin_error *error);
/* A check of the indices in `idx`: *word is the element of *errors (int32, an OUT buffer) that the
 * kernel lowers with MIN_AT to the position of a bad one.  Bad positions read nothing and give
 * zeros; the run then fails with the position and value.
 */
int32_t gpu_check_indices(gpu_run *run, const kit_launch *l, const char *what,
                          const kit_tensor *idx, int64_t limit, gpu_binding *errors, int32_t *word,
                          accel_plugin_error *error);

/* ---- gpu_run.c: one dispatch ---- */

typedef struct gpu_call {
  gpu_run *run;
  const kit_launch *launch;
  uint32_t kernel, n_bind, n_param;
  uint32_t params; /* gpu_kernel.params of the parameters that were set */
  gpu_binding bind[GPU_BINDINGS];
  union {
    int32_t i;
    float f;
  } param[GPU_PARAMS / 4];
  bool too_large;   /* a number did not fit 31 bits, or a buffer a binding */
  uint64_t largest; /* bytes of the largest buffer */
  int32_t widest;   /* tensor that it is; -1: none of the program's */
} gpu_call;

/* A call of `kernel`, or of its variant by sub-groups where the endpoint takes these. */
gpu_call gpu_call_new(gpu_run *run, const kit_launch *l, uint32_t kernel);
void gpu_bind(gpu_call *c, gpu_binding binding);
/* Where a tensor lies; absent ones are the zeros of gpu_self.none. */
gpu_binding gpu_at(const gpu_run *run, const kit_tensor *t);
void gpu_tensor(gpu_call *c, const kit_tensor *t);
/* One parameter more; for gpu_params.h and its like alone. */
void gpu_int(gpu_call *c, int64_t value);
void gpu_float(gpu_call *c, double value);
/* By embed.cmake of the kernels' PARAMS: for each line <name> of gpu_kernels.def the struct
 * gpu_params_<name> and gpu_set_<name>(), which gives a call these parameters. Integers are wide
 * here, so that one that passes 31 bits fails at the dispatch with the tensor's name. */
#include "gpu/gpu_params.h"
/* The grid as given (each within the device's limit), over `items` invocations along x, or `groups`
 * groups along x: the last two are cut to the limit, and for a CPU's own kernels to eight groups a
 * compute unit; kernels loop. */
int32_t gpu_dispatch_grid(gpu_call *c, int64_t x, int64_t y, int64_t z, accel_plugin_error *error);
int32_t gpu_dispatch_items(gpu_call *c, int64_t items, accel_plugin_error *error);
int32_t gpu_dispatch_rows(gpu_call *c, int64_t groups, accel_plugin_error *error);
/* A copy on the device between tensors or parts of them. */
int32_t gpu_copy(gpu_run *run, gpu_binding to, gpu_binding from, accel_plugin_error *error);
static inline gpu_binding gpu_part(gpu_binding b, uint64_t offset, uint64_t bytes) {
  return (gpu_binding){.buffer = b.buffer, .offset = b.offset + offset, .bytes = bytes};
}

/* An operand as a matrix [n, k] in some store: a weight, or fp32 rows of anything else. */
typedef struct gpu_matrix {
  gpu_weight w;
  gpu_binding plain; /* bytes 0: w is a weight */
} gpu_matrix;
gpu_matrix gpu_matrix_of(const gpu_run *run, const kit_tensor *t);
/* As gpu_weight_rows. */
int64_t gpu_matrix_rows(const gpu_run *run, const gpu_matrix *m, int64_t first, gpu_binding *out);
/* The two buffers `w` and `scale` of kernels/weight.h for a part. */
void gpu_matrix_bind(gpu_call *c, const gpu_matrix *m, gpu_binding rows);
/* Initialisers of its WEIGHT_PARAMS, for matrix *m whose rows from `first` on are bound. */
#define GPU_WEIGHT_PARAMS(m, first)                                                        \
  .row_words = (m)->w.row_words, .row_first = (first), .group_k = (m)->w.group_k,          \
  .group_n = (m)->w.group_n, .groups_k = (m)->w.groups_k, .scale_kind = (m)->w.scale_kind, \
  .outer = (double)(m)->w.outer
/* Where the launch's workspace lies, from byte `offset`. */
gpu_binding gpu_workspace_at(const kit_launch *l, uint64_t offset, uint64_t bytes);
gpu_binding gpu_none(const gpu_run *run);

/* ---- kernels of CPUs, by the API layer ---- */

struct gpu_product; /* gpu_product.h */

struct gpu_cpu_kernels {
  const gpu_kernel *kernels; /* kernels[i] is kernel GPU_KERNELS + i */
  /* Taken for GPU_K_norm_rows, and for GPU_K_attention_rows but with disentangled biases: kernels
   * with the same buffers and parameters, of which a workgroup has a run of rows. */
  uint32_t attention_rows, norm_rows;
  uint32_t vector; /* floats of a vector register */
  /* Sets w->packed, or leaves it NULL when this weight is not packed.  On failure what was
   * allocated stays in w->packed. */
  int32_t (*pack)(const gpu_weight_source *source, gpu_weight *w, accel_plugin_error *error);
  void (*packed_free)(gpu_self *self, gpu_weight *w);
  /* Bytes of gpu_product.activations_q for m rows. */
  uint64_t (*packed_workspace)(const gpu_self *self, const gpu_weight *w, int64_t m);
  int32_t (*packed_multiply)(gpu_run *run, const kit_launch *l, const struct gpu_product *p,
                             accel_plugin_error *error);
};

/* ---- gpu_split.c ---- */

/* The node's op, once or for each part of its first dim that a binding holds. */
int32_t gpu_launch_split(gpu_run *run, const kit_launch *l, accel_plugin_error *error);

/* ---- gpu_ops.c ---- */

typedef struct gpu_op {
  int32_t (*launch)(gpu_run *run, const kit_launch *l, accel_plugin_error *error);
  /* What of this node the op does not do: accel_plugin_answer and why.  NULL: it does all of the
   * op. */
  int32_t (*support)(const accel_plugin_program *program, const accel_plugin_node *node, char *why,
                     size_t why_size);
  uint32_t strided; /* bit i: operand i may be a column slice (kit_tensor.row_stride) */
  /* Bytes of workspace for these shapes (kit_backend.workspace).  NULL: none. */
  uint64_t (*workspace)(const gpu_self *self, const kit_launch *shapes);
  /* Whether `launch` takes both nodes at once (kit_backend.fuse_parallel).  NULL: never. */
  bool (*fuse_parallel)(const gpu_self *self, const accel_plugin_program *program,
                        const accel_plugin_node *first, const accel_plugin_node *other);
} gpu_op;
const gpu_op *gpu_op_of(uint32_t op); /* launch NULL: not there yet */

#define GPU_OP(name) \
  int32_t gpu_op_##name(gpu_run *run, const kit_launch *l, accel_plugin_error *error)
GPU_OP(softmax);
GPU_OP(unary);
GPU_OP(move); /* transpose, slice, broadcast */
GPU_OP(reshape);
GPU_OP(concat);
GPU_OP(pad);
GPU_OP(reduce);
GPU_OP(group_norm);
GPU_OP(pool);
GPU_OP(resize);
GPU_OP(conv);
GPU_OP(conv_transpose);
GPU_OP(binary);
GPU_OP(cast);
GPU_OP(linear);
GPU_OP(matmul);
GPU_OP(gather);
GPU_OP(norm);
GPU_OP(attention);
GPU_OP(rope);
GPU_OP(scatter_rows);
GPU_OP(topk);
GPU_OP(moe);
GPU_OP(allreduce);
GPU_OP(selective_scan);
GPU_OP(gated_delta_rule);
int32_t gpu_support_unary(const accel_plugin_program *program, const accel_plugin_node *node,
                          char *why, size_t why_size);
int32_t gpu_support_delta(const accel_plugin_program *program, const accel_plugin_node *node,
                          char *why, size_t why_size);
bool gpu_fuse_linear(const gpu_self *self, const accel_plugin_program *program,
                     const accel_plugin_node *first, const accel_plugin_node *other);
uint64_t gpu_workspace_linear(const gpu_self *self, const kit_launch *shapes);
uint64_t gpu_workspace_attention(const gpu_self *self, const kit_launch *shapes);
uint64_t gpu_workspace_moe(const gpu_self *self, const kit_launch *shapes);

#endif
