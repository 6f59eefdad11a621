/* kit.h - what libaccel plugins share: a static library without global state.
 *
 * A backend fills one const kit_backend (a dozen hooks, most optional) and points the entries of
 * its accel_plugin table at the kit_* functions of section 7.  The kit then copies the program,
 * refuses what is not known, plans memory, binds shapes, walks the nodes and keeps sessions; the
 * backend only says how one node runs (`launch`) and where its weights are (`open`, `weight`).
 * backends/reference is the smallest example.  Errors are reported as plugin.h asks: a negative
 * accel_plugin_rc and a filled *error.
 *
 * Files, top to bottom: kit_answers.c (supports, estimate), kit_run.c (handler), kit_session.c
 * (sessions, with kit_sequence.c, kit_sequence_file.c, kit_state.c and kit_pages.c under it),
 * kit_endpoint.c (open, close), kit_stream.c (weights that do not all stay in memory),
 * kit_profile.c, kit_frame.c (what one run needs to itself), kit_plan_cache.c, kit_plan.c (memory
 * plans), kit_constants.c (on the device), kit_memory.c (limit, free list), kit_bind.c (dims, row
 * spaces), kit_program.c (copy, attributes, refusals), kit_weights.c (dequantising), kit_cost.c,
 * kit_scalar_*.c (every op in plain C), kit_adapter.c (adapters of a run's items), kit_graph*.c
 * (entries as static graphs, for backends whose library compiles them: kit_graph.h).
 */
#ifndef ACCEL_KIT_H
#define ACCEL_KIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "accel/plugin.h"

#if defined(__GNUC__)
#define KIT_PRINTF(format_index, first) __attribute__((format(printf, format_index, first)))
#else
#define KIT_PRINTF(format_index, first)
#endif

enum {
  /* in[] and out[] of a launch are padded with absent tensors up to these many */
  KIT_OPERANDS = 12,
  KIT_RESULTS = 2,
  /* of every scratch tensor; caller's buffers and sliced views may be less aligned */
  KIT_ALIGN = 64,
  KIT_PAGE_ROWS = 256,      /* tokens in one page of a KV state */
  KIT_SMALL_PAGE_ROWS = 64, /* the same of streaming endpoints in host memory */
  KIT_MAX_FUSED = 7         /* further nodes in one launch, at most */
};

/* ---- 1. errors ---- */

/* Fills *error (may be NULL) and returns rc. */
int32_t kit_fail(accel_plugin_error *error, int32_t rc, int32_t node, const char *format, ...)
    KIT_PRINTF(4, 5);
int32_t kit_no_memory(accel_plugin_error *error, uint64_t bytes); /* E_HOST_MEMORY */
/* Value of `key` in "key=value;key=value": its length is written to *n; NULL when absent. */
const char *kit_extra(const char *extra, const char *key, size_t *n);
/* Asks the host's fault injection (ACCEL_FAIL_AT): "allocation", "device_lost" and "nonfinite" are
 * the kit's points. */
bool kit_fault(const accel_plugin_host *host, const char *point);
/* weight_borrow; weight_map where the host has none. */
int32_t kit_weight_borrow(const accel_plugin_host *host, uint32_t index,
                          accel_plugin_weight_view *out, accel_plugin_error *error);
double kit_now_us(void); /* of a monotonic clock */

/* ---- 2. programs ---- */

/* Deep copy of a program, walked by its strides; the copy's strides are sizeof, so copy->node[i]
 * works.  Every index in it is checked, so later code may follow them blindly: E_ARGUMENT names
 * what is wrong.  Ops, attribute keys or dim operators this build does not know: E_UNSUPPORTED by
 * number, with the node. */
int32_t kit_program_copy(const accel_plugin_program *source, accel_plugin_program **out,
                         accel_plugin_error *error);
void kit_program_free(accel_plugin_program *program); /* NULL: nothing */

