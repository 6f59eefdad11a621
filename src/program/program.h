/* program.h - building, checking and showing programs (the op graphs that plugins run; plugin.h
 * says what they are made of).
 *
 * A model file builds ONE program with symbolic dims:
 *
 *   accel__program *p = accel__program_new("bert");
 *   accel__dim T = accel__symbol(p, "T", 1, max_tokens, 128), B = accel__symbol(p, "B", 1, 0, 1);
 *   accel__tensor lengths = accel__input(p, "lengths", ACCEL_PLUGIN_I32, -1, 1, (accel__dim[]){B});
 *   int32_t rows = accel__space_ragged(p, "tokens", lengths, T, B);
 *   accel__tensor ids = accel__input(p, "input_ids", ACCEL_PLUGIN_I32, rows, 1, (accel__dim[]){T});
 *   accel__tensor x = accel__gather(p, accel__weight(p, &(accel__weight_spec){...}), ids);          [T, C]
 *   x = accel__linear(p, x, w, bias, residual, ACCEL_PLUGIN_ACT_GELU);
 *   accel__entry(p, "encode", inputs, n_in, outputs, n_out);
 *   ACCEL_TRY(accel__program_finish(p));
 *
 * Errors are sticky: after the first failure every call returns -1 and does nothing, and
 * accel__program_finish reports it with the node's name and operands' shapes.  -1 is also the
 * absent operand.  Not thread-safe while building; immutable once finished.
 */
#ifndef ACCEL_PROGRAM_PROGRAM_H
#define ACCEL_PROGRAM_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include "accel/plugin.h"
#include "core/arena.h"
#include "core/status.h"
#include "core/text.h"
#include "weights/source.h"

typedef struct accel__program accel__program;
typedef int32_t accel__tensor; /* index into the program's tensors; -1 absent */
typedef int32_t accel__dim;    /* index into its dims */

accel__program *accel__program_new(const char *name); /* NULL: no memory */
void accel__program_free(accel__program **p);
bool accel__program_failed(const accel__program *p);
/* Records a failure found by the caller (a config that cannot be built); the first one is kept.
 * Returns -1. */
int32_t accel__program_fail(accel__program *p, accel_status code, const char *format, ...)
    ACCEL_PRINTF(3, 4);
/* Runs validation and fusion, fixes the hash; afterwards the view is valid until
 * accel__program_free. */
accel_status accel__program_finish(accel__program *p);
const accel_plugin_program *accel__program_view(const accel__program *p);
/* Mixes the weights' identity (their files, or the seed) into the hash, which keys caches.  Once,
 * before a plugin sees it. */
void accel__program_identify(accel__program *p, uint64_t weights);

/* ---- dims: folded and shared as they are built ---- */
accel__dim accel__const_dim(accel__program *p, int64_t value);
accel__dim accel__symbol(accel__program *p, const char *name, int64_t min, int64_t max,
                         int64_t typical);
accel__dim accel__dim_op(accel__program *p, accel_plugin_dim_op op, accel__dim a, accel__dim b);
/* The constant behind a dim; false when it is symbolic. */
bool accel__dim_value(const accel__program *p, accel__dim dim, int64_t *value);

/* ---- tensors ---- */
accel__tensor accel__input(accel__program *p, const char *name, accel_plugin_dtype dtype,
                           int32_t space, uint32_t rank, const accel__dim *dims);
int32_t accel__space_ragged(accel__program *p, const char *name, accel__tensor lengths,
                            accel__dim rows, accel__dim items);
int32_t accel__space_fixed(accel__program *p, const char *name, accel__dim rows_per_item,
                           accel__dim items);
/* copied */
accel__tensor accel__constant_f32(accel__program *p, const char *name, uint32_t rank,
                                  const int64_t *dims, const float *values);
accel__tensor accel__constant_i32(accel__program *p, const char *name, uint32_t rank,
                                  const int64_t *dims, const int32_t *values);

/* name, use, dims and where the values come from (weights/source.h); name NULL: parts[0];
 * derive_user and many in arena memory of the program. */
typedef accel__source_weight accel__weight_spec;
/* The same name again gives the same tensor (shared and tied weights); with other dims it is an
 * error. */
accel__tensor accel__weight(accel__program *p, const accel__weight_spec *spec);
/* of accel_plugin_program.weight[] */
const accel__weight_spec *accel__weight_source(const accel__program *p, uint32_t weight);
accel__arena *accel__program_arena(accel__program *p); /* lives as long as the program */

/* Shape, dtype and space of a tensor while building. */
uint32_t accel__rank(const accel__program *p, accel__tensor t);
/* negative axis from the end */
accel__dim accel__tensor_dim(const accel__program *p, accel__tensor t, int32_t axis);
/* Names the next nodes' results and stages: path "encoder.layer.3.attention", stage 4. */
void accel__at(accel__program *p, uint32_t stage, const char *format, ...) ACCEL_PRINTF(3, 4);
/* The last stage whose path has a number ("layers.11"), so that stages 1 .. this one are layers as
 * a user counts them; stage 0 is what comes before them, and later stages what comes behind. */
