/* api_device.c - devices in hand: which are there, their memory, tensors in it. */
#include <stdlib.h>
#include <string.h>

#include "api/api_check.h"
#include "dispatch/device.h"
#include "dispatch/pack.h"

static accel_status is_available(accel *ctx, const char *wanted, bool amd, int *available) {
  bool found = false;
  accel_status status = accel__device_exists(ctx, wanted, amd, &found);
  *available = found;
  return status;
}

accel_status accel_is_rocm_available(accel *ctx, int *available) {
  API_BEGIN();
  API_NEED(available);
  *available = 0;
  API_NEED(ctx);
  return is_available(ctx, "rocm", true, available);
}

accel_status accel_is_cuda_available(accel *ctx, int *available) {
  API_BEGIN();
  API_NEED(available);
  *available = 0;
  API_NEED(ctx);
  return is_available(ctx, "cuda", false, available);
}

accel_status accel_get_device(accel *ctx, const char *wanted, accel_device **out) {
  API_CALL(ctx, out);
  return accel__device_get(ctx, wanted && *wanted ? wanted : "auto", out);
}

void accel_device_close(accel_device **device) {
  if (!device) return;
  accel__device_close(*device);
  *device = NULL;
}

const accel_device_info *accel_get_device_info(const accel_device *device) {
  return device ? accel__device_info(device) : NULL;
}
const char *accel_get_device_type(const accel_device *device) {
  return device ? accel__device_type(device) : "";
}

accel_status accel_device_info_text(accel_device *device, char **text) {
  API_CALL(device, text);
  return accel__device_text(device, text);
}

accel_memory_summary accel_memory_summary_default(void) {
  return (accel_memory_summary){.size = sizeof(accel_memory_summary)};
}

accel_status accel_device_memory(accel_device *device, accel_memory_summary *out) {
  API_BEGIN();
  API_NEED(device);
  API_NEED(out);
  API_PARAMS(accel_memory_summary, known, out); /* refuses a size that was never set */
  return accel__device_summary(device, out);
}

accel_status accel_probe_precision(accel_device *device, const char *precision) {
  API_BEGIN();
  API_NEED(device);
  API_NEED(precision);
  return accel__device_probe(device, precision);
}

accel_status accel_runtime_version(accel *ctx, const char *hardware, char **version,
                                   char **driver) {
  accel__hardware *h;
  API_BEGIN();
  API_OUT(version);
  API_OUT(driver);
  API_NEED(ctx);
  API_NEED(hardware);
  ACCEL_TRY(accel__context_hardware(ctx, &h));
  return accel__runtime_version(h, hardware, version, driver);
}

accel_status accel_empty_cache(accel *ctx, const accel_device *device, uint64_t *released) {
  API_BEGIN();
  if (released) *released = 0;
  API_NEED(ctx);
  return accel__device_trim(ctx, device, released);
}

accel_status accel_synchronize(accel_device *device) {
  API_BEGIN();
  API_NEED(device);
  return accel__device_synchronize(device);
}

/* ---- tensors ---- */

static accel_status check_tensor(const char *caller, const accel_tensor *t) {
  if (t->rank > ACCEL_MAX_RANK)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: rank %u; at most %d", caller, t->rank,
                       ACCEL_MAX_RANK);
  const int dtype = (int)t->dtype;
  if (dtype < ACCEL_F32 || (dtype > ACCEL_U8 && dtype != ACCEL_F64 && dtype != ACCEL_BOOL))
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: dtype %d is none of accel_dtype", caller, dtype);
  const uint64_t bytes = accel__tensor_bytes(t);
  if (bytes == UINT64_MAX)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: a negative or overflowing dim", caller);
  if (bytes && !t->data)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: the tensor has no data", caller);
  return ACCEL_OK;
}

accel_status accel_to_device(accel_device *device, const accel_tensor *tensor,
                             accel_device_tensor **out) {
  API_CALL(device, out);
  API_NEED(tensor);
  accel_device_tensor *made;
  ACCEL_TRY(check_tensor(__func__, tensor));
  ACCEL_TRY(accel__device_tensor_new(device, tensor, &made));
  accel_status status = accel__device_tensor_write(made, tensor->data);
  if (status == ACCEL_OK)
    *out = made;
  else
    accel__device_tensor_free(made);
  return status;
}

accel_status accel_to_host(const accel_device_tensor *tensor, accel_tensors **out) {
  API_CALL(tensor, out);
  accel_tensors *list;
  ACCEL_TRY(accel__tensors_new(accel__device_tensor_view(tensor), 1, &list));
  accel_status status = accel__device_tensor_read(tensor, list->item[0].data);
  if (status == ACCEL_OK)
    *out = list;
  else
    accel__tensors_free(&list);
  return status;
}

const accel_tensor *accel_device_tensor_view(const accel_device_tensor *tensor) {
  return tensor ? accel__device_tensor_view(tensor) : NULL;
}

void accel_device_tensor_free(accel_device_tensor **tensor) {
  if (!tensor) return;
  accel__device_tensor_free(*tensor);
  *tensor = NULL;
}

/* ---- the stream ---- */

accel_status accel_get_device_stream(accel_device *device, accel_device_stream **out) {
  API_CALL(device, out);
  return accel__device_stream(device, out);
}

accel_status accel_stream_to_device(accel_device_stream *stream, const accel_tensor *tensor,
                                    accel_device_tensor **out) {
  API_CALL(stream, out);
  API_NEED(tensor);
  accel_device_tensor *made;
  ACCEL_TRY(check_tensor(__func__, tensor));
  ACCEL_TRY(accel__device_tensor_new(accel__stream_device(stream), tensor, &made));
  accel_status status =
      tensor->data ? accel__stream_copy(stream, made, tensor->data, NULL) : ACCEL_OK;
  if (status == ACCEL_OK)
    *out = made;
  else
    accel__device_tensor_free(made);
  return status;
}

accel_status accel_stream_to_host(accel_device_stream *stream, accel_device_tensor *tensor,
                                  void *data, uint64_t bytes) {
  API_BEGIN();
  API_NEED(stream);
  API_NEED(tensor);
  API_NEED(data);
  const uint64_t all = accel__tensor_bytes(accel__device_tensor_view(tensor));
  if (bytes != all)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: %llu bytes of room, the tensor has %llu",
                       __func__, (unsigned long long)bytes, (unsigned long long)all);
  return accel__stream_copy(stream, tensor, NULL, data);
}
