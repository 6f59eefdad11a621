/* gpu_run.c - one run of an endpoint: its stream, the constants that its kernels read, the
 * checks of indices that they make for the host, and how one dispatch of it is put together. */
#include <stdlib.h>
#include <string.h>

#include "gpu/gpu_layer.h"
#include "gpu/gpu_offload.h"
#include "shared/hash.h"

enum {
  BLOCK = 65536, /* bytes of a block of constants */
  SMALL = 4096   /* of a constant that is looked up before it is copied */
};

struct gpu_known {
  uint64_t hash;
  gpu_binding at;
  void *data;
};

/* ---- begin and finish ---- */

static void run_free(gpu_run *run) {
  gpu_pool_give(&run->self->pool, run->errors);
  for (int i = 0; i < GPU_SCRATCHES; i++) gpu_pool_give(&run->self->pool, run->scratch[i]);
  for (uint32_t i = 0; i < run->n_block; i++) gpu_pool_give(&run->self->pool, run->block[i]);
  for (uint32_t i = 0; i < run->n_known; i++) free(run->known[i].data);
  free(run->known);
  free(run->block);
  free(run->check);
  free(run->start);
  free(run);
}

int32_t gpu_begin(void *self, const kit_begin *begin, void **out, accel_plugin_error *error) {
  gpu_self *s = self;
  gpu_run *run = calloc(1, sizeof *run);
  if (!run) return kit_no_memory(error, sizeof *run);
  run->self = s;
  run->program = begin->program;
  run->rows = begin->rows;
  run->node_us = begin->node_us;
  run->start = calloc(begin->program->n_space + 1, sizeof *run->start);
  int32_t rc = run->start ? ACCEL_PLUGIN_OK
                          : kit_no_memory(error, begin->program->n_space * sizeof *run->start);
  if (!rc) rc = gpu_plugin_api.begin(s->device, begin->host, &run->stream, error);
  if (rc) {
    run_free(run);
    return rc;
  }
  rc = gpu_offload_begin(run, begin, error);
  if (rc)
    gpu_finish(self, run, false, NULL, NULL);
  else
    *out = run;
  return rc;
}

int32_t gpu_mark(gpu_run *run, uint32_t node, accel_plugin_error *error) {
  return run->node_us ? gpu_plugin_api.mark(run->stream, &run->node_us[node], error)
                      : ACCEL_PLUGIN_OK;
}

/* Fails with the first index outside its range that a kernel found, in the order of the program. */
static int32_t read_checks(gpu_run *run, accel_plugin_error *error) {
  int32_t *word = malloc(run->n_check * sizeof *word), rc = ACCEL_PLUGIN_OK;
  if (!word) return kit_no_memory(error, run->n_check * sizeof *word);
  gpu_binding from = gpu_part(gpu_memory_at(run->errors), 0, run->n_check * sizeof *word);
  rc = gpu_plugin_api.read(run->self->device, word, &from, error);
  for (uint32_t i = 0; !rc && i < run->n_check; i++) {
    const gpu_check *c = &run->check[i];
    int32_t value = 0;
    if (word[i] == INT32_MAX) continue;
    from = gpu_part(c->idx, (uint64_t)word[i] * 4, 4);
    rc = gpu_plugin_api.read(run->self->device, &value, &from, error);
    if (!rc)
      rc = kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, (int32_t)c->node,
                    "node %u (%s): %s %d at position %d is outside 0..%lld", c->node,
                    kit_op_name(run->program->node[c->node].op), c->what, value, word[i],
                    (long long)c->limit - 1);
  }
  free(word);
  return rc;
}

int32_t gpu_wait_and_go_on(gpu_run *run, const accel_plugin_host *host, accel_plugin_error *error) {
  gpu_stream *stream = run->stream;
  double ms = 0;
  run->stream = NULL;
  int32_t rc = gpu_plugin_api.end(stream, false, &ms, error);
  run->earlier_ms += ms;
  if (!rc) rc = gpu_plugin_api.begin(run->self->device, host, &run->stream, error);
  return rc;
}

int32_t gpu_finish(void *self, void *context, bool ok, double *device_ms,
                   accel_plugin_error *error) {
  gpu_run *run = context;
  (void)self;
  const int32_t copied = gpu_offload_end(run, ok, error);
  int32_t rc = ACCEL_PLUGIN_OK;
  if (run->stream) /* else its end has failed before */
    rc = gpu_plugin_api.end(run->stream, !ok || copied, device_ms, copied ? NULL : error);
  if (device_ms) *device_ms += run->earlier_ms;
  if (copied) rc = copied;
  if (!rc && ok && run->n_check) rc = read_checks(run, error);
  run_free(run);
  return rc;
}