/* "LINEAR"; "?" when unknown */
const char *kit_op_name(uint32_t op);
const char *kit_tensor_name(const accel_plugin_program *p, int32_t id); /* "?" when there is none */
/* Attribute of a node, or the default when it has none. */
int64_t kit_attr_i(const accel_plugin_node *node, uint32_t key, int64_t absent);
double kit_attr_f(const accel_plugin_node *node, uint32_t key, double absent);
/* Number of values (0 when absent); *values points at them. */
uint32_t kit_attr_iv(const accel_plugin_node *node, uint32_t key, const int64_t **values);
/* Operand or result i of a node: tensor index or -1 (absent, or beyond the list). */
int32_t kit_operand(const accel_plugin_node *node, uint32_t i);
int32_t kit_result(const accel_plugin_node *node, uint32_t i);

/* ---- 3. what a launch sees ---- */

typedef struct kit_tensor {
  /* program tensor, -1: absent (then data is NULL and nothing else here means anything) */
  int32_t id;
  uint8_t dtype, rank;
  uint8_t pad[2];
  int64_t dim[ACCEL_PLUGIN_MAX_RANK];
  int64_t elements;
  /* elements from one row of the last dim to the next; dim[rank-1] unless backend->strided said
   * yes */
  int64_t row_stride;
  /* host memory backends: row-major elements.  Weights: what backend->weight answered.  NULL:
   * absent or on a device.  Device backends: inputs of the run that the caller gave in host
   * memory */
  void *data;
  void *buffer; /* device backends: buffer and byte offset in it */
  uint64_t offset;
  int32_t weight; /* weight index, -1 none */
  int32_t space;  /* row space of dim 0, -1 none */
} kit_tensor;

static inline bool kit_has(const kit_tensor *t) { return t->id >= 0; }
static inline float *kit_f32(const kit_tensor *t) { return (float *)t->data; }
static inline int32_t *kit_i32(const kit_tensor *t) { return (int32_t *)t->data; }
/* Product of all dims but the last, and the last (1 for rank 0). */
static inline int64_t kit_cols(const kit_tensor *t) { return t->rank ? t->dim[t->rank - 1] : 1; }
static inline int64_t kit_row_count(const kit_tensor *t) {
  return kit_cols(t) ? t->elements / kit_cols(t) : 0;
}

/* Items of a row space: item i owns rows start[i] .. start[i+1]-1.  Built once per run. */
typedef struct kit_rows {
  int32_t items, rows, longest;
  const int32_t *start; /* [items + 1] */
} kit_rows;

typedef struct kit_run_state kit_run_state; /* a session during one run; NULL in stateless runs */

typedef struct kit_launch {
  const accel_plugin_program *program;
  const accel_plugin_node *node;
  uint32_t index; /* of the node in the program: for errors and per-node data */
  uint32_t n_in, n_out;
  const kit_tensor *in;  /* [max(n_in, KIT_OPERANDS)]; absent ones have id -1 */
  const kit_tensor *out; /* [max(n_out, KIT_RESULTS)]; id -1: not wanted */
  const int64_t *dim;    /* value of every program dim that this entry binds */
  const kit_rows *rows;  /* [program.n_space] */
  kit_run_state *state;
  /* backend->workspace bytes, KIT_ALIGN aligned; on a device: byte offset workspace_offset in
   * workspace_buffer */
  void *workspace;
  void *workspace_buffer;
  uint64_t workspace_offset, workspace_bytes;
  const accel_plugin_host *host; /* parallel, workers, cancelled */
  /* [n_fused] nodes that run in this launch as well (backend->fuse_parallel, fuse_chain), with
   * their operands and results; the workspace is this launch's */
  const struct kit_launch *joined;
  uint32_t n_fused;
  void *run; /* what backend->begin gave for this run */
  /* [n_adapter] of the run's items (accel_plugin_run); NULL: none has one */
  const accel_plugin_adapter_use *adapter;
  uint32_t n_adapter;
  /* of a launch that is only planned; NULL: of a run */
  const struct kit_planned *planned;
} kit_launch;

/* Rows of the space that attribute `key` (Q_SPACE, KV_SPACE, SPACE) names; without one, all `rows`
 * rows are one item (kept in whole[2]). */
