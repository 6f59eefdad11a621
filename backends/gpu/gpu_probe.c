/* gpu_probe.c - see gpu_probe.h. */
#include "gpu/gpu_probe.h"

#include "gpu/gpu_op_linear.h"

int32_t gpu_probe_open(gpu_probe *probe, gpu_store store, int64_t m, int64_t n, int64_t k,
                       int64_t group_k, accel_plugin_error *error) {
  gpu_self *s = probe->self;
  gpu_product *p = &probe->product;
  *p = gpu_bare_product(store, n, k, group_k);
  const uint64_t activations_q = gpu_activations_q_bytes(s, &p->w.w, false, m),
                 bytes[GPU_PROBE_MEMORIES] = {[GPU_PROBE_X] = (uint64_t)(m * k) * 4,
                                              [GPU_PROBE_W] = (uint64_t)n * p->w.w.row_words * 4,
                                              [GPU_PROBE_SCALE] = (uint64_t)n * p->w.w.groups_k * 4,
                                              [GPU_PROBE_Y] = (uint64_t)(m * (n > k ? n : k)) * 4,
                                              [GPU_PROBE_ACTIVATIONS_Q] = activations_q};
  int32_t rc = ACCEL_PLUGIN_OK;
  for (int i = 0; !rc && i < GPU_PROBE_MEMORIES; i++)
    rc = gpu_pool_take(&s->pool, bytes[i] ? bytes[i] : 4, &probe->memory[i], error);
  if (rc) return rc;
  probe->x = (kit_tensor){.dtype = ACCEL_PLUGIN_F32,
                          .rank = 2,
                          .dim = {m, k},
                          .elements = m * k,
                          .row_stride = k,
                          .buffer = probe->memory[GPU_PROBE_X],
                          .weight = -1};
  p->w.w.data = probe->memory[GPU_PROBE_W];
  p->w.w.scale = store == GPU_STORE_I8 ? probe->memory[GPU_PROBE_SCALE] : NULL;
  p->y = gpu_part(gpu_memory_at(probe->memory[GPU_PROBE_Y]), 0, (uint64_t)(m * n) * 4);
  p->activations_q = gpu_memory_at(probe->memory[GPU_PROBE_ACTIVATIONS_Q]);
  return ACCEL_PLUGIN_OK;
}

void gpu_probe_close(gpu_probe *probe) {
  for (int i = 0; i < GPU_PROBE_MEMORIES; i++) gpu_pool_give(&probe->self->pool, probe->memory[i]);
}

static int32_t begin(const gpu_probe *probe, void **run, accel_plugin_error *error) {
  const kit_begin begin = {.program = probe->self->program, .host = probe->host};
  return gpu_begin(probe->self, &begin, run, error);
}

/* The launch that errors are about: kernels of a probe read nothing of its node. */
static kit_launch any_launch(const gpu_probe *probe) {
  return (kit_launch){.program = probe->self->program, .node = probe->self->program->node};
}

static int32_t finish(const gpu_probe *probe, void *run, int32_t rc, double *ms,
                      accel_plugin_error *error) {
  *ms = 0;
  const int32_t end = gpu_finish(probe->self, run, !rc, ms, rc ? NULL : error);
  return rc ? rc : end;
}

int32_t gpu_probe_products(gpu_probe *probe, int64_t m, int times, double *ms,
                           accel_plugin_error *error) {
  const kit_launch l = any_launch(probe);
  void *run = NULL;
  int32_t rc = begin(probe, &run, error);
  if (rc) return rc;
  probe->product.m = probe->x.dim[0] = m;
  probe->x.elements = m * probe->product.k;
  probe->product.x = &probe->x;
  for (int i = 0; !rc && i < times; i++) {
    gpu_quantized none = {0};
    probe->product.quantized = &none;
    rc = gpu_linear_multiply(run, &l, &probe->product, error);
  }
  probe->product.quantized = NULL;
  return finish(probe, run, rc, ms, error);
}

int32_t gpu_probe_softmax(gpu_probe *probe, int64_t rows, int64_t columns, int times, double *ms,
                          accel_plugin_error *error) {
  const kit_launch l = any_launch(probe);
  const uint64_t bytes = (uint64_t)(rows * columns) * 4;
  void *run = NULL;
  int32_t rc = begin(probe, &run, error);
  if (rc) return rc;
  for (int i = 0; !rc && i < times; i++) {
    gpu_call c = gpu_call_new(run, &l, GPU_K_softmax_rows);
    gpu_bind(&c, gpu_part(gpu_memory_at(probe->memory[GPU_PROBE_X]), 0, bytes));
    gpu_bind(&c, gpu_part(gpu_memory_at(probe->memory[GPU_PROBE_Y]), 0, bytes));
    const gpu_params_softmax_rows params = {
        .rows = rows,
        .cols = columns,
        /* the logarithm */
        .take_log = 1,
    };
    gpu_set_softmax_rows(&c, &params);
    rc = gpu_dispatch_rows(&c, rows, error);
  }
  return finish(probe, run, rc, ms, error);
}