uint32_t accel__program_layers(const accel__program *p);
void accel__name(accel__program *p, accel__tensor t, const char *format, ...) ACCEL_PRINTF(3, 4);

/* State of sessions (KV, conv, SSM); name copied.  accel__with_state gives it to the next node. */
int32_t accel__state(accel__program *p, const accel_plugin_state *state);
void accel__with_state(accel__program *p, int32_t state);

/* ---- nodes ---- */
typedef struct accel__attr {
  accel_plugin_attr_key key;
  accel_plugin_attr_type type;
  int64_t i;
  double f;
  const int64_t *v;
  uint32_t n;
} accel__attr;
#define ACCEL_I(name, value) \
  ((accel__attr){.key = ACCEL_PLUGIN_ATTR_##name, .type = ACCEL_PLUGIN_ATTR_I, .i = (value)})
#define ACCEL_F(name, value) \
  ((accel__attr){.key = ACCEL_PLUGIN_ATTR_##name, .type = ACCEL_PLUGIN_ATTR_F, .f = (value)})
#define ACCEL_IV(name, values, count) \
  ((accel__attr){                     \
      .key = ACCEL_PLUGIN_ATTR_##name, .type = ACCEL_PLUGIN_ATTR_IV, .v = (values), .n = (count)})
#define ACCEL_D(name, dims, count) \
  ((accel__attr){                  \
      .key = ACCEL_PLUGIN_ATTR_##name, .type = ACCEL_PLUGIN_ATTR_D, .v = (dims), .n = (count)})
/* Any op: checks operand count, attributes and shapes against ops.def, infers the results.  Returns
 * the first output; out[] (may be NULL) gets all n_out wanted outputs. */
accel__tensor accel__node(accel__program *p, accel_plugin_op op, const accel__tensor *in,
                          uint32_t n_in, const accel__attr *attr, uint32_t n_attr,
                          accel__tensor *out, uint32_t n_out);

/* From now on every LINEAR is made so that runs may bring adapters for its weight: its product, a
 * LOW_RANK (ops.def) behind it, then its activation and what else it does.  Weights that are read
 * transposed are left as they are. */
void accel__program_low_rank(accel__program *p);

/* Tensor parallelism: when the program is finished it becomes that of rank `rank` of `world` (at
 * least 2), which has a share of the weights (accel__source_weight.share) and an ALLREDUCE behind
 * what the ranks add up.  Inputs and results are those of the whole program, on every rank.
 * ACCEL_ERROR_UNSUPPORTED from accel__program_finish when heads of attention are not to be divided,
 * or nothing is to be shared. */
void accel__program_shard(accel__program *p, uint32_t rank, uint32_t world);
/* How many heads the ranks do not divide, after that failure; 0: it was another one. */
int64_t accel__program_undivided(const accel__program *p);

/* The common ones, spelled shortly; absent operands are -1. */
accel__tensor accel__linear(accel__program *p, accel__tensor x, accel__tensor w, accel__tensor bias,
                            accel__tensor residual, accel_plugin_act act);
accel__tensor accel__layer_norm(accel__program *p, accel__tensor x, accel__tensor gamma,
                                accel__tensor beta, accel__tensor residual, double eps);
accel__tensor accel__gather(accel__program *p, accel__tensor table, accel__tensor idx); /* axis 0 */
accel__tensor accel__binary(accel__program *p, accel_plugin_binary kind, accel__tensor a,
                            accel__tensor b);
accel__tensor accel__unary(accel__program *p, int kind, accel__tensor x);
accel__tensor accel__reshape(accel__program *p, accel__tensor x, uint32_t rank,
                             const accel__dim *dims);
/* end INT64_MAX: to the end */
accel__tensor accel__slice(accel__program *p, accel__tensor x, int32_t axis, int64_t start,
                           int64_t end);
/* [T,C] -> [B,C] */
accel__tensor accel__reduce_rows(accel__program *p, int reduce_kind, accel__tensor x,
                                 accel__tensor weights, int32_t space);

accel_status accel__entry(accel__program *p, const char *name, const accel__tensor *in,
                          uint32_t n_in, const accel__tensor *out, uint32_t n_out);

/* ---- showing ---- */
const char *accel__op_name(int op); /* "LINEAR"; "?" for a number that is no op */
void accel__program_text(const accel_plugin_program *p, accel__buffer *out); /* one line a node */
void accel__program_dot(const accel_plugin_program *p, accel__buffer *out);  /* Graphviz */
/* Checks a finished program from anywhere: indices in range, order, ranks, operands, attributes;
 * names the node. */
accel_status accel__program_validate(const accel_plugin_program *p);

#endif
