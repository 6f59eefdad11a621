/* wgp_memory.c - buffers, and copies between them and the host. */
#include <stdlib.h>
#include <string.h>

#include "webgpu/wgp.h"

int32_t wgp_alloc_for(gpu_device *d, uint64_t usage, uint64_t bytes, gpu_buffer **out,
                      accel_plugin_error *error) {
  static const uint64_t unit = 256;
  *out = NULL;
  if (atomic_load(&d->lost)) return wgp_lost(error);
  const uint64_t whole = bytes ? (bytes + unit - 1) / unit * unit : unit;
  gpu_buffer *b = calloc(1, sizeof *b);
  if (!b) return kit_no_memory(error, sizeof *b);
  const WGPUBufferDescriptor wanted = {.usage = usage, .size = whole};
  int32_t rc = ACCEL_PLUGIN_E_DEVICE_MEMORY;
  wgp_forget();
  if (whole >= bytes && whole <= d->limits.buffer) {
    b->handle = d->f->DeviceCreateBuffer(d->handle, &wanted);
    rc = wgp_check(d, "allocating", error);
  }
  if (!rc && b->handle) {
    b->bytes = whole;
    atomic_fetch_add(&d->allocated, whole);
    *out = b;
    return rc;
  }
  if (b->handle) d->f->BufferRelease(b->handle);
  free(b);
  if (!rc || rc == ACCEL_PLUGIN_E_DEVICE_MEMORY)
    rc = kit_fail(error, ACCEL_PLUGIN_E_DEVICE_MEMORY, -1,
                  "%llu bytes of device memory were refused beside the %llu that are allocated "
                  "(%llu in one piece): use a smaller batch, a lower precision or another device",
                  (unsigned long long)bytes, (unsigned long long)atomic_load(&d->allocated),
                  (unsigned long long)d->limits.buffer);
  return rc;
}

int32_t wgp_alloc(gpu_device *d, uint64_t bytes, bool host, gpu_buffer **out, void **mapped,
                  accel_plugin_error *error) {
  *out = NULL;
  if (mapped) *mapped = NULL;
  if (host)
    return kit_fail(error, ACCEL_PLUGIN_E_UNSUPPORTED, -1,
                    "WebGPU has no memory that stays mapped while a device uses it");
  return wgp_alloc_for(d,
                       WGPUBufferUsage_Storage | WGPUBufferUsage_CopySrc | WGPUBufferUsage_CopyDst,
                       bytes, out, error);
}

void wgp_release(gpu_device *d, gpu_buffer *b) {
  if (!b) return;
  atomic_fetch_sub(&d->allocated, b->bytes);
  d->f->BufferRelease(b->handle);
  free(b);
}

/* Starts the writes that wait for a submission, and waits for them: until then wgpu-native keeps a
 * copy of what they write. */
static int32_t flush(gpu_device *d, accel_plugin_error *error) {
  wgp_forget();
  atomic_store(&d->unsubmitted, 0);
  wgp_wait(d, d->f->QueueSubmitForIndex(d->queue, 0, NULL));
  return wgp_check(d, "writing", error);
}

int32_t wgp_write(gpu_device *d, const gpu_binding *to, const void *from,
                  accel_plugin_error *error) {
  int32_t rc = atomic_load(&d->lost) ? wgp_lost(error) : ACCEL_PLUGIN_OK;
  for (uint64_t done = 0; !rc && done < to->bytes;) {
    const uint64_t n = to->bytes - done < WGP_STAGING ? to->bytes - done : WGP_STAGING;
    wgp_forget();
    d->f->QueueWriteBuffer(d->queue, to->buffer->handle, to->offset + done,
                           (const char *)from + done, (size_t)n);
    rc = wgp_check(d, "writing", error);
    if (!rc && atomic_fetch_add(&d->unsubmitted, n) + n > WGP_UNSUBMITTED) rc = flush(d, error);
    done += n;
  }
  return rc;
}

