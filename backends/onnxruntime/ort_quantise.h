/* ort_quantise.h - products with int8 weights as an NPU multiplies them (QDQ): codes of 8 bits with
 * one scale for each output, activations of 16 bits with one scale for a tensor.
 *
 * Scales of activations are constants of a compiled graph, so the largest magnitudes are measured
 * before: the same graph runs on the processor in fp32, with what the first run gives.  They leave
 * room for ORT_MARGIN times as much.  The compiled graph tells its own magnitudes in each run, and
 * one that went beyond is measured again and compiled anew: nothing is cut off in silence.  A run
 * that was measured has to agree with the processor's results; a graph whose runs do not, or whose
 * codes the provider does not take, is computed in halves. */
#ifndef ACCEL_ONNXRUNTIME_QUANTISE_H
#define ACCEL_ONNXRUNTIME_QUANTISE_H

#include "onnxruntime/ort.h"

enum { ORT_MARGIN = 4 };

typedef struct ort_product {
  int32_t node; /* the MATMUL */
  int64_t k, n;
  int8_t *code; /* [k, n]; NULL but between ort_codes_make and ort_codes_free */
  float *scale; /* [n] */
} ort_product;

typedef struct ort_quantised {
  uint32_t n; /* products */
  ort_product *product;
  float *range;  /* [2 n] largest magnitudes of what goes into a product, and of its result */
  int32_t *of;   /* [n_node] the product that a node is; -1 */
  uint8_t *gone; /* [n_node] 1: nothing else reads it than weights of products */
} ort_quantised;

/* The products of a graph whose weights are int8 without zero points; n 0: it has none.  *out is to
 * be freed.  E_HOST_MEMORY */
int32_t ort_quantise(const kit_graph *graph, ort_quantised **out, accel_plugin_error *error);
void ort_quantised_free(ort_quantised *q); /* NULL: nothing */
/* Codes and scales of all products, for the time in which a model is compiled.  E_HOST_MEMORY */
int32_t ort_codes_make(const kit_graph *graph, ort_quantised *q, accel_plugin_error *error);
void ort_codes_free(ort_quantised *q);
/* The largest magnitude that the codes of range[i] stand for. */
float ort_range_limit(const ort_quantised *q, uint32_t i);
/* Takes magnitudes [2 n] that were measured where they are larger. */
void ort_range_widen(ort_quantised *q, const float *seen);
/* Did one of these magnitudes [2 n] reach its limit? */
bool ort_range_exceeded(const ort_quantised *q, const float *seen);

#endif
