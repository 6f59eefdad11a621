/* device.h - a device in a caller's hand (accel_device): its memory, tensors in it, the line of
 * copies beside the caller.
 *
 * Device and tensors may end in any order; all end before their context.  The stream ends with the
 * device.
 */
#ifndef ACCEL_DISPATCH_DEVICE_H
#define ACCEL_DISPATCH_DEVICE_H

#include "dispatch/context.h"

/* The first device of `wanted` (accel__hardware_choose) that passes its self-test.
 * ACCEL_ERROR_DEVICE_UNAVAILABLE lists why none does. */
accel_status accel__device_get(accel *ctx, const char *wanted, accel_device **out);
void accel__device_close(accel_device *device); /* waits for its stream; tensors stay valid */
const accel_device_info *accel__device_info(const accel_device *device);
const char *accel__device_type(const accel_device *device); /* "rocm" of "rocm:0" */
/* *found: one of the devices that `wanted` names is real hardware, of AMD's or not of AMD's, and
 * passes its self-test. */
accel_status accel__device_exists(accel *ctx, const char *wanted, bool amd, bool *found);
accel_status accel__device_summary(accel_device *device, accel_memory_summary *out);
/* ACCEL_ERROR_PRECISION with the reason */
accel_status accel__device_probe(accel_device *device, const char *precision);
/* Scratch of the context's endpoints goes back; device NULL: of all of them. */
accel_status accel__device_trim(accel *ctx, const accel_device *device, uint64_t *released);
/* Queues of the context's endpoints on the device run dry, its stream too.  The stream's first
 * failure is the answer. */
accel_status accel__device_synchronize(accel_device *device);
/* What print_device_info prints; malloc'd. */
accel_status accel__device_text(accel_device *device, char **text);

accel_status accel__device_tensor_new(accel_device *device, const accel_tensor *like,
                                      accel_device_tensor **out);
void accel__device_tensor_free(accel_device_tensor *tensor);
const accel_tensor *accel__device_tensor_view(const accel_device_tensor *tensor); /* data NULL */
/* All of the tensor's bytes, now. */
accel_status accel__device_tensor_write(accel_device_tensor *tensor, const void *data);
accel_status accel__device_tensor_read(const accel_device_tensor *tensor, void *data);

/* The device's one stream, made at the first call: copies in order on a thread of its own. */
accel_status accel__device_stream(accel_device *device, accel_device_stream **out);
/* Exactly one of write, read is not NULL; it stays the caller's and lives until synchronize. */
accel_status accel__stream_copy(accel_device_stream *stream, accel_device_tensor *tensor,
                                const void *write, void *read);
accel_status accel__stream_synchronize(accel_device_stream *stream);
accel_device *accel__stream_device(accel_device_stream *stream);
void accel__stream_free(accel_device_stream *stream); /* does what waits, then ends */
accel_status accel__stream_new(accel_device *device, accel_device_stream **out);

#endif