/* ---- reading ---- */

/* gpu_device.mapped: 0 not yet, 1 done, -1 refused. */
static void on_mapped(uint32_t status, WGPUStringView message, void *user1, void *user2) {
  gpu_device *d = user1;
  (void)message, (void)user2;
  atomic_store(&d->mapped, status == WGPUMapAsyncStatus_Success ? 1 : -1);
}

static int32_t submit_copy(gpu_device *d, const gpu_binding *from, uint64_t *submission,
                           accel_plugin_error *error) {
  const wgp_functions *f = d->f;
  WGPUCommandEncoder e = f->DeviceCreateCommandEncoder(d->handle, NULL);
  f->CommandEncoderCopyBufferToBuffer(e, from->buffer->handle, from->offset, d->staging, 0,
                                      from->bytes);
  WGPUCommandBuffer commands = f->CommandEncoderFinish(e, NULL);
  const int32_t rc = wgp_check(d, "reading", error);
  if (!rc) {
    atomic_store(&d->unsubmitted, 0);
    *submission = f->QueueSubmitForIndex(d->queue, 1, &commands);
  }
  f->CommandBufferRelease(commands);
  f->CommandEncoderRelease(e);
  return rc;
}

/* At most WGP_STAGING bytes, with the staging buffer's lock held. */
static int32_t read_piece(gpu_device *d, void *to, const gpu_binding *from,
                          accel_plugin_error *error) {
  const wgp_functions *f = d->f;
  const WGPUBufferMapCallbackInfo then = {
      .mode = WGPUCallbackMode_AllowSpontaneous, .callback = on_mapped, .userdata1 = d};
  uint64_t submission = 0;
  wgp_forget();
  int32_t rc = submit_copy(d, from, &submission, error);
  if (rc) return rc;
  atomic_store(&d->mapped, 0);
  f->BufferMapAsync(d->staging, WGPUMapMode_Read, 0, (size_t)from->bytes, then);
  wgp_wait(d, submission);
  rc = wgp_check(d, "reading", error);
  if (!rc && atomic_load(&d->mapped) != 1)
    rc = kit_fail(error, ACCEL_PLUGIN_E_DRIVER, -1, "the WebGPU device maps no result");
  if (rc) return rc;
  memcpy(to, f->BufferGetConstMappedRange(d->staging, 0, (size_t)from->bytes), (size_t)from->bytes);
  f->BufferUnmap(d->staging);
  return ACCEL_PLUGIN_OK;
}

static int32_t make_staging(gpu_device *d, accel_plugin_error *error) {
  const WGPUBufferDescriptor wanted = {.usage = WGPUBufferUsage_MapRead | WGPUBufferUsage_CopyDst,
                                       .size = WGP_STAGING};
  wgp_forget();
  WGPUBuffer made = d->f->DeviceCreateBuffer(d->handle, &wanted);
  const int32_t rc = wgp_check(d, "allocating the buffer of results", error);
  if (rc && made)
    d->f->BufferRelease(made);
  else
    d->staging = made;
  return rc;
}

int32_t wgp_read(gpu_device *d, void *to, const gpu_binding *from, accel_plugin_error *error) {
  int32_t rc = atomic_load(&d->lost) ? wgp_lost(error) : ACCEL_PLUGIN_OK;
  pthread_mutex_lock(&d->staging_lock);
  if (!rc && !d->staging) rc = make_staging(d, error);
  for (uint64_t done = 0; !rc && done < from->bytes; done += WGP_STAGING) {
    const uint64_t n = from->bytes - done < WGP_STAGING ? from->bytes - done : WGP_STAGING;
    const gpu_binding piece = {from->buffer, from->offset + done, n};
    rc = read_piece(d, (char *)to + done, &piece, error);
  }
  pthread_mutex_unlock(&d->staging_lock);
  return rc;
}
