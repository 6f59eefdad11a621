/* wgp_stream.c - the commands of a run, in submissions that stay short.
 *
 * A driver takes a card away from a program whose submission runs for seconds, and one long
 * submission freezes a desktop. So commands are submitted in batches of at most `quota` of work
 * (workgroups, and KiB copied), with the quota of a device led by the time that batches take toward
 * TARGET_S: doubled while they are shorter, halved when one was longer than twice of it.  Up to
 * WGP_IN_FLIGHT - 1 batches run while the next is being recorded.
 *
 * WebGPU orders commands itself: a dispatch sees what was written before it.  Commands are encoded
 * anew for each run, as a command buffer is submitted once. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "webgpu/wgp.h"

static const double TARGET_S = 0.05;
static const uint64_t LARGEST_QUOTA = 1ull << 40;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- waiting ---- */

static void learn(gpu_device *d, double seconds, uint64_t work) {
  unsigned long long quota = atomic_load(&d->quota), wanted = quota;
  if (seconds > 2 * TARGET_S && quota > 1)
    wanted = quota / 2;
  else if (seconds < TARGET_S / 2 && work >= quota / 2 && quota < LARGEST_QUOTA)
    wanted = quota * 2;
  if (wanted != quota) atomic_compare_exchange_strong(&d->quota, &quota, wanted);
}

static int32_t wait_oldest(gpu_stream *s, accel_plugin_error *error) {
  const wgp_batch *b = &s->flying[s->first];
  wgp_forget();
  wgp_wait(s->device, b->index);
  const double end = now(), took = end - (b->began > s->ended ? b->began : s->ended);
  s->ended = end;
  learn(s->device, took, b->work);
  s->first = (s->first + 1) % WGP_IN_FLIGHT;
  s->n_flying--;
  return wgp_check(s->device, "waiting for the WebGPU device", error);
}

/* ---- encoding ---- */

static void end_pass(gpu_stream *s) {
  const wgp_functions *f = s->device->f;
  if (!s->pass) return;
  f->ComputePassEncoderEnd(s->pass);
  f->ComputePassEncoderRelease(s->pass);
  s->pass = NULL;
}

static void drop_encoder(gpu_stream *s) {
  end_pass(s);
  if (s->encoder) s->device->f->CommandEncoderRelease(s->encoder);
  s->encoder = NULL;
  s->n_staged = 0;
  s->n_params = 0;
}

static int32_t submit(gpu_stream *s, accel_plugin_error *error) {
  gpu_device *d = s->device;
  const wgp_functions *f = d->f;
  wgp_forget();
  end_pass(s);
  WGPUCommandBuffer commands = f->CommandEncoderFinish(s->encoder, NULL);
  if (s->n_staged) f->QueueWriteBuffer(d->queue, s->updates->handle, 0, s->staged, s->n_staged);
  if (s->n_params)
    f->QueueWriteBuffer(d->queue, s->params->handle, 0, s->params_staged,
                        (size_t)s->n_params * d->stride);
  const int32_t rc = wgp_check(d, "recording commands", error);
  if (!rc) {
    wgp_batch *b = &s->flying[(s->first + s->n_flying++) % WGP_IN_FLIGHT];
    atomic_store(&d->unsubmitted, 0);
    *b = (wgp_batch){
        .index = f->QueueSubmitForIndex(d->queue, 1, &commands), .work = s->work, .began = now()};
  }
  f->CommandBufferRelease(commands);
  drop_encoder(s);
  return rc;
}

/* An encoder that takes one more command. */
static int32_t open_encoder(gpu_stream *s, accel_plugin_error *error) {
  gpu_device *d = s->device;
  int32_t rc = atomic_load(&d->lost) ? wgp_lost(error) : ACCEL_PLUGIN_OK;
  if (rc || s->encoder) return rc;
  if (s->n_flying == WGP_IN_FLIGHT - 1) rc = wait_oldest(s, error);
  if (rc) return rc;
  wgp_forget();
  s->encoder = d->f->DeviceCreateCommandEncoder(d->handle, NULL);
  s->work = 0;
  s->commands = 0;
  return wgp_check(d, "recording commands", error);
}

static int32_t added(gpu_stream *s, uint64_t work, accel_plugin_error *error) {
  s->work += work;
  s->commands++;
  return s->work >= atomic_load(&s->device->quota) || s->commands >= WGP_COMMANDS ? submit(s, error)
                                                                                  : ACCEL_PLUGIN_OK;
}

static void open_pass(gpu_stream *s) {
  if (s->pass) return;
  s->pass = s->device->f->CommandEncoderBeginComputePass(s->encoder, NULL);
  s->pipeline = NULL;
}

/* Offsets of bindings are multiples of the device's alignment; what is between goes to the kernel as
 * elements. */
