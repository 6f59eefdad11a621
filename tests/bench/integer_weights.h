/* integer_weights.h - panels of random coded weights for the benchmarks, as many different ones as
 * fill a given size. */
#ifndef ACCEL_BENCH_INTEGER_WEIGHTS_H
#define ACCEL_BENCH_INTEGER_WEIGHTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bench_timer.h"
#include "formats/weight_matrix.h"
#include "cpu_pack.h"

typedef struct integer_format {
  const char *name;
  accel_plugin_format format;
} integer_format;

static const integer_format integer_formats[] = {
    {"int8",
     {ACCEL_PLUGIN_I8, ACCEL_PLUGIN_F32, ACCEL_PLUGIN_NO_DTYPE, ACCEL_PLUGIN_NO_DTYPE, 256, 1}},
    {"int4",
     {ACCEL_PLUGIN_I4, ACCEL_PLUGIN_F16, ACCEL_PLUGIN_NO_DTYPE, ACCEL_PLUGIN_NO_DTYPE, 64, 1}},
    {"uint4", {ACCEL_PLUGIN_U4, ACCEL_PLUGIN_F16, ACCEL_PLUGIN_U8, ACCEL_PLUGIN_NO_DTYPE, 64, 1}},
    {"mx",
     {ACCEL_PLUGIN_E2M1, ACCEL_PLUGIN_E8M0, ACCEL_PLUGIN_NO_DTYPE, ACCEL_PLUGIN_NO_DTYPE, 32, 1}},
    {"nv", {ACCEL_PLUGIN_E2M1, ACCEL_PLUGIN_E4M3, ACCEL_PLUGIN_NO_DTYPE, ACCEL_PLUGIN_F32, 16, 1}},
};
enum { INTEGER_FORMATS = sizeof integer_formats / sizeof *integer_formats };

typedef struct integer_weights {
  cpu_panel shape;
  cpu_act_format x; /* what the kernel reads */
  int64_t n, panels, panel_bytes, copies;
  char *packed; /* [copies][panels][panel_bytes] */
} integer_weights;

/* Random codes; scales all one value, zeros 7. */
static bool integer_source(const accel_plugin_format *f, int64_t n, int64_t k, cpu_matrix *out,
                           void *part[4]) {
  accel_matrix_bytes bytes;
  const float one = 0.01f;
  const uint16_t half = accel_f32_to_fp16(one);
  if (!accel_matrix_sizes(f, n, k, &bytes)) return false;
  part[0] = malloc(bytes.data);
  part[1] = malloc(bytes.scale);
  part[2] = malloc(bytes.zero + 1);
  part[3] = malloc(sizeof one);
  if (!part[0] || !part[1] || !part[2] || !part[3]) return false;
  for (uint64_t i = 0; i < bytes.data; i++)
    ((uint8_t *)part[0])[i] = (uint8_t)(i * 2654435761u >> 13);
  for (uint64_t i = 0; i < bytes.scale; i++)
    ((uint8_t *)part[1])[i] = f->scale == ACCEL_PLUGIN_F32    ? ((const uint8_t *)&one)[i % 4]
                              : f->scale == ACCEL_PLUGIN_F16  ? ((const uint8_t *)&half)[i % 2]
                              : f->scale == ACCEL_PLUGIN_E8M0 ? 120
                                                              : 0x20;
  memset(part[2], 7, bytes.zero + 1);
  memcpy(part[3], &one, sizeof one);
  *out = (cpu_matrix){.format = f, .view = {part[0], part[1], part[2], part[3]}, .n = n, .k = k};
  return true;
}

/* Copies until `bytes` are filled, at least one, in huge pages where the system has them. */
static bool integer_weights_make(integer_weights *w, const cpu_kernels *kernels,
                                 const integer_format *format, int64_t n, int64_t k,
                                 int64_t bytes) {
  cpu_matrix source;
  void *part[4] = {0};
  *w = (integer_weights){.n = n};
  w->shape = (cpu_panel){.layout = cpu_layout_of(kernels, &format->format),
                         .kernels = kernels,
                         .format = &format->format,
                         .k = k};
  w->shape.cols = kernels->linear[w->shape.layout].cols;
  w->x = cpu_act_format_beside(kernels->linear[w->shape.layout].x, k, format->format.group_k);
  w->panels = (n + w->shape.cols - 1) / w->shape.cols;
  w->panel_bytes = (int64_t)cpu_panel_bytes(&w->shape);
  const int64_t one = w->panels * w->panel_bytes;
  w->copies = bytes / one + 1;
  w->packed = huge((size_t)(one * w->copies));
  bool done = w->packed && integer_source(&format->format, n, k, &source, part);
  for (int64_t p = 0; done && p < w->panels; p++) {
    cpu_column column[64];
    for (int64_t c = 0; c < w->shape.cols; c++)
      column[c] = p * w->shape.cols + c < n ? (cpu_column){&source, p * w->shape.cols + c}
                                            : (cpu_column){0};
    cpu_panel_pack(&w->shape, column, w->packed + p * w->panel_bytes);
  }
  for (int64_t c = 1; done && c < w->copies; c++)
    memcpy(w->packed + c * one, w->packed, (size_t)one);
  for (int i = 0; i < 4; i++) free(part[i]);
  return done;
}

static void integer_weights_free(integer_weights *w) { free(w->packed); }

/* The product with copy `i`, round and round; x, y and what follows are the caller's. */
static cpu_gemm integer_gemm(const integer_weights *w, int64_t i) {
  return (cpu_gemm){.n = w->n,
                    .k = w->shape.k,
                    .w = w->packed + i % w->copies * w->panels * w->panel_bytes,
                    .panel_bytes = w->panel_bytes,
                    .group = w->shape.format->group_k,
                    .store = w->shape.format->store,
                    .scale = w->shape.format->scale,
                    .ldy = w->n,
                    .ldr = w->n};
}

#endif
