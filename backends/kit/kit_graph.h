/* kit_graph.h - a program's entry as a static graph, for backends whose vendor's library compiles
 * whole graphs (OpenVINO, ONNX Runtime).
 *
 * kit_graph_lower turns the nodes of an entry into the few dozen ops of kit_graph_ops.def, so that
 * a writer of an interchange format is a table of those.  What a static graph has no words for
 * becomes inputs that the host fills in each run (kit_feed_fill): where the rows of each sequence
 * begin, how long the past of each is, its keys and values, sizes that are not known yet.
 *
 *   rows     the packed rows of a ragged space are gathered into [items, longest, C] where sequences
 *            must not mix (attention, convolutions over rows, reductions), and gathered back
 *   dims     symbols in kit_graph_request.folded are constants of the graph; the others stay open,
 *            and sizes that depend on them come in with the int64 input of KIT_FEED_SIZES
 *   weights  constants that point to the bytes that the host has mapped; nothing is copied.  Codes
 *            are multiplied by their scales in the graph, in the shape that compilers of graphs
 *            know as a compressed weight
 *   states   the keys and values of the past are inputs, [items, heads, longest past, dim]; new rows
 *            are results, which kit_graph_keep puts into the session
 *
 * Equal nodes are made once, so masks and angles are computed once for all layers.
 */
#ifndef ACCEL_KIT_GRAPH_H
#define ACCEL_KIT_GRAPH_H

#include "kit/kit.h"

typedef enum kit_graph_op {
#define KIT_GRAPH_OP(NAME, operands, attributes, text) KIT_GRAPH_##NAME,
#include "kit/kit_graph_ops.def"
  KIT_GRAPH_OPS
} kit_graph_op;

enum { KIT_GRAPH_ATTRS = 14 };

typedef struct kit_graph_node {
  uint8_t op;    /* kit_graph_op */
  uint8_t dtype; /* of the result: F32, I32, I64, BOOL; of constants any storage format */
  uint8_t rank;  /* of constants and inputs, as are dim and data */
  uint8_t n_i;
  uint32_t n_in;
  const int32_t *in;                  /* [n_in] nodes that come earlier */
  int64_t dim[ACCEL_PLUGIN_MAX_RANK]; /* -1: not known until the run (inputs) */
  int64_t i[KIT_GRAPH_ATTRS];
  double f[2];
  const void *data; /* elements of a constant */
  uint64_t bytes;
} kit_graph_node;

/* What the host gives for an input of the graph. */
typedef enum kit_feed_kind {
  KIT_FEED_INPUT,         /* input `index` of the entry */
  KIT_FEED_SIZES,         /* int64 [n_size]: kit_graph.size */
  KIT_FEED_PAD,           /* int32 [items, longest]: row of space `index`; padding repeats a row */
  KIT_FEED_UNPAD,         /* int32 [rows]: element of [items * longest] */
  KIT_FEED_ROW,           /* int32 [1, longest]: 0, 1, 2 ..; index KIT_FEED_DIM - d: [1, dim d] */
  KIT_FEED_LENGTH,        /* int32 [items, 1]: rows of each item */
  KIT_FEED_ITEM,          /* int32 [items]: 0, 1, 2 .. */
  KIT_FEED_PAST_ROW,      /* int32 [1, longest past] of state `index`: 0, 1, 2 .. */
  KIT_FEED_PAST_LENGTH,   /* int32 [items, 1] */
  KIT_FEED_PAST_POSITION, /* int32 [items, longest past] */
  KIT_FEED_PAST_K,        /* [items, heads, longest past, k_dim] */
  KIT_FEED_PAST_V,
  KIT_FEED_CARRIED /* [items, columns, channels] of a convolution's state; index: the node */
} kit_feed_kind;

enum {
  KIT_FEED_DIM = -2,
  KIT_GRAPH_PAST_STEP = 32 /* the longest past is rounded up to a multiple of it */
};

typedef struct kit_graph_feed {
  uint8_t kind; /* kit_feed_kind */
  int32_t index;
  int32_t node; /* the INPUT */
} kit_graph_feed;

/* A number of KIT_FEED_SIZES. */
typedef struct kit_graph_size {
  int32_t dim;   /* program dim; -1: another kind */
  int32_t space; /* longest item of a row space; -1: */
  int32_t state; /* longest past of a state */
} kit_graph_size;

