/* plugin.h - what a libaccel hardware plugin implements.
 *
 * A plugin is a shared object in `libdir/accel/<ABI major>/libaccel_<name>.so` with ONE exported symbol,
 * ACCEL_PLUGIN_QUERY_SYMBOL.  The core calls it with its own ABI number and a table of services; the plugin answers
 * a const table (accel_plugin) for the highest ABI it shares with the core, or NULL when there is none.
 *
 * A plugin is handed whole programs, never single ops: `supports` says whether a device runs a program at a precision,
 * `estimate` what it will cost, `init` packs the weights into an endpoint, `handler` runs one entry of the program,
 * `cleanup` frees it.  There is no per-op fallback to another device.
 *
 * Rules for every function here
 *  - Returns 0 (ACCEL_PLUGIN_OK) or a negative accel_plugin_rc; on failure *error is filled (code, offending node if one is
 *    to blame, a sentence).  A failed call leaves everything as it was.
 *  - Never aborts, exits, prints, installs signal handlers, changes the environment or throws across this interface.
 *  - Threads: `supports`, `estimate`, `init`, `memory`, `devices` may be called from any thread at any time.  An endpoint is
 *    immutable after init: `handler` may run on it from many threads at once.  A session takes one call at a time.
 *  - Structs grow at the end only.  `size` is the byte size the writer knew; the reader treats what lies beyond it as zero.
 *    Arrays inside a program are walked by the strides the program carries.  A NULL function pointer means "absent".
 *  - All strings are UTF-8, NUL-terminated, and live as long as the struct that holds them.
 */
#ifndef ACCEL_PLUGIN_H
#define ACCEL_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* 0.x: may still change between minors until the CPU, OpenCL and emulated HIP plugins pass the suite on it. */
#define ACCEL_PLUGIN_ABI_MAJOR 0u
#define ACCEL_PLUGIN_ABI_MINOR 2u
#define ACCEL_PLUGIN_ABI(major, minor) (((uint32_t)(major) << 16) | (uint32_t)(minor))
#define ACCEL_PLUGIN_ABI_NOW ACCEL_PLUGIN_ABI(ACCEL_PLUGIN_ABI_MAJOR, ACCEL_PLUGIN_ABI_MINOR)
#define ACCEL_PLUGIN_QUERY_SYMBOL "accel_plugin_query"

/* Result codes; the same numbers as the first entries of accel_status (accel.h). */
typedef enum accel_plugin_rc {
  ACCEL_PLUGIN_OK = 0,
  ACCEL_PLUGIN_E_ARGUMENT = -1,     /* caller's mistake: shapes that disagree, an index out of range */
  ACCEL_PLUGIN_E_UNSUPPORTED = -2,  /* this device cannot do it; `node` names the first offender */
  ACCEL_PLUGIN_E_HOST_MEMORY = -3,
  ACCEL_PLUGIN_E_DEVICE_MEMORY = -4,
  ACCEL_PLUGIN_E_DEVICE_LOST = -5,  /* sticky until all endpoints of the device are cleaned up */
  ACCEL_PLUGIN_E_LIMIT = -6,        /* KV full, a dim above its maximum, an output buffer too small */
  ACCEL_PLUGIN_E_NONFINITE = -7,    /* NaN or infinity in a checked output */
  ACCEL_PLUGIN_E_IO = -8,
  ACCEL_PLUGIN_E_CANCELLED = -9,
  ACCEL_PLUGIN_E_ABI = -10,
  ACCEL_PLUGIN_E_DRIVER = -11       /* `native` holds the vendor's code */
} accel_plugin_rc;

/* Filled by the plugin on failure; owned by the caller. */
typedef struct accel_plugin_error {
  uint32_t size;
  int32_t rc;      /* accel_plugin_rc */
  int32_t native;  /* vendor's error number, 0 when none */
  int32_t node;    /* program node to blame, -1 when none */
  char message[240];
} accel_plugin_error;

