/* tensor_list.c - see tensor_list.h. */
#include "dispatch/tensor_list.h"

#include <stdlib.h>
#include <string.h>

#include "core/block_cache.h"
#include "core/status.h"

uint64_t accel__tensor_bytes(const accel_tensor *t) {
  uint64_t n = t->dtype == ACCEL_I64 || t->dtype == ACCEL_F64    ? 8
               : t->dtype == ACCEL_F16 || t->dtype == ACCEL_BF16 ? 2
               : t->dtype >= ACCEL_I8 && t->dtype != ACCEL_F64   ? 1
                                                                 : 4;
  for (uint32_t i = 0; i < t->rank; i++)
    if (t->dim[i] < 0 || __builtin_mul_overflow(n, (uint64_t)t->dim[i], &n)) return UINT64_MAX;
  return n;
}

accel_status accel__tensors_new(const accel_tensor *like, uint32_t n, accel_tensors **out) {
  accel_tensors *list = calloc(1, sizeof *list + n * sizeof(accel_tensor));
  *out = NULL;
  if (!list) return accel__no_memory(n * sizeof(accel_tensor));
  list->item = (accel_tensor *)(list + 1);
  for (uint32_t i = 0; i < n; i++) {
    accel_tensor *t = &list->item[i];
    uint64_t bytes = accel__tensor_bytes(&like[i]);
    size_t name = strlen(like[i].name) + 1;
    *t = like[i];
    /* data first, so that it keeps malloc's alignment; the name sits behind it */
    t->data = bytes < SIZE_MAX - name ? accel__block_calloc(bytes + name) : NULL;
    list->n = i + 1;
    if (!t->data) {
      list->n = i;
      accel__tensors_free(&list);
      return accel__no_memory(bytes);
    }
    t->name = memcpy((char *)t->data + bytes, like[i].name, name);
  }
  *out = list;
  return ACCEL_OK;
}

void accel__tensors_free(accel_tensors **tensors) {
  if (!tensors || !*tensors) return;
  for (uint32_t i = 0; i < (*tensors)->n; i++) accel__block_free((*tensors)->item[i].data);
  free(*tensors);
  *tensors = NULL;
}

const accel_tensor *accel__find_tensor(const accel_tensors *tensors, const char *name) {
  for (uint32_t i = 0; tensors && i < tensors->n; i++)
    if (!strcmp(tensors->item[i].name, name)) return &tensors->item[i];
  return NULL;
}

int64_t accel__tensor_int(const accel_tensor *t, uint64_t i) {
  switch (t->dtype) {
    case ACCEL_I64:
      return ((const int64_t *)t->data)[i];
    case ACCEL_I32:
      return ((const int32_t *)t->data)[i];
    case ACCEL_F32:
      return (int64_t)((const float *)t->data)[i];
    case ACCEL_I8:
      return ((const int8_t *)t->data)[i];
    default:
      return ((const uint8_t *)t->data)[i];
  }
}
