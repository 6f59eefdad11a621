/* kit_lower.h - what the files of kit_graph_lower share: building nodes, and the entry at hand.
 *
 * Functions that make nodes answer the node's number.  A failure is kept in lower.rc, and nodes made
 * after it are number 0, so that lowering reads as a formula; who calls a node's function looks at
 * rc. */
#ifndef ACCEL_KIT_LOWER_H
#define ACCEL_KIT_LOWER_H

#include "kit/kit_graph.h"
#include "kit/kit_scalar.h"
#include "shared/dim_expr.h"

/* Keys and values as an attention node sees them. */
typedef struct lower_rows {
  int32_t k, v;     /* [items, heads, keys, dim]; -1: there are none */
  int32_t position; /* int32 [items or 1, keys] */
  int32_t valid;    /* bool [items, keys]; -1: all are real */
  int32_t space;    /* of their rows */
} lower_rows;

/* Tables of a rope's cosines and sines (kit_graph_shape.c), made once for all nodes that share them. */
typedef struct lower_waves {
  int32_t frequency; /* the constant */
  double scale;
  int32_t table[4];
} lower_waves;

enum { LOWER_WAVES = 4 };

typedef struct lower {
  const kit_graph_request *r;
  const accel_plugin_program *p;
  const accel_plugin_entry *e;
  const accel_plugin_node *n; /* the node at hand */
  uint32_t index;             /* of it in the program */
  kit_graph *g;
  int64_t *dim;          /* [n_dim] or ACCEL_DIM_UNBOUND */
  int32_t *value;        /* [n_tensor] graph node, -1: not made yet */
  uint8_t *need;         /* [n_tensor] */
  int32_t *weight_value; /* [n_weight] */
  lower_rows *appended;  /* [n_state] what an earlier node of the entry has appended */
  lower_waves waves[LOWER_WAVES];
  uint32_t n_waves; /* made so far, of which the last few are kept */
  int32_t rc;
  accel_plugin_error *error;
} lower;

/* ---- kit_graph.c: nodes ---- */

kit_graph *kit_graph_new(void);
int32_t lower_fail(lower *l, const char *format, ...) KIT_PRINTF(2, 3); /* E_UNSUPPORTED; 0 */
/* A node like *like with operands in[n]; one that is there already is taken. */
int32_t lower_node(lower *l, const kit_graph_node *like, const int32_t *in, uint32_t n);
/* Constants: of numbers kept by the graph, or where they are (external). */
int32_t lower_constant(lower *l, uint8_t dtype, uint8_t rank, const int64_t *dim, const void *data,
                       uint64_t bytes, bool external);
int32_t lower_feed(lower *l, kit_feed_kind kind, int32_t index, uint8_t dtype, uint8_t rank,
                   const int64_t *dim);
void lower_result(lower *l, kit_result_kind kind, int32_t index, int32_t node);
/* Has the host check before a run that elements of operand i are in [0, limit); false: it is no
 * input of the entry, so nothing checks it. */
bool lower_check(lower *l, uint32_t i, int64_t limit);

/* Type of a node's result; after a failure F32. */
static inline uint8_t lower_type(const lower *l, int32_t node) {
  return l->rc ? ACCEL_PLUGIN_F32 : l->g->node[node].dtype;
}