/* ---- names of the op set (one list: ops.def) ---- */
typedef enum accel_plugin_op {
#define ACCEL_OP(name, number, operands, outputs, attributes, text) ACCEL_PLUGIN_OP_##name = number,
#include "ops.def"
} accel_plugin_op;
enum { /* ops are numbered 1 .. ACCEL_PLUGIN_OP_COUNT */
  ACCEL_PLUGIN_OP_COUNT = 0
#define ACCEL_OP(name, number, operands, outputs, attributes, text) +1
#include "ops.def"
};

typedef enum accel_plugin_attr_key {
#define ACCEL_ATTR(name, number, key, type, text) ACCEL_PLUGIN_ATTR_##name = number,
#include "ops.def"
} accel_plugin_attr_key;

typedef enum accel_plugin_act {
#define ACCEL_ACT(name, number, key, text) ACCEL_PLUGIN_ACT_##name = number,
#include "ops.def"
} accel_plugin_act;

typedef enum accel_plugin_unary { /* further kinds of the unary op; below 20: accel_plugin_act */
#define ACCEL_UNARY(name, number, key, text) ACCEL_PLUGIN_UNARY_##name = number,
#include "ops.def"
} accel_plugin_unary;

typedef enum accel_plugin_binary {
#define ACCEL_BINARY(name, number, key, text) ACCEL_PLUGIN_BINARY_##name = number,
#include "ops.def"
} accel_plugin_binary;

typedef enum accel_plugin_kind { /* GLU_, BIAS_, ROPE_, NORM_, REDUCE_, POOL_, RESIZE_, PAD_ values of the attributes */
#define ACCEL_KIND(group, name, number, key, text) ACCEL_PLUGIN_##group##_##name = number,
#include "ops.def"
} accel_plugin_kind;

/* Element types.  Four-bit types hold two elements a byte, the even one in the low nibble. */
typedef enum accel_plugin_dtype {
  ACCEL_PLUGIN_F32 = 0,
  ACCEL_PLUGIN_F16 = 1,
  ACCEL_PLUGIN_BF16 = 2,
  ACCEL_PLUGIN_I32 = 3,
  ACCEL_PLUGIN_I64 = 4, /* raw inputs and outputs only: programs use I32 */
  ACCEL_PLUGIN_I8 = 5,
  ACCEL_PLUGIN_U8 = 6,
  ACCEL_PLUGIN_I4 = 7,   /* two's complement, -8..7 */
  ACCEL_PLUGIN_U4 = 8,   /* 0..15 */
  ACCEL_PLUGIN_E4M3 = 9, /* finite variant: 0x7f and 0xff are NaN */
  ACCEL_PLUGIN_E5M2 = 10,
  ACCEL_PLUGIN_E2M1 = 11, /* 0 .5 1 1.5 2 3 4 6 and negatives */
  ACCEL_PLUGIN_E8M0 = 12, /* 2^(b-127) */
  ACCEL_PLUGIN_F64 = 13,  /* raw inputs only */
  ACCEL_PLUGIN_BOOL = 14, /* raw inputs and outputs only: one byte, 0 or 1 */
  ACCEL_PLUGIN_NO_DTYPE = 15
} accel_plugin_dtype;

/* ---- the program: built once by the core, immutable, owned by the core; valid during the call it is passed to ---- */

/* A dim known only at run time: B sequences, T packed token rows, H x W pixels ... */
typedef struct accel_plugin_symbol {
  const char *name;
  int64_t min, max; /* inclusive; max 0: no bound of its own */
  int64_t typical;  /* what to tune for */
} accel_plugin_symbol;

/* Dims are integer expressions over symbols, kept in one table and named by index. */
typedef enum accel_plugin_dim_op {
  ACCEL_PLUGIN_DIM_CONST = 0,  /* c */
  ACCEL_PLUGIN_DIM_SYMBOL = 1, /* symbol[a] */
  ACCEL_PLUGIN_DIM_ADD = 2,    /* dim[a] op dim[b]; operands always come earlier in the table */
  ACCEL_PLUGIN_DIM_SUB = 3,
  ACCEL_PLUGIN_DIM_MUL = 4,
  ACCEL_PLUGIN_DIM_FLOORDIV = 5,
  ACCEL_PLUGIN_DIM_CEILDIV = 6,
  ACCEL_PLUGIN_DIM_MIN = 7,
  ACCEL_PLUGIN_DIM_MAX = 8
} accel_plugin_dim_op;
typedef struct accel_plugin_dim {
  int32_t op; /* accel_plugin_dim_op */
  int32_t a, b;
  int64_t c;
} accel_plugin_dim;

