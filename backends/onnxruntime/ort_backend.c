/* ort_backend.c - the kit's hooks: what weights take, endpoints. */
#include <stdlib.h>

#include "onnxruntime/ort.h"

/* What the graph points to, and what the library makes of it: fp32 for its kernels. */
static uint64_t weight_bytes(const accel_plugin_program *program, uint32_t index,
                             const accel_plugin_format *format) {
  return kit_compiled_weight_bytes(program, index, format) +
         (uint64_t)kit_weight_elements(&program->weight[index]) * sizeof(float);
}

static int32_t open_endpoint(kit_open *open, void **self, accel_plugin_error *error) {
  const accel_plugin_host *host = open->options->host;
  const ort_library *ort = ort_open_library();
  if (open->device >= ort->n_device)
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "no device %u", open->device);
  ort_endpoint *e = calloc(1, sizeof *e);
  if (!e) return kit_no_memory(error, sizeof *e);
  e->ort = ort;
  e->device = &ort->device[open->device];
  e->threads = host && host->workers ? host->workers(host->self) : 1;
  return kit_compiled_open(open,
                           &(kit_compiled_options){.compiler = &ort_compiler,
                                                   .self = e,
                                                   .fixed = e->device->qnn,
                                                   .hidden = e->device->qnn ? -3e4 : -1e30},
                           self, error);
}

const kit_backend ort_backend = {
    .name = "onnxruntime",
    .support = kit_compiled_support,
    .weight_format = kit_compiled_weight_format,
    .weight_bytes = weight_bytes,
    .weight_in_place = kit_graph_format,
    .open = open_endpoint,
    .close = kit_compiled_close,
    .run = kit_compiled_run,
};
