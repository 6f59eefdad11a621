/* ort_quantise.c - see ort_quantise.h. */
#include "onnxruntime/ort_quantise.h"

#include <math.h>
#include <stdlib.h>

#include "formats/weight_matrix.h"

/* ---- weights ---- */

/* The nodes that int8 codes of a linear go through (kit_graph_linear.c). */
typedef struct coded {
  const kit_graph_node *codes, *scales; /* constants [n, groups, size] and [n, groups, 1] */
  int64_t n, k;
} coded;

static const kit_graph_node *constant_at(const kit_graph *g, int32_t id) {
  const kit_graph_node *n = &g->node[id];
  if (n->op == KIT_GRAPH_CONVERT) n = &g->node[n->in[0]];
  return n->op == KIT_GRAPH_CONSTANT ? n : NULL;
}

static bool is_shape(const kit_graph_node *n, int64_t rows, int64_t columns) {
  const int64_t *dim = n->data;
  return n->op == KIT_GRAPH_CONSTANT && n->dtype == ACCEL_PLUGIN_I64 &&
         n->bytes == 2 * sizeof *dim && dim[0] == rows && dim[1] == columns;
}

/* Is node `id` reshape(convert(codes) * convert(scales), [n, k])? */
static bool find_codes(const kit_graph *g, int32_t id, coded *out) {
  const kit_graph_node *reshape = &g->node[id];
  if (reshape->op != KIT_GRAPH_RESHAPE) return false;
  const kit_graph_node *product = &g->node[reshape->in[0]];
  if (product->op != KIT_GRAPH_MULTIPLY) return false;
  out->codes = constant_at(g, product->in[0]);
  out->scales = constant_at(g, product->in[1]);
  if (!out->codes || !out->scales || out->codes->dtype != ACCEL_PLUGIN_I8 ||
      out->codes->rank != 3 || out->scales->rank != 3)
    return false;
  out->n = out->codes->dim[0];
  out->k = out->codes->dim[1] * out->codes->dim[2];
  return out->n > 0 && out->k > 0 && is_shape(&g->node[reshape->in[1]], out->n, out->k);
}

/* Groups along k become one scale for each output, the codes [k, n]. */
static int32_t take_weight(const coded *w, ort_product *out, accel_plugin_error *error) {
  const accel_matrix m = {.format = {.store = ACCEL_PLUGIN_I8,
                                     .scale = w->scales->dtype,
                                     .zero = ACCEL_PLUGIN_NO_DTYPE,
                                     .outer = ACCEL_PLUGIN_NO_DTYPE,
                                     .group_n = 1,
                                     .group_k = (uint32_t)w->codes->dim[2]},
                          .n = w->n,
                          .k = w->k,
                          .data = w->codes->data,
                          .scale = w->scales->data};
  float *row = malloc((size_t)w->k * sizeof *row);
  out->code = malloc((size_t)(w->n * w->k));
  out->scale = malloc((size_t)w->n * sizeof *out->scale);
  if (!row || !out->code || !out->scale) {
    free(row);
    return kit_no_memory(error, (uint64_t)(w->n * w->k));
  }
  for (int64_t i = 0; i < w->n; i++) {
    float most = 0;
    accel_matrix_rows(&m, i, 1, row);
    for (int64_t j = 0; j < w->k; j++) most = fmaxf(most, fabsf(row[j]));
    out->scale[i] = most > 0 ? most / 127 : 1;
    for (int64_t j = 0; j < w->k; j++)
      out->code[j * w->n + i] = (int8_t)lrintf(row[j] / out->scale[i]);
  }
  free(row);
  return ACCEL_PLUGIN_OK;
}

/* ---- products ---- */

/* Nobody reads a node any more who reads node `by`; and so on below it. */
static void drop(const kit_graph *g, uint32_t *uses, uint8_t *gone, int32_t id) {
  if (--uses[id]) return;
  gone[id] = 1;
  for (uint32_t i = 0; i < g->node[id].n_in; i++) drop(g, uses, gone, g->node[id].in[i]);
}

static void find_products(const kit_graph *g, ort_quantised *q, uint32_t *uses) {
  kit_graph_uses(g, uses);
  for (uint32_t i = 0; i < g->n_node; i++) {
    const kit_graph_node *n = &g->node[i];
    coded w;
    q->of[i] = -1;
    if (n->op != KIT_GRAPH_MATMUL || n->i[0] || !n->i[1] || !find_codes(g, n->in[1], &w)) continue;
    q->product[q->n] = (ort_product){.node = (int32_t)i, .k = w.k, .n = w.n};
    q->of[i] = (int32_t)q->n++;
    drop(g, uses, q->gone, n->in[1]);
  }
}

int32_t ort_quantise(const kit_graph *g, ort_quantised **out, accel_plugin_error *error) {
  const size_t n = g->n_node + 1;
  ort_quantised *q = calloc(1, sizeof *q);
  uint32_t *uses = calloc(n, sizeof *uses);
  int32_t rc = q && uses ? ACCEL_PLUGIN_OK : kit_no_memory(error, n);
  if (!rc) {
    q->product = calloc(n, sizeof *q->product);
    q->of = calloc(n, sizeof *q->of);
    q->gone = calloc(n, 1);
    q->range = calloc(2 * n, sizeof *q->range);
    if (q->product && q->of && q->gone && q->range)
      find_products(g, q, uses);
    else
      rc = kit_no_memory(error, n);
  }
  free(uses);
  if (rc)
    ort_quantised_free(q);
  else
    *out = q;
  return rc;
}

int32_t ort_codes_make(const kit_graph *g, ort_quantised *q, accel_plugin_error *error) {
  int32_t rc = ACCEL_PLUGIN_OK;
  for (uint32_t i = 0; !rc && i < q->n; i++) {
    coded w;
    if (find_codes(g, g->node[q->product[i].node].in[1], &w))
      rc = take_weight(&w, &q->product[i], error);
  }
  return rc;
}

void ort_codes_free(ort_quantised *q) {
  for (uint32_t i = 0; i < q->n; i++) {
    free(q->product[i].code);
    free(q->product[i].scale);
    q->product[i].code = NULL;
    q->product[i].scale = NULL;
  }
}

void ort_quantised_free(ort_quantised *q) {
  if (!q) return;
  ort_codes_free(q);
  free(q->product);
  free(q->range);
  free(q->of);
  free(q->gone);
  free(q);
}

/* ---- ranges ---- */

float ort_range_limit(const ort_quantised *q, uint32_t i) {
  return ORT_MARGIN * fmaxf(q->range[i], 1e-3F); /* of a picture that is black, say */
}

void ort_range_widen(ort_quantised *q, const float *seen) {
  for (uint32_t i = 0; i < 2 * q->n; i++)
    if (isfinite(seen[i]) && seen[i] > q->range[i]) q->range[i] = seen[i];
}

bool ort_range_exceeded(const ort_quantised *q, const float *seen) {
  for (uint32_t i = 0; i < 2 * q->n; i++)
    if (seen[i] >= ort_range_limit(q, i) * 0.999F) return true; /* halves have 11 bits */
  return false;
}