/* How the rows of a [rows, C] tensor fall into items (sequences).  A ragged space's lengths are an int32 input of the
 * graph, [items]; item i owns the rows after those of items 0..i-1.  A fixed space has `rows` rows for every item. */
typedef struct accel_plugin_space {
  const char *name;
  int32_t lengths; /* tensor index of int32 [items]; -1: fixed */
  int32_t rows;    /* dim index: rows of one item (fixed), total rows (ragged) */
  int32_t items;   /* dim index: number of items */
} accel_plugin_space;

enum { ACCEL_PLUGIN_MAX_RANK = 6 };
typedef enum accel_plugin_tensor_kind {
  ACCEL_PLUGIN_TENSOR_VALUE = 0, /* computed by a node */
  ACCEL_PLUGIN_TENSOR_INPUT = 1, /* given at each run */
  ACCEL_PLUGIN_TENSOR_WEIGHT = 2,
  ACCEL_PLUGIN_TENSOR_CONST = 3  /* small constant carried by the program itself: `data` */
} accel_plugin_tensor_kind;
typedef struct accel_plugin_tensor {
  const char *name; /* unique within the program; layer paths for values ("layer.3.attention.q") */
  uint8_t kind;     /* accel_plugin_tensor_kind */
  uint8_t dtype;    /* logical dtype: F32 or I32 (weights: F32 whatever they are stored in) */
  uint8_t rank;
  uint8_t reserved;
  int32_t dim[ACCEL_PLUGIN_MAX_RANK]; /* dim indices */
  int32_t weight;                     /* weight index, -1 when not a weight */
  int32_t space;                      /* row space of dim 0, -1 none */
  const void *data;                   /* CONST: row-major elements */
} accel_plugin_tensor;

/* State that lives in a session between runs, addressed by sequence id; past length is never a dim. */
typedef enum accel_plugin_state_kind {
  ACCEL_PLUGIN_STATE_KV = 1,
  ACCEL_PLUGIN_STATE_CROSS_KV = 2,
  ACCEL_PLUGIN_STATE_CONV = 3,
  ACCEL_PLUGIN_STATE_SSM = 4
} accel_plugin_state_kind;
typedef struct accel_plugin_state {
  const char *name;
  int32_t kind;                  /* accel_plugin_state_kind */
  int32_t heads, k_dim, v_dim;   /* KV: heads x dims per token; SSM: heads x k_dim x v_dim elements */
  int32_t window;                /* KV: rows beyond it may be dropped; 0 keep all.  CONV: carried columns */
  int32_t share;                 /* index of the state whose memory this one uses, -1 own */
} accel_plugin_state;

typedef enum accel_plugin_attr_type { ACCEL_PLUGIN_ATTR_I = 1, ACCEL_PLUGIN_ATTR_F = 2, ACCEL_PLUGIN_ATTR_IV = 3, ACCEL_PLUGIN_ATTR_D = 4 } accel_plugin_attr_type;
typedef struct accel_plugin_attr {
  uint16_t key;  /* accel_plugin_attr_key; a plugin that does not know a key answers E_UNSUPPORTED */
  uint16_t type; /* accel_plugin_attr_type */
  uint32_t n;    /* elements of v (IV: values, D: dim indices) */
  int64_t i;
  double f;
  const int64_t *v;
} accel_plugin_attr;

typedef struct accel_plugin_node {
  uint16_t op, version; /* accel_plugin_op; version 1 of each */
  uint16_t n_in, n_out;
  const int32_t *in;  /* tensor indices, -1 absent; trailing absent operands may be left off */
  const int32_t *out; /* tensor indices, -1: output not wanted */
  const accel_plugin_attr *attr;
  uint32_t n_attr;
  uint32_t stage; /* layer number: the unit of streaming, placement and progress */
  int32_t state;  /* state index, -1 none */
} accel_plugin_node;

