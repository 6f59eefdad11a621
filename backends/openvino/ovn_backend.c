/* ovn_backend.c - the kit's hooks: what weights take, endpoints. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "openvino/ovn.h"

/* What the graph points to, and what OpenVINO packs of it. */
static uint64_t weight_bytes(const accel_plugin_program *program, uint32_t index,
                             const accel_plugin_format *format) {
  return 2 * kit_compiled_weight_bytes(program, index, format);
}

/* What activations are computed in: what is asked for, where the device has it. */
static void choose_hint(ovn_endpoint *e, uint8_t compute) {
  const bool halves = compute == ACCEL_PLUGIN_F16 && e->device->halves,
             bfloats = compute == ACCEL_PLUGIN_BF16 && e->device->bfloats;
  snprintf(e->hint, sizeof e->hint, "%s", halves ? "f16" : bfloats ? "bf16" : "f32");
}

static int32_t open_endpoint(kit_open *open, void **self, accel_plugin_error *error) {
  const accel_plugin_host *host = open->options->host;
  const ovn_library *ov = ovn_open_library();
  if (open->device >= ov->n_device)
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "no device %u", open->device);
  ovn_endpoint *e = calloc(1, sizeof *e);
  if (!e) return kit_no_memory(error, sizeof *e);
  e->ov = ov;
  e->device = &ov->device[open->device];
  choose_hint(e, open->options->precision.compute);
  snprintf(e->threads, sizeof e->threads, "%u",
           host && host->workers ? host->workers(host->self) : 1);
  return kit_compiled_open(open,
                           &(kit_compiled_options){.compiler = &ovn_compiler,
                                                   .self = e,
                                                   .fixed = e->device->fixed,
                                                   .hidden = strcmp(e->hint, "f16") ? -1e30 : -3e4},
                           self, error);
}

const kit_backend ovn_backend = {
    .name = "openvino",
    .support = kit_compiled_support,
    .weight_format = kit_compiled_weight_format,
    .weight_bytes = weight_bytes,
    .weight_in_place = kit_graph_format,
    .open = open_endpoint,
    .close = kit_compiled_close,
    .run = kit_compiled_run,
};
