/* weight_roles.h - what a program does with each of its weights, found in the graph: which kind of
 * layer a weight belongs to, and what its format must heed. */
#ifndef ACCEL_DISPATCH_WEIGHT_ROLES_H
#define ACCEL_DISPATCH_WEIGHT_ROLES_H

#include "accel/plugin.h"
#include "core/arena.h"
#include "core/status.h"

/* Bits of a weight's role. */
enum {
  /* it makes results of the model and nothing else (classes, answer spans, logits over a
   * vocabulary): no later layer evens errors out */
  ACCEL__ROLE_HEAD = 1,
  ACCEL__ROLE_TRANSPOSED = 2, /* it is read as [k, n], so its rows are not output channels */
  ACCEL__ROLE_ATTENTION = 4   /* it makes queries, keys or values, or reads what attention gives */
};

/* Kinds of layers as a precision profile names them. */
typedef enum accel__layer_kind {
  ACCEL__KIND_ATTENTION,   /* projections into and out of attention */
  ACCEL__KIND_LINEAR,      /* other linear layers: feed-forward networks, poolers, projections */
  ACCEL__KIND_EXPERTS,     /* experts of a mixture */
  ACCEL__KIND_CONVOLUTION, /* kernels of convolutions */
  ACCEL__KIND_HEAD,        /* what makes the model's results */
  ACCEL__KIND_EMBEDDING,   /* tables of token vectors */
  ACCEL__KIND_COUNT        /* their number; also of weights of no kind, which stay fp32 */
} accel__layer_kind;
/* "attention", "linear", "experts", "convolution", "head", "embedding" */
extern const char *const accel__layer_kinds[ACCEL__KIND_COUNT];

/* (*role)[program.n_weight], in the arena. */
accel_status accel__weight_roles(const accel_plugin_program *program, accel__arena *arena,
                                 uint8_t **role);
/* ACCEL__KIND_COUNT: vectors and plain weights. */
accel__layer_kind accel__weight_kind(const accel_plugin_weight *weight, uint8_t role);

#endif
