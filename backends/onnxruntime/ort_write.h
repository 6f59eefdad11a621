/* ort_write.h - what the files of ort_write share: the model under way, nodes and constants in it.
 */
#ifndef ACCEL_ONNXRUNTIME_WRITE_H
#define ACCEL_ONNXRUNTIME_WRITE_H

#include "onnxruntime/ort_proto.h"

/* A value of the model has a number: that of the graph's node, or one of ort_fresh. */
enum {
  ORT_NONE = -1,     /* an operand that is left out */
  ORT_ELSEWHERE = -2 /* ort_writer.normed: part of a later node */
};

typedef struct ort_writer {
  const kit_graph *g;
  ort_bytes *b;
  int32_t next;   /* ort_fresh */
  int8_t *rank;   /* [n_node]; -1: not known */
  uint32_t *uses; /* [n_node] operands and results that are this node */
  int32_t
      *normed; /* [n_node] the LAYER_NORM that ends here with its scale; -1 none; ORT_ELSEWHERE */
  int32_t *scale; /* [n_node] of such a LAYER_NORM; -1: it stands alone */
  int32_t *shift; /* [n_node] or -1 */
  bool *apart;    /* [n_node] an ADD or MULTIPLY that Qualcomm's compiler must not fuse, a CONVERT
                     that it drops, a GATHER of codes or a TANH of many dims, which it does not
                     take, a SIN or COS, of which it has few turns */
  const struct ort_quantised *quantised; /* ort_writing.quantised */
  bool coded;                            /* its products are written with their codes */
  char why[160];                         /* not empty: an op that cannot be written */
} ort_writer;

static inline int32_t ort_fresh(ort_writer *w) { return w->next++; }

/* A node "type" from values in[n] to `out`, left open for attributes until ort_close. */
size_t ort_open(ort_writer *w, const char *type, int32_t out, const int32_t *in, uint32_t n);
void ort_close(ort_writer *w, size_t node);
void ort_attribute_int(ort_writer *w, const char *key, int64_t value);
void ort_attribute_ints(ort_writer *w, const char *key, const int64_t *v, uint32_t n);
void ort_attribute_float(ort_writer *w, const char *key, float value);
void ort_attribute_word(ort_writer *w, const char *key, const char *word, size_t n);
/* A second output of an open node. */
void ort_output(ort_writer *w, int32_t out);
/* Nodes without attributes; they answer their value. */
int32_t ort_op1(ort_writer *w, const char *type, int32_t a);
int32_t ort_op2(ort_writer *w, const char *type, int32_t a, int32_t b);
int32_t ort_floats(ort_writer *w, const float *v, int64_t n); /* n 0: a scalar */
int32_t ort_int64s(ort_writer *w, const int64_t *v, int64_t n);
/* Elements of a constant of int64; *n of them.  NULL: the node is none. */
const int64_t *ort_known(const ort_writer *w, int32_t node, int64_t *n);
/* The number of a constant of fp32 of one element; 0: the node is none. */
float ort_number(const ort_writer *w, int32_t node);

/* A constant, of a type as ONNX numbers them; external where it is long, or data NULL. */
void ort_tensor(ort_writer *w, int32_t id, int type, const int64_t *dim, uint32_t rank,
                const void *data, uint64_t bytes);

/* Ranks of all nodes, into w->rank, uses, and norms with their scale; of a model for Qualcomm's NPU
 * also w->apart. */
void ort_look(ort_writer *w, bool npu);
/* Writes node `id`, where ort_ops.def has no line for its op (ort_forms.c). */
void ort_form(ort_writer *w, int32_t id);
/* Writes a product of ort_writer.quantised with codes on both sides (ort_coded.c). */
void ort_coded_product(ort_writer *w, int32_t id);
/* The result ORT_MAGNITUDES: answers its value. */
int32_t ort_magnitudes(ort_writer *w);

#endif
