/* gpu_weights.c - which formats kernels read, and the upload: tensor by tensor, a few rows at a
 * time, so that the host holds no more than GPU_STAGING bytes of a weight beside the mapped file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/weight_matrix.h"
#include "gpu/gpu_layer.h"
#include "gpu/gpu_disk.h"
#include "gpu/gpu_offload.h"

const uint8_t gpu_store_bits[GPU_STORES] = {
#define BITS_own(name, bits) [GPU_STORE_##name] = bits,
#define BITS_as_u4(name, bits)
#define BITS_none(name, bits)
#define ACCEL_PLAIN(name, bits, file, precision, gpu) BITS_##gpu(name, bits)
#define ACCEL_CODED(name, bits, file, precision, scale, zero, outer, group, largest, codec, cpu, \
                    gpu)                                                                         \
  BITS_##gpu(name, bits)
#include "formats/formats.def"
};

/* ---- formats ---- */

bool gpu_store_of(uint8_t dtype, gpu_store *out) {
  switch (dtype) {
#define STORE_own(name)   return *out = GPU_STORE_##name, true;
#define STORE_as_u4(name) return *out = GPU_STORE_U4, true;
#define STORE_none(name)  return false;
#define ACCEL_PLAIN(name, bits, file, precision, gpu) \
  case ACCEL_PLUGIN_##name:                           \
    STORE_##gpu(name)
#define ACCEL_CODED(name, bits, file, precision, scale, zero, outer, group, largest, codec, cpu, \
                    gpu)                                                                         \
  case ACCEL_PLUGIN_##name:                                                                      \
    STORE_##gpu(name)
#include "formats/formats.def"
  }
  return false;
}

static gpu_scale scale_of(const accel_plugin_format *f) {
  const bool offset = f->zero != ACCEL_PLUGIN_NO_DTYPE || f->store == ACCEL_PLUGIN_I4;
  if (accel_format_plain(f)) return GPU_SCALE_NONE;
  if (f->zero == ACCEL_PLUGIN_I8) return GPU_SCALE_PAIR;
  if (f->scale == ACCEL_PLUGIN_F32) return offset ? GPU_SCALE_PAIR : GPU_SCALE_F32;
  return f->scale == ACCEL_PLUGIN_F16 || f->scale == ACCEL_PLUGIN_E4M3 ? GPU_SCALE_HALF
                                                                       : GPU_SCALE_BF16;
}

/* Ops whose kernels decode operand `operand` from a store; convolutions come in the four that the
 * precisions give them. */
static bool decodes(uint32_t op, uint32_t operand, gpu_store store) {
  switch (op) {
    case ACCEL_PLUGIN_OP_LINEAR:
      return operand == 1 || operand == 4;
    case ACCEL_PLUGIN_OP_GATHER:
      return operand == 0;
    case ACCEL_PLUGIN_OP_CONV:
    case ACCEL_PLUGIN_OP_CONV_TRANSPOSE:
      return operand == 1 && store <= GPU_STORE_I8;
    case ACCEL_PLUGIN_OP_MOE:
      return operand == 3 || operand == 4;
  }
  return false;
}

/* A weight that other ops read too is kept as fp32. */
static bool keeps_format(const accel_plugin_program *p, uint32_t index, gpu_store store) {
  for (uint32_t i = 0; i < p->n_node; i++)
    for (uint32_t k = 0; k < p->node[i].n_in; k++) {
      const int32_t t = p->node[i].in[k];
      if (t >= 0 && p->tensor[t].kind == ACCEL_PLUGIN_TENSOR_WEIGHT &&
          p->tensor[t].weight == (int32_t)index && !decodes(p->node[i].op, k, store))
        return false;
    }
  for (uint32_t i = 0; i < p->n_entry; i++)
    for (uint32_t k = 0; k < p->entry[i].n_out; k++) {
      const accel_plugin_tensor *t = &p->tensor[p->entry[i].out[k]];
      if (t->kind == ACCEL_PLUGIN_TENSOR_WEIGHT && t->weight == (int32_t)index) return false;
    }
  return true;
}