kit_rows kit_rows_of(const kit_launch *launch, uint32_t key, int64_t rows, int32_t whole[2]);
/* Rows [*first, *end) that item `item` of the run has among the rows of a LOW_RANK. */
void kit_adapter_rows(const kit_launch *launch, uint32_t item, int64_t *first, int64_t *end);
/* What that item adds there; NULL: nothing. */
const accel_plugin_low_rank *kit_adapter_of(const kit_launch *launch, uint32_t item);
/* The same as halves, where the adapter has them. */
const accel_plugin_low_rank_f16 *kit_adapter_f16_of(const kit_launch *launch, uint32_t item);
/* Are the rows of a LOW_RANK those of as many items as the run has adapters for?  */
int32_t kit_adapter_check(const kit_launch *launch, accel_plugin_error *error);
/* Values of a D attribute (dim expressions); returns how many, at most `capacity`. */
uint32_t kit_attr_d(const kit_launch *launch, uint32_t key, int64_t *values, uint32_t capacity);
/* Failure of a launch: "node 12 (attention, layer.3.attention): ..." */
int32_t kit_launch_fail(const kit_launch *launch, accel_plugin_error *error, int32_t rc,
                        const char *format, ...) KIT_PRINTF(4, 5);

/* ---- 4. what a backend supplies ---- */

typedef struct kit_open {
  uint32_t device;
  const accel_plugin_program *program; /* the endpoint's copy: lives until close */
  const accel_plugin_options *options; /* only during open */
  /* to be changed by `open` if it wants: F32 (default), F16, BF16 or I8 */
  uint8_t kv_dtype;
  /* given by `open` where options->stream_budget is: the backend's, which it closes */
  struct kit_stream *stream;
  /* by `open` likewise, of a backend that has no kit_stream: runs take turns, and kit_begin.node
   * tells what they launch */
  bool takes_turns;
} kit_open;

typedef struct kit_begin {
  const accel_plugin_program *program;
  uint32_t entry;
  const kit_rows *rows; /* [program.n_space]: what the launches will see, until finish */
  const accel_plugin_host *host;
  /* [program.n_node], NaN: finish writes the device's microseconds of each node it has launched,
   * where the device tells them; NULL: nobody asks */
  double *node_us;
  /* Where kit_open.takes_turns is set: [n_node] the nodes of the run's launches, in order, each
   * fused node behind its launch's own.  NULL: not told. */
  const uint32_t *node;
  uint32_t n_node;
} kit_begin;

struct kit_graph_run;

