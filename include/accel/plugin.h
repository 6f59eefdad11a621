/**
 * @file plugin.h
 * What a hardware plugin of libaccel implements.
 *
 * A plugin is a shared object `libdir/accel/<ABI major>/libaccel_<name>.so` with one exported
 * symbol, ACCEL_PLUGIN_QUERY_SYMBOL.  The core calls it with its own ABI number and a table of
 * services; the plugin answers a constant table (accel_plugin) for the highest ABI it shares with
 * the core, or NULL when there is none.
 *
 * A plugin is handed whole programs, never single ops: `supports` says whether a device runs a
 * program at a precision, `estimate` what memory it takes, `init` packs the weights into an
 * endpoint, `handler` runs one entry of the program, `cleanup` frees it.  No op ever falls back to
 * another device.
 *
 * How to write one: docs/adding.md has the steps; backends/reference is a complete plugin of about
 * a hundred lines over backends/kit, which implements everything here but the kernels.  The core
 * checks a caller's arguments before it calls a plugin, and runs a self-test on every device
 * before a model.
 *
 * Rules for every function here
 *
 *  - **Results.**  Functions that return int32_t return 0 (ACCEL_PLUGIN_OK) or a negative
 *    accel_plugin_rc.  On failure they fill *error, which may be NULL: the code, the node that is
 *    to blame if there is one, and a sentence.  A failed call leaves everything as it was.
 *  - **Manners.**  A plugin never aborts, exits, prints, installs signal handlers, changes the
 *    environment, or lets a C++ exception out.  It starts no threads of its own for host work: the
 *    core lends accel_plugin_host.parallel.  It is never unloaded.
 *  - **Threads.**  `devices`, `memory`, `supports`, `estimate` and `init` may be called from any
 *    thread at any time.  An endpoint is immutable after init: `handler` may run on it from many
 *    threads at once, and `trim` beside it; on a streaming endpoint (accel_plugin_options.
 *    stream_budget) such runs take turns, one waits for the other.  A session takes one call at a
 *    time; the core sees to it.  Buffer functions are called from any thread, never two at once on one buffer.  `cleanup`
 *    and `session_free` are called when nothing else uses the object.
 *  - **Growth.**  Structs grow at their end only.  `size` is the byte size that the writer knew;
 *    the reader treats what lies beyond it as zero.  Arrays inside of a program are walked by the
 *    strides that the program carries.  A NULL function pointer means "absent", and each one's
 *    description says what the core does then.
 *  - **Strings** are UTF-8, end with NUL, and live as long as the struct that holds them.
 *  - **Unknown things.**  An op or attribute that a plugin does not know makes it answer
 *    ACCEL_PLUGIN_E_UNSUPPORTED, never a guess.
 */
#ifndef ACCEL_PLUGIN_H
#define ACCEL_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- versions and errors ------------------------------------------------------------------- */

/** Major ABI version: plugins and core with different ones never meet.  While it is 0, minors may
 *  change anything, too. */
#define ACCEL_PLUGIN_ABI_MAJOR 0u
/** Minor ABI version: grows when something is added. */
#define ACCEL_PLUGIN_ABI_MINOR 4u
/** Both in one number. */
#define ACCEL_PLUGIN_ABI(major, minor) (((uint32_t)(major) << 16) | (uint32_t)(minor))
/** The ABI that this header describes. */
#define ACCEL_PLUGIN_ABI_NOW ACCEL_PLUGIN_ABI(ACCEL_PLUGIN_ABI_MAJOR, ACCEL_PLUGIN_ABI_MINOR)
/** Name of the one exported function, an accel_plugin_query_fn. */
#define ACCEL_PLUGIN_QUERY_SYMBOL "accel_plugin_query"

/** Result codes; the same numbers as the first entries of accel_status (accel/base.h). */
typedef enum accel_plugin_rc {
  /** Success. */
  ACCEL_PLUGIN_OK = 0,
  /** The caller's mistake: shapes that disagree, an index out of range. */
  ACCEL_PLUGIN_E_ARGUMENT = -1,
  /** The device cannot do it; `node` names the first offender. */
  ACCEL_PLUGIN_E_UNSUPPORTED = -2,
  /** The system refused memory. */
  ACCEL_PLUGIN_E_HOST_MEMORY = -3,
  /** The device refused memory. */
  ACCEL_PLUGIN_E_DEVICE_MEMORY = -4,
  /** The device was lost: answered to every call until all of its endpoints are cleaned up. */
  ACCEL_PLUGIN_E_DEVICE_LOST = -5,
  /** A KV cache is full, a dim above its maximum, an output buffer too small. */
  ACCEL_PLUGIN_E_LIMIT = -6,
  /** NaN or infinity in an output that ACCEL_PLUGIN_CHECK_FINITE asks to be checked. */
  ACCEL_PLUGIN_E_NONFINITE = -7,
  /** A file or service failed. */
  ACCEL_PLUGIN_E_IO = -8,
  /** accel_plugin_host.cancelled asked to stop. */
  ACCEL_PLUGIN_E_CANCELLED = -9,
  /** Plugin and core do not fit together. */
  ACCEL_PLUGIN_E_ABI = -10,
  /** The vendor's software failed; `native` holds its code. */
  ACCEL_PLUGIN_E_DRIVER = -11
} accel_plugin_rc;

/** Why a call failed.  Owned by the caller, who sets `size`; filled by the plugin on failure. */
typedef struct accel_plugin_error {
  /** sizeof(accel_plugin_error). */
  uint32_t size;
  /** accel_plugin_rc, the same as the function's answer. */
  int32_t rc;
  /** The vendor's error number; 0: none. */
  int32_t native;
  /** Program node that is to blame; -1: none. */
  int32_t node;
  /** One sentence; the core puts the model, the device and the node's name in front. */
  char message[240];
} accel_plugin_error;

/* ---- names of the op set ------------------------------------------------------------------- */

/**
 * The ops, numbered 1 to ACCEL_PLUGIN_OP_COUNT.
 *
 * These and the names below come from one list, ops.def, which is installed beside this header and
 * says what each op's operands, results and attributes are:
 *
 * @verbinclude ops.def
 */
typedef enum accel_plugin_op {
#define ACCEL_OP(name, number, operands, outputs, attributes, text) \
  ACCEL_PLUGIN_OP_##name = number, /**< text */
#include "ops.def"
} accel_plugin_op;
enum {
  /** How many ops there are. */
  ACCEL_PLUGIN_OP_COUNT = 0
#define ACCEL_OP(name, number, operands, outputs, attributes, text) +1
#include "ops.def"
};

/** Keys of attributes. */
typedef enum accel_plugin_attr_key {
#define ACCEL_ATTR(name, number, key, type, text) ACCEL_PLUGIN_ATTR_##name = number, /**< text */
#include "ops.def"
} accel_plugin_attr_key;

/** Activation functions. */
typedef enum accel_plugin_act {
#define ACCEL_ACT(name, number, key, text) ACCEL_PLUGIN_ACT_##name = number, /**< text */
#include "ops.def"
} accel_plugin_act;