int32_t gpu_weight_format(const accel_plugin_program *program, uint32_t index,
                          const accel_plugin_format *f, char *why, size_t n) {
  int64_t rows, k;
  kit_weight_matrix(&program->weight[index], &rows, &k);
  gpu_store store;
  if (!accel_format_known(f)) {
    snprintf(why, n, "weight '%.60s': store %u with scale %u, zero %u, outer %u is unknown",
             program->weight[index].name, f->store, f->scale, f->zero, f->outer);
    return ACCEL_PLUGIN_NO;
  }
  if (!gpu_store_of(f->store, &store)) {
    snprintf(why, n, "weight '%.60s' is widened to fp32 while loading",
             program->weight[index].name);
    return ACCEL_PLUGIN_EMULATED;
  }
  if (!accel_format_plain(f) && f->group_k && (int64_t)f->group_k < k && f->group_k % 8) {
    snprintf(why, n, "weight '%.60s': groups of %u columns; kernels need multiples of 8",
             program->weight[index].name, f->group_k);
    return ACCEL_PLUGIN_NO;
  }
  return ACCEL_PLUGIN_NATIVE;
}

/* Of the nodes that read it: whether some are linear layers that take it as [n, k], and whether
 * others read it as well. */
static void readers(const accel_plugin_program *p, uint32_t index, bool *linear, bool *others) {
  *linear = *others = false;
  for (uint32_t i = 0; i < p->n_node; i++)
    for (uint32_t k = 0; k < p->node[i].n_in; k++) {
      const int32_t t = p->node[i].in[k];
      if (t < 0 || p->tensor[t].kind != ACCEL_PLUGIN_TENSOR_WEIGHT ||
          p->tensor[t].weight != (int32_t)index)
        continue;
      const bool rows = p->node[i].op == ACCEL_PLUGIN_OP_LINEAR && (k == 1 || k == 4) &&
                        !kit_attr_i(&p->node[i], ACCEL_PLUGIN_ATTR_TRANS, 0);
      *(rows ? linear : others) = true;
    }
}

uint32_t gpu_row_words(gpu_store store, int64_t k) {
  const uint64_t words = ((uint64_t)k * gpu_store_bits[store] + 31) / 32;
  return (uint32_t)(store == GPU_STORE_I8 ? (words + 3) / 4 * 4 : words);
}

/* The weight's shape and format on the device; memory is not allocated yet. */
static gpu_weight layout(const accel_plugin_program *p, uint32_t index,
                         const accel_plugin_format *f) {
  gpu_weight w = {.outer = 1.0f};
  kit_weight_matrix(&p->weight[index], &w.n, &w.k);
  gpu_store store = GPU_STORE_F32;
  if (gpu_store_of(f->store, &store) && keeps_format(p, index, store)) {
    w.store = store;
    w.scale_kind = scale_of(f);
  }
  w.row_words = gpu_row_words(w.store, w.k);
  w.group_k = w.scale_kind && f->group_k && (int64_t)f->group_k < w.k ? f->group_k
                                                                      : (uint32_t)(w.k ? w.k : 1);
  w.group_n = w.scale_kind && f->group_n ? f->group_n : (uint32_t)(w.n ? w.n : 1);
  w.groups_k = (uint32_t)accel_groups(w.k, w.group_k);
  return w;
}

static uint64_t scale_bytes(const gpu_weight *w) {
  const uint64_t groups = (uint64_t)accel_groups(w->n, w->group_n) * w->groups_k;
  return !w->scale_kind ? 0 : groups * (w->scale_kind == GPU_SCALE_PAIR ? 8 : 4);
}

