/* api_files.c - named tensors from and to safetensors files. */
#include <stdlib.h>
#include <string.h>

#include "api/api_check.h"
#include "dispatch/pack.h"
#include "weights/weights.h"

static bool is_public_dtype(accel_plugin_dtype dtype) {
  return dtype <= ACCEL_PLUGIN_U8 || dtype == ACCEL_PLUGIN_F64 || dtype == ACCEL_PLUGIN_BOOL;
}

static accel_status describe(const char *path, const accel__tensor_info *t, accel_tensor *like) {
  if (!is_public_dtype(t->dtype))
    return accel__fail(ACCEL_ERROR_UNSUPPORTED,
                       "%s: tensor '%s' has dtype %s; accel_tensor has none for it", path, t->name,
                       accel__dtype_name(t->dtype));
  if (t->rank > ACCEL_MAX_RANK)
    return accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: tensor '%s' has rank %u; at most %d", path,
                       t->name, t->rank, ACCEL_MAX_RANK);
  *like = (accel_tensor){.name = t->name, .dtype = (accel_dtype)t->dtype, .rank = t->rank};
  memcpy(like->dim, t->dim, t->rank * sizeof *t->dim);
  return ACCEL_OK;
}

accel_status accel_tensors_read(const char *path, accel_tensors **out) {
  API_CALL(path, out);
  accel__checkpoint *file;
  ACCEL_TRY(accel__checkpoint_open(path, &file));
  uint32_t n = accel__checkpoint_count(file);
  accel_tensor *like = calloc((size_t)n + 1, sizeof *like);
  accel_status status = like ? ACCEL_OK : accel__no_memory(n * sizeof *like);
  for (uint32_t i = 0; i < n && status == ACCEL_OK; i++)
    status = describe(path, accel__checkpoint_at(file, i), &like[i]);
  if (status == ACCEL_OK) status = accel__tensors_new(like, n, out);
  for (uint32_t i = 0; i < n && status == ACCEL_OK; i++)
    status = accel__tensor_read(file, accel__checkpoint_at(file, i), 0,
                                accel__checkpoint_at(file, i)->bytes, (*out)->item[i].data);
  if (status != ACCEL_OK) accel__tensors_free(out);
  free(like);
  accel__checkpoint_close(&file);
  return status;
}

accel_status accel_tensors_write(const char *path, const accel_tensors *tensors) {
  API_BEGIN();
  API_NEED(path);
  API_NEED(tensors);
  accel__tensor_info *info = calloc((size_t)tensors->n + 1, sizeof *info);
  if (!info) return accel__no_memory(tensors->n * sizeof *info);
  accel_status status = ACCEL_OK;
  for (uint32_t i = 0; i < tensors->n && status == ACCEL_OK; i++) {
    const accel_tensor *t = &tensors->item[i];
    if (t->rank > ACCEL_MAX_RANK)
      status = accel__fail(ACCEL_ERROR_ARGUMENT, "%s: tensor %u has rank %u; at most %d", __func__,
                           i, t->rank, ACCEL_MAX_RANK);
    else
      info[i] = (accel__tensor_info){
          .name = t->name, .dtype = (accel_plugin_dtype)t->dtype, .rank = t->rank, .data = t->data};
    if (status == ACCEL_OK) memcpy(info[i].dim, t->dim, t->rank * sizeof *t->dim);
  }
  if (status == ACCEL_OK) status = accel__safetensors_write(path, info, tensors->n, NULL, 0);
  free(info);
  return status;
}