/** Kinds of the unary op from 20 on; below 20 they are accel_plugin_act. */
typedef enum accel_plugin_unary {
#define ACCEL_UNARY(name, number, key, text) ACCEL_PLUGIN_UNARY_##name = number, /**< text */
#include "ops.def"
} accel_plugin_unary;

/** Kinds of the binary op. */
typedef enum accel_plugin_binary {
#define ACCEL_BINARY(name, number, key, text) ACCEL_PLUGIN_BINARY_##name = number, /**< text */
#include "ops.def"
} accel_plugin_binary;

/** Values of the attributes that choose a kind: GLU_, BIAS_, ROPE_, NORM_, REDUCE_, POOL_, RESIZE_,
 *  PAD_. */
typedef enum accel_plugin_kind {
#define ACCEL_KIND(group, name, number, key, text) \
  ACCEL_PLUGIN_##group##_##name = number, /**< text */
#include "ops.def"
} accel_plugin_kind;

/** Element types.  Four-bit types hold two elements a byte, the even one in the low nibble. */
typedef enum accel_plugin_dtype {
  ACCEL_PLUGIN_F32 = 0,      /**< 32-bit float */
  ACCEL_PLUGIN_F16 = 1,      /**< IEEE half */
  ACCEL_PLUGIN_BF16 = 2,     /**< the upper half of a 32-bit float */
  ACCEL_PLUGIN_I32 = 3,      /**< 32-bit integer */
  ACCEL_PLUGIN_I64 = 4,      /**< raw inputs and outputs only: programs use I32 */
  ACCEL_PLUGIN_I8 = 5,       /**< 8-bit integer */
  ACCEL_PLUGIN_U8 = 6,       /**< 8-bit unsigned integer */
  ACCEL_PLUGIN_I4 = 7,       /**< two's complement, -8..7 */
  ACCEL_PLUGIN_U4 = 8,       /**< 0..15 */
  ACCEL_PLUGIN_E4M3 = 9,     /**< fp8 without infinities; 0x7f and 0xff are NaN */
  ACCEL_PLUGIN_E5M2 = 10,    /**< fp8 with infinities */
  ACCEL_PLUGIN_E2M1 = 11,    /**< fp4: 0 .5 1 1.5 2 3 4 6 and their negatives */
  ACCEL_PLUGIN_E8M0 = 12,    /**< a scale of 2^(b-127) */
  ACCEL_PLUGIN_F64 = 13,     /**< raw inputs only */
  ACCEL_PLUGIN_BOOL = 14,    /**< raw inputs and outputs only: one byte, 0 or 1 */
  ACCEL_PLUGIN_NO_DTYPE = 15 /**< there is no such part */
} accel_plugin_dtype;

/* ---- the program --------------------------------------------------------------------------- */

/*
 * Built once by the core, immutable, owned by the core, and valid only during the call it is passed
 * to: a plugin that needs it later copies it (kit_program_copy does).  Everything refers to
 * everything else by index into the program's tables.
 */

/** A size that is known only at run time: B sequences, T packed token rows, H x W pixels ... */
typedef struct accel_plugin_symbol {
  /** "B", "T" ... */
  const char *name;
  /** Least value. */
  int64_t min;
  /** Largest value; 0: it has no bound of its own. */
  int64_t max;
  /** The value to tune for. */
  int64_t typical;
} accel_plugin_symbol;

/** How a dim is computed from others. */
typedef enum accel_plugin_dim_op {
  ACCEL_PLUGIN_DIM_CONST = 0,    /**< c */
  ACCEL_PLUGIN_DIM_SYMBOL = 1,   /**< symbol[a] */
  ACCEL_PLUGIN_DIM_ADD = 2,      /**< dim[a] + dim[b] */
  ACCEL_PLUGIN_DIM_SUB = 3,      /**< dim[a] - dim[b] */
  ACCEL_PLUGIN_DIM_MUL = 4,      /**< dim[a] * dim[b] */
  ACCEL_PLUGIN_DIM_FLOORDIV = 5, /**< dim[a] / dim[b], rounded down */
  ACCEL_PLUGIN_DIM_CEILDIV = 6,  /**< dim[a] / dim[b], rounded up */
  ACCEL_PLUGIN_DIM_MIN = 7,      /**< the lesser of dim[a] and dim[b] */
  ACCEL_PLUGIN_DIM_MAX = 8       /**< the greater of dim[a] and dim[b] */
} accel_plugin_dim_op;

/** A size: an integer expression over symbols.  All are in one table and named by their index. */
typedef struct accel_plugin_dim {
  /** accel_plugin_dim_op. */
  int32_t op;
  /** First operand, a dim that comes earlier in the table; of SYMBOL the symbol's index. */
  int32_t a;
  /** Second operand, a dim that comes earlier in the table. */
  int32_t b;
  /** Value of CONST. */
  int64_t c;
} accel_plugin_dim;

/** How the rows of a [rows, C] tensor fall into items (sequences).  A ragged space's lengths are an
 *  int32 input of the graph, [items], and item i owns the rows after those of items 0..i-1.  A
 *  fixed space has the same number of rows for every item. */
typedef struct accel_plugin_space {
  /** For messages. */
  const char *name;
  /** Tensor index of the lengths; -1: fixed. */
  int32_t lengths;
  /** Dim index: rows of one item (fixed), or of all items (ragged). */
  int32_t rows;
  /** Dim index: number of items. */
  int32_t items;
} accel_plugin_space;

enum {
  /** Most dims of a tensor. */
  ACCEL_PLUGIN_MAX_RANK = 6
};

/** Where a tensor's elements come from. */
typedef enum accel_plugin_tensor_kind {
  ACCEL_PLUGIN_TENSOR_VALUE = 0,  /**< computed by a node */
  ACCEL_PLUGIN_TENSOR_INPUT = 1,  /**< given at each run */
  ACCEL_PLUGIN_TENSOR_WEIGHT = 2, /**< asked for with accel_plugin_host.weight_map */
  ACCEL_PLUGIN_TENSOR_CONST = 3   /**< a small constant in the program itself: `data` */
} accel_plugin_tensor_kind;

/** One tensor of a program. */
typedef struct accel_plugin_tensor {
  /** Unique within the program; values have layer paths, "layer.3.attention.q". */
  const char *name;
  /** accel_plugin_tensor_kind. */
  uint8_t kind;
  /** Logical dtype, F32 or I32; of weights F32, whatever they are stored in. */
  uint8_t dtype;
  /** Dims in use. */
  uint8_t rank;
  /** 0. */
  uint8_t reserved;
  /** Dim indices, slowest first. */
  int32_t dim[ACCEL_PLUGIN_MAX_RANK];
  /** Weight index; -1: no weight. */
  int32_t weight;
  /** Row space of dim 0; -1: none. */
  int32_t space;
  /** CONST: the elements, row-major.  Else NULL. */
  const void *data;
} accel_plugin_tensor;

/** Kinds of state that lives in a session between runs.  It is addressed by sequence id, and how
 *  much of it there is (past length) is never a dim. */