uint64_t gpu_weight_parts(const accel_plugin_program *program, uint32_t index,
                          const accel_plugin_format *format, uint64_t *scale) {
  const gpu_weight w = layout(program, index, format);
  *scale = scale_bytes(&w);
  return (uint64_t)w.n * w.row_words * 4;
}

uint64_t gpu_weight_bytes(const accel_plugin_program *program, uint32_t index,
                          const accel_plugin_format *format) {
  uint64_t scale;
  const uint64_t data = gpu_weight_parts(program, index, format, &scale);
  return data + scale;
}

/* ---- upload ---- */

/* Rows [first, first + count) as the device keeps them. */
static int32_t stage_rows(const gpu_weight_source *l, const gpu_weight *w, int64_t first,
                          int64_t count, accel_plugin_error *error) {
  if (w->store == GPU_STORE_F32)
    return kit_weight_rows(l->weight, l->format, l->view, first, count, (float *)l->staging, error);
  const uint64_t bytes = accel_row_bytes(l->format->store, w->k);
  for (int64_t r = 0; r < count; r++) {
    uint32_t *to = l->staging + r * w->row_words;
    memset(to + bytes / 4, 0, w->row_words * 4 - bytes / 4 * 4);
    memcpy(to, (const char *)l->view->data + (uint64_t)(first + r) * bytes, bytes);
    for (uint32_t i = 0; l->format->store == ACCEL_PLUGIN_I4 && i < w->row_words; i++)
      to[i] ^= 0x88888888u;
  }
  return ACCEL_PLUGIN_OK;
}

/* Writes the word or two that kernels read of one group (enum gpu_scale). */
static void put_scale(const gpu_weight_source *l, const gpu_weight *w, int64_t group,
                      uint32_t *to) {
  const accel_plugin_format *f = l->format;
  const float scale = accel_scale_at(f->scale, l->view->scale, group),
              zero = (f->zero == ACCEL_PLUGIN_NO_DTYPE
                          ? 0.0f
                          : accel_scale_at(f->zero, l->view->zero, group)) +
                     (f->store == ACCEL_PLUGIN_I4 ? 8.0f : 0.0f),
              product = scale * w->outer;
  uint32_t bits;
  switch (w->scale_kind) {
    case GPU_SCALE_NONE:
      break;
    case GPU_SCALE_F32:
      memcpy(to, &product, 4);
      break;
    case GPU_SCALE_HALF:
      *to = accel_f32_to_fp16(scale) | (uint32_t)zero << 16;
      break;
    case GPU_SCALE_BF16: /* bf16 and e8m0 are the upper half of an fp32 */
      memcpy(&bits, &scale, 4);
      *to = bits >> 16 | (uint32_t)zero << 16;
      break;
    case GPU_SCALE_PAIR:
      memcpy(to, &product, 4);
      memcpy(to + 1, &zero, 4);
      break;
  }
}

/* Fails when the host lacks scales, zeros or the outer factor that the format has; reads the
 * last. */
static int32_t parts_of(const gpu_weight_source *l, gpu_weight *w, accel_plugin_error *error) {
  if (!w->scale_kind) return ACCEL_PLUGIN_OK;
  if (!l->view->scale || (l->format->zero != ACCEL_PLUGIN_NO_DTYPE && !l->view->zero) ||
      (l->format->outer != ACCEL_PLUGIN_NO_DTYPE && !l->view->outer))
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1,
                    "weight '%s': parts of its format are missing", l->weight->name);
  if (l->format->outer != ACCEL_PLUGIN_NO_DTYPE)
    w->outer = accel_scale_at(l->format->outer, l->view->outer, 0);
  return ACCEL_PLUGIN_OK;
}

/* Bytes of the staging buffer to byte `offset` of a part of the weight: in device memory `to`, or in
 * host memory. */
static int32_t put(const gpu_weight_source *l, gpu_memory *to, uint64_t offset, uint64_t bytes,
                   accel_plugin_error *error) {
  if (!l->host) return gpu_upload(l->self, to, offset, l->staging, bytes, error);
  memcpy(l->host + offset, l->staging, bytes);
  return ACCEL_PLUGIN_OK;
}