static void bind_apart(const gpu_device *d, const gpu_dispatch *what, wgp_binds *out) {
  out->n = what->n_bind;
  out->names = wgp_names_apart(what->n_bind);
  for (uint32_t i = 0; i < what->n_bind; i++) {
    const gpu_binding *b = &what->bind[i];
    const uint64_t extra = b->offset % d->limits.align;
    out->entry[i] = (WGPUBindGroupEntry){.binding = i,
                                         .buffer = b->buffer->handle,
                                         .offset = b->offset - extra,
                                         .size = b->bytes + extra};
    out->at[i] = (uint32_t)(extra / 4);
  }
}

/* The place of the next dispatch's parameters, which the submission writes. */
static int32_t params_place(gpu_stream *s, WGPUBindGroupEntry *entry, uint32_t *offset,
                            accel_plugin_error *error) {
  const size_t bytes = (size_t)WGP_COMMANDS * s->device->stride;
  if (!s->params_staged) s->params_staged = calloc(1, bytes);
  if (!s->params_staged) return kit_no_memory(error, bytes);
  if (!s->params) {
    const int32_t rc = wgp_alloc_for(s->device, WGPUBufferUsage_Uniform | WGPUBufferUsage_CopyDst,
                                     bytes, &s->params, error);
    if (rc) return rc;
  }
  entry->buffer = s->params->handle;
  entry->offset = 0;
  entry->size = GPU_PARAMS;
  *offset = s->n_params++ * s->device->stride;
  return ACCEL_PLUGIN_OK;
}

/* The dispatch with what it binds and its words: the elements at which buffers begin, and its
 * parameters. */
static int32_t encode(gpu_stream *s, const gpu_dispatch *what, WGPUComputePipeline pipeline,
                      wgp_binds *binds, accel_plugin_error *error) {
  const gpu_device *d = s->device;
  const wgp_functions *f = d->f;
  const uint32_t n = 4 * what->n_bind + what->params_bytes;
  uint8_t words[GPU_PARAMS];
  uint32_t offset = 0;
  memcpy(words, binds->at, (size_t)4 * what->n_bind);
  memcpy(words + (size_t)4 * what->n_bind, what->params, what->params_bytes);
  if (d->card->wgsl) {
    binds->entry[binds->n] = (WGPUBindGroupEntry){.binding = binds->n};
    const int32_t rc = params_place(s, &binds->entry[binds->n], &offset, error);
    if (rc) return rc;
    memcpy(s->params_staged + offset, words, n);
  }
  const WGPUBindGroupDescriptor wanted = {.layout = d->layout[binds->n].group,
                                          .entryCount = binds->n + d->card->wgsl,
                                          .entries = binds->entry};
  wgp_forget();
  WGPUBindGroup group = f->DeviceCreateBindGroup(d->handle, &wanted);
  int32_t rc = wgp_check(s->device, gpu_kernels[what->kernel].name, error);
  if (!rc) {
    open_pass(s);
    if (s->pipeline != pipeline) f->ComputePassEncoderSetPipeline(s->pass, pipeline);
    s->pipeline = pipeline;
    f->ComputePassEncoderSetBindGroup(s->pass, 0, group, d->card->wgsl, &offset);
    if (!d->card->wgsl) f->ComputePassEncoderSetImmediates(s->pass, 0, words, n);
    f->ComputePassEncoderDispatchWorkgroups(s->pass, what->groups[0], what->groups[1],
                                            what->groups[2]);
    rc = wgp_check(s->device, gpu_kernels[what->kernel].name, error);
  }
  f->BindGroupRelease(group);
  return rc;
}

int32_t wgp_dispatch(gpu_stream *s, const gpu_dispatch *what, accel_plugin_error *error) {
  gpu_device *d = s->device;
  WGPUComputePipeline pipeline;
  wgp_binds binds;
  int32_t rc = ACCEL_PLUGIN_OK;
  if (d->card->wgsl)
    rc = wgp_wgsl_bind(d, what, &binds, error);
  else
    bind_apart(d, what, &binds);
  if (!rc) rc = wgp_pipeline(d, what->kernel, binds.names, &pipeline, error);
  if (!rc) rc = open_encoder(s, error);
  if (!rc) rc = encode(s, what, pipeline, &binds, error);
  return rc ? rc
            : added(s, (uint64_t)what->groups[0] * what->groups[1] * what->groups[2] + 1, error);
}

