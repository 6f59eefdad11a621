/* gpu_backend.c - the kit's hooks for endpoints and launches; those for memory are in
 * gpu_memory.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/gpu_layer.h"
#include "gpu/gpu_offload.h"
#include "gpu/gpu_variants.h"

enum { NONE_BYTES = 256 };

int32_t gpu_support(const accel_plugin_program *program, const accel_plugin_node *node,
                    const accel_plugin_precision *precision, char *why, size_t n) {
  const gpu_op *op = gpu_op_of(node->op);
  /* activations are fp32 whatever the precision: compute says what may be, not what must */
  (void)precision;
  if (!op->launch) {
    snprintf(why, n, "the GPU kernels have no %s yet", kit_op_name(node->op));
    return ACCEL_PLUGIN_NO;
  }
  return op->support ? op->support(program, node, why, n) : ACCEL_PLUGIN_NATIVE;
}

/* ---- endpoints ---- */

static int32_t make_none(gpu_self *s, accel_plugin_error *error) {
  static const uint32_t zeros[NONE_BYTES / 4] = {0};
  const int32_t rc = gpu_pool_take(&s->pool, NONE_BYTES, &s->none, error);
  return rc ? rc : gpu_upload(s, s->none, 0, zeros, sizeof zeros, error);
}

/* Kernels write two halves at a time: rows of an odd number of them stay fp32. */
static bool rows_are_words(const accel_plugin_program *p) {
  for (uint32_t i = 0; i < p->n_state; i++)
    if ((int64_t)p->state[i].heads * p->state[i].k_dim % 2 ||
        (int64_t)p->state[i].heads * p->state[i].v_dim % 2)
      return false;
  return true;
}

int32_t gpu_open(kit_open *open, void **self, accel_plugin_error *error) {
  gpu_self *s = calloc(1, sizeof *s);
  if (!s) return kit_no_memory(error, sizeof *s);
  s->program = open->program;
  int32_t rc = gpu_plugin_api.open(open->device, open->options, &s->device, &s->limits, error);
  if (rc) {
    free(s);
    return rc;
  }
  gpu_limits_from_env(&s->limits);
  gpu_pool_open(&s->pool, s->device, &s->limits);
  *self = s; /* from here gpu_close frees it */
  const uint8_t kv = open->options->precision.kv;
  if ((kv == ACCEL_PLUGIN_F16 || kv == ACCEL_PLUGIN_BF16) && rows_are_words(open->program))
    open->kv_dtype = kv;
  s->kv_dtype = open->kv_dtype;
  rc = make_none(s, error);
  if (!rc) rc = gpu_offload_open(s, open, error);
  if (!rc) rc = gpu_weights_load(s, open, error);
  if (!rc) gpu_variants_open(s, open);
  return rc;
}

void gpu_close(void *self) {
  gpu_self *s = self;
  gpu_weights_free(s);
  gpu_offload_close(s);
  gpu_pool_give(&s->pool, s->none);
  gpu_pool_close(&s->pool);
  gpu_plugin_api.close(s->device);
  free(s);
}

void *gpu_weight_buffer(void *self, uint32_t index) {
  const gpu_self *s = self;
  return gpu_offload_has(s, index) ? NULL : s->weight[index].data;
}

/* ---- launches ---- */

static bool any_result(const kit_launch *l) {
  for (uint32_t i = 0; i < l->n_out; i++)
    if (kit_has(&l->out[i]) && l->out[i].elements) return true;
  return l->node->state >= 0;
}

int32_t gpu_launch(void *self, const kit_launch *l, accel_plugin_error *error) {
  bool anything = any_result(l);
  (void)self;
  for (uint32_t m = 0; m < l->n_fused; m++) anything |= any_result(&l->joined[m]);
  int32_t rc = gpu_mark(l->run, l->index, error);
  if (rc || !anything) return rc;
  rc = gpu_offload_take(l->run, l, error);
  if (!rc) rc = gpu_launch_split(l->run, l, error);
  return rc ? rc : gpu_offload_done(l->run, l, error);
}

bool gpu_fuse_parallel(void *self, const accel_plugin_program *program,
                       const accel_plugin_node *first, const accel_plugin_node *other) {
  const gpu_op *op = gpu_op_of(first->op);
  return self && op->fuse_parallel && op->fuse_parallel(self, program, first, other);
}

bool gpu_strided(const accel_plugin_program *program, const accel_plugin_node *node,
                 uint32_t operand) {
  (void)program;
  return operand < 32 && (gpu_op_of(node->op)->strided >> operand & 1);
}

uint64_t gpu_workspace(void *self, const kit_launch *shapes, uint32_t workers) {
  const gpu_op *op = gpu_op_of(shapes->node->op);
  (void)workers;
  return op->workspace ? op->workspace(self, shapes) : 0;
}
