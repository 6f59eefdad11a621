/* ovn_backend.c - the kit's hooks: what is supported, weights, endpoints. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "openvino/ovn.h"

static int32_t support(const accel_plugin_program *program, const accel_plugin_node *node,
                       const accel_plugin_precision *precision, char *why, size_t n) {
  (void)precision; /* says what activations may be, not what they must be */
  return kit_graph_support(program, node, why, n);
}

static int32_t weight_format(const accel_plugin_program *program, uint32_t index,
                             const accel_plugin_format *format, char *why, size_t n) {
  if (kit_graph_format(program, index, format)) return ACCEL_PLUGIN_NATIVE;
  if (kit_format_known(format)) {
    snprintf(why, n, "weights are turned into fp32");
    return ACCEL_PLUGIN_EMULATED;
  }
  snprintf(why, n, "weight '%.80s': store %u with scale %u, zero %u, outer %u is unknown",
           program->weight[index].name, format->store, format->scale, format->zero, format->outer);
  return ACCEL_PLUGIN_NO;
}

/* What the graph points to, and what OpenVINO packs of it. */
static uint64_t weight_bytes(const accel_plugin_program *program, uint32_t index,
                             const accel_plugin_format *format) {
  const uint64_t own = kit_graph_format(program, index, format)
                           ? kit_format_bytes(&program->weight[index], format)
                           : (uint64_t)kit_weight_elements(&program->weight[index]) * sizeof(float);
  return 2 * own;
}

static bool weight_in_place(const accel_plugin_program *program, uint32_t index,
                            const accel_plugin_format *format) {
  return kit_graph_format(program, index, format);
}

/* ---- endpoints ---- */

static int32_t load_weight(ovn_endpoint *e, uint32_t i, accel_plugin_error *error) {
  const accel_plugin_weight *w = &e->program->weight[i];
  int32_t rc = e->host->weight_map(e->host->self, i, &e->view[i], error);
  if (rc) return rc;
  e->mapped[i] = 1;
  if (kit_graph_format(e->program, i, &e->format[i])) return ACCEL_PLUGIN_OK;
  int64_t n, k;
  kit_weight_matrix(w, &n, &k);
  e->wide[i] = malloc((size_t)(n * k) * sizeof(float) + 1);
  if (!e->wide[i]) return kit_no_memory(error, (uint64_t)(n * k) * sizeof(float));
  rc = kit_weight_rows(w, &e->format[i], &e->view[i], 0, n, e->wide[i], error);
  e->host->weight_unmap(e->host->self, i);
  e->mapped[i] = 0;
  return rc;
}

static int32_t load_weights(ovn_endpoint *e, accel_plugin_error *error) {
  const uint32_t n = e->program->n_weight;
  if (n && (!e->host || !e->host->weight_map))
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "init: the host gives no weights");
  int32_t rc = ACCEL_PLUGIN_OK;
  for (uint32_t i = 0; !rc && i < n; i++) rc = load_weight(e, i, error);
  return rc;
}

/* What activations are computed in: what is asked for, where the device has it. */
static void choose_hint(ovn_endpoint *e, uint8_t compute) {
  const bool halves = compute == ACCEL_PLUGIN_F16 && e->device->halves,
             bfloats = compute == ACCEL_PLUGIN_BF16 && e->device->bfloats;
  snprintf(e->hint, sizeof e->hint, "%s", halves ? "f16" : bfloats ? "bf16" : "f32");
}

static int32_t open_endpoint(kit_open *open, void **self, accel_plugin_error *error) {
  const accel_plugin_program *p = open->program;
  const accel_plugin_options *o = open->options;
  const ovn_library *ov = ovn_open_library();
  if (open->device >= ov->n_device)
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "no device %u", open->device);
  if (o->world > 1)
    return kit_fail(error, ACCEL_PLUGIN_E_UNSUPPORTED, -1,
                    "a compiled graph does not sum over ranks: use another device, or one rank");
  ovn_endpoint *e = calloc(1, sizeof *e);
  if (!e) return kit_no_memory(error, sizeof *e);
  pthread_mutex_init(&e->lock, NULL);
  e->ov = ov;
  e->device = &ov->device[open->device];
  e->program = p;
  e->host = o->host;
  *self = e; /* from here close_endpoint frees it */
  choose_hint(e, o->precision.compute);
  snprintf(e->threads, sizeof e->threads, "%u",
           e->host && e->host->workers ? e->host->workers(e->host->self) : 1);
  e->format = calloc(p->n_weight + 1, sizeof *e->format);
  e->view = calloc(p->n_weight + 1, sizeof *e->view);
  e->mapped = calloc(p->n_weight + 1, 1);
  e->wide = calloc(p->n_weight + 1, sizeof *e->wide);
  e->folded = calloc(p->n_symbol + 1, 1);
  if (!e->format || !e->view || !e->mapped || !e->wide || !e->folded)
    return kit_no_memory(error, p->n_weight * sizeof *e->view);
  if (p->n_weight) memcpy(e->format, o->precision.format, p->n_weight * sizeof *e->format);
  kit_graph_folds(p, e->folded);
  if (e->device->fixed) memset(e->folded, 1, p->n_symbol);
  return load_weights(e, error);
}

static void close_endpoint(void *self) {
  ovn_endpoint *e = self;
  ovn_compiled_drop(e);
  for (uint32_t i = 0; e->mapped && i < e->program->n_weight; i++)
    if (e->mapped[i]) e->host->weight_unmap(e->host->self, i);
  for (uint32_t i = 0; e->wide && i < e->program->n_weight; i++) free(e->wide[i]);
  pthread_mutex_destroy(&e->lock);
  free(e->format);
  free(e->view);
  free(e->mapped);
  free(e->wide);
  free(e->folded);
  free(e);
}

const kit_backend ovn_backend = {
    .name = "openvino",
    .support = support,
    .weight_format = weight_format,
    .weight_bytes = weight_bytes,
    .weight_in_place = weight_in_place,
    .open = open_endpoint,
    .close = close_endpoint,
    .run = ovn_run,
};