typedef struct kit_backend {
  const char *name;
  /* keys of options.extra it knows, NULL-terminated; NULL: none.  Others are refused by name */
  const char *const *extra;
  /* Can this node run at this precision?  accel_plugin_answer, and why not.  NULL: NATIVE.  Shapes
   * are not known yet. */
  int32_t (*support)(const accel_plugin_program *program, const accel_plugin_node *node,
                     const accel_plugin_precision *precision, char *why, size_t why_size);
  /* Can it read weight `index` in this format?  accel_plugin_answer.  NULL: only F32, NATIVE. */
  int32_t (*weight_format)(const accel_plugin_program *program, uint32_t index,
                           const accel_plugin_format *format, char *why, size_t why_size);
  /* Bytes it keeps for a weight; NULL: the bytes of the format. */
  uint64_t (*weight_bytes)(const accel_plugin_program *program, uint32_t index,
                           const accel_plugin_format *format);
  /* Does it use a weight where weight_map puts it, until close (embedding tables on a CPU)?  Those
   * are mapped when all others are packed.  NULL: never. */
  bool (*weight_in_place)(const accel_plugin_program *program, uint32_t index,
                          const accel_plugin_format *format);
  /* Does it keep nothing of a weight, and read rows of it when they are asked for, where they lie in
   * a file (accel_plugin_options.in_file)?  NULL: never. */
  bool (*weight_by_rows)(const accel_plugin_program *program, uint32_t index,
                         const accel_plugin_format *format);
  /* Loads weights; *self is handed to every hook below.  close also follows a failed open that set
   * *self. */
  int32_t (*open)(kit_open *open, void **self, accel_plugin_error *error);
  void (*close)(void *self);
  /* kit_tensor.data (or .buffer) of a weight; may be NULL when `launch` looks it up by
   * kit_tensor.weight itself.  A weight that a reshape or a slice reads is seen through this
   * pointer alone and must be fp32.  NULL hook: always NULL. */
  void *(*weight)(void *self, uint32_t index);
  /* Runs one node.  Called from one thread per run, but many runs at once.  Never called for
   * aliases (reshape, contiguous slices). */
  int32_t (*launch)(void *self, const kit_launch *launch, accel_plugin_error *error);
  /* Runs a whole entry in place of `launch`, for backends that compile graphs (kit_graph.h).  Their
   * memory is the host's, no scratch is allocated, and every wanted output is written to run->out.
   * NULL: nodes are launched one by one. */
  int32_t (*run)(void *self, const struct kit_graph_run *run, accel_plugin_error *error);
  /* Bit i set: result `result` may be written over operand i (same size, not needed later).  NULL:
   * kit_inplace. */
  uint32_t (*inplace)(const accel_plugin_program *program, const accel_plugin_node *node,
                      uint32_t result);
  /* May `other` run in the launch of `first`, an earlier node of the same op that reads the same
   * operand 0 (LOW_RANK: the same x)?  If so, launch.joined lists the nodes that run with `first`,
   * and `launch` must look at it.  All their operands are ready before the launch.  Each result has
   * memory of its own, apart from all these operands; only where `inplace` allows it may a result
   * be written over one of its node's operands, and then no other node of the launch reads that
   * operand.  Workspace is asked for once, with launch.joined set.  Nodes with a state are never
   * fused.  NULL: never.  self is plan_open's in estimates. */
  bool (*fuse_parallel)(void *self, const accel_plugin_program *program,
                        const accel_plugin_node *first, const accel_plugin_node *other);
  /* May `next` run in the launch of `first`, when the only result of `first` is operand 0 of `next`
   * (operand 1 of a MATMUL, perhaps reshaped) and nothing else reads it?  If so, launch.joined[0] is
   * `next`, alone.  The tensor between them has a shape but no memory (kit_tensor.data is NULL):
   * what the launch keeps of it is in its workspace, which is asked for once, with launch.joined
   * set.  All other operands are ready before the launch, and the result of `next` has memory apart
   * from all of them but for what `inplace` allows.  Nodes with a state are never fused.  NULL: never.  self is
   * plan_open's in estimates. */
  bool (*fuse_chain)(void *self, const accel_plugin_program *program,
                     const accel_plugin_node *first, const accel_plugin_node *next);
  /* Operand i may be a column slice of a wider tensor (row_stride > last dim).  NULL: never. */
  bool (*strided)(const accel_plugin_program *program, const accel_plugin_node *node,
                  uint32_t operand);
  /* Bytes of launch->workspace a node needs for these shapes; data pointers and rows are NULL
   * (lengths differ from run to run under one plan), self is plan_open's in estimates.  NULL hook:
   * none. */
  uint64_t (*workspace)(void *self, const kit_launch *shapes, uint32_t workers);
  /* Device memory (constants, scratch and pages).  All NULL: host memory.  free's self is the one
   * of alloc. */
  int32_t (*alloc)(void *self, uint64_t bytes, void **buffer, accel_plugin_error *error);
  void (*release)(void *self, void *buffer);
  int32_t (*upload)(void *self, void *buffer, uint64_t offset, const void *source, uint64_t bytes,
                    accel_plugin_error *error);
  int32_t (*download)(void *self, void *destination, void *buffer, uint64_t offset, uint64_t bytes,
                      accel_plugin_error *error);
  /* Before the first launch of a run, and before its inputs are uploaded: *run is handed to its
   * launches.  Many runs may be under way.  finish follows every begin that succeeded: it waits for
   * the device, frees the run and may write *device_ms. ok false: something failed, nothing more is
   * started, and what finish answers is not looked at.  Both or neither. */
  int32_t (*begin)(void *self, const kit_begin *begin, void **run, accel_plugin_error *error);
  int32_t (*finish)(void *self, void *run, bool ok, double *device_ms, accel_plugin_error *error);
  /* For profiles, after the launch of a node: the microseconds that its instructions take at least,
   * measured on the same threads over operands that the caches hold; 0: not known.  NULL: never. */
  double (*limit_us)(void *self, const kit_launch *launch);
  /* What the hooks that a plan asks (strided, fuse_parallel, fuse_chain, workspace) get as self in
   * an estimate: formats and kernels, no weights.  With options.row_dtype as of an endpoint that
   * streams, whose plans take more.  *self NULL: the hooks answer without.  Both or neither. */
  int32_t (*plan_open)(const accel_plugin_program *program, const accel_plugin_options *options,
                       void **self, accel_plugin_error *error);
  void (*plan_close)(void *self);
  /* Streaming (kit_stream.h): fills the stream_ fields of an estimate, where options.row_dtype is
   * given.  NULL: options.stream_budget is refused. */
  int32_t (*stream_estimate)(uint32_t device, const accel_plugin_program *program,
                             const accel_plugin_options *options, accel_plugin_estimate *out,
                             accel_plugin_error *error);
  /* The segments that the launch of a node takes, in order and resident ones among them: [first,
   * first + n).  NULL: the backend has no kit_stream (kit_open.takes_turns). */
  void (*stream_segments)(void *self, uint32_t node, uint32_t *first, uint32_t *n);
} kit_backend;

