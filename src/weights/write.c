/* write.c - writing a safetensors file, laid out as the official writer does: widest types first,
 * then by name, data 8-byte aligned. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "weights/weights.h"

static int by_alignment(const void *left, const void *right) {
  const accel__tensor_info *a = *(const accel__tensor_info *const *)left,
                           *b = *(const accel__tensor_info *const *)right;
  uint64_t bits_a = accel__dtype_bits(a->dtype), bits_b = accel__dtype_bits(b->dtype);
  if (bits_a != bits_b) return bits_a > bits_b ? -1 : 1;
  return strcmp(a->name, b->name);
}

/* Bytes of its shape and dtype. */
static accel_status tensor_bytes(const char *path, const accel__tensor_info *t, uint64_t *bytes) {
  uint64_t elements = 1, bits;
  if (!t->name) return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: a tensor without a name", path);
  if (t->rank > 8 || !accel__dtype_bits(t->dtype))
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: tensor '%s': bad rank or dtype", path, t->name);
  for (uint32_t d = 0; d < t->rank; d++) {
    if (t->dim[d] < 0 || __builtin_mul_overflow(elements, (uint64_t)t->dim[d], &elements))
      return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: tensor '%s': bad shape", path, t->name);
  }
  if (__builtin_mul_overflow(elements, accel__dtype_bits(t->dtype), &bits) || bits % 8)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: tensor '%s': bad size", path, t->name);
  *bytes = bits / 8;
  if (*bytes && !t->data)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: tensor '%s' has no data", path, t->name);
  return ACCEL_OK;
}

static void write_metadata(accel__buffer *b, const char *const *metadata, uint32_t n_pairs) {
  accel__buffer_text(b, "\"__metadata__\":{");
  for (uint32_t i = 0; i < n_pairs; i++) {
    if (i) accel__buffer_text(b, ",");
    accel__buffer_json_string(b, metadata[2 * i], strlen(metadata[2 * i]));
    accel__buffer_text(b, ":");
    accel__buffer_json_string(b, metadata[2 * i + 1], strlen(metadata[2 * i + 1]));
  }
  accel__buffer_text(b, "}");
}

static void write_tensor(accel__buffer *b, const accel__tensor_info *t, uint64_t begin,
                         uint64_t end) {
  accel__buffer_json_string(b, t->name, strlen(t->name));
  accel__buffer_printf(b, ":{\"dtype\":\"%s\",\"shape\":[", accel__dtype_name(t->dtype));
  for (uint32_t d = 0; d < t->rank; d++)
    accel__buffer_printf(b, d ? ",%" PRId64 : "%" PRId64, t->dim[d]);
  accel__buffer_printf(b, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", begin, end);
}

/* Header length, header, data.  The length is filled in last. */
static accel_status compose(accel__buffer *b, const char *path,
                            const accel__tensor_info *const *order, uint32_t n,
                            const char *const *metadata, uint32_t n_pairs) {
  uint64_t at = 0, bytes;
  accel__buffer_bytes(b, "\0\0\0\0\0\0\0", 8);
  accel__buffer_text(b, "{");
  if (n_pairs) write_metadata(b, metadata, n_pairs);
  for (uint32_t i = 0; i < n; i++) {
    ACCEL_TRY(tensor_bytes(path, order[i], &bytes));
    if (i || n_pairs) accel__buffer_text(b, ",");
    write_tensor(b, order[i], at, at + bytes);
    if (__builtin_add_overflow(at, bytes, &at))
      return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: more than 64 bits of data", path);
  }
  accel__buffer_text(b, "}");
  while (!b->failed && b->n % 8) accel__buffer_text(b, " ");
  uint64_t length = b->n - 8;
  for (uint32_t i = 0; i < n; i++) {
    ACCEL_TRY(tensor_bytes(path, order[i], &bytes));
    if (bytes) accel__buffer_bytes(b, order[i]->data, bytes);
  }
  ACCEL_TRY(accel__buffer_status(b));
  for (int i = 0; i < 8; i++) b->data[i] = (char)(length >> (8 * i));
  return ACCEL_OK;
}

static accel_status check(const char *path, const accel__tensor_info *tensors, uint32_t n,
                          const accel__tensor_info **order) {
  accel__map names = {0};
  accel_status status = accel__map_reserve(&names, n);
  for (uint32_t i = 0; i < n && status == ACCEL_OK; i++) {
    uint64_t bytes;
    int64_t before;
    order[i] = &tensors[i];
    status = tensor_bytes(path, order[i], &bytes);
    if (status != ACCEL_OK) break;
    if (accel__map_get(&names, tensors[i].name, strlen(tensors[i].name), &before))
      status = accel__fail(ACCEL_ERROR_ARGUMENT, "%s: tensor '%s' is given twice", path,
                           tensors[i].name);
    else
      status = accel__map_set(&names, tensors[i].name, strlen(tensors[i].name), i);
  }
  accel__map_free(&names);
  return status;
}

accel_status accel__safetensors_write(const char *path, const accel__tensor_info *tensors,
                                      uint32_t n, const char *const *metadata, uint32_t n_pairs) {
  accel__buffer b = {0};
  const accel__tensor_info **order = malloc((n ? n : 1) * sizeof *order);
  if (!order) return accel__no_memory(n * sizeof *order);
  accel_status status = check(path, tensors, n, order);
  if (status == ACCEL_OK) {
    qsort(order, n, sizeof *order, by_alignment);
    status = compose(&b, path, order, n, metadata, n_pairs);
  }
  if (status == ACCEL_OK) status = accel__file_write(path, b.data, b.n);
  accel__buffer_free(&b);
  free(order);
  return status;
}