typedef enum kit_result_kind {
  KIT_RESULT_OUTPUT, /* output `index` of the entry */
  KIT_RESULT_ROWS_K, /* new rows of program node `index`, to be appended to its state */
  KIT_RESULT_ROWS_V,
  KIT_RESULT_ROWS_X /* rows that program node `index` carries on: kit_graph_keep takes the last */
} kit_result_kind;

typedef struct kit_graph_result {
  uint8_t kind; /* kit_result_kind */
  int32_t index;
  int32_t node;
} kit_graph_result;

/* An index operand that the host checks before a run, since graphs do not. */
typedef struct kit_graph_check {
  int32_t input; /* of the entry */
  int64_t limit; /* its elements are in [0, limit) */
  uint32_t node; /* program node */
} kit_graph_check;

typedef struct kit_graph {
  const kit_graph_node *node; /* [n_node] */
  const kit_graph_feed *feed;
  const kit_graph_result *result;
  const kit_graph_size *size;
  const kit_graph_check *check;
  uint32_t n_node, n_feed, n_result, n_size, n_check;
} kit_graph;

typedef struct kit_graph_request {
  const accel_plugin_program *program;
  uint32_t entry;
  const uint8_t *wanted;             /* [n_out of the entry] */
  const uint8_t *folded;             /* [n_symbol] 1: symbol[] of it is a constant of the graph */
  const int64_t *symbol;             /* [n_symbol] */
  const accel_plugin_format *format; /* [n_weight] */
  const accel_plugin_weight_view *view; /* [n_weight] */
  /* weights as fp32 where the graph cannot have their codes; NULL: view has it */
  const float *const *wide; /* [n_weight] */
  double hidden;            /* what masked scores become: finite where activations are halves */
  /* not NULL: all sizes are constants, those of this run; every symbol is folded */
  const struct kit_graph_run *run;
} kit_graph_request;

/* Is a node one that can be lowered?  NATIVE or NO, and why not. */
int32_t kit_graph_support(const accel_plugin_program *program, const accel_plugin_node *node,
                          char *why, size_t why_size);
/* Can the graph have a weight's codes as they are (a plain format, or codes whose groups divide the
 * row and that `node`s use as a linear's or an embedding's)?  Else it takes kit_graph_request.wide.
 */
bool kit_graph_format(const accel_plugin_program *program, uint32_t weight,
                      const accel_plugin_format *format);
/* Symbols to fold: the sizes of pictures and sounds, and all that are neither items nor ragged
 * rows.  folded [n_symbol]. */
void kit_graph_folds(const accel_plugin_program *program, uint8_t *folded);
/* Lowers an entry.  E_UNSUPPORTED names the node.  *out is to be freed; its constants point into
 * the request's weights. */
int32_t kit_graph_lower(const kit_graph_request *request, kit_graph **out,
                        accel_plugin_error *error);
void kit_graph_free(kit_graph *graph); /* NULL: nothing */
/* How often each node is an operand or a result, added to uses [n_node]. */
void kit_graph_uses(const kit_graph *graph, uint32_t *uses);

/* ---- a run ---- */

/* What kit_backend.run gets: the run of one entry, whose shapes are bound. */
typedef struct kit_graph_run {
  const accel_plugin_program *program;
  uint32_t entry;
  const int64_t *symbol, *dim; /* values */
  const uint8_t *wanted;
  const kit_rows *rows;        /* [n_space] */
  const accel_plugin_view *in; /* [n_in of the entry], in host memory */
  const accel_plugin_view *out;
  const kit_tensor *tensor; /* [n_tensor] shapes; id -1: not used by this run */
  kit_run_state *state;
  const accel_plugin_host *host;
} kit_graph_run;

/* A size that is not among the symbols. */
int32_t kit_graph_size_of(const kit_graph_size *size, const kit_graph_run *run, int64_t *out,
                          accel_plugin_error *error);
/* Shape and elements of a feed.  *owned is to be freed; NULL: the elements are the caller's of the
 * run. */
int32_t kit_feed_fill(const kit_graph *graph, const kit_graph_feed *feed, const kit_graph_run *run,
                      int64_t *dim, const void **data, void **owned, accel_plugin_error *error);
/* Are index inputs within their tables? */
int32_t kit_graph_check_inputs(const kit_graph *graph, const kit_graph_run *run,
                               accel_plugin_error *error);
/* Puts what a run made into its session: data[i] are the elements of result i (fp32), in the order
 * of kit_graph.result; those of outputs are not looked at. */
int32_t kit_graph_keep(const kit_graph *graph, const kit_graph_run *run, const void *const *data,
                       accel_plugin_error *error);

#endif