/* The default `inplace`: elementwise ops over operand 0 (binary: 0 or 1), norm over x or residual,
 * linear over residual, rope, softmax over the last axis and scatter_rows over x.  It promises that
 * the launch reads an element before it writes the same element. */
uint32_t kit_inplace(const accel_plugin_program *program, const accel_plugin_node *node,
                     uint32_t result);

/* ---- 5. state of sessions, as seen by a launch ---- */

/* Bytes of one head of a row of keys or values: dim elements, or codes (I8) and behind them, at
 * byte kit_kv_scale, the fp32 scale that they are to be multiplied with. */
static inline uint64_t kit_kv_scale(int64_t dim) { return ((uint64_t)dim + 3) / 4 * 4; }
static inline uint64_t kit_kv_head(uint8_t dtype, int64_t dim) {
  if (dtype == ACCEL_PLUGIN_I8) return kit_kv_scale(dim) + 4;
  return (uint64_t)dim * (dtype == ACCEL_PLUGIN_F32 ? 4 : 2);
}

/* One sequence's part of the node's state.  KV: page p holds rows p*page_rows .. : head h of
 * row r (counted in the page) of K is at byte r*k_row + h*k_head, of V at v_offset + r*v_row +
 * h*v_head; elements of `dtype`, kit_kv_head.  In host memory a head's rows follow each other, so
 * that they are read in one stream; on devices a row's heads do.  CONV, SSM: `current` (NULL:
 * zeros) is read, `next` is written whole. */
typedef struct kit_state_view {
  const accel_plugin_state *state;
  uint8_t dtype;
  int32_t page_rows;       /* KIT_PAGE_ROWS; in host memory KIT_SMALL_PAGE_ROWS, too */
  int32_t past;            /* rows held before this run's rows */
  int32_t length;          /* rows to attend to, those just reserved included */
  const int32_t *position; /* [length], host memory */
  void *const *page;
  uint64_t k_row, v_row, k_head, v_head, v_offset; /* bytes */
  const void *current;                             /* floats in host memory, or a device buffer */
  void *next;
  uint64_t elements; /* of current and next */
} kit_state_view;

/* Reserves `rows` more rows for item `item` of the run and notes their positions (NULL: past,
 * past+1, ...).  The caller then fills them. They become part of the session when the whole run
 * succeeds.  E_LIMIT when max_tokens would be passed. */
