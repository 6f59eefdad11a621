/* adapters_internal.h - what binding and loading share: the base's tensors by name, and the
 * matrices of an adapter.
 */
#ifndef ACCEL_ADAPTERS_INTERNAL_H
#define ACCEL_ADAPTERS_INTERNAL_H

#include "adapters/adapters.h"

/* How a program reads a tensor of the checkpoint. */
enum {
  ACCEL__LOOKED_UP = 1, /* rows by index */
  ACCEL__MULTIPLIED = 2 /* by anything else */
};

/* The tensors that a program's weights are made of. */
typedef struct accel__adapter_base {
  const accel__program *program;
  const accel__checkpoint *checkpoint; /* NULL: random weights */
  const accel__import *import;
  const char **name; /* [n] */
  uint8_t *uses;     /* [n] of the above */
  uint32_t n;
  accel__map names;
  accel__map alike; /* of accel__lora_file_base */
  accel__arena arena;
} accel__adapter_base;

/* On failure, too, *out is to be closed.  The names stay the program's. */
accel_status accel__adapter_base_open(const accel__program *program,
                                      const accel__checkpoint *checkpoint,
                                      const accel__import *import, accel__adapter_base *out);
void accel__adapter_base_close(accel__adapter_base *base);
/* The number of the tensor that the model's class calls `name`, which the checkpoint may spell with
 * another prefix; -1: the program does not read it, but the checkpoint has it.  ACCEL_ERROR_FORMAT:
 * there is none, or there are two. */
accel_status accel__adapter_base_find(const accel__adapter_base *base,
                                      const accel__adapter *adapter, const char *name,
                                      int64_t *out);

/* The directory of an adapter at adapter->path: its config (whose text changes *hash) and the
 * headers of its tensors. */
accel_status accel__adapter_read_config(accel__adapter *adapter, accel__arena *arena,
                                        uint64_t *hash);
accel_status accel__adapter_open_tensors(const accel__adapter *adapter, accel__arena *arena,
                                         accel__checkpoint **out);
/* Which module or tensor of the base each tensor of adapter->checkpoint belongs to. */
accel_status accel__adapter_read_names(accel__adapter *adapter, accel__arena *arena);

/* The same of a file: what it says of its parts, the modules that its tensors belong to, names of
 * the base as such files have them, and a module's weight among these as accel__adapter_base_find.
 */
accel_status accel__lora_file_read(accel__adapter *a, const accel__checkpoint *tensors);
accel_status accel__lora_file_names(accel__adapter *a, accel__arena *arena);
accel_status accel__lora_file_base(accel__adapter_base *base);
accel_status accel__lora_file_find(const accel__adapter_base *base, const accel__adapter *adapter,
                                   const accel__adapter_module *module, int64_t *out);

/* Is a module of a file one of LoCon, LoHa or LoKr?  Sets its rank; ACCEL_ERROR_FORMAT, _UNSUPPORTED:
 * tensors that do not make one kind, or whose meaning is not certain. */
accel_status accel__lora_kind_check(const accel__adapter *a, accel__adapter_module *module,
                                    bool *other);
/* *delta of such a module, for a tensor of delta->rows and delta->columns; in `arena`. */
accel_status accel__lora_kind_delta(const accel__adapter *a, const accel__adapter_module *module,
                                    accel__arena *arena, accel__weight_delta *delta);

/* ACCEL_ERROR_FORMAT: tensor `t` of module `module` is no matrix of dim[0] x dim[1]. */
accel_status accel__adapter_check_shape(const accel__adapter *adapter, const char *module,
                                        const accel__tensor_info *t, const int64_t dim[2]);
/* Tensor `t` of module `module` as fp32 dim[0] x dim[1], in `arena`.  ACCEL_ERROR_FORMAT: it has
 * another shape, or a value that is not finite. */
accel_status accel__adapter_matrix(const accel__adapter *adapter, const char *module,
                                   const accel__tensor_info *t, const int64_t dim[2],
                                   accel__arena *arena, float **out);
void accel__adapter_scale(float *values, int64_t n, double by);
/* Has A of a module the rank that the config says? */
accel_status accel__adapter_check_rank(const accel__adapter *adapter,
                                       const accel__adapter_module *module,
                                       const accel__tensor_info *a);

#endif