typedef enum accel_plugin_state_kind {
  ACCEL_PLUGIN_STATE_KV = 1,       /**< keys and values of the tokens read */
  ACCEL_PLUGIN_STATE_CROSS_KV = 2, /**< keys and values of an encoder's output, written once */
  ACCEL_PLUGIN_STATE_CONV = 3,     /**< last columns of a causal convolution's input */
  ACCEL_PLUGIN_STATE_SSM = 4       /**< matrices of a recurrence: state-space, delta rule */
} accel_plugin_state_kind;

/** One state of a program, for instance the KV cache of a layer. */
typedef struct accel_plugin_state {
  /** For messages. */
  const char *name;
  /** accel_plugin_state_kind. */
  int32_t kind;
  /** Heads: of keys and values, or of the recurrence. */
  int32_t heads;
  /** Elements of a head's key, for each token; of SSM the state is heads x k_dim x v_dim. */
  int32_t k_dim;
  /** Elements of a head's value. */
  int32_t v_dim;
  /** KV: tokens further back may be dropped, 0: keep all.  CONV: columns that are carried. */
  int32_t window;
  /** Index of the state whose memory this one uses; -1: its own. */
  int32_t share;
} accel_plugin_state;

/** What an attribute holds. */
typedef enum accel_plugin_attr_type {
  ACCEL_PLUGIN_ATTR_I = 1,  /**< one integer, `i` */
  ACCEL_PLUGIN_ATTR_F = 2,  /**< one number, `f` */
  ACCEL_PLUGIN_ATTR_IV = 3, /**< integers, v[n] */
  ACCEL_PLUGIN_ATTR_D = 4   /**< dim indices, v[n] */
} accel_plugin_attr_type;

/** One attribute of a node. */
typedef struct accel_plugin_attr {
  /** accel_plugin_attr_key; a plugin that does not know one answers ACCEL_PLUGIN_E_UNSUPPORTED. */
  uint16_t key;
  /** accel_plugin_attr_type. */
  uint16_t type;
  /** Elements of `v`. */
  uint32_t n;
  /** Value of type I. */
  int64_t i;
  /** Value of type F. */
  double f;
  /** [n] values of types IV and D. */
  const int64_t *v;
} accel_plugin_attr;

/** One op applied to tensors. */
typedef struct accel_plugin_node {
  /** accel_plugin_op. */
  uint16_t op;
  /** Version of the op's meaning; 1 for all. */
  uint16_t version;
  /** Operands. */
  uint16_t n_in;
  /** Results. */
  uint16_t n_out;
  /** [n_in] tensor indices; -1: absent.  Trailing absent operands may be left off. */
  const int32_t *in;
  /** [n_out] tensor indices; -1: the result is not wanted. */
  const int32_t *out;
  /** [n_attr] attributes; what is not given has the default of ops.def. */
  const accel_plugin_attr *attr;
  /** Attributes. */
  uint32_t n_attr;
  /** Layer number: the unit of streaming, placement and progress. */
  uint32_t stage;
  /** State index; -1: none. */
  int32_t state;
} accel_plugin_node;

/** One way to call the program: "forward", "encode", "step" ...  Entries share weights and
 *  states. */
typedef struct accel_plugin_entry {
  /** Its name. */
  const char *name;
  /** [n_node] node indices in an order in which they can be executed. */
  const int32_t *node;
  /** Nodes. */
  uint32_t n_node;
  /** [n_in] tensor indices of the inputs. */
  const int32_t *in;
  /** [n_out] tensor indices of the outputs. */
  const int32_t *out;
  /** Inputs. */
  uint32_t n_in;
  /** Outputs. */
  uint32_t n_out;
} accel_plugin_entry;

/** One weight of a program. */
typedef struct accel_plugin_weight {
  /** Name in the checkpoint, or one that was made for a joined weight ("layer.0.qkv"). */
  const char *name;
  /** Dims in use. */
  uint32_t rank;
  /** Sizes, slowest dim first; the elements are row-major. */
  int64_t dim[4];
  /** Layer number. */
  uint32_t stage;
  /** accel_plugin_weight_use. */
  uint32_t use;
} accel_plugin_weight;

/** What a weight is for, which decides the formats it can have. */
typedef enum accel_plugin_weight_use {
  ACCEL_PLUGIN_USE_LINEAR = 1,    /**< w of a linear op: may be quantised */
  ACCEL_PLUGIN_USE_HEAD = 2,      /**< the lm_head */
  ACCEL_PLUGIN_USE_EMBEDDING = 3, /**< a table of token vectors */
  ACCEL_PLUGIN_USE_CONV = 4,      /**< a convolution's kernel */
  ACCEL_PLUGIN_USE_MOE = 5,       /**< the experts of a layer: may be quantised */
  ACCEL_PLUGIN_USE_PLAIN = 6      /**< norms, biases, routers, tables: always fp32 */
} accel_plugin_weight_use;

/** A whole program.  Its tables are walked by the strides, so that their structs can grow. */
typedef struct accel_plugin_program {
  /** sizeof(accel_plugin_program) of the core. */
  uint32_t size;
  /** ABI of the core. */
  uint32_t abi;
  /** Hash of everything below and of the weights' identity; keys caches. */
  uint64_t hash;
  /** The model's class, for messages. */
  const char *name;
  /** Bytes from one symbol to the next. */
  uint32_t symbol_stride;
  /** Bytes from one dim to the next. */
  uint32_t dim_stride;
  /** Bytes from one space to the next. */
  uint32_t space_stride;
  /** Bytes from one tensor to the next. */
  uint32_t tensor_stride;
  /** Bytes from one state to the next. */
  uint32_t state_stride;
  /** Bytes from one node to the next. */
  uint32_t node_stride;
  /** Bytes from one entry to the next. */
  uint32_t entry_stride;
  /** Bytes from one weight to the next. */
  uint32_t weight_stride;
  /** Symbols. */
  uint32_t n_symbol;
  /** Dims. */
  uint32_t n_dim;
  /** Spaces. */
  uint32_t n_space;
  /** Tensors. */
  uint32_t n_tensor;
  /** States. */
  uint32_t n_state;
  /** Nodes. */
  uint32_t n_node;
  /** Entries. */
  uint32_t n_entry;
  /** Weights. */
  uint32_t n_weight;
  /** Stages: 1 + the largest stage of a node or weight. */
  uint32_t n_stage;
  /** [n_symbol] */
  const accel_plugin_symbol *symbol;
  /** [n_dim] */
  const accel_plugin_dim *dim;
  /** [n_space] */
  const accel_plugin_space *space;
  /** [n_tensor] */
  const accel_plugin_tensor *tensor;
  /** [n_state] */
  const accel_plugin_state *state;
  /** [n_node] */
  const accel_plugin_node *node;
  /** [n_entry] */
  const accel_plugin_entry *entry;
  /** [n_weight] */
  const accel_plugin_weight *weight;
} accel_plugin_program;

/**
 * The fields of an accel_plugin_program that say how its writer was compiled, for a designated
 * initialiser: `{ACCEL_PLUGIN_PROGRAM_SIZES, .name = "encoder", .n_node = 3, .node = nodes}`.
 */