/* ---- constants ---- */

static int32_t update(gpu_run *run, gpu_binding to, const void *data, accel_plugin_error *error) {
  int32_t rc = ACCEL_PLUGIN_OK;
  for (uint64_t at = 0; !rc && at < to.bytes; at += GPU_UPDATE) {
    const gpu_binding part =
        gpu_part(to, at, to.bytes - at < GPU_UPDATE ? to.bytes - at : GPU_UPDATE);
    rc = gpu_plugin_api.update(run->stream, &part, (const char *)data + at, error);
  }
  return rc;
}

static int32_t block_new(gpu_run *run, uint64_t bytes, accel_plugin_error *error) {
  if (run->n_block == run->room_block) {
    const uint32_t room = run->room_block * 2 + 4;
    gpu_memory **list = realloc(run->block, room * sizeof *list);
    if (!list) return kit_no_memory(error, room * sizeof *list);
    run->block = list;
    run->room_block = room;
  }
  const int32_t rc = gpu_pool_take(&run->self->pool, bytes > BLOCK ? bytes : BLOCK,
                                   &run->block[run->n_block], error);
  if (rc) return rc;
  run->n_block++;
  run->used = 0;
  return ACCEL_PLUGIN_OK;
}

static bool is_known(const gpu_run *run, uint64_t hash, const void *data, uint64_t bytes,
                     gpu_binding *out) {
  for (uint32_t i = 0; i < run->n_known; i++) {
    const struct gpu_known *k = &run->known[i];
    if (k->hash != hash || k->at.bytes != bytes || memcmp(k->data, data, bytes)) continue;
    *out = k->at;
    return true;
  }
  return false;
}

/* Where there is no memory for that, it is copied again. */
static void know(gpu_run *run, uint64_t hash, const void *data, gpu_binding at) {
  if (run->n_known == run->room_known) {
    const uint32_t room = run->room_known * 2 + 32;
    struct gpu_known *list = realloc(run->known, room * sizeof *list);
    if (!list) return;
    run->known = list;
    run->room_known = room;
  }
  struct gpu_known *k = &run->known[run->n_known];
  *k = (struct gpu_known){.hash = hash, .at = at, .data = malloc(at.bytes)};
  if (!k->data) return;
  memcpy(k->data, data, at.bytes);
  run->n_known++;
}

int32_t gpu_constant(gpu_run *run, const void *data, uint64_t bytes, gpu_binding *out,
                     accel_plugin_error *error) {
  const bool small = bytes <= SMALL;
  const uint64_t hash = small ? accel_hash(ACCEL_HASH_SEED, data, bytes) : 0;
  if (small && is_known(run, hash, data, bytes, out)) return ACCEL_PLUGIN_OK;
  if (!run->n_block || bytes > run->block[run->n_block - 1]->bytes - run->used) {
    const int32_t rc = block_new(run, bytes, error);
    if (rc) return rc;
  }
  *out = gpu_part(gpu_memory_at(run->block[run->n_block - 1]), run->used, bytes);
  run->used += bytes;
  const int32_t rc = update(run, *out, data, error);
  if (!rc && small) know(run, hash, data, *out);
  return rc;
}

int32_t gpu_scratch(gpu_run *run, uint64_t bytes, gpu_binding *out, accel_plugin_error *error) {
  int size = 0;
  while (size < GPU_SCRATCHES - 1 && (uint64_t)BLOCK << size < bytes) size++;
  const uint64_t whole = (uint64_t)BLOCK << size;
  gpu_memory **memory = &run->scratch[size];
  const int32_t rc =
      *memory ? ACCEL_PLUGIN_OK : gpu_pool_take(&run->self->pool, whole, memory, error);
  if (!rc) *out = gpu_part(gpu_memory_at(*memory), 0, bytes);
  return rc;
}

int32_t gpu_starts(gpu_run *run, const kit_launch *l, uint32_t key, int64_t rows, int32_t all[2],
                   kit_rows *host, gpu_binding *device, accel_plugin_error *error) {
  static const int32_t none[2] = {0, 0};
  int64_t space = kit_attr_i(l->node, key, -1);
  if (space < 0 && key == ACCEL_PLUGIN_ATTR_KV_SPACE)
    space = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_Q_SPACE, -1);
  *host = kit_rows_of(l, key, rows, all);
  if (space >= 0 && run->start[space].bytes) {
    *device = run->start[space];
    return ACCEL_PLUGIN_OK;
  }
  const int32_t rc = gpu_constant(run, host->start ? host->start : none,
                                  ((uint64_t)host->items + 1) * 4, device, error);
  if (!rc && space >= 0) run->start[space] = *device;
  return rc;
}