/* Bytes [first, first + bytes) of the scales, to the staging buffer. */
static void stage_scales(const gpu_weight_source *l, const gpu_weight *w, uint64_t first,
                         uint64_t bytes) {
  const uint64_t each = w->scale_kind == GPU_SCALE_PAIR ? 2 : 1;
  const int64_t group = (int64_t)(first / 4 / each);
  for (uint64_t i = 0; i < bytes / 4 / each; i++)
    put_scale(l, w, group + (int64_t)i, l->staging + i * each);
}

static int32_t load_scales(const gpu_weight_source *l, gpu_weight *w, accel_plugin_error *error) {
  const uint64_t bytes = scale_bytes(w);
  if (!bytes) return ACCEL_PLUGIN_OK;
  int32_t rc = l->host ? ACCEL_PLUGIN_OK : gpu_pool_take(&l->self->pool, bytes, &w->scale, error);
  for (uint64_t at = 0; !rc && at < bytes; at += GPU_STAGING) {
    const uint64_t n = bytes - at < GPU_STAGING ? bytes - at : GPU_STAGING;
    stage_scales(l, w, at, n);
    rc = put(l, w->scale, at, n, error);
  }
  return rc;
}

static int32_t load_rows(const gpu_weight_source *l, const gpu_weight *w, gpu_memory *to,
                         int64_t first, int64_t count, accel_plugin_error *error) {
  const uint64_t row = (uint64_t)w->row_words * 4;
  int64_t most = (int64_t)(GPU_STAGING / row);
  int32_t rc = ACCEL_PLUGIN_OK;
  if (most < 1)
    return kit_fail(error, ACCEL_PLUGIN_E_UNSUPPORTED, -1,
                    "weight '%s': a row of %llu bytes passes the staging buffer", l->weight->name,
                    (unsigned long long)row);
  for (int64_t at = 0; !rc && at < count; at += most) {
    const int64_t n = count - at < most ? count - at : most;
    rc = stage_rows(l, w, first + at, n, error);
    if (!rc) rc = put(l, to, (uint64_t)at * row, (uint64_t)n * row, error);
  }
  return rc;
}

/* The weight lies in one piece where one allocation can hold it, else in panels of rows. */
static int32_t load_data(const gpu_weight_source *l, gpu_weight *w, accel_plugin_error *error) {
  const uint64_t row = (uint64_t)w->row_words * 4, all = (uint64_t)w->n * row,
                 most = l->self->limits.buffer;
  if (!all) return ACCEL_PLUGIN_OK;
  if (all <= most) {
    const int32_t rc = gpu_pool_take(&l->self->pool, all, &w->data, error);
    return rc ? rc : load_rows(l, w, w->data, 0, w->n, error);
  }
  w->rows_per_panel = (int64_t)((most - l->self->limits.align) / row);
  if (w->rows_per_panel < 1)
    return kit_fail(error, ACCEL_PLUGIN_E_DEVICE_MEMORY, -1,
                    "weight '%s': a row of %llu bytes passes the largest buffer", l->weight->name,
                    (unsigned long long)row);
  w->n_panel = (uint32_t)((w->n + w->rows_per_panel - 1) / w->rows_per_panel);
  w->panel = calloc(w->n_panel, sizeof(gpu_memory *));
  int32_t rc = w->panel ? ACCEL_PLUGIN_OK : kit_no_memory(error, w->n_panel * sizeof(gpu_memory *));
  for (uint32_t i = 0; !rc && i < w->n_panel; i++) {
    const int64_t first = i * w->rows_per_panel,
                  count = w->n - first < w->rows_per_panel ? w->n - first : w->rows_per_panel;
    rc = gpu_pool_take(&l->self->pool, (uint64_t)count * row, &w->panel[i], error);
    if (!rc) rc = load_rows(l, w, w->panel[i], first, count, error);
  }
  return rc;
}