#define ACCEL_PLUGIN_PROGRAM_SIZES                                                          \
  .size = sizeof(accel_plugin_program), .abi = ACCEL_PLUGIN_ABI_NOW,                        \
  .symbol_stride = sizeof(accel_plugin_symbol), .dim_stride = sizeof(accel_plugin_dim),     \
  .space_stride = sizeof(accel_plugin_space), .tensor_stride = sizeof(accel_plugin_tensor), \
  .state_stride = sizeof(accel_plugin_state), .node_stride = sizeof(accel_plugin_node),     \
  .entry_stride = sizeof(accel_plugin_entry), .weight_stride = sizeof(accel_plugin_weight)

/* ---- precision ----------------------------------------------------------------------------- */

/**
 * How a weight crosses the interface: w = (q - zero) * scale * outer.
 *
 * Scales are laid out [ceil(N/group_n)][ceil(K/group_k)] for a weight [N, K], zero points like
 * them, one byte each.  A row of 4-bit codes begins on a byte.  N and K: of convolutions the first
 * dim and all others together, else all dims but the last and the last.  Unquantised formats have
 * `store` F32, F16 or BF16 and NO_DTYPE elsewhere.  A plugin packs a weight as it likes.
 */
typedef struct accel_plugin_format {
  /** Dtype of the elements q. */
  uint8_t store;
  /** Dtype of the scales; NO_DTYPE: 1. */
  uint8_t scale;
  /** Dtype of the zero points; NO_DTYPE: 0. */
  uint8_t zero;
  /** Dtype of the one scale over all; NO_DTYPE: 1. */
  uint8_t outer;
  /** Elements along K that share a scale; 0: the whole axis. */
  uint32_t group_k;
  /** Rows that share a scale; 0: the whole axis. */
  uint32_t group_n;
} accel_plugin_format;

/** Flags of accel_plugin_precision. */
enum {
  /** Answers of ACCEL_PLUGIN_EMULATED are welcome. */
  ACCEL_PLUGIN_ALLOW_EMULATED = 1,
  /** ACCEL_PLUGIN_E_NONFINITE when an output holds NaN or infinity. */
  ACCEL_PLUGIN_CHECK_FINITE = 2
};

/** What a program is computed in, given beside the program. */
typedef struct accel_plugin_precision {
  /** sizeof(accel_plugin_precision) of the core. */
  uint32_t size;
  /** "fp32", "fp16", "bf16", "int8", "int4", "uint4", "fp8", "fp4". */
  char name[16];
  /** Dtype of activations that is asked for. */
  uint8_t compute;
  /** Dtype of the KV cache. */
  uint8_t kv;
  /** 0. */
  uint8_t reserved[2];
  /** ACCEL_PLUGIN_ALLOW_EMULATED, ACCEL_PLUGIN_CHECK_FINITE. */
  uint32_t flags;
  /** [program.n_weight] format of each weight. */
  const accel_plugin_format *format;
} accel_plugin_precision;

/* ---- services of the core ------------------------------------------------------------------ */

/** A weight's elements in its format, row-major; no alignment beyond the dtype's is promised. */
typedef struct accel_plugin_weight_view {
  /** The elements. */
  const void *data;
  /** Scales; NULL when the format has none. */
  const void *scale;
  /** Zero points; NULL when the format has none. */
  const void *zero;
  /** The one scale over all; NULL when the format has none. */
  const void *outer;
} accel_plugin_weight_view;

/** Rows of a weight as they are stored, one after the other; their format may be another plain one
 *  than `dtype`, and the plugin rounds to it. */
typedef struct accel_plugin_rows {
  /** The elements; aligned to nothing. */
  const void *data;
  /** accel_plugin_dtype F32, F16 or BF16; NO_DTYPE: bytes of a segment (store_post). */
  uint32_t dtype;
} accel_plugin_rows;

/** Task `index` of accel_plugin_host.parallel, on worker `worker`. */
typedef void (*accel_plugin_task_fn)(void *arg, uint32_t index, uint32_t worker);

/** A part of a cache entry. */
typedef struct accel_plugin_part {
  const void *data; /**< its bytes */
  uint64_t n;       /**< how many */
} accel_plugin_part;

/** An entry of the cache that is read and written by segments.  The core's own. */
typedef struct accel_plugin_store accel_plugin_store;

/** Whose clock a step's times are of. */
enum {
  ACCEL_PLUGIN_CLOCK_HOST = 0,  /**< the host's */
  ACCEL_PLUGIN_CLOCK_DEVICE = 1 /**< the device's own */
};

/** What one launch did, for profiles. */
typedef struct accel_plugin_step {
  /** sizeof(accel_plugin_step) of the plugin. */
  uint32_t size;
  /** Index into program.entry. */
  uint32_t entry;
  /** [n_node] nodes that this launch did; more than one where the plugin fuses them. */
  const int32_t *node;
  /** Nodes. */
  uint32_t n_node;
  /** ACCEL_PLUGIN_CLOCK_HOST or ACCEL_PLUGIN_CLOCK_DEVICE. */
  uint32_t clock;
  /** When it began, in microseconds of `clock`; only differences mean anything. */
  double begin_us;
  /** When it ended. */
  double end_us;
  /** Multiplications and additions of the op's definition. */
  double flop;
  /** Bytes of weights in their format, operands and results, once each, whatever a cache saved. */
  double bytes;
  /** Microseconds that the step's instructions take at least: its kernels measured over operands
   *  that the caches hold.  0: not known. */
  double limit_us;
  /** Of `bytes`, those of weights. */
  double weight_bytes;
  /** Of `bytes`, those of results. */
  double result_bytes;
} accel_plugin_step;

/**
 * What the core does for a plugin.  Lent for the length of a call (of init: until cleanup), and the
 * only part of the core that a plugin may use.
 */