/* ---- checks ---- */

static int32_t errors_new(gpu_run *run, accel_plugin_error *error) {
  int32_t word[GPU_CHECKS];
  for (int i = 0; i < GPU_CHECKS; i++) word[i] = INT32_MAX;
  int32_t rc = gpu_pool_take(&run->self->pool, sizeof word, &run->errors, error);
  return rc ? rc : update(run, gpu_part(gpu_memory_at(run->errors), 0, sizeof word), word, error);
}

int32_t gpu_check_indices(gpu_run *run, const kit_launch *l, const char *what,
                          const kit_tensor *idx, int64_t limit, gpu_binding *errors, int32_t *word,
                          accel_plugin_error *error) {
  int32_t rc = run->errors ? ACCEL_PLUGIN_OK : errors_new(run, error);
  if (rc) return rc;
  if (!run->check) run->check = calloc(GPU_CHECKS, sizeof *run->check);
  if (!run->check) return kit_no_memory(error, GPU_CHECKS * sizeof *run->check);
  if (run->n_check == GPU_CHECKS)
    return kit_launch_fail(l, error, ACCEL_PLUGIN_E_LIMIT,
                           "one run checks the indices of at most %d nodes", GPU_CHECKS);
  *word = (int32_t)run->n_check++;
  run->check[*word] =
      (gpu_check){.node = l->index, .limit = limit, .idx = gpu_at(run, idx), .what = what};
  *errors = gpu_memory_at(run->errors);
  return ACCEL_PLUGIN_OK;
}

/* ---- operands ---- */

gpu_binding gpu_none(const gpu_run *run) { return gpu_memory_at(run->self->none); }

gpu_binding gpu_workspace_at(const kit_launch *l, uint64_t offset, uint64_t bytes) {
  const gpu_memory *m = l->workspace_buffer;
  return (gpu_binding){
      .buffer = m->buffer, .offset = m->offset + l->workspace_offset + offset, .bytes = bytes};
}

gpu_matrix gpu_matrix_of(const gpu_run *run, const kit_tensor *t) {
  if (t->weight >= 0) return (gpu_matrix){.w = run->self->weight[t->weight]};
  const int64_t n = kit_row_count(t), k = kit_cols(t);
  return (gpu_matrix){.w = {.n = n,
                            .k = k,
                            .row_words = (uint32_t)t->row_stride,
                            .group_k = 1,
                            .group_n = 1,
                            .groups_k = 1,
                            .outer = 1.0f},
                      .plain = gpu_at(run, t)};
}

int64_t gpu_matrix_rows(const gpu_run *run, const gpu_matrix *m, int64_t first, gpu_binding *out) {
  if (!m->plain.bytes) return gpu_weight_rows(run->self, &m->w, first, out);
  const uint64_t row = (uint64_t)m->w.row_words * 4, at = (uint64_t)first * row,
                 most = run->self->limits.binding;
  *out = gpu_part(m->plain, at, m->plain.bytes - at);
  if (out->bytes <= most) return m->w.n - first;
  const int64_t rows = (int64_t)(most / row);
  out->bytes = (uint64_t)rows * row;
  return rows;
}

void gpu_matrix_bind(gpu_call *c, const gpu_matrix *m, gpu_binding rows) {
  gpu_bind(c, rows);
  gpu_bind(c, m->w.scale ? gpu_memory_at(m->w.scale) : gpu_none(c->run));
}

/* ---- dispatches ---- */

/* Description of a gpu_dispatch.kernel. */
static const gpu_kernel *kernel_of(const gpu_run *run, uint32_t kernel) {
  return kernel < GPU_KERNELS ? &gpu_kernels[kernel]
                              : &run->self->limits.cpu_kernels->kernels[kernel - GPU_KERNELS];
}

gpu_call gpu_call_new(gpu_run *run, const kit_launch *l, uint32_t kernel) {
  const bool subgroup = kernel < GPU_KERNELS && run->self->variants & GPU_VARIANT_SUB_GROUPS;
  return (gpu_call){.run = run,
                    .launch = l,
                    .kernel = subgroup ? gpu_kernels[kernel].subgroup : kernel,
                    .widest = -1};
}