/* Within one buffer WebGPU copies nothing: a kernel does, in parts that a binding holds. */
static int32_t copy_within(gpu_stream *s, const gpu_binding *to, const gpu_binding *from,
                           accel_plugin_error *error) {
  enum { LOCAL = 128 };
  const gpu_device *d = s->device;
  const uint64_t most = d->limits.binding < 1u << 30 ? d->limits.binding / 4 * 4 : 1u << 30;
  int32_t rc = ACCEL_PLUGIN_OK;
  for (uint64_t at = 0; !rc && at < to->bytes; at += most) {
    const uint64_t bytes = to->bytes - at < most ? to->bytes - at : most,
                   groups = (bytes / 4 + LOCAL - 1) / LOCAL;
    const gpu_binding bind[2] = {{from->buffer, from->offset + at, bytes},
                                 {to->buffer, to->offset + at, bytes}};
    const int32_t n = (int32_t)(bytes / 4), params[9] = {n, n, 1, 1, 1, 0, 0, 0, 0};
    const gpu_dispatch what = {
        .kernel = GPU_K_move_3, /* n; d2 s2 t2; d1 s1 t1; s0 t0: along one dim */
        .n_bind = 2,
        .bind = bind,
        .params = params,
        .params_bytes = sizeof params,
        .groups = {groups < d->limits.groups[0] ? (uint32_t)groups : d->limits.groups[0], 1, 1}};
    rc = wgp_dispatch(s, &what, error);
  }
  return rc;
}

static int32_t copy_across(gpu_stream *s, WGPUBuffer from, uint64_t from_offset,
                           const gpu_binding *to, accel_plugin_error *error) {
  gpu_device *d = s->device;
  wgp_forget();
  end_pass(s);
  d->f->CommandEncoderCopyBufferToBuffer(s->encoder, from, from_offset, to->buffer->handle,
                                         to->offset, to->bytes);
  const int32_t rc = wgp_check(d, "copying", error);
  return rc ? rc : added(s, to->bytes / 1024 + 1, error);
}

int32_t wgp_copy(gpu_stream *s, const gpu_binding *to, const gpu_binding *from,
                 accel_plugin_error *error) {
  if (to->buffer == from->buffer) return copy_within(s, to, from, error);
  const int32_t rc = open_encoder(s, error);
  return rc ? rc : copy_across(s, from->buffer->handle, from->offset, to, error);
}

int32_t wgp_update(gpu_stream *s, const gpu_binding *to, const void *from,
                   accel_plugin_error *error) {
  if (s->encoder && s->n_staged + to->bytes > WGP_UPDATES) { /* the next one has room */
    const int32_t rc = submit(s, error);
    if (rc) return rc;
  }
  int32_t rc = ACCEL_PLUGIN_OK;
  if (!s->staged) s->staged = calloc(1, WGP_UPDATES);
  if (!s->staged) return kit_no_memory(error, WGP_UPDATES);
  if (!s->updates) rc = wgp_alloc(s->device, WGP_UPDATES, false, &s->updates, NULL, error);
  if (!rc) rc = open_encoder(s, error);
  if (rc) return rc;
  const uint32_t at = s->n_staged;
  memcpy(s->staged + at, from, (size_t)to->bytes);
  s->n_staged += (uint32_t)(to->bytes + 15) / 16 * 16;
  return copy_across(s, s->updates->handle, at, to, error);
}

/* Without a clock of the device nothing is told. */
int32_t wgp_mark(gpu_stream *s, double *us, accel_plugin_error *error) {
  (void)s, (void)us, (void)error;
  return ACCEL_PLUGIN_OK;
}

/* ---- runs ---- */

int32_t wgp_begin(gpu_device *d, const accel_plugin_host *host, gpu_stream **out,
                  accel_plugin_error *error) {
  (void)host;
  *out = NULL;
  if (atomic_load(&d->lost)) return wgp_lost(error);
  pthread_mutex_lock(&d->stream_lock);
  gpu_stream *s = d->idle;
  if (s) d->idle = s->next;
  pthread_mutex_unlock(&d->stream_lock);
  if (!s) s = calloc(1, sizeof *s);
  if (!s) return kit_no_memory(error, sizeof *s);
  s->device = d;
  *out = s;
  return ACCEL_PLUGIN_OK;
}

int32_t wgp_end(gpu_stream *s, bool abandon, double *device_ms, accel_plugin_error *error) {
  (void)device_ms; /* no clock of the device */
  gpu_device *d = s->device;
  int32_t rc = ACCEL_PLUGIN_OK;
  if (s->encoder && !abandon) rc = submit(s, error);
  drop_encoder(s);
  while (s->n_flying) {
    const int32_t waited = wait_oldest(s, rc ? NULL : error);
    if (!rc) rc = waited;
  }
  pthread_mutex_lock(&d->stream_lock);
  s->next = d->idle;
  d->idle = s;
  pthread_mutex_unlock(&d->stream_lock);
  return rc;
}

void wgp_streams_free(gpu_device *d) {
  for (gpu_stream *s = d->idle, *next; s; s = next) {
    next = s->next;
    wgp_release(d, s->updates);
    wgp_release(d, s->params);
    free(s->staged);
    free(s->params_staged);
    free(s);
  }
  d->idle = NULL;
}