typedef struct accel_plugin_host {
  /** sizeof(accel_plugin_host) of the core. */
  uint32_t size;
  /** ABI of the core. */
  uint32_t abi;
  /** First argument of every function here. */
  void *self;
  /** Logs one line without a newline; level 0 error, 1 warning, 2 info, 3 debug.  From any
   *  thread. */
  void (*log)(void *self, int level, const char *message);
  /** Gives weight `index` in its format, in memory of its own.  *out stays valid until weight_unmap,
   *  which may be put off until cleanup.  Fails with the file's trouble.  To be called during init
   *  alone, from any thread. */
  int32_t (*weight_map)(void *self, uint32_t index, accel_plugin_weight_view *out,
                        accel_plugin_error *error);
  /** Gives a weight's memory back. */
  void (*weight_unmap)(void *self, uint32_t index);
  /** Reads an entry of the persistent cache of byte strings, such as packed weights.  `key` must
   *  name everything the bytes depend on that the plugin decides: program.hash, formats,
   *  instruction set, layout, entry; the core adds the plugin's name and build.  With bytes NULL
   *  *n becomes the entry's size; otherwise *n must be that size, and bytes[*n] is filled.  What
   *  was read is checked, so a damaged entry is a miss.  Nonzero: a miss, and `bytes` is
   * undefined.  May be NULL. */
  int32_t (*cache_get)(void *self, const char *key, void *bytes, uint64_t *n);
  /** Writes the parts as one entry.  It may decline (disk full, read-only, switched off) with
   *  nonzero, which is no error.  May be NULL. */
  int32_t (*cache_put)(void *self, const char *key, const accel_plugin_part *part, uint32_t n_part);
  /** Runs fn(arg, i, worker) for each i in [0, n) on the context's pool, worker < workers(), and
   *  returns when all are done.  Not to be called from inside of fn. */
  void (*parallel)(void *self, uint32_t n, accel_plugin_task_fn fn, void *arg);
  /** Most threads that a parallel call made here and now gets. */
  uint32_t (*workers)(void *self);
  /** Nonzero: stop soon with ACCEL_PLUGIN_E_CANCELLED.  May be NULL: never. */
  int (*cancelled)(void *self);
  /** Tells which of all stages a load or a run has reached, and `all` at its end.  May be NULL: the
   *  core offers it to runs of endpoints with stream_budget. */
  void (*progress)(void *self, uint32_t done, uint32_t all);
  /** Sums n elements over all ranks of a tensor-parallel run, in place and in the ranks' order, from
   *  the thread that runs; `dtype` is ACCEL_PLUGIN_F32.  NULL: there is one rank. */
  int32_t (*allreduce)(void *self, void *host_buffer, size_t n, int dtype);
  /** For tests: nonzero means "fail here" (ACCEL_FAIL_AT).  `point` is "allocation", "nonfinite",
   *  "device_lost", "pinned" or "copy".  May be NULL. */
  int (*fault)(void *self, const char *point);
  /** Receives each step of a run in order, from the thread that runs it; a device plugin may put
   *  its calls off to the end of the run.  NULL, the usual case: nothing is to be measured.  It
   *  comes and goes between runs, so look again at each. */
  void (*profile)(void *self, const accel_plugin_step *step);
  /** Opens the reader of an endpoint's weights, once, during an init with stream_budget: so many
   *  slots, each for rows of up to slot_bytes as they are stored (row_dtype).  It takes memory of
   *  slots x (slot_bytes rounded up to 4096, and 4096 more) and 2 MiB, and ends with the endpoint.
   *  The other rows_ functions work from then on, in init and handler.  NULL, with all of them:
   *  weights are not streamed. */
  int32_t (*rows_open)(void *self, uint32_t slots, uint64_t slot_bytes, accel_plugin_error *error);
  /** Begins to read rows [first, first + rows) of weight `index` into a free slot.  Slots are read
   *  in the order in which they are posted.  This and the next two take one call at a time. */
  int32_t (*rows_post)(void *self, uint32_t slot, uint32_t index, int64_t first, int64_t rows,
                       accel_plugin_error *error);
  /** Waits until a slot's rows are there; *out is valid until the slot is released. */
  int32_t (*rows_wait)(void *self, uint32_t slot, accel_plugin_rows *out,
                       accel_plugin_error *error);
  /** Frees a slot, whether its rows have come, failed, or are still being read. */
  void (*rows_release)(void *self, uint32_t slot);
  /** Reads rows of a weight now, as fp32 numbers that its format holds.  From any thread. */
  int32_t (*rows_read)(void *self, uint32_t index, int64_t first, int64_t rows, float *out,
                       accel_plugin_error *error);

  /* Entries of the cache by segments (since 0.3): what is made and read piece by piece, such as
   * packed weights. */

  /** Opens the entry of `key` (as of cache_get) that has n segments of bytes[n]: whole, in part from
   *  a process that did not finish it, or new.  It is to be closed before the endpoint is cleaned
   *  up.  Nonzero: there is none and none can be written (switched off, read-only, full, larger
   *  than the cache may be, being written by somebody else), and *error, which may be NULL, says
   *  why; a plugin does without, unless it streams from it.  NULL, with the others: there are no
   *  such entries. */
  int32_t (*store_open)(void *self, const char *key, const uint64_t *bytes, uint32_t n,
                        accel_plugin_store **out, accel_plugin_error *error);
  /** Reads segment `index` into `out`, which takes its size, and checks it.  Nonzero: it is missing
   *  or damaged, and `out` is undefined; it may be put then.  out NULL: nothing is read; nonzero:
   *  it is missing.  From any thread, as store_put: but each segment one at a time. */
  int32_t (*store_get)(void *self, accel_plugin_store *store, uint32_t index, void *out);
  /** Writes segment `index` from parts that have its size together.  It is kept from now on, also
   *  when the process ends before the entry is whole.  Nonzero: not kept; *error, which may be
   *  NULL, says why. */
  int32_t (*store_put)(void *self, accel_plugin_store *store, uint32_t index,
                       const accel_plugin_part *part, uint32_t n_part, accel_plugin_error *error);
  /** Ends the use of an entry; one whose segments are all there is for everybody to read then. */
  void (*store_close)(void *self, accel_plugin_store *store);
  /** Gives an entry whose segments are all there to the endpoint's reader, behind rows_open and
   * once;
   *  it is the host's then, also after a failure. */
  int32_t (*store_stream)(void *self, accel_plugin_store *store, accel_plugin_error *error);
  /** As rows_post: begins to read segment `index` of that entry, of at most slot_bytes, into a free
   *  slot.  rows_wait gives its bytes, aligned to 4096, with NO_DTYPE. */
  int32_t (*store_post)(void *self, uint32_t slot, uint32_t index, accel_plugin_error *error);
  /** Rows [first, first + rows) of a weight that has a row_dtype, in its format, as weight_borrow
   *  would give them, until rows_unmap of *mapping, which follows before init returns.  From any
   *  thread. */
  int32_t (*rows_map)(void *self, uint32_t index, int64_t first, int64_t rows,
                      accel_plugin_weight_view *out, void **mapping, accel_plugin_error *error);
  /** NULL: nothing. */
  void (*rows_unmap)(void *self, void *mapping);
  /** Counts experts that a launch of an endpoint with stream_budget used: `found` were in memory,
   *  `read` were read, which took so many bytes.  May be NULL. */
  void (*experts_used)(void *self, uint32_t found, uint32_t read, uint64_t bytes);
  /** Counts bytes of weights that a run of an endpoint with stream_budget copied from host memory to
   *  the device (accel_plugin_estimate.stream_host).  May be NULL. */
  void (*weights_copied)(void *self, uint64_t bytes);
  /** As allreduce, of F32 in the memory of device number `device` of `api` ("cuda", "hip"), which
   *  is current on this thread: in the order of its `stream` (a CUstream, a hipStream_t).
   *  ACCEL_PLUGIN_E_UNSUPPORTED, on all ranks alike, with the data as they were: to be summed by
   *  `allreduce`.  May be NULL. */
  int32_t (*allreduce_device)(void *self, const char *api, uint32_t device, void *stream,
                              void *data, size_t n);
  /** Nonzero: rows_wait of the slot would not wait.  From where rows_wait may be called.  May be
   *  NULL. */
  int (*rows_ready)(void *self, uint32_t slot);
  /** As weight_map, of a weight that weight_unmap follows soon, before init returns: where nobody can
   *  cut the checkpoint's file meanwhile it gives pages of that, and nothing is copied.  May be
   *  NULL. */
  int32_t (*weight_borrow)(void *self, uint32_t index, accel_plugin_weight_view *out,
                           accel_plugin_error *error);
} accel_plugin_host;

