/* ort_backend.c - the kit's hooks: what weights take, endpoints. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
  e->host = host;
  e->threads = host && host->workers ? host->workers(host->self) : 1;
  e->quantised = e->device->qnn && open->options->precision.compute == ACCEL_PLUGIN_I8;
  return kit_compiled_open(open,
                           &(kit_compiled_options){.compiler = &ort_compiler,
                                                   .self = e,
                                                   .fixed = e->device->qnn,
                                                   .hidden = e->device->qnn ? -3e4 : -1e30},
                           self, error);
}

/* Qualcomm's NPU has no fp32 and no bfloat16: it computes in halves whatever is asked for. */
static int32_t qnn_support(const accel_plugin_program *program, const accel_plugin_node *node,
                           const accel_plugin_precision *precision, char *why, size_t n) {
  if (!strcmp(precision->name, "fp32") || !strcmp(precision->name, "bf16")) {
    snprintf(why, n, "the NPU computes in halves, not in %s", precision->name);
    return ACCEL_PLUGIN_NO;
  }
  return kit_compiled_support(program, node, precision, why, n);
}

#define ORT_BACKEND(support_)                                                                 \
  {                                                                                           \
    .name = "onnxruntime", .support = support_, .weight_format = kit_compiled_weight_format,  \
    .weight_bytes = weight_bytes, .weight_in_place = kit_graph_format, .open = open_endpoint, \
    .close = kit_compiled_close, .run = kit_compiled_run                                      \
  }

const kit_backend *ort_backend_of(uint32_t device) {
  static const kit_backend plain = ORT_BACKEND(kit_compiled_support),
                           qnn = ORT_BACKEND(qnn_support);
  const ort_library *ort = ort_open_library();
  return device < ort->n_device && ort->device[device].qnn ? &qnn : &plain;
}
