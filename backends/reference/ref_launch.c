/* ref_launch.c - weights become fp32 once, nodes run by their scalar kernel. */
#include <stdio.h>
#include <stdlib.h>

#include "reference/ref.h"

typedef struct ref_endpoint {
  uint32_t n;
  float *weight[]; /* [n_weight], row-major fp32 */
} ref_endpoint;

static int32_t ref_support(const accel_plugin_program *program, const accel_plugin_node *node,
                           const accel_plugin_precision *precision, char *why, size_t n) {
  (void)program;
  (void)node;
  if (precision->compute == ACCEL_PLUGIN_F32) return ACCEL_PLUGIN_NATIVE;
  snprintf(why, n, "activations are computed in fp32");
  return ACCEL_PLUGIN_EMULATED;
}

static int32_t ref_weight_format(const accel_plugin_program *program, uint32_t index,
                                 const accel_plugin_format *format, char *why, size_t n) {
  if (format->store == ACCEL_PLUGIN_F32) return ACCEL_PLUGIN_NATIVE;
  return kit_format_widened(program, index, format, why, n);
}

static uint64_t ref_weight_bytes(const accel_plugin_program *program, uint32_t index,
                                 const accel_plugin_format *format) {
  (void)format;
  return (uint64_t)kit_weight_elements(&program->weight[index]) * sizeof(float);
}

static int32_t load(const kit_open *open, uint32_t index, float **out, accel_plugin_error *error) {
  const accel_plugin_weight *w = &open->program->weight[index];
  const accel_plugin_host *host = open->options->host;
  accel_plugin_weight_view view = {0};
  int64_t n, k;
  kit_weight_matrix(w, &n, &k);
  *out = malloc((size_t)(n * k) * sizeof **out + 1);
  if (!*out) return kit_no_memory(error, (uint64_t)(n * k) * sizeof **out);
  int32_t rc = kit_weight_borrow(host, index, &view, error);
  if (rc) return rc;
  rc = kit_weight_rows(w, &open->options->precision.format[index], &view, 0, n, *out, error);
  host->weight_unmap(host->self, index);
  return rc;
}

static int32_t ref_open(kit_open *open, void **self, accel_plugin_error *error) {
  uint32_t n = open->program->n_weight;
  /* other formats: fp32 is nearer */
  if (open->options->precision.kv == ACCEL_PLUGIN_I8) open->kv_dtype = ACCEL_PLUGIN_I8;
  if (n && (!open->options->host || !open->options->host->weight_map))
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "init: the host gives no weights");
  ref_endpoint *e = calloc(1, sizeof *e + n * sizeof e->weight[0]);
  if (!e) return kit_no_memory(error, sizeof *e);
  e->n = n;
  *self = e; /* from here ref_close frees it */
  int32_t rc = ACCEL_PLUGIN_OK;
  for (uint32_t i = 0; !rc && i < n; i++) rc = load(open, i, &e->weight[i], error);
  return rc;
}

static void ref_close(void *self) {
  ref_endpoint *e = self;
  for (uint32_t i = 0; i < e->n; i++) free(e->weight[i]);
  free(e);
}

static void *ref_weight(void *self, uint32_t index) {
  return ((ref_endpoint *)self)->weight[index];
}

static int32_t ref_launch(void *self, const kit_launch *launch, accel_plugin_error *error) {
  (void)self;
  return kit_scalar(launch->node->op)(launch, error);
}

const kit_backend ref_backend = {
    .name = "reference",
    .support = ref_support,
    .weight_format = ref_weight_format,
    .weight_bytes = ref_weight_bytes,
    .open = ref_open,
    .close = ref_close,
    .weight = ref_weight,
    .launch = ref_launch,
};
