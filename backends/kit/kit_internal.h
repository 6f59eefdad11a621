/* kit_internal.h - what the kit's own files share and backends do not see. */
#ifndef ACCEL_KIT_INTERNAL_H
#define ACCEL_KIT_INTERNAL_H

#include <stdatomic.h>

#include "kit/kit.h"
#include "shared/dim_expr.h"

/* Copies the first min(size_given, size_known) bytes of a size-prefixed struct into `out`, the rest
 * zero. */
void kit_read_struct(void *out, size_t known, const void *given, uint32_t given_size);

/* ---- kit_bind.c: shapes ---- */

/* Solves the symbols from the shapes of the entry's inputs, checks every use and every bound.
 * symbol[n_symbol], dim[n_dim] are written. */
int32_t kit_bind(const accel_plugin_program *p, const accel_plugin_entry *entry,
                 const accel_plugin_view *in, uint32_t n_in, int64_t *symbol, int64_t *dim,
                 accel_plugin_error *error);
/* Shape of a tensor; E_ARGUMENT names a dim that is unbound, negative or too large. */
int32_t kit_shape(const accel_plugin_program *p, const int64_t *dim, int32_t id, kit_tensor *out,
                  accel_plugin_error *error);
/* Items and rows of space `space`; start[] has room for items + 1.  lengths: int32 [items], NULL
 * for fixed spaces. */
int32_t kit_space_rows(const accel_plugin_program *p, uint32_t space, const int64_t *dim,
                       const int32_t *lengths, int32_t *start, kit_rows *out,
                       accel_plugin_error *error);

/* ---- kit_plan.c: which nodes run and where their tensors live ---- */

typedef enum kit_storage {
  KIT_STORAGE_NONE,
  KIT_STORAGE_SCRATCH,
  KIT_STORAGE_INPUT,
  KIT_STORAGE_OUTPUT,
  KIT_STORAGE_WEIGHT,
  KIT_STORAGE_CONST
} kit_storage;

typedef struct kit_location {
  uint8_t storage; /* kit_storage */
  uint32_t index;  /* input or output of the entry, weight, tensor that is the constant */
  uint64_t offset; /* bytes, in scratch or from the start of that input, output, weight, constant */
  uint64_t bytes;  /* of the elements */
} kit_location;

typedef struct kit_step {
  uint32_t node;
  uint32_t n_in, n_out; /* padded counts */
  uint32_t n_fused;     /* the next so many steps run in this one's launch */
  /* tensor without memory: what the one fused step takes from this one; -1 none */
  int32_t between;
  uint64_t workspace, workspace_bytes;
} kit_step;

typedef struct kit_plan {
  atomic_uint users;     /* the cache counts as one */
  _Atomic uint64_t used; /* tick of last use */
  /* key */
  uint32_t entry, workers;
  int64_t *symbol;
  uint8_t *wanted; /* [entry.n_out] */
  /* result */
  int64_t *dim;
  kit_tensor *tensor;     /* [n_tensor]; id -1 where the entry does not use it */
  kit_location *location; /* [n_tensor] */
  kit_step *step;
  uint32_t n_step;
  uint32_t widest;  /* most operands and results of a launch, padding included */
  bool *space;      /* [n_space]: used by a step */
  uint64_t scratch; /* bytes */
} kit_plan;

/* Where the planner looks: a backend's hooks, or none. */
typedef struct kit_plan_request {
  const accel_plugin_program *program;
  const kit_backend *backend;
  void *self; /* plan_open's in estimates; may be NULL */
  uint32_t entry, workers;
  const int64_t *symbol, *dim;
  const uint8_t *wanted;
} kit_plan_request;
int32_t kit_plan_new(const kit_plan_request *request, kit_plan **out, accel_plugin_error *error);
void kit_plan_free(kit_plan *plan);
/* Shapes of a step's operands and then results, padded, then those of the steps fused with it;
 * pointers NULL; absent ones have id -1 and no other field that means anything.  Answers how many
 * there are. */
uint32_t kit_step_tensors(const accel_plugin_program *program, const kit_plan *plan,
                          const kit_step *step, kit_tensor *out);
/* The launches of a step and of those fused with it, out[1 + n_fused], over the tensors of
 * kit_step_tensors; `like` has all that they share. */
void kit_step_launches(const accel_plugin_program *program, const kit_step *step,
                       const kit_tensor *tensors, const kit_launch *like, kit_launch *out);

/* ---- kit_answers.c ---- */

/* Verdict of one entry of a copied program. */
void kit_entry_verdict(const kit_backend *backend, const accel_plugin_program *program,
                       const accel_plugin_precision *precision, uint32_t entry,
                       accel_plugin_verdict *verdict);

/* ---- kit_planned.c ---- */

/* What the states of each sequence hold in runs that are only planned. */
typedef struct kit_planned {
  int64_t past, fixed; /* rows of the KV cache; of static states */
  uint8_t kv_dtype;
} kit_planned;
/* Tells options->planned, which is not NULL, the launches of a plan; dim: of the plan. */
int32_t kit_planned_tell(const kit_backend *backend, const accel_plugin_program *program,
                         const accel_plugin_options *options, const kit_plan *plan,
                         const int64_t *dim, accel_plugin_error *error);

/* ---- kit_cost.c ---- */

/* Adds one launch to flop and the bytes of a step, by its op's definition; shapes and rows are set,
 * data is not looked at.  weight_bytes: [n_weight] what the backend keeps for each weight; NULL:
 * fp32. */
void kit_cost(const kit_launch *launch, const uint64_t *weight_bytes, accel_plugin_step *step);

#endif