/* Into host memory, in the device's layout. */
static int32_t load_offloaded(gpu_weight_source *l, uint32_t index, gpu_weight *w,
                              accel_plugin_error *error) {
  const uint64_t data = (uint64_t)w->n * w->row_words * 4, scale = scale_bytes(w);
  char *room;
  int32_t rc = gpu_offload_room(l->self, index, data, scale, &room, error);
  if (rc) return rc;
  l->host = room + gpu_offload_rounded(data);
  rc = load_scales(l, w, error);
  l->host = room;
  return rc ? rc : load_rows(l, w, NULL, 0, w->n, error);
}

static int32_t load_resident(const gpu_weight_source *l, const accel_plugin_program *program,
                             uint32_t index, gpu_weight *w, accel_plugin_error *error) {
  const gpu_cpu_kernels *cpu = l->self->limits.cpu_kernels;
  bool linear, others;
  readers(program, index, &linear, &others);
  int32_t rc = cpu && linear ? cpu->pack(l, w, error) : ACCEL_PLUGIN_OK;
  if (!rc && (others || !w->packed)) rc = load_scales(l, w, error);
  if (!rc && (others || !w->packed)) rc = load_data(l, w, error);
  return rc;
}

/* Lends the weight, once. */
static int32_t map(gpu_weight_source *l, uint32_t index, gpu_weight *w, accel_plugin_error *error) {
  const accel_plugin_host *host = l->lender;
  if (l->view->data) return ACCEL_PLUGIN_OK;
  const int32_t rc = kit_weight_borrow(host, index, l->view, error);
  if (rc) return rc;
  l->lent = true;
  if (l->view->data) return parts_of(l, w, error);
  return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "weight '%s' has no data", l->weight->name);
}

/* A part that the cache lacks: arranged, kept, and in the staging buffer afterwards. */
static int32_t keep_part(gpu_weight_source *l, uint32_t index, gpu_weight *w, uint32_t part,
                         accel_plugin_error *error) {
  const gpu_disk *disk = gpu_offload_disk(l->self);
  const gpu_disk_part p = gpu_disk_part_of(disk, index, part);
  int32_t rc = map(l, index, w, error);
  if (!rc && p.bytes > GPU_STAGING)
    rc = kit_fail(error, ACCEL_PLUGIN_E_UNSUPPORTED, -1,
                  "weight '%s': a row of %llu bytes passes the staging buffer", l->weight->name,
                  (unsigned long long)p.bytes);
  if (!rc && p.rows)
    rc = stage_rows(l, w, p.first, p.rows, error);
  else if (!rc)
    stage_scales(l, w, (uint64_t)p.first, p.bytes);
  return rc ? rc : gpu_disk_put(disk, index, part, l->staging, error);
}

/* Parts that the cache keeps: makes those that it lacks.  room: host memory that gets all; NULL:
 * none does. */
static int32_t load_kept(gpu_weight_source *l, uint32_t index, gpu_weight *w, char *room,
                         accel_plugin_error *error) {
  const gpu_disk *disk = gpu_offload_disk(l->self);
  int32_t rc = ACCEL_PLUGIN_OK;
  for (uint32_t i = 0; !rc && i < gpu_disk_kept(disk, index); i++) {
    const gpu_disk_part part = gpu_disk_part_of(disk, index, i);
    if (gpu_disk_get(disk, index, i, room ? room + part.at : NULL)) continue;
    rc = keep_part(l, index, w, i, error);
    if (!rc && room) memcpy(room + part.at, l->staging, part.bytes);
  }
  return rc;
}

