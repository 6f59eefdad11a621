/* kit_constants.c - see kit_constants.h. */
#include "kit/kit_constants.h"

#include <stdlib.h>

#include "kit/kit_internal.h"

/* Where each constant begins in a buffer of *bytes, and its elements' bytes in size[]; offset and
 * size may be NULL. */
static int32_t lay_out(const accel_plugin_program *p, uint64_t *offset, uint64_t *size,
                       uint64_t *bytes, accel_plugin_error *error) {
  int64_t *dim = calloc(p->n_dim + 1, sizeof *dim), *symbol = calloc(p->n_symbol + 1, sizeof *dim);
  int32_t rc = dim && symbol ? ACCEL_PLUGIN_OK : kit_no_memory(error, p->n_dim * sizeof *dim);
  for (uint32_t i = 0; !rc && i < p->n_symbol; i++) symbol[i] = ACCEL_DIM_UNBOUND;
  if (!rc) accel_dims_evaluate(p, symbol, dim);
  *bytes = 0;
  for (uint32_t i = 0; !rc && i < p->n_tensor; i++) {
    kit_tensor t;
    if (p->tensor[i].kind != ACCEL_PLUGIN_TENSOR_CONST) continue;
    rc = kit_shape(p, dim, (int32_t)i, &t, error);
    if (rc) break;
    if (offset) offset[i] = *bytes;
    if (size) size[i] = (uint64_t)t.elements * 4;
    *bytes += ((uint64_t)t.elements * 4 + KIT_ALIGN - 1) / KIT_ALIGN * KIT_ALIGN;
  }
  free(dim);
  free(symbol);
  return rc;
}

int32_t kit_constants_size(const accel_plugin_program *p, uint64_t *bytes,
                           accel_plugin_error *error) {
  return lay_out(p, NULL, NULL, bytes, error);
}

static int32_t allocate(kit_constants *c, uint64_t bytes, kit_memory *m,
                        accel_plugin_error *error) {
  if (!kit_memory_take(m, bytes))
    return kit_fail(error, ACCEL_PLUGIN_E_DEVICE_MEMORY, -1,
                    "%llu bytes of constants beside %llu of weights pass the memory limit of %llu",
                    (unsigned long long)bytes, (unsigned long long)m->weights,
                    (unsigned long long)m->limit);
  c->bytes = bytes;
  return kit_memory_alloc(m, bytes, &c->buffer, error);
}

int32_t kit_constants_open(kit_constants *c, const accel_plugin_program *p, kit_memory *m,
                           accel_plugin_error *error) {
  uint64_t bytes = 0;
  if (!m->backend->alloc) return ACCEL_PLUGIN_OK;
  c->offset = calloc(p->n_tensor + 1, sizeof *c->offset);
  uint64_t *size = calloc(p->n_tensor + 1, sizeof *size);
  int32_t rc = c->offset && size ? lay_out(p, c->offset, size, &bytes, error)
                                 : kit_no_memory(error, p->n_tensor * sizeof *size);
  if (!rc && bytes) rc = allocate(c, bytes, m, error);
  for (uint32_t i = 0; !rc && i < p->n_tensor; i++)
    if (size[i])
      rc = kit_memory_write(m, c->buffer, c->offset[i], p->tensor[i].data, size[i], error);
  free(size);
  return rc;
}

void kit_constants_close(kit_constants *c, kit_memory *m) {
  kit_memory_free(m, c->buffer);
  kit_memory_give(m, c->bytes);
  free(c->offset);
  *c = (kit_constants){0};
}