static void bind(gpu_call *c, gpu_binding binding, int32_t tensor) {
  if (binding.bytes > c->run->self->limits.binding) c->too_large = true;
  if (binding.bytes > c->largest) {
    c->largest = binding.bytes;
    c->widest = tensor;
  }
  if (c->n_bind < GPU_BINDINGS) c->bind[c->n_bind] = binding;
  c->n_bind++;
}

void gpu_bind(gpu_call *c, gpu_binding binding) { bind(c, binding, -1); }

gpu_binding gpu_at(const gpu_run *run, const kit_tensor *t) {
  if (!kit_has(t) || !t->elements || !t->buffer) return gpu_memory_at(run->self->none);
  const gpu_memory *m = t->buffer;
  const int64_t rows = kit_row_count(t), last = (rows - 1) * t->row_stride + kit_cols(t);
  return (gpu_binding){
      .buffer = m->buffer, .offset = m->offset + t->offset, .bytes = (uint64_t)last * 4};
}

void gpu_tensor(gpu_call *c, const kit_tensor *t) { bind(c, gpu_at(c->run, t), t->id); }

void gpu_int(gpu_call *c, int64_t value) {
  if (value > INT32_MAX || value < INT32_MIN) c->too_large = true;
  if (c->n_param < GPU_PARAMS / 4) c->param[c->n_param].i = (int32_t)value;
  c->n_param++;
}

void gpu_float(gpu_call *c, double value) {
  if (c->n_param < GPU_PARAMS / 4) c->param[c->n_param].f = (float)value;
  c->n_param++;
}

/* The error names the largest operand: it is the one that passes a binding, or that has more
 * elements than a 32-bit index counts. */
static int32_t too_large(const gpu_call *c, accel_plugin_error *error) {
  static const char advice[] = "a smaller batch, shorter inputs or another device";
  const char *name =
      c->widest < 0 ? "of its workspace" : kit_tensor_name(c->run->program, c->widest);
  const uint64_t most = c->run->self->limits.binding;
  if (c->largest <= most)
    return kit_launch_fail(c->launch, error, ACCEL_PLUGIN_E_LIMIT,
                           "tensor %.40s, %llu bytes, is too much for one kernel: use %s", name,
                           (unsigned long long)c->largest, advice);
  return kit_launch_fail(c->launch, error, ACCEL_PLUGIN_E_LIMIT,
                         "tensor %.40s has %llu bytes, a buffer at most %llu here: use %s", name,
                         (unsigned long long)c->largest, (unsigned long long)most, advice);
}

int32_t gpu_dispatch_grid(gpu_call *c, int64_t x, int64_t y, int64_t z, accel_plugin_error *error) {
  const gpu_kernel *k = kernel_of(c->run, c->kernel);
  const uint32_t *most = c->run->self->limits.groups;
  if (c->n_bind != k->n_bind || c->params != k->params)
    return kit_launch_fail(c->launch, error, ACCEL_PLUGIN_E_UNSUPPORTED,
                           "a mistake of the op layer: %s takes %u buffers, given %u%s", k->name,
                           k->n_bind, c->n_bind,
                           c->params == k->params ? "" : ", and parameters of other kernels");
  if (c->too_large || x > most[0] || y > most[1] || z > most[2]) return too_large(c, error);
  if (x < 1 || y < 1 || z < 1) return ACCEL_PLUGIN_OK;
  const gpu_dispatch d = {.kernel = c->kernel,
                          .n_bind = c->n_bind,
                          .bind = c->bind,
                          .params = c->param,
                          .params_bytes = c->n_param * 4,
                          .groups = {(uint32_t)x, (uint32_t)y, (uint32_t)z},
                          .node = c->launch->index};
  return gpu_plugin_api.dispatch(c->run->stream, &d, error);
}

int32_t gpu_dispatch_rows(gpu_call *c, int64_t groups, accel_plugin_error *error) {
  const gpu_limits *limits = &c->run->self->limits;
  const int64_t most = c->kernel < GPU_KERNELS ? (int64_t)limits->groups[0]
                                               : 8 * (int64_t)(limits->units ? limits->units : 1);
  return gpu_dispatch_grid(c, groups < most ? groups : most, 1, 1, error);
}

int32_t gpu_dispatch_items(gpu_call *c, int64_t items, accel_plugin_error *error) {
  const int64_t local = kernel_of(c->run, c->kernel)->local;
  return gpu_dispatch_rows(c, (items + local - 1) / local, error);
}

int32_t gpu_copy(gpu_run *run, gpu_binding to, gpu_binding from, accel_plugin_error *error) {
  return gpu_plugin_api.copy(run->stream, &to, &from, error);
}
