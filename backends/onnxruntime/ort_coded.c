/* ort_coded.c - products with codes on both sides, and the magnitudes that their scales come from. */
#include <stdlib.h>

#include "onnxruntime/ort_quantise.h"
#include "onnxruntime/ort_write.h"

enum { UINT16 = 4, ZERO = 32768, LARGEST = 32767 }; /* ONNX's type; codes of 16 bits */

/* x as codes of 16 bits that reach to `limit` on both sides of zero, and back, into `out`. */
static void put_rounded(ort_writer *w, int32_t out, int32_t x, float limit) {
  const float step = limit / LARGEST;
  const uint16_t middle = ZERO;
  const int32_t scale = ort_floats(w, &step, 0), zero = ort_fresh(w), codes = ort_fresh(w);
  ort_tensor(w, zero, UINT16, NULL, 0, &middle, sizeof middle);
  ort_close(w, ort_open(w, "QuantizeLinear", codes, (const int32_t[]){x, scale, zero}, 3));
  ort_close(w, ort_open(w, "DequantizeLinear", out, (const int32_t[]){codes, scale, zero}, 3));
}

/* Qualcomm's compiler (of onnxruntime-qnn 2.7) makes one op of a layer norm and the codes behind it,
 * which is wrong for 16 rows.  A maximum with less than there is lies between them. */
static int32_t apart_from_norm(ort_writer *w, int32_t x) {
  const float low = -60000;
  int32_t id = x;
  while (w->g->node[id].op == KIT_GRAPH_RESHAPE) id = w->g->node[id].in[0];
  if (w->normed[id] < 0 && w->g->node[id].op != KIT_GRAPH_LAYER_NORM) return x;
  return ort_op2(w, "Max", x, ort_floats(w, &low, 0));
}

/* What goes into product i, rounded: once for all products that read it. */
static int32_t rounded_input(ort_writer *w, uint32_t i) {
  const ort_quantised *q = w->quantised;
  const int32_t x = w->g->node[q->product[i].node].in[0], out = ort_code(w->g, i) + 2;
  for (uint32_t j = 0; j < i; j++)
    if (w->g->node[q->product[j].node].in[0] == x) return ort_code(w->g, j) + 2;
  put_rounded(w, out, apart_from_norm(w, x), ort_range_limit(q, 2 * i));
  return out;
}

void ort_coded_product(ort_writer *w, int32_t id) {
  const ort_quantised *q = w->quantised;
  const uint32_t i = (uint32_t)q->of[id];
  const ort_product *p = &q->product[i];
  const int64_t shape[] = {p->k, p->n};
  const int32_t code = ort_code(w->g, i), scale = code + 1, x = rounded_input(w, i),
                y = ort_fresh(w), weight = ort_fresh(w);
  ort_tensor(w, code, ort_type(ACCEL_PLUGIN_I8), shape, 2, NULL, 0);
  ort_tensor(w, scale, ort_type(ACCEL_PLUGIN_F32), &p->n, 1, NULL, 0);
  const size_t node = ort_open(w, "DequantizeLinear", weight, (const int32_t[]){code, scale}, 2);
  ort_attribute_int(w, "axis", 1);
  ort_close(w, node);
  ort_close(w, ort_open(w, "MatMul", y, (const int32_t[]){x, weight}, 2));
  put_rounded(w, id, y, ort_range_limit(q, 2 * i + 1));
}

/* The largest magnitude of a value, [1]. */
static int32_t put_magnitude(ort_writer *w, int32_t value) {
  const int32_t size = ort_op1(w, "Abs", value), most = ort_fresh(w);
  const int64_t one = 1;
  const size_t node = ort_open(w, "ReduceMax", most, &size, 1);
  ort_attribute_int(w, "keepdims", 0);
  ort_close(w, node);
  return ort_op2(w, "Reshape", most, ort_int64s(w, &one, 1));
}

int32_t ort_magnitudes(ort_writer *w) {
  const ort_quantised *q = w->quantised;
  const int32_t all = ort_fresh(w);
  int32_t *each = malloc(2 * q->n * sizeof *each);
  if (!each) {
    w->b->failed = true;
    return all;
  }
  for (uint32_t i = 0; i < 2 * q->n; i++) {
    const int32_t id = q->product[i / 2].node;
    each[i] = put_magnitude(w, i % 2 ? id : w->g->node[id].in[0]);
  }
  const size_t node = ort_open(w, "Concat", all, each, 2 * q->n);
  ort_attribute_int(w, "axis", 0);
  ort_close(w, node);
  free(each);
  return all;
}