/* ---- devices ------------------------------------------------------------------------------- */

/** Kinds of devices. */
typedef enum accel_plugin_device_type {
  /** The processor. */
  ACCEL_PLUGIN_DEVICE_CPU = 1,
  /** A GPU with memory of its own. */
  ACCEL_PLUGIN_DEVICE_DISCRETE_GPU = 2,
  /** A GPU in the processor. */
  ACCEL_PLUGIN_DEVICE_INTEGRATED_GPU = 3,
  /** A CPU behind a GPU's interface, an emulator, the reference: chosen only by name. */
  ACCEL_PLUGIN_DEVICE_SOFTWARE = 4,
  /** Anything else. */
  ACCEL_PLUGIN_DEVICE_OTHER = 5
} accel_plugin_device_type;

/** Flags of accel_plugin_device. */
enum {
  ACCEL_PLUGIN_DEVICE_UNIFIED_MEMORY = 1, /**< its memory is the host's */
  ACCEL_PLUGIN_DEVICE_FP16 = 2,           /**< computes in halves */
  ACCEL_PLUGIN_DEVICE_BF16 = 4,           /**< computes in bfloat16 */
  ACCEL_PLUGIN_DEVICE_I8DOT = 8,          /**< has dot products of 8-bit integers */
  ACCEL_PLUGIN_DEVICE_MATRIX_F16 = 16,    /**< has matrix units for halves */
  ACCEL_PLUGIN_DEVICE_MATRIX_I8 = 32,     /**< has matrix units for 8-bit integers */
  ACCEL_PLUGIN_DEVICE_AMD = 64,           /**< is an AMD GPU */
  ACCEL_PLUGIN_DEVICE_REFERENCE = 128     /**< others are tested against it: tested at fp32 alone */
};

/** One device of a plugin. */
typedef struct accel_plugin_device {
  /** sizeof(accel_plugin_device) of the plugin. */
  uint32_t size;
  /** PCI address ("0000:03:00.0") or UUID: the same card has the same id in every plugin. */
  char id[48];
  /** What the vendor calls it. */
  char name[96];
  /** gfx1030, sm_90, avx512 ... */
  char arch[32];
  /** Driver and version. */
  char driver[64];
  /** accel_plugin_device_type. */
  uint32_t type;
  /** ACCEL_PLUGIN_DEVICE_FP16 and the like. */
  uint32_t flags;
  /** Threads of a wave (warp, sub-group); 0: not known. */
  uint32_t wave;
  /** Compute units; 0: not known. */
  uint32_t units;
  /** Bytes of the largest allocation; 0: not known. */
  uint64_t max_allocation;
  /** Bytes of the largest buffer binding; 0: not known. */
  uint64_t max_binding;
  /** Bytes of shared (local) memory of a work-group; 0: not known. */
  uint64_t max_shared;
  /** Memory bandwidth in GB/s; 0: not known. */
  double gbytes_per_s;
  /** fp32 arithmetic in GFLOP/s; 0: not known. */
  double gflops;
  /** Not empty: listed, but not selectable; why, and what to do. */
  char unusable[160];
  /** Order among plugins of GPUs, the lowest first: which one serves a card that several have, and
   *  which one's cards come first.  0: behind all others, and software is then chosen by name
   *  alone.  ROCm is 10, CUDA 20, OpenCL 30, Vulkan 40. */
  uint32_t route;
  /** New rows of a sequence, in a session, that may be added up in another order than more of them
   *  are: where a run has more than so many, each gets the bits that it gets among all others of
   *  its prompt.  0: not known, and the core takes 63. */
  uint32_t few_rows;
} accel_plugin_device;

/** Memory of a device in bytes; 0: not known. */
typedef struct accel_plugin_memory {
  /** sizeof(accel_plugin_memory) of the core. */
  uint32_t size;
  /** 0. */
  uint32_t reserved;
  /** All of it. */
  uint64_t total;
  /** Free now. */
  uint64_t free;
  /** What this process may take. */
  uint64_t budget;
  /** How much of it is the host's. */
  uint64_t shared_with_host;
} accel_plugin_memory;

/** Whether a device runs an entry at a precision. */
typedef enum accel_plugin_answer {
  ACCEL_PLUGIN_NO = 0,      /**< it does not */
  ACCEL_PLUGIN_NATIVE = 1,  /**< with instructions for that precision */
  ACCEL_PLUGIN_EMULATED = 2 /**< in a wider precision, with the results of the one asked for */
} accel_plugin_answer;

/** The answer of `supports` for one entry. */
typedef struct accel_plugin_verdict {
  /** sizeof(accel_plugin_verdict) of the core. */
  uint32_t size;
  /** accel_plugin_answer. */
  int32_t answer;
  /** First node that it cannot run; -1: none. */
  int32_t node;
  /** Why not, one sentence; "". */
  char why[160];
} accel_plugin_verdict;

/** What a program will take, in bytes. */
typedef struct accel_plugin_estimate {
  /** sizeof(accel_plugin_estimate) of the core. */
  uint32_t size;
  /** 0. */
  uint32_t reserved;
  /** Weights as the plugin keeps them. */
  uint64_t weights;
  /** Activations of one run. */
  uint64_t scratch;
  /** State that does not depend on tokens, of max_sequences sequences (0: of one). */
  uint64_t state_fixed;
  /** State of one token. */
  uint64_t state_per_token;
  /** Host memory through which data goes to the device. */
  uint64_t host_staging;
  /** The most there is while loading. */
  uint64_t peak_load;
  /** Of `weights`: what stays in the checkpoint's file, of which rows are read when they are asked
   *  for. */
  uint64_t in_file;
  /** The least stream_budget that works; 0: this plugin does not stream, or nothing of this model.
   *  Told where options.row_dtype is given, as are the next three. */
  uint64_t stream_least;
  /** With options.stream_budget, or stream_least where that is 0: weights that stay in memory. */
  uint64_t stream_resident;
  /** Memory through which the other weights pass. */
  uint64_t stream_staging;
  /** Bytes that a run of the entry "decode", or of the first one, reads from files. */
  uint64_t stream_read;
  /** What the cache must hold for streaming, in segments of store_open; 0: nothing. */
  uint64_t stream_store;
  /** The key of these segments' entry; "". */
  char stream_key[96];
  /** Of stream_resident: memory for experts, which are read when they are routed. */
  uint64_t stream_experts;
  /** Bytes of the experts that one row is routed to in that entry, wherever they are. */
  uint64_t stream_routed;
  /** Of these: what is expected to be read, if all experts are chosen alike; counted in
   *  stream_read. */
  uint64_t stream_missed;
  /** Host memory that holds the weights that do not stay, as the device keeps them: they are copied
   *  to it in each run, and stream_read is what is copied.  0: they are read from files. */
  uint64_t stream_host;
  /** The least stream_host_budget that works: for weights that can lie nowhere else, and for what is
   *  read from files on its way.  0: none is read from files where stream_host is. */
  uint64_t stream_host_least;
  /** Of stream_read: what is read from files, where stream_host is. */
  uint64_t stream_disk;
} accel_plugin_estimate;