/* Into host memory: from the cache, where that keeps it, else as it is lent. */
static int32_t load_to_host(gpu_weight_source *l, uint32_t index, gpu_weight *w,
                            accel_plugin_error *error) {
  char *room;
  if (gpu_disk_kept(gpu_offload_disk(l->self), index)) {
    const int32_t rc = gpu_offload_room(l->self, index, (uint64_t)w->n * w->row_words * 4,
                                        scale_bytes(w), &room, error);
    return rc ? rc : load_kept(l, index, w, room, error);
  }
  const int32_t rc = map(l, index, w, error);
  return rc ? rc : load_offloaded(l, index, w, error);
}

static int32_t load(gpu_self *self, const kit_open *open, uint32_t index, uint32_t *staging,
                    accel_plugin_error *error) {
  const accel_plugin_host *host = open->options->host;
  accel_plugin_weight_view view = {0};
  gpu_weight *w = &self->weight[index];
  gpu_weight_source l = {.self = self,
                         .weight = &open->program->weight[index],
                         .format = &open->options->precision.format[index],
                         .view = &view,
                         .lender = host,
                         .staging = staging};
  int32_t rc = ACCEL_PLUGIN_OK;
  *w = layout(open->program, index, l.format);
  if (kit_fault(host, "allocation")) return kit_no_memory(error, (uint64_t)w->n * w->row_words * 4);
  if (gpu_offload_on_disk(self, index)) {
    gpu_offload_place(self, index, (uint64_t)w->n * w->row_words * 4, scale_bytes(w));
    rc = load_kept(&l, index, w, NULL, error);
  } else if (gpu_offload_has(self, index)) {
    rc = load_to_host(&l, index, w, error);
  } else {
    rc = load_kept(&l, index, w, NULL, error);
    if (!rc) rc = map(&l, index, w, error);
    if (!rc) rc = load_resident(&l, open->program, index, w, error);
  }
  if (l.lent) host->weight_unmap(host->self, index);
  return rc;
}

int32_t gpu_weights_load(gpu_self *self, const kit_open *open, accel_plugin_error *error) {
  const uint32_t n = open->program->n_weight;
  if (n && (!open->options->host || !open->options->host->weight_map))
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "init: the host gives no weights");
  self->weight = calloc(n + 1, sizeof *self->weight);
  uint32_t *staging = malloc(GPU_STAGING);
  int32_t rc = self->weight && staging ? ACCEL_PLUGIN_OK : kit_no_memory(error, GPU_STAGING);
  for (uint32_t i = 0; !rc && i < n; i++) rc = load(self, open, i, staging, error);
  free(staging);
  return rc ? rc : gpu_offload_loaded(self, error);
}

int64_t gpu_weight_rows(const gpu_self *self, const gpu_weight *w, int64_t first,
                        gpu_binding *out) {
  const uint64_t row = (uint64_t)w->row_words * 4;
  const gpu_memory *m = w->data ? w->data : w->panel[first / w->rows_per_panel];
  const int64_t in = w->data ? first : first % w->rows_per_panel,
                held = w->data ? w->n : w->rows_per_panel;
  int64_t rows = held - in < w->n - first ? held - in : w->n - first,
          most = (int64_t)(self->limits.binding / row);
  if (most < 1) most = 1; /* gpu_bind refuses it */
  if (rows > most) rows = most;
  *out = (gpu_binding){
      .buffer = m->buffer, .offset = m->offset + (uint64_t)in * row, .bytes = (uint64_t)rows * row};
  return rows;
}

void gpu_weights_free(gpu_self *self) {
  for (uint32_t i = 0; self->weight && i < self->program->n_weight; i++) {
    gpu_weight *w = &self->weight[i];
    if (gpu_offload_has(self, i)) continue; /* gpu_offload_close */
    gpu_pool_give(&self->pool, w->data);
    gpu_pool_give(&self->pool, w->scale);
    if (w->packed) self->limits.cpu_kernels->packed_free(self, w);
    for (uint32_t k = 0; w->panel && k < w->n_panel; k++) gpu_pool_give(&self->pool, w->panel[k]);
    free(w->panel);
  }
  free(self->weight);
  self->weight = NULL;
}