/* One way to call the program.  Entries share weights and states; nodes of an entry are listed in execution order. */
typedef struct accel_plugin_entry {
  const char *name;
  const int32_t *node;
  uint32_t n_node;
  const int32_t *in, *out; /* tensor indices */
  uint32_t n_in, n_out;
} accel_plugin_entry;

typedef struct accel_plugin_weight {
  const char *name; /* name in the checkpoint, or a derived name ("layer.0.qkv") */
  uint32_t rank;
  int64_t dim[4]; /* row-major */
  uint32_t stage;
  uint32_t use; /* accel_plugin_weight_use */
} accel_plugin_weight;
typedef enum accel_plugin_weight_use {
  ACCEL_PLUGIN_USE_LINEAR = 1, /* w of linear: may be quantised */
  ACCEL_PLUGIN_USE_HEAD = 2,   /* the lm_head */
  ACCEL_PLUGIN_USE_EMBEDDING = 3,
  ACCEL_PLUGIN_USE_CONV = 4,
  ACCEL_PLUGIN_USE_MOE = 5,
  ACCEL_PLUGIN_USE_PLAIN = 6 /* norms, biases, routers, tables: always fp32 */
} accel_plugin_weight_use;

typedef struct accel_plugin_program {
  uint32_t size, abi;
  uint64_t hash; /* of everything below and the weights' identity; keys caches */
  const char *name;
  uint32_t symbol_stride, dim_stride, space_stride, tensor_stride, state_stride, node_stride, entry_stride, weight_stride;
  uint32_t n_symbol, n_dim, n_space, n_tensor, n_state, n_node, n_entry, n_weight, n_stage;
  const accel_plugin_symbol *symbol;
  const accel_plugin_dim *dim;
  const accel_plugin_space *space;
  const accel_plugin_tensor *tensor;
  const accel_plugin_state *state;
  const accel_plugin_node *node;
  const accel_plugin_entry *entry;
  const accel_plugin_weight *weight;
} accel_plugin_program;

/* ---- precision: one format per weight, given beside the program ---- */

/* How a weight crosses the interface.  w = (q - zero) * scale * outer; scales are laid out [ceil(N/group_n)][ceil(K/group_k)];
 * group 0 means the whole axis.  Unquantised formats have store F32, F16 or BF16 and NO_DTYPE elsewhere. */
typedef struct accel_plugin_format {
  uint8_t store, scale, zero, outer; /* accel_plugin_dtype */
  uint32_t group_k, group_n;
} accel_plugin_format;

enum { /* flags of accel_plugin_precision */
  ACCEL_PLUGIN_ALLOW_EMULATED = 1,
  ACCEL_PLUGIN_CHECK_FINITE = 2 /* E_NONFINITE when an output holds NaN or infinity */
};
typedef struct accel_plugin_precision {
  uint32_t size;
  char name[16];           /* "fp32", "fp16", "bf16", "int8", "int4", "uint4", "fp8", "fp4" */
  uint8_t compute, kv;     /* dtype of activations asked for, of the KV cache */
  uint8_t reserved[2];
  uint32_t flags;
  const accel_plugin_format *format; /* [program.n_weight] */
} accel_plugin_precision;

/* ---- services of the core, lent for the length of a call ---- */
typedef struct accel_plugin_weight_view {
  const void *data, *scale, *zero, *outer; /* in the weight's format; 64-byte alignment is not promised */
} accel_plugin_weight_view;

typedef void (*accel_plugin_task_fn)(void *arg, uint32_t index, uint32_t worker);
typedef struct accel_plugin_part { /* of a cache entry */
  const void *data;
  uint64_t n; /* bytes */
} accel_plugin_part;

enum { ACCEL_PLUGIN_CLOCK_HOST = 0, ACCEL_PLUGIN_CLOCK_DEVICE = 1 }; /* whose times a step has */
/* What one launch did.  flop: multiplications and additions of the op's definition; bytes: weights in their format,
 * operands and results once each, whatever a cache saved. */