int32_t kit_state_append(const kit_launch *launch, uint32_t item, int32_t rows,
                         const int32_t *positions, kit_state_view *out, accel_plugin_error *error);
/* The rows as they are (cross attention, static states), including those appended earlier in this
 * run. */
int32_t kit_state_read(const kit_launch *launch, uint32_t item, kit_state_view *out,
                       accel_plugin_error *error);
/* CONV and SSM: `current` and, unless the node's state_static is 1, a `next` of `elements` floats
 * to be written whole; `rows` more tokens count as seen. */
int32_t kit_state_step(const kit_launch *launch, uint32_t item, int32_t rows, uint64_t elements,
                       kit_state_view *out, accel_plugin_error *error);
/* Host memory: converts fp32 rows k[rows, heads*k_dim] and v[rows, heads*v_dim] (given row strides
 * in elements) into rows first.. of the pages. */
void kit_state_write(const kit_state_view *view, int32_t first, int32_t rows, const float *k,
                     int64_t k_stride, const float *v, int64_t v_stride);
/* Address of head `head` of row `row` of K or V. */
static inline void *kit_state_k(const kit_state_view *v, int32_t row, int64_t head) {
  return (char *)v->page[row / v->page_rows] + (uint64_t)(row % v->page_rows) * v->k_row +
         (uint64_t)head * v->k_head;
}
static inline void *kit_state_v(const kit_state_view *v, int32_t row, int64_t head) {
  return (char *)v->page[row / v->page_rows] + v->v_offset +
         (uint64_t)(row % v->page_rows) * v->v_row + (uint64_t)head * v->v_head;
}

/* ---- 6. weights ---- */

/* A weight as the matrix [n, k] that formats speak of: convolutions [O, the rest], others [all but
 * the last dim, the last], vectors [1, k]. */
void kit_weight_matrix(const accel_plugin_weight *weight, int64_t *n, int64_t *k);
bool kit_format_known(const accel_plugin_format *format); /* can kit_weight_rows read it? */
/* The hook weight_format of a backend that reads this weight as fp32: EMULATED, or NO where the
 * format is not known. */
int32_t kit_format_widened(const accel_plugin_program *program, uint32_t index,
                           const accel_plugin_format *format, char *why, size_t n);
uint64_t kit_format_bytes(const accel_plugin_weight *weight,
                          const accel_plugin_format *format); /* data, scale, zero and outer */
/* Rows [first, first+count) of that matrix as fp32.  E_UNSUPPORTED names the format. */
int32_t kit_weight_rows(const accel_plugin_weight *weight, const accel_plugin_format *format,
                        const accel_plugin_weight_view *view, int64_t first, int64_t count,
                        float *out, accel_plugin_error *error);
static inline int64_t kit_weight_elements(const accel_plugin_weight *w) {
  int64_t n = 1;
  for (uint32_t i = 0; i < w->rank; i++) n *= w->dim[i];
  return n;
}

/* ---- 7. the plugin's table: signatures of accel_plugin with the backend in front, or exactly its
 * own ---- */

/* Whether a plugin of this build can talk to a core of that ABI: the same major; while that is 0,
 * the same minor or a later one. */
bool kit_abi_compatible(uint32_t core_abi);
int32_t kit_supports(const kit_backend *backend, const accel_plugin_program *program,
                     const accel_plugin_precision *precision, accel_plugin_verdict *verdict,
                     accel_plugin_error *error);
int32_t kit_estimate(const kit_backend *backend, uint32_t device,
                     const accel_plugin_program *program, const accel_plugin_options *options,
                     accel_plugin_estimate *out, accel_plugin_error *error);
/* What supports answers NO is refused here too, and EMULATED without ACCEL_PLUGIN_ALLOW_EMULATED.
 * The backend's table must outlive the endpoint. */
int32_t kit_init(const kit_backend *backend, uint32_t device, const accel_plugin_program *program,
                 const accel_plugin_options *options, accel_plugin_endpoint **out,
                 accel_plugin_error *error);
void *kit_endpoint_self(const accel_plugin_endpoint *endpoint);
const accel_plugin_program *kit_endpoint_program(const accel_plugin_endpoint *endpoint);

