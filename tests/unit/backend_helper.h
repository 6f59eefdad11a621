/* backend_helper.h - a toy backend over the kit's scalar kernels for the kit's unit tests, and a
 * host whose services can be switched. */
#ifndef ACCEL_TESTS_BACKEND_HELPER_H
#define ACCEL_TESTS_BACKEND_HELPER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kit/kit_internal.h"
#include "program/program.h"

typedef struct toy_host {
  accel_plugin_host host;
  const float *const *weight;
  int launches, cancel_after, progress_calls;
  uint32_t last_done;
  const char *fault; /* point that fails */
  int fault_after;   /* passes before it does */
} toy_host;

static int32_t toy_map(void *self, uint32_t index, accel_plugin_weight_view *out,
                       accel_plugin_error *error) {
  (void)error;
  *out = (accel_plugin_weight_view){.data = ((toy_host *)self)->weight[index]};
  return ACCEL_PLUGIN_OK;
}
static void toy_unmap(void *self, uint32_t index) { (void)self, (void)index; }
static int toy_cancelled(void *self) {
  return ((toy_host *)self)->cancel_after && ((toy_host *)self)->cancel_after-- == 1;
}
static void toy_progress(void *self, uint32_t done, uint32_t all) {
  (void)all;
  ((toy_host *)self)->progress_calls++;
  ((toy_host *)self)->last_done = done;
}
static int toy_fault(void *self, const char *point) {
  toy_host *h = self;
  return h->fault && !strcmp(h->fault, point) && h->fault_after-- <= 0;
}
static inline void toy_host_init(toy_host *h, const float *const *weight) {
  *h = (toy_host){.weight = weight};
  h->host = (accel_plugin_host){.size = sizeof h->host,
                                .abi = ACCEL_PLUGIN_ABI_NOW,
                                .self = h,
                                .weight_map = toy_map,
                                .weight_unmap = toy_unmap,
                                .cancelled = toy_cancelled,
                                .progress = toy_progress,
                                .fault = toy_fault};
}

/* self: fp32 weights as the host gave them (they outlive the endpoint here). */
static int32_t toy_open(kit_open *open, void **self, accel_plugin_error *error) {
  const accel_plugin_host *host = open->options->host;
  const void **w = calloc(open->program->n_weight + 1, sizeof *w);
  *self = w;
  for (uint32_t i = 0; i < open->program->n_weight; i++) {
    accel_plugin_weight_view view;
    int32_t rc = host->weight_map(host->self, i, &view, error);
    if (rc) return rc;
    w[i] = view.data;
  }
  return ACCEL_PLUGIN_OK;
}
static void toy_close(void *self) { free(self); }
static void *toy_weight(void *self, uint32_t index) { return (void *)((const void **)self)[index]; }
static int32_t toy_launch(void *self, const kit_launch *l, accel_plugin_error *error) {
  (void)self;
  if (l->host && l->host->self)
    __atomic_add_fetch(&((toy_host *)l->host->self)->launches, 1, __ATOMIC_RELAXED);
  return kit_scalar(l->node->op)(l, error);
}
static const kit_backend toy = {.name = "toy",
                                .open = toy_open,
                                .close = toy_close,
                                .weight = toy_weight,
                                .launch = toy_launch};

static inline accel_plugin_endpoint *toy_init(const kit_backend *backend, const accel__program *p,
                                              toy_host *h, uint32_t flags) {
  accel_plugin_format format[32];
  accel_plugin_error error = {.size = sizeof error};
  for (int i = 0; i < 32; i++)
    format[i] = (accel_plugin_format){ACCEL_PLUGIN_F32,
                                      ACCEL_PLUGIN_NO_DTYPE,
                                      ACCEL_PLUGIN_NO_DTYPE,
                                      ACCEL_PLUGIN_NO_DTYPE,
                                      0,
                                      0};
  accel_plugin_options o = {
      .size = sizeof o,
      .max_tokens = 1000,
      .host = &h->host,
      .precision = {.size = sizeof o.precision, .name = "fp32", .flags = flags, .format = format}};
  accel_plugin_endpoint *e = NULL;
  int32_t rc = kit_init(backend, 0, accel__program_view(p), &o, &e, &error);
  if (rc) print_error("%s\n", error.message);
  assert_int_equal(rc, ACCEL_PLUGIN_OK);
  return e;
}

static inline accel_plugin_view toy_view(int dtype, void *data, uint32_t rank, int64_t a,
                                         int64_t b) {
  accel_plugin_view v = {.size = sizeof v,
                         .dtype = (uint8_t)dtype,
                         .rank = (uint8_t)rank,
                         .host = data,
                         .dim = {a, b}};
  v.capacity = 4;
  for (uint32_t i = 0; i < rank; i++) v.capacity *= (uint64_t)v.dim[i];
  return v;
}

#endif
