/* kit_compiled.h - endpoints of backends whose vendor's library compiles graphs (kit_graph.h):
 * weights as graphs have them, compiled graphs kept by what runs ask for, and runs.
 *
 * A backend supplies a kit_compiler, and takes the hooks below into its kit_backend: its `open`
 * calls kit_compiled_open, the others are these functions. */
#ifndef ACCEL_KIT_COMPILED_H
#define ACCEL_KIT_COMPILED_H

#include "kit/kit_graph.h"

/* Elements of an input or of a result of a graph, in host memory. */
typedef struct kit_graph_value {
  uint8_t dtype, rank;
  int64_t dim[ACCEL_PLUGIN_MAX_RANK];
  const void *data;
  uint64_t bytes;
} kit_graph_value;

/* What differs from library to library.  `self` is the one of kit_compiled_open. */
typedef struct kit_compiler {
  /* The graph lives, with all that its constants point to, until model_free; so do name, the
   * entry's, and dim.
   * dim [n_feed][MAX_RANK]: the shapes that inputs will have; NULL: open where the graph leaves
   * them open.  One call at a time. */
  int32_t (*compile)(void *self, const kit_graph *graph, const char *name,
                     const int64_t (*dim)[ACCEL_PLUGIN_MAX_RANK], void **model,
                     accel_plugin_error *error);
  void (*model_free)(void *self, void *model);
  /* feed [n_feed] to data and bytes of result [n_result], which are read until `done`.  Many calls
   * at once. */
  int32_t (*infer)(void *self, void *model, const kit_graph *graph, const kit_graph_value *feed,
                   kit_graph_value *result, void **job, accel_plugin_error *error);
  /* Follows every infer, with its *job, NULL where it has set none; good: all went well. */
  void (*done)(void *self, void *model, void *job, bool good);
  void (*close)(void *self); /* the last call */
} kit_compiler;

typedef struct kit_compiled_options {
  const kit_compiler *compiler;
  void *self; /* closed by kit_compiled_open when it fails before *self of the endpoint is set */
  /* every size is folded, and inputs have known shapes; rows are rounded up (kit_rounded.h) */
  bool fixed;
  double hidden; /* kit_graph_request.hidden */
} kit_compiled_options;

/* kit_backend.open: maps the weights, or has them as fp32 where the graph cannot have their codes.
 */
int32_t kit_compiled_open(kit_open *open, const kit_compiled_options *options, void **self,
                          accel_plugin_error *error);
void kit_compiled_close(void *self);
int32_t kit_compiled_run(void *self, const kit_graph_run *run, accel_plugin_error *error);

/* The other hooks of kit_backend.  Weights that the graph has as they are: NATIVE; others that the
 * kit can decode: EMULATED. */
int32_t kit_compiled_support(const accel_plugin_program *program, const accel_plugin_node *node,
                             const accel_plugin_precision *precision, char *why, size_t n);
int32_t kit_compiled_weight_format(const accel_plugin_program *program, uint32_t index,
                                   const accel_plugin_format *format, char *why, size_t n);
/* Bytes that the graph points to. */
uint64_t kit_compiled_weight_bytes(const accel_plugin_program *program, uint32_t index,
                                   const accel_plugin_format *format);

/* ---- devices ---- */

/* accel_plugin.devices of a library: device i is described at first + i * stride.  why not empty:
 * E_DRIVER, and there is none. */
int32_t kit_compiled_devices(const accel_plugin_device *first, size_t stride, uint32_t n_device,
                             const char *why, accel_plugin_device *out, uint32_t capacity,
                             uint32_t *n, accel_plugin_error *error);

#endif