typedef struct accel_plugin_step {
  uint32_t size, entry;
  const int32_t *node; /* [n_node] nodes done by this launch; more than one where the plugin joins them */
  uint32_t n_node, clock;
  double begin_us, end_us; /* microseconds on `clock`; only differences mean anything */
  double flop, bytes;
  double limit_us; /* what the step's instructions take at least on the same units: its kernels over operands that the caches
                      hold, measured; 0: not known.  What plugins of fewer bytes (`size`) leave out is not known either */
} accel_plugin_step;

typedef struct accel_plugin_host {
  uint32_t size, abi;
  void *self; /* first argument of every function here */
  void (*log)(void *self, int level, const char *message); /* level: 0 error 1 warning 2 info 3 debug */
  /* Weight `index` in its format.  Stays valid until weight_unmap, which may be put off until cleanup (the plugin then
   * reads the mapped file itself: embedding tables on a CPU).  NULL outside init. */
  int32_t (*weight_map)(void *self, uint32_t index, accel_plugin_weight_view *out, accel_plugin_error *error);
  void (*weight_unmap)(void *self, uint32_t index);
  /* Persistent cache of byte strings, such as packed weights; both may be NULL.  `key` must name everything the bytes depend
   * on that the plugin decides: program.hash (program and weights' identity), formats, instruction set, layout, entry.  The
   * core adds the plugin's name and build.  get, bytes NULL: *n becomes the entry's size.  Otherwise *n must be that size
   * and bytes[*n] is filled; what was read is checked, so a damaged entry is a miss.  Nonzero: a miss, `bytes` is undefined.
   * put joins the parts into one entry; it may decline (disk full, read-only, switched off), which is no error: nonzero. */
  int32_t (*cache_get)(void *self, const char *key, void *bytes, uint64_t *n);
  int32_t (*cache_put)(void *self, const char *key, const accel_plugin_part *part, uint32_t n_part);
  /* Runs fn(arg, i, worker) for i in [0, n) on the context's pool, worker < workers(); returns when all are done.
   * Not to be called from inside fn. */
  void (*parallel)(void *self, uint32_t n, accel_plugin_task_fn fn, void *arg);
  uint32_t (*workers)(void *self);
  int (*cancelled)(void *self);                             /* nonzero: stop soon with E_CANCELLED.  May be NULL */
  void (*progress)(void *self, uint32_t done, uint32_t all); /* stages.  May be NULL */
  int32_t (*allreduce)(void *self, void *host_buffer, size_t n, int dtype); /* NULL: world is 1 */
  int (*fault)(void *self, const char *point); /* tests: nonzero means "fail here" (ACCEL_FAIL_AT).  May be NULL */
  /* Told of each step of a run, from the thread that runs it, in order; NULL (the rule): nothing is measured.  A device
   * plugin may put off its calls to the end of the run.  Ask again at each run: it comes and goes between runs. */
  void (*profile)(void *self, const accel_plugin_step *step);
} accel_plugin_host;

/* ---- devices ---- */
typedef enum accel_plugin_device_type {
  ACCEL_PLUGIN_DEVICE_CPU = 1,
  ACCEL_PLUGIN_DEVICE_DISCRETE_GPU = 2,
  ACCEL_PLUGIN_DEVICE_INTEGRATED_GPU = 3,
  ACCEL_PLUGIN_DEVICE_SOFTWARE = 4, /* a CPU behind a GPU's interface, an emulator, the reference: only ever by name */
  ACCEL_PLUGIN_DEVICE_OTHER = 5
} accel_plugin_device_type;
enum { /* accel_plugin_device.flags */
  ACCEL_PLUGIN_DEVICE_UNIFIED_MEMORY = 1, ACCEL_PLUGIN_DEVICE_FP16 = 2, ACCEL_PLUGIN_DEVICE_BF16 = 4, ACCEL_PLUGIN_DEVICE_I8DOT = 8,
  ACCEL_PLUGIN_DEVICE_MATRIX_F16 = 16, ACCEL_PLUGIN_DEVICE_MATRIX_I8 = 32, ACCEL_PLUGIN_DEVICE_AMD = 64
};
typedef struct accel_plugin_device {
  uint32_t size;
  char id[48];     /* PCI address ("0000:03:00.0") or UUID: the same card has the same id in every plugin */
  char name[96];   /* what the vendor calls it */
  char arch[32];   /* gfx1030, sm_90, avx512 ... */
  char driver[64]; /* driver and version */
  uint32_t type;   /* accel_plugin_device_type */
  uint32_t flags, wave, units;
  uint64_t max_allocation, max_binding, max_shared; /* bytes */
  double gbytes_per_s, gflops;                      /* 0: not known */
  char unusable[160]; /* not empty: listed but not selectable; why, and what to do */
} accel_plugin_device;