/** How an endpoint is made. */
typedef struct accel_plugin_options {
  /** sizeof(accel_plugin_options) of the core. */
  uint32_t size;
  /** Most sequences of a session; 0: grow as needed. */
  uint32_t max_sequences;
  /** Tokens that a session's KV cache must hold; 0: grow as needed. */
  uint64_t max_tokens;
  /** Bytes that the endpoint may take; 0: no limit. */
  uint64_t memory_limit;
  /** Layer streaming: stages that are kept at once; 0: all. */
  uint32_t resident_stages;
  /** Tensor parallel: which of the ranks this is. */
  uint32_t rank;
  /** Tensor parallel: how many ranks; 0 or 1: alone. */
  uint32_t world;
  /** What to compute in. */
  accel_plugin_precision precision;
  /** The core's services; of init valid until cleanup. */
  const accel_plugin_host *host;
  /** "key=value;..." of the registry's options for this hardware; unknown keys are refused. */
  const char *extra;
  /** Of estimate only: [program.n_symbol] values to plan for, 0: the symbol's typical one.  NULL:
   *  all 0. */
  const int64_t *symbol;
  /** Of estimate only: a byte for each output, entry by entry, 1: it is computed.  NULL: all. */
  const uint8_t *wanted;
  /** [program.n_weight] 1 where rows of the weight lie in the checkpoint's file as its format has
   *  them: a plugin may leave them there and ask for some of them (rows_read).  NULL: nowhere. */
  const uint8_t *in_file;
  /** Bytes that weights may take: those that stay, and memory through which the others pass, which
   *  are read from their files in each run (accel_plugin_host.rows_open), or lie in host memory and
   *  are copied to the device (stream_host).  At least stream_least.  0: all weights stay. */
  uint64_t stream_budget;
  /** [program.n_weight] dtype (F32, F16, BF16) in which rows_wait gives rows of the weight, whatever
   *  its format; NO_DTYPE: its rows are not to be had.  NULL: nowhere are they. */
  const uint8_t *row_dtype;
  /** Of estimate only: receives the launches that a run of each entry would make, entry by entry, as
   *  accel_plugin_host.profile does those that were made; begin, end and limit are 0.  Sequences of
   *  a ragged row space count as equally long.  Plugins that plan no launches never call it.  NULL:
   *  nobody asks. */
  void (*planned)(void *self, const accel_plugin_step *step);
  /** First argument of `planned`. */
  void *planned_self;
  /** With `planned`: tokens that the KV cache of each sequence holds before the run. */
  uint64_t past_tokens;
  /** With `planned`: tokens of an encoder that the static states of each sequence hold. */
  uint64_t static_tokens;
  /** With stream_budget, where weights are copied from host memory: how much of that they may take,
   *  at least stream_host_least.  The others are read from their files in each run, on their way to
   *  the device (rows_open; coded formats from an entry of the cache, as stream_store and stream_key
   *  have it).  0: as much as they need. */
  uint64_t stream_host_budget;
} accel_plugin_options;

/* ---- running ------------------------------------------------------------------------------- */

/** One input or output of an entry; row-major, contiguous. */
typedef struct accel_plugin_view {
  /** sizeof(accel_plugin_view) of the core. */
  uint32_t size;
  /** accel_plugin_dtype. */
  uint8_t dtype;
  /** Dims in use. */
  uint8_t rank;
  /** 0. */
  uint8_t reserved[2];
  /** Elements in host memory.  NULL for an output: it is not wanted, and nodes that nothing else
   *  needs are skipped. */
  void *host;
  /** A device buffer of buffer_alloc instead of `host`. */
  void *device;
  /** Bytes into `device`. */
  uint64_t offset;
  /** Bytes there are; an output that is larger is ACCEL_PLUGIN_E_LIMIT, with the dims filled in. */
  uint64_t capacity;
  /** Sizes: of inputs given, of outputs written. */
  int64_t dim[ACCEL_PLUGIN_MAX_RANK];
} accel_plugin_view;

/** What an adapter has for one LOW_RANK, which adds scale (x a) b.  rank 0: nothing. */
typedef struct accel_plugin_low_rank {
  /** [K, rank] */
  const float *a;
  /** [rank, N] */
  const float *b;
  /** Columns of a. */
  uint32_t rank;
  /** 0. */
  uint32_t reserved;
} accel_plugin_low_rank;

/** The same at 16 bits, for less to read: it adds scale factor (x a) b. */
typedef struct accel_plugin_low_rank_f16 {
  /** [K, rank] halves; 64 bytes behind them may be read, too. */
  const uint16_t *a;
  /** [rank, N], likewise. */
  const uint16_t *b;
  /** What products are multiplied by: a power of two, as the largest of a and of b are near 1. */
  float factor;
  /** Columns of a; 0: nothing. */
  uint32_t rank;
} accel_plugin_low_rank_f16;

/** An adapter, in host memory. */
typedef struct accel_plugin_adapter {
  /** sizeof(accel_plugin_adapter) of the core. */
  uint32_t size;
  /** Slots. */
  uint32_t n_slot;
  /** [n_slot] by the attribute "slot"; the core counts them as the weights of the whole program. */
  const accel_plugin_low_rank *slot;
  /** [n_slot] the same rounded to halves, which may be used in their place (since 0.4): the run's
   *  weights are at 16 bits or fewer.  NULL: there are none. */
  const accel_plugin_low_rank_f16 *slot_f16;
} accel_plugin_adapter;

/** What one item of a run takes of an adapter. */
typedef struct accel_plugin_adapter_use {
  /** NULL: none. */
  const accel_plugin_adapter *adapter;
  /** What its products are multiplied by. */
  float scale;
  /** 0. */
  uint32_t reserved;
} accel_plugin_adapter_use;

/** One run. */
typedef struct accel_plugin_run {
  /** sizeof(accel_plugin_run) of the core. */
  uint32_t size;
  /** Index into program.entry. */
  uint32_t entry;
  /** [n_sequence] sequence ids of the items; only with a session. */
  const int32_t *sequence;
  /** Items, with a session; else 0. */
  uint32_t n_sequence;
  /** 0. */
  uint32_t reserved;
  /** The core's services during the run. */
  const accel_plugin_host *host;
  /** Written: milliseconds on the device; 0: not measured. */
  double device_ms;
  /** [n_adapter] adapters of the items (since 0.4), read by the op LOW_RANK; valid during the run.
   *  NULL: no item has one. */
  const accel_plugin_adapter_use *adapter;
  /** Items; with `adapter` NULL 0. */
  uint32_t n_adapter;
  /** 0. */
  uint32_t reserved_adapter;
} accel_plugin_run;

