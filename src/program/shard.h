/* shard.h - what the files of tensor parallelism share: which part of a tensor's axis a rank has,
 * and what an op then needs of its operands (private to src/program). */
#ifndef ACCEL_PROGRAM_SHARD_H
#define ACCEL_PROGRAM_SHARD_H

#include "program/program_internal.h"

/* The part [begin, end) that this rank has of each of `times` blocks of `block` elements along an
 * axis; axis -1: the rank has the whole tensor. */
typedef struct accel__split {
  int32_t axis;
  int64_t begin, end, block;
  int64_t times;
  /* ranks share heads of keys and values, of which there are fewer than ranks */
  bool shared;
} accel__split;

static const accel__split accel__whole = {.axis = -1, .times = 1};

/* A program while it is cut for a rank. */
typedef struct accel__sharder {
  accel__program *p;
  uint32_t rank, world;
  uint8_t *live;       /* [n_node] an entry needs it */
  int32_t *producer;   /* [n_tensor] live node; -1: none */
  accel__split *split; /* [n_tensor] values of which each rank computes a part */
  uint8_t *kept;       /* [n_tensor] must stay whole */
  uint8_t *sums;       /* [n_node] each rank computes an addend of the result */
  uint8_t *gathers;    /* [n_node] each rank computes some columns of a whole result */
  uint8_t *lookups;    /* [n_node] each rank looks up the ids whose rows of the table it has */
  uint8_t *residual;   /* [n_node] of sums: accel__residual */
  uint8_t *open; /* [n_node] of sums: the addend goes into another one, and is not completed */
  uint32_t gain; /* linears and attentions that a trace came to */
} accel__sharder;

/* Where the residual of a linear of `sums` is added: its value is the same on all ranks, and counts
 * once. */
typedef enum accel__residual {
  ACCEL__RESIDUAL_FIRST,  /* by rank 0, within the linear */
  ACCEL__RESIDUAL_ADDEND, /* it is itself an addend, of each rank its own */
  ACCEL__RESIDUAL_BEHIND  /* by all ranks, to the sum */
} accel__residual;

/* Size of an axis; 0: not constant. */
int64_t accel__axis_size(const accel__program *p, int32_t tensor, int32_t axis);
/* This rank's part of an axis of `size` elements that may be cut anywhere. */
accel__split accel__split_of(const accel__sharder *s, int32_t axis, int64_t size);
bool accel__split_same(const accel__split *a, const accel__split *b);

/* What node `n` needs of its operands, in[n_in], to compute `want` of its first result alone; false:
 * it cannot.  Heads that the ranks do not divide fail the program. */
bool accel__split_operands(accel__sharder *s, const accel_plugin_node *n, const accel__split *want,
                           accel__split *in);
/* The same of a node of `sums`: whose result is added up over the ranks. */
bool accel__split_sum(accel__sharder *s, const accel_plugin_node *n, accel__split *in);
/* Heads of keys and values that a rank has. */
int64_t accel__local_kv_heads(const accel__sharder *s, int64_t kv_heads);

static inline const accel_plugin_attr *accel__node_attr(const accel_plugin_node *n, int key) {
  for (uint32_t i = 0; i < n->n_attr; i++)
    if (n->attr[i].key == key) return &n->attr[i];
  return NULL;
}
static inline int64_t accel__node_attr_int(const accel_plugin_node *n, int key, int64_t otherwise) {
  const accel_plugin_attr *a = accel__node_attr(n, key);
  return a ? a->i : otherwise;
}
static inline int32_t accel__node_in(const accel_plugin_node *n, uint32_t k) {
  return k < n->n_in ? n->in[k] : -1;
}

#endif