typedef struct accel_plugin_memory {
  uint32_t size, reserved;
  uint64_t total, free, budget, shared_with_host; /* bytes */
} accel_plugin_memory;

typedef enum accel_plugin_answer { ACCEL_PLUGIN_NO = 0, ACCEL_PLUGIN_NATIVE = 1, ACCEL_PLUGIN_EMULATED = 2 } accel_plugin_answer;
typedef struct accel_plugin_verdict {
  uint32_t size;
  int32_t answer; /* accel_plugin_answer */
  int32_t node;   /* first offending node, -1 none */
  char why[160];
} accel_plugin_verdict;

typedef struct accel_plugin_estimate {
  uint32_t size, reserved;
  uint64_t weights, scratch, state_fixed, state_per_token, host_staging, peak_load; /* bytes */
  uint64_t in_file; /* of weights: what stays in pages of the checkpoint's file, which come and go as they are touched */
} accel_plugin_estimate;

typedef struct accel_plugin_options {
  uint32_t size;
  uint32_t max_sequences;  /* 0: grow as needed */
  uint64_t max_tokens;     /* KV capacity of a session in tokens; 0: grow as needed */
  uint64_t memory_limit;   /* bytes; 0 none */
  uint32_t resident_stages; /* layer streaming: stages kept at once; 0 all */
  uint32_t rank, world;    /* tensor parallel; world 0 or 1: alone */
  accel_plugin_precision precision;
  const accel_plugin_host *host;
  const char *extra; /* "key=value;..." of the registry's options for this hardware; unknown keys are refused */
  /* Of estimate only.  symbol: [program.n_symbol] values to plan for, 0 the symbol's typical one; NULL: all 0.  wanted: the
   * outputs to be computed, those of entry 0 first; NULL: all.  in_file: [program.n_weight] 1 where weight_map will hand out
   * pages of the checkpoint's file; NULL: nowhere. */
  const int64_t *symbol;
  const uint8_t *wanted, *in_file;
} accel_plugin_options;

/* ---- running ---- */
typedef struct accel_plugin_view { /* one input or output of an entry; row-major, contiguous */
  uint32_t size;
  uint8_t dtype, rank;
  uint8_t reserved[2];
  void *host;        /* NULL for an output: not wanted, its nodes are skipped when nothing else needs them */
  void *device;      /* device buffer of buffer_alloc, instead of host */
  uint64_t offset;   /* bytes into device */
  uint64_t capacity; /* bytes available; an output too large for it: E_LIMIT with the dims filled in */
  int64_t dim[ACCEL_PLUGIN_MAX_RANK]; /* inputs: given.  outputs: written */
} accel_plugin_view;

typedef struct accel_plugin_run {
  uint32_t size;
  uint32_t entry;             /* index into program.entry */
  const int32_t *sequence;    /* sequence ids of the items, [n_sequence]; only with a session */
  uint32_t n_sequence;
  uint32_t reserved;
  const accel_plugin_host *host;
  double device_ms;           /* written: time on the device, 0 when not measured */
} accel_plugin_run;

typedef struct accel_plugin_endpoint accel_plugin_endpoint;
typedef struct accel_plugin_session accel_plugin_session;

typedef enum accel_plugin_session_verb {
  ACCEL_PLUGIN_SESSION_RESET = 1,    /* forget sequence */
  ACCEL_PLUGIN_SESSION_TRUNCATE = 2, /* keep the first `value` tokens */
  ACCEL_PLUGIN_SESSION_COPY = 3,     /* sequence `value` becomes a copy of `sequence` */
  ACCEL_PLUGIN_SESSION_LENGTH = 4,   /* *n = tokens held */
  ACCEL_PLUGIN_SESSION_EXPORT = 5,   /* buffer NULL: *n = bytes needed */
  ACCEL_PLUGIN_SESSION_IMPORT = 6
} accel_plugin_session_verb;