int32_t kit_handler(accel_plugin_endpoint *endpoint, accel_plugin_session *session,
                    accel_plugin_run *run, const accel_plugin_view *in, uint32_t n_in,
                    accel_plugin_view *out, uint32_t n_out, accel_plugin_error *error);
void kit_cleanup(accel_plugin_endpoint *endpoint, const accel_plugin_host *host);
int32_t kit_trim(accel_plugin_endpoint *endpoint, uint64_t *released, accel_plugin_error *error);
int32_t kit_session_new(accel_plugin_endpoint *endpoint, accel_plugin_session **out,
                        accel_plugin_error *error);
void kit_session_free(accel_plugin_session *session);
int32_t kit_session_control(accel_plugin_session *session, int32_t verb, int32_t sequence,
                            int64_t value, void *buffer, uint64_t *n, accel_plugin_error *error);
/* Of a device that computes in the host's memory: total, free, budget and shared_with_host of *m in
 * bytes; m->size stays.  Free is Linux's MemAvailable, which counts caches that can be dropped, or
 * where the system does not tell it the pages that nobody uses.  It is the whole system's: the
 * core, which knows this process's cgroup, lowers it to what a container leaves
 * (src/hardware/devices.c). */
int32_t kit_system_memory(accel_plugin_memory *m, accel_plugin_error *error);
/* KIT_ALIGN aligned host memory, in huge pages when it is large enough for one; free() it.  NULL:
 * there is none. */
void *kit_alloc_pages(uint64_t bytes);
uint64_t kit_alloc_pages_size(uint64_t bytes); /* what that takes */
/* Buffers of plugins whose device memory is the host's, KIT_ALIGN aligned.  Buffers of
 * KIT_OWN_MAPPING bytes and more are mappings of their own: they take memory as they are written
 * to. */
enum { KIT_OWN_MAPPING = 256 << 10 };
int32_t kit_buffer_alloc(uint32_t device, uint64_t n, void **out, accel_plugin_error *error);
void kit_buffer_free(uint32_t device, void *buffer);
int32_t kit_buffer_copy(uint32_t device, void *dst, uint64_t dst_offset, const void *src,
                        uint64_t src_offset, uint64_t n, int32_t to_device,
                        accel_plugin_error *error);

/* ---- 8. the scalar kernels: every op in plain C on host memory, all weights fp32 row-major in
 * kit_tensor.data ---- */

typedef int32_t (*kit_scalar_fn)(const kit_launch *launch, accel_plugin_error *error);
/* By op number 1 .. ACCEL_PLUGIN_OP_COUNT; made from ops.def, so an op without a kernel does not
 * link. */
kit_scalar_fn kit_scalar(uint32_t op);
/* One activation (accel_plugin_act) or unary kind; alpha and beta as ops.def says.  SWIGLU_OAI is x
 * sigmoid(alpha x). */
float kit_unary(int32_t kind, float x, float alpha, float beta);
static inline float kit_act(int32_t act, float x, float alpha) {
  return act == ACCEL_PLUGIN_ACT_NONE ? x : kit_unary(act, x, alpha, 0.0f);
}
/* act_alpha of a node, or what torch and transformers take without one: elu 1, leaky_relu 0.01,
 * swiglu_oai 1.702. */
float kit_act_alpha(const accel_plugin_node *node, int32_t act);
/* alpha and beta of a unary node; absent: as above, affine 1 and 0, clamp without that limit. */
float kit_unary_alpha(const accel_plugin_node *node, int32_t kind);
float kit_unary_beta(const accel_plugin_node *node, int32_t kind);
/* T5's bucket of (key position - query position); DeBERTa's row of rel_k and rel_q for (query
 * position - key position). */
int32_t kit_t5_bucket(int64_t key_minus_query, bool bidirectional, int32_t buckets,
                      int32_t max_distance);
int32_t kit_deberta_row(int64_t query_minus_key, int32_t span, int32_t buckets,
                        int32_t max_distance);

#endif
