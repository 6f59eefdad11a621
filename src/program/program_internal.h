/* program_internal.h - what the files of src/program share: the builder's tables, op signatures and
 * shape inference. */
#ifndef ACCEL_PROGRAM_INTERNAL_H
#define ACCEL_PROGRAM_INTERNAL_H

#include "program/program.h"

enum {
  ACCEL__MAX_OPERANDS = 64, /* concat takes the most */
  ACCEL__MAX_OUTPUTS = 2,
  ACCEL__MAX_SYMBOLS = 64,
  ACCEL__MAX_ITEMS = 1 << 20, /* nodes, tensors, dims, weights: a cap against runaway configs */
  /* assignments of the symbols on which two dims must agree to count as equal */
  ACCEL__DIM_SAMPLES = 6
};

struct accel__program {
  accel__arena arena;
  accel_status status; /* the first failure; ACCEL_OK while all is well */
  char *message;
  bool finished;
  accel_plugin_program view; /* filled by finish; its arrays are the ones below */

  accel_plugin_symbol *symbol;
  accel_plugin_dim *dim;
  accel_plugin_space *space;
  accel_plugin_tensor *tensor;
  accel_plugin_state *state;
  accel_plugin_node *node;
  accel_plugin_entry *entry;
  accel_plugin_weight *weight;
  accel__weight_spec *spec; /* [n_weight] */
  int64_t *sample;          /* [n_dim] scratch of dim comparisons */
  uint32_t n_symbol, n_dim, n_space, n_tensor, n_state, n_node, n_entry, n_weight;
  uint32_t cap_symbol, cap_dim, cap_space, cap_tensor, cap_state, cap_node, cap_entry, cap_weight,
      cap_spec, cap_sample;

  accel__map names;   /* tensor name -> tensor index; input, weight and value names never collide */
  accel__map counts;  /* base name -> how often it was asked for */
  accel__map weights; /* weight name -> weight index */
  const char *path;   /* of accel__at */
  uint32_t stage;
  uint32_t n_layer;     /* accel__program_layers */
  int32_t next_state;   /* of accel__with_state; -1 none */
  bool low_rank;        /* of accel__program_low_rank */
  uint32_t rank, world; /* of accel__program_shard */
  int64_t undivided;    /* of accel__program_undivided */
};

/* ---- build.c ---- */
/* Makes room for item n of an array of the program; false, with the program failed, when there is
 * no memory or n is ACCEL__MAX_ITEMS. */
bool accel__program_grow(accel__program *p, void **array, uint32_t *capacity, uint32_t n,
                         size_t size);

/* ---- ops.c: ops.def as tables ---- */
typedef struct accel__operand {
  char name[16];
  bool optional, many;
} accel__operand;
typedef struct accel__signature {
  char name[24]; /* "linear" */
  uint32_t n_operands, n_required, n_outputs;
  accel__operand operand[16];
  const char *attributes; /* "act act_alpha ..." */
} accel__signature;
bool accel__op_signature(int op, accel__signature *out); /* false: no such op */
bool accel__op_takes(int op, int key);                   /* the attribute belongs to the op */
const char *accel__attr_name(int key);                   /* NULL: no such attribute */
int accel__attr_type(int key);                           /* accel_plugin_attr_type, 0 unknown */
bool accel__attr_is_enum(int op, int key);
/* "gelu"; NULL: not a value of that attribute */
const char *accel__enum_name(int op, int key, int64_t value);

/* ---- dims.c ---- */
bool accel__dims_equal(accel__program *p, accel__dim a, accel__dim b);
void accel__dim_text(const accel_plugin_program *p, accel__dim dim, accel__buffer *out);
/* "[T,32]" */
void accel__shape_text(const accel_plugin_program *p, const accel_plugin_tensor *t,
                       accel__buffer *out);
/* The tables under construction as a view, for the functions that read views. */
void accel__program_peek(const accel__program *p, accel_plugin_program *view);

/* ---- shape*.c: one function per op ---- */
typedef struct accel__infer {
  accel__program *p;
  int op;
  const accel__signature *signature;
  const int32_t *in;
  uint32_t n_in;
  const accel_plugin_attr *attr;
  uint32_t n_attr;
  int32_t state;
  accel_plugin_tensor out[ACCEL__MAX_OUTPUTS]; /* written: dtype, rank, dim, space */
  uint32_t n_out;                              /* wanted outputs, 1 or 2 */
  char why[256];                               /* written on failure */
} accel__infer;
#define ACCEL_OP(name, number, operands, outputs, attributes, text) \
  bool accel__shape_##name(accel__infer *c);
#include "accel/ops.def"
/* Operand counts, dtypes, attributes, then the op's own function.  False: c->why says what is
 * wrong. */
bool accel__infer_node(accel__infer *c);

/* sets why; returns false */
bool accel__wrong(accel__infer *c, const char *format, ...) ACCEL_PRINTF(2, 3);
const accel_plugin_tensor *accel__operand_at(const accel__infer *c, uint32_t i); /* NULL: absent */
const accel_plugin_attr *accel__attr_at(const accel__infer *c, int key);
int64_t accel__attr_int(const accel__infer *c, int key, int64_t otherwise);
double accel__attr_float(const accel__infer *c, int key, double otherwise);
bool accel__expect_rank(accel__infer *c, uint32_t i, uint32_t rank);
/* Absent operands pass; else operand i must have exactly these dims. */
bool accel__expect_dims(accel__infer *c, uint32_t i, uint32_t rank, const accel__dim *dims);
void accel__result(accel__infer *c, uint32_t k, int dtype, uint32_t rank, const int32_t *dims,
                   int32_t space);
/* normalises a negative axis */
bool accel__axis(accel__infer *c, int64_t axis, uint32_t rank, uint32_t *out);

/* ---- check.c ---- */
/* Fills c from a node, infers, and composes "NAME (op): why; operands x [T,32], ..." on failure. */
bool accel__check_node(accel__infer *c, const char *name, accel__buffer *message);

/* ---- low_rank.c ---- */
/* The linear with a LOW_RANK behind each of its products; as accel__node. */
accel__tensor accel__linear_low_rank(accel__program *p, const accel__tensor *in, uint32_t n_in,
                                     const accel__attr *attr, uint32_t n_attr);

/* ---- fuse.c ---- */
void accel__fuse(accel__program *p);

/* ---- shard.c ---- */
/* Behind fusion: the program of one rank, where accel__program_shard asked for that. */
void accel__shard(accel__program *p);

/* Walks the arrays of a view by its strides. */
#define ACCEL_AT(program, field, i)                                              \
  ((const accel_plugin_##field *)(const void *)((const char *)(program)->field + \
                                                (size_t)(i) * (program)->field##_stride))

#endif