/* ---- the table ---- */
typedef struct accel_plugin {
  uint32_t size, abi;
  const char *name;                /* "cpu": device names begin with it */
  const char *implementation_type; /* "CPU", "AMD_ROCM", "CUDA", "OPENCL", "VULKAN", "REFERENCE" ... */
  const char *version;             /* of libaccel it was built with */
  const char *build_id;            /* changes with the code; keys caches */
  uint32_t features;               /* none defined yet: 0 */
  uint32_t sanitizer;              /* accel_plugin_sanitizer this build carries; must equal the core's */
  /* Devices present, usable or not (then with the reason).  Writes up to `capacity`, *n = how many there are. */
  int32_t (*devices)(const accel_plugin_host *host, accel_plugin_device *out, uint32_t capacity, uint32_t *n, accel_plugin_error *error);
  int32_t (*memory)(uint32_t device, accel_plugin_memory *out, accel_plugin_error *error);
  /* Per entry, verdict[program.n_entry].  Answers from the program and formats alone: allocates nothing on the device. */
  int32_t (*supports)(uint32_t device, const accel_plugin_program *program, const accel_plugin_precision *precision,
                      accel_plugin_verdict *verdict, accel_plugin_error *error);
  int32_t (*estimate)(uint32_t device, const accel_plugin_program *program, const accel_plugin_options *options,
                      accel_plugin_estimate *out, accel_plugin_error *error);
  int32_t (*init)(uint32_t device, const accel_plugin_program *program, const accel_plugin_options *options,
                  accel_plugin_endpoint **out, accel_plugin_error *error);
  /* in[], out[] in the order of the entry.  session NULL for stateless entries. */
  int32_t (*handler)(accel_plugin_endpoint *endpoint, accel_plugin_session *session, accel_plugin_run *run,
                     const accel_plugin_view *in, uint32_t n_in, accel_plugin_view *out, uint32_t n_out, accel_plugin_error *error);
  void (*cleanup)(accel_plugin_endpoint *endpoint, const accel_plugin_host *host); /* NULL endpoint: nothing */
  /* Optional from here. */
  int32_t (*trim)(accel_plugin_endpoint *endpoint, uint64_t *released, accel_plugin_error *error); /* gives scratch back */
  int32_t (*session_new)(accel_plugin_endpoint *endpoint, accel_plugin_session **out, accel_plugin_error *error);
  void (*session_free)(accel_plugin_session *session);
  int32_t (*session_control)(accel_plugin_session *session, int32_t verb, int32_t sequence, int64_t value, void *buffer,
                             uint64_t *n, accel_plugin_error *error);
  int32_t (*buffer_alloc)(uint32_t device, uint64_t n, void **out, accel_plugin_error *error);
  void (*buffer_free)(uint32_t device, void *buffer);
  int32_t (*buffer_copy)(uint32_t device, void *dst, uint64_t dst_offset, const void *src, uint64_t src_offset, uint64_t n,
                         int32_t to_device, accel_plugin_error *error);
  int32_t (*submit)(accel_plugin_endpoint *endpoint, accel_plugin_session *session, accel_plugin_run *run, const accel_plugin_view *in,
                    uint32_t n_in, accel_plugin_view *out, uint32_t n_out, void **fence, accel_plugin_error *error);
  int32_t (*wait)(void *fence, int64_t timeout_us, accel_plugin_error *error);
} accel_plugin;

typedef enum accel_plugin_sanitizer { ACCEL_PLUGIN_PLAIN = 0, ACCEL_PLUGIN_ASAN = 1, ACCEL_PLUGIN_TSAN = 2 } accel_plugin_sanitizer;

/* The one exported symbol.  `host` here carries log only and is valid during the call. */
typedef const accel_plugin *(*accel_plugin_query_fn)(const accel_plugin_host *host, uint32_t core_abi);

#ifdef __cplusplus
}
#endif
#endif