int32_t lower_op1(lower *l, kit_graph_op op, int32_t a);
int32_t lower_op2(lower *l, kit_graph_op op, int32_t a, int32_t b);
int32_t lower_op3(lower *l, kit_graph_op op, int32_t a, int32_t b, int32_t c);
int32_t lower_axis1(lower *l, kit_graph_op op, int32_t a, int64_t axis);
int32_t lower_axis2(lower *l, kit_graph_op op, int32_t a, int32_t b, int64_t axis);
int32_t lower_matmul(lower *l, int32_t a, int32_t b, bool trans_b);
int32_t lower_convert(lower *l, int32_t a, uint8_t dtype);
int32_t lower_concat(lower *l, const int32_t *in, uint32_t n, int64_t axis);
int32_t lower_f32(lower *l, double value); /* scalars */
int32_t lower_i32(lower *l, int32_t value);
int32_t lower_i64s(lower *l, const int64_t *v, uint32_t n); /* a vector */
int32_t lower_reduce(lower *l, kit_graph_op op, int32_t a, int64_t axis, bool keep);
int32_t lower_reshape(lower *l, int32_t a, const int64_t *pattern, uint32_t n);
int32_t lower_unsqueeze(lower *l, int32_t a, const int64_t *axes, uint32_t n);
int32_t lower_transpose(lower *l, int32_t a, const int64_t *perm, uint32_t n);
int32_t lower_slice(lower *l, int32_t a, int64_t axis, int64_t start, int64_t end);
#define RESHAPE(l, a, ...) \
  lower_reshape(l, a, (const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / 8)
#define TRANSPOSE(l, a, ...) \
  lower_transpose(l, a, (const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / 8)
#define UNSQUEEZE(l, a, ...) \
  lower_unsqueeze(l, a, (const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / 8)
#define ADD(l, a, b) lower_op2(l, KIT_GRAPH_ADD, a, b)
#define SUB(l, a, b) lower_op2(l, KIT_GRAPH_SUBTRACT, a, b)
#define MUL(l, a, b) lower_op2(l, KIT_GRAPH_MULTIPLY, a, b)
#define DIV(l, a, b) lower_op2(l, KIT_GRAPH_DIVIDE, a, b)

/* ---- kit_graph_lower.c: the entry ---- */

/* Operand i of the node at hand as a graph node; -1: absent. */
int32_t lower_in(lower *l, uint32_t i);
/* Program tensor of operand i; NULL: absent. */
const accel_plugin_tensor *lower_tensor(const lower *l, uint32_t i);
const accel_plugin_tensor *lower_out_tensor(const lower *l, uint32_t i); /* NULL: not wanted */
void lower_out(lower *l, uint32_t i, int32_t node);
/* Value of a tensor's dim; -1 when it is open. */
int64_t lower_dim(const lower *l, const accel_plugin_tensor *t, uint32_t axis);
/* As int64 [1]: a constant, or an element of KIT_FEED_SIZES. */
int32_t lower_size(lower *l, int32_t dim);
int32_t lower_longest(lower *l, int32_t space);
int32_t lower_past(lower *l, int32_t state);
/* x in the shape of program dims dim[n]. */
int32_t lower_reshape_dims(lower *l, int32_t x, const int32_t *dim, uint32_t n);
/* Rows [T, cols] of a space (-1: one item) as [items, longest, cols], and back; cols 0: [T] as
 * [items, longest]. */
int32_t lower_padded(lower *l, int32_t x, int32_t space, int64_t cols);
int32_t lower_packed(lower *l, int32_t x, int32_t space, int64_t cols);
/* int32 0, 1, 2 .. in a shape of n elements, a constant. */
int32_t lower_counted(lower *l, int64_t n, uint8_t rank, const int64_t *dim);
/* int32 [1, longest] row numbers of a space, or, without one, of tensor t; and bool
 * [items, longest]: which rows are no padding; -1: all.  lower_item: int32 [items].  Numbers of as
 * many rows or items as are known are constants, so that a compiler computes masks and places of a
 * picture once and exactly; an NPU would compute them in halves. */
int32_t lower_row(lower *l, int32_t space, const accel_plugin_tensor *t);
int32_t lower_item(lower *l, int32_t space);
int32_t lower_valid(lower *l, int32_t space);
bool lower_ragged(const lower *l, int32_t space);

/* ---- nodes, by file ---- */

int32_t lower_act(lower *l, int32_t kind, double alpha, int32_t x); /* kit_graph_elementwise.c */
int32_t lower_glu(lower *l, int64_t glu, int32_t act, double alpha, int32_t y, int64_t n,
                  uint32_t rank, double limit); /* kit_graph_linear.c */
/* A weight's elements as fp32, in its own dims. */
int32_t lower_weight(lower *l, uint32_t weight);
/* Rows `rows` of a matrix of 8-bit codes, [.., groups, size] as fp32; -1: it is none.  Only they are
 * decoded: a table that is a product's weight, too, would be decoded whole for every run. */
int32_t lower_weight_rows(lower *l, uint32_t weight, int32_t rows);
/* Why a SELECTIVE_SCAN cannot be lowered; NULL: it can (kit_graph_scan.c). */
enum { KIT_GRAPH_SCAN_CELLS = 64 }; /* channels x states, each a matrix over the rows */
const char *lower_scan_refusal(const accel_plugin_program *program, const accel_plugin_node *node);
/* The shapes of a node's operands and results, all folded, as a launch. */
bool lower_launch(lower *l, kit_tensor *in, kit_tensor *out, kit_launch *launch);

#define ACCEL_OP(NAME, number, operands, outputs, attributes, text) void lower_##NAME(lower *l);
#include "accel/ops.def"

#endif
