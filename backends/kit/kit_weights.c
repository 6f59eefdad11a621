/* kit_weights.c - the sizes of weight formats, and any of them back to fp32. */
#include <stdio.h>

#include "formats/weight_matrix.h"
#include "kit/kit.h"

void kit_weight_matrix(const accel_plugin_weight *w, int64_t *n, int64_t *k) {
  accel_matrix_shape(w->use, w->rank, w->dim, n, k);
}

uint64_t kit_format_bytes(const accel_plugin_weight *weight, const accel_plugin_format *f) {
  int64_t n, k;
  accel_matrix_bytes b;
  kit_weight_matrix(weight, &n, &k);
  return accel_matrix_sizes(f, n, k, &b) ? b.data + b.scale + b.zero + b.outer : UINT64_MAX;
}

bool kit_format_known(const accel_plugin_format *f) { return accel_format_known(f); }

int32_t kit_format_widened(const accel_plugin_program *program, uint32_t index,
                           const accel_plugin_format *format, char *why, size_t n) {
  if (kit_format_known(format)) {
    snprintf(why, n, "weights are turned into fp32");
    return ACCEL_PLUGIN_EMULATED;
  }
  snprintf(why, n, "weight '%.80s': store %u with scale %u, zero %u, outer %u is unknown",
           program->weight[index].name, format->store, format->scale, format->zero, format->outer);
  return ACCEL_PLUGIN_NO;
}

int32_t kit_weight_rows(const accel_plugin_weight *weight, const accel_plugin_format *f,
                        const accel_plugin_weight_view *view, int64_t first, int64_t count,
                        float *out, accel_plugin_error *error) {
  accel_matrix m = {.format = *f,
                    .data = view->data,
                    .scale = view->scale,
                    .zero = view->zero,
                    .outer = view->outer};
  kit_weight_matrix(weight, &m.n, &m.k);
  if (!accel_format_known(f))
    return kit_fail(
        error, ACCEL_PLUGIN_E_UNSUPPORTED, -1,
        "weight '%s': store %u with scale %u, zero %u, outer %u is unknown to this plugin",
        weight->name, f->store, f->scale, f->zero, f->outer);
  bool coded = !accel_format_plain(f);
  if (first < 0 || count < 0 || first > m.n || count > m.n - first || !m.data ||
      (coded && !m.scale) || (coded && f->zero != ACCEL_PLUGIN_NO_DTYPE && !m.zero) ||
      (coded && f->outer != ACCEL_PLUGIN_NO_DTYPE && !m.outer))
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1,
                    "weight '%s': rows %lld + %lld of %lld, or parts of its format are missing",
                    weight->name, (long long)first, (long long)count, (long long)m.n);
  accel_matrix_rows(&m, first, count, out);
  return ACCEL_PLUGIN_OK;
}