/** A program with its weights on a device.  The plugin's own. */
typedef struct accel_plugin_endpoint accel_plugin_endpoint;
/** States of sequences on an endpoint.  The plugin's own. */
typedef struct accel_plugin_session accel_plugin_session;

/** What session_control does with a sequence of a session. */
typedef enum accel_plugin_session_verb {
  /** Forget the sequence. */
  ACCEL_PLUGIN_SESSION_RESET = 1,
  /** Keep its first `value` tokens.  ACCEL_PLUGIN_E_UNSUPPORTED for states that cannot go back. */
  ACCEL_PLUGIN_SESSION_TRUNCATE = 2,
  /** Sequence `value` becomes a copy of it; memory may be shared until one of them grows. */
  ACCEL_PLUGIN_SESSION_COPY = 3,
  /** *n becomes the number of its tokens. */
  ACCEL_PLUGIN_SESSION_LENGTH = 4,
  /** Writes its state to buffer[*n]; with buffer NULL *n becomes the bytes needed. */
  ACCEL_PLUGIN_SESSION_EXPORT = 5,
  /** Reads what EXPORT wrote, buffer[*n]; other bytes are ACCEL_PLUGIN_E_ARGUMENT. */
  ACCEL_PLUGIN_SESSION_IMPORT = 6
} accel_plugin_session_verb;

/* ---- the table ----------------------------------------------------------------------------- */

/** What a plugin is.  Constant, lives as long as the process. */
typedef struct accel_plugin {
  /** sizeof(accel_plugin) of the plugin. */
  uint32_t size;
  /** ABI that the table is for. */
  uint32_t abi;
  /** "cpu": names of its devices begin with it. */
  const char *name;
  /** "CPU", "AMD_ROCM", "CUDA", "OPENCL", "VULKAN", "REFERENCE" ... */
  const char *implementation_type;
  /** Version of libaccel it was built with. */
  const char *version;
  /** Changes with the code; keys caches. */
  const char *build_id;
  /** None defined yet: 0. */
  uint32_t features;
  /** accel_plugin_sanitizer of this build; must be the core's. */
  uint32_t sanitizer;
  /** Lists the devices present, usable or not (then with the reason): writes up to `capacity`, *n
   *  becomes how many there are.  Later calls name a device by its index in this list.
   *  Required. */
  int32_t (*devices)(const accel_plugin_host *host, accel_plugin_device *out, uint32_t capacity,
                     uint32_t *n, accel_plugin_error *error);
  /** Tells a device's memory now.  Required. */
  int32_t (*memory)(uint32_t device, accel_plugin_memory *out, accel_plugin_error *error);
  /** Answers for each entry, verdict[program.n_entry], from the program and formats alone;
   *  allocates nothing on the device.  "No" is an answer, not a failure.  Required. */
  int32_t (*supports)(uint32_t device, const accel_plugin_program *program,
                      const accel_plugin_precision *precision, accel_plugin_verdict *verdict,
                      accel_plugin_error *error);
  /** Tells what a program will take, without loading anything.  Required. */
  int32_t (*estimate)(uint32_t device, const accel_plugin_program *program,
                      const accel_plugin_options *options, accel_plugin_estimate *out,
                      accel_plugin_error *error);
  /** Makes an endpoint: copies what it needs of the program, maps and packs the weights.
   *  Required. */
  int32_t (*init)(uint32_t device, const accel_plugin_program *program,
                  const accel_plugin_options *options, accel_plugin_endpoint **out,
                  accel_plugin_error *error);
  /** Runs an entry; in[], out[] in the order of the entry.  session is NULL for entries without
   *  state.  A failed run leaves the session as it was, but for ACCEL_PLUGIN_E_DEVICE_LOST.
   * Required. */
  int32_t (*handler)(accel_plugin_endpoint *endpoint, accel_plugin_session *session,
                     accel_plugin_run *run, const accel_plugin_view *in, uint32_t n_in,
                     accel_plugin_view *out, uint32_t n_out, accel_plugin_error *error);
  /** Frees an endpoint, whose sessions are freed before; NULL: does nothing.  Required. */
  void (*cleanup)(accel_plugin_endpoint *endpoint, const accel_plugin_host *host);
  /** Gives scratch memory back; *released becomes its bytes.  NULL: there is none to give. */
  int32_t (*trim)(accel_plugin_endpoint *endpoint, uint64_t *released, accel_plugin_error *error);
  /** Makes a session without sequences.  NULL, with the next two: models that keep state do not
   *  generate there. */
  int32_t (*session_new)(accel_plugin_endpoint *endpoint, accel_plugin_session **out,
                         accel_plugin_error *error);
  /** Frees a session. */
  void (*session_free)(accel_plugin_session *session);
  /** Does `verb` (accel_plugin_session_verb) with a sequence.  One that does not exist has length
   *  0, may be RESET or IMPORTed, and is ACCEL_PLUGIN_E_ARGUMENT to the other verbs. */
  int32_t (*session_control)(accel_plugin_session *session, int32_t verb, int32_t sequence,
                             int64_t value, void *buffer, uint64_t *n, accel_plugin_error *error);
  /** Allocates n bytes on the device.  NULL, with the next two: there are no device tensors
   *  (accel_to_device). */
  int32_t (*buffer_alloc)(uint32_t device, uint64_t n, void **out, accel_plugin_error *error);
  /** Frees a buffer. */
  void (*buffer_free)(uint32_t device, void *buffer);
  /** Copies n bytes, and returns when it is done.  to_device 1: dst is a buffer and src host
   *  memory; 0: the other way round. */
  int32_t (*buffer_copy)(uint32_t device, void *dst, uint64_t dst_offset, const void *src,
                         uint64_t src_offset, uint64_t n, int32_t to_device,
                         accel_plugin_error *error);
  /** Begins what handler does, and answers a fence for `wait`.  NULL: handler is used.  The core
   *  does not call it yet. */
  int32_t (*submit)(accel_plugin_endpoint *endpoint, accel_plugin_session *session,
                    accel_plugin_run *run, const accel_plugin_view *in, uint32_t n_in,
                    accel_plugin_view *out, uint32_t n_out, void **fence,
                    accel_plugin_error *error);
  /** Waits for a fence; timeout_us < 0: for ever.  NULL when submit is. */
  int32_t (*wait)(void *fence, int64_t timeout_us, accel_plugin_error *error);
} accel_plugin;

/** Sanitizer that a build carries; a core loads only plugins with its own. */
typedef enum accel_plugin_sanitizer {
  ACCEL_PLUGIN_PLAIN = 0, /**< none */
  ACCEL_PLUGIN_ASAN = 1,  /**< AddressSanitizer with UBSan */
  ACCEL_PLUGIN_TSAN = 2   /**< ThreadSanitizer */
} accel_plugin_sanitizer;

/** The one exported function.  `host` has only `log` here and is valid during the call.  NULL: the
 *  plugin shares no ABI with the core. */
typedef const accel_plugin *(*accel_plugin_query_fn)(const accel_plugin_host *host,
                                                     uint32_t core_abi);

#ifdef __cplusplus
}
#endif
#endif
