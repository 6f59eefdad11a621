/* ocl_stream.c - allocations, copies, and runs: one in-order queue each, kept for the next run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opencl/ocl.h"

enum { FLUSH = 32 }; /* commands after which the device is told to start */

struct gpu_buffer {
  /* its room: where a CPU device works, in huge pages, which its driver does not ask for */
  ocl_used host;
  cl_mem mem;
  uint64_t bytes;
  void *mapped; /* of host memory, for its life */
  bool is_host; /* and not counted as the device's */
};

typedef struct kept { /* host bytes that a queued write still reads */
  ocl_used host;
  uint32_t data[];
} kept;

typedef struct command_time { /* a command of a profiled run */
  cl_event event;
  double *us;
} command_time;

struct gpu_stream {
  gpu_device *device;
  const accel_plugin_host *host;
  ocl_queue *queue;
  ocl_used *updates;
  uint32_t queued;
  double *us; /* of the last mark; NULL: nobody asks */
  command_time *timed;
  uint32_t n_timed, room_timed;
  cl_event event; /* of the command being queued */
};

/* ---- queues ---- */

/* An idle one or a new one, until queue_give. */
static int32_t queue_take(gpu_device *d, bool timed, ocl_queue **out, accel_plugin_error *error) {
  if (atomic_load(&d->lost))
    return kit_fail(error, ACCEL_PLUGIN_E_DEVICE_LOST, -1, "%s was lost", d->info.name);
  pthread_mutex_lock(&d->lock);
  ocl_queue **at = &d->idle;
  while (*at && (*at)->timed != timed) at = &(*at)->next;
  ocl_queue *q = *at;
  if (q) *at = q->next;
  pthread_mutex_unlock(&d->lock);
  *out = q;
  if (q) return ACCEL_PLUGIN_OK;
  cl_int code;
  q = calloc(1, sizeof *q);
  if (!q) return kit_no_memory(error, sizeof *q);
  q->timed = timed;
  q->queue =
      ocl.clCreateCommandQueue(d->context, d->id, timed ? CL_QUEUE_PROFILING_ENABLE : 0, &code);
  if (code) {
    free(q);
    return ocl_fail(d, code, "clCreateCommandQueue", error);
  }
  *out = q;
  return ACCEL_PLUGIN_OK;
}

static void queue_give(gpu_device *d, ocl_queue *q) {
  pthread_mutex_lock(&d->lock);
  q->next = d->idle;
  d->idle = q;
  pthread_mutex_unlock(&d->lock);
}

/* ---- memory ---- */

/* Frees what commands used.  Of a lost device they may go on: then ocl_close does. */
static void used_free(gpu_device *d, ocl_used *m) {
  if (atomic_load(&d->lost)) {
    pthread_mutex_lock(&d->lock);
    m->next = d->left;
    d->left = m;
    pthread_mutex_unlock(&d->lock);
    return;
  }
  free(m->room);
  free(m);
}

static cl_int map_buffer(gpu_device *d, gpu_buffer *b, accel_plugin_error *error) {
  ocl_queue *q;
  cl_int code = queue_take(d, false, &q, error);
  if (code) return code;
  b->mapped = ocl.clEnqueueMapBuffer(q->queue, b->mem, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0,
                                     b->bytes, 0, NULL, NULL, &code);
  queue_give(d, q);
  return code ? ocl_fail(d, code, "clEnqueueMapBuffer", error) : ACCEL_PLUGIN_OK;
}

int32_t ocl_alloc(gpu_device *d, uint64_t bytes, bool host, gpu_buffer **out, void **mapped,
                  accel_plugin_error *error) {
  gpu_buffer *b = calloc(1, sizeof *b);
  cl_int code;
  if (!b) return kit_no_memory(error, sizeof *b);
  const uint64_t ours = atomic_load(&d->allocated);
  /* host memory is none of the device's */
  if (!host && d->limits.memory && (bytes > d->limits.memory || ours > d->limits.memory - bytes)) {
    free(b);
    return kit_fail(error, ACCEL_PLUGIN_E_DEVICE_MEMORY, -1,
                    "%llu bytes beside %llu in use pass the %llu of %.60s: use a smaller batch or "
                    "a smaller precision",
                    (unsigned long long)bytes, (unsigned long long)ours,
                    (unsigned long long)d->limits.memory, d->info.name);
  }
  b->bytes = bytes;
  if (d->limits.cpu) b->host.room = kit_alloc_pages(bytes); /* none: the driver may have some */
  const cl_mem_flags where = b->host.room ? CL_MEM_USE_HOST_PTR : host ? CL_MEM_ALLOC_HOST_PTR : 0;
  b->mem = ocl.clCreateBuffer(d->context, CL_MEM_READ_WRITE | where, bytes, b->host.room, &code);
  if (code) {
    free(b->host.room);
    free(b);
    return ocl_fail(d, code, "clCreateBuffer", error);
  }
  if (!host) atomic_fetch_add(&d->allocated, bytes);
  b->is_host = host;
  const int32_t rc = host ? map_buffer(d, b, error) : ACCEL_PLUGIN_OK;
  if (rc) {
    ocl_release(d, b);
    return rc;
  }
  if (mapped) *mapped = b->mapped;
  *out = b;
  return ACCEL_PLUGIN_OK;
}

void ocl_release(gpu_device *d, gpu_buffer *b) {
  ocl_queue *q;
  if (b->mapped && queue_take(d, false, &q, NULL) == ACCEL_PLUGIN_OK) {
    (void)ocl.clEnqueueUnmapMemObject(q->queue, b->mem, b->mapped, 0, NULL, NULL);
    (void)ocl.clFinish(q->queue);
    queue_give(d, q);
  }
  ocl.clReleaseMemObject(b->mem);
  if (!b->is_host) atomic_fetch_sub(&d->allocated, b->bytes);
  used_free(d, &b->host);
}

/* A blocking write promises no more than that `from` was read: what another queue does next sees
 * the bytes once this one is through (Intel's runtime for processors takes its time). */
int32_t ocl_write(gpu_device *d, const gpu_binding *to, const void *from,
                  accel_plugin_error *error) {
  ocl_queue *q;
  const int32_t rc = queue_take(d, false, &q, error);
  if (rc) return rc;
  cl_int code = ocl.clEnqueueWriteBuffer(q->queue, to->buffer->mem, CL_TRUE, to->offset, to->bytes,
                                         from, 0, NULL, NULL);
  if (!code) code = ocl.clFinish(q->queue);
  queue_give(d, q);
  return code ? ocl_fail(d, code, "clEnqueueWriteBuffer", error) : ACCEL_PLUGIN_OK;
}

int32_t ocl_read(gpu_device *d, void *to, const gpu_binding *from, accel_plugin_error *error) {
  ocl_queue *q;
  const int32_t rc = queue_take(d, false, &q, error);
  if (rc) return rc;
  const cl_int code = ocl.clEnqueueReadBuffer(q->queue, from->buffer->mem, CL_TRUE, from->offset,
                                              from->bytes, to, 0, NULL, NULL);
  queue_give(d, q);
  return code ? ocl_fail(d, code, "clEnqueueReadBuffer", error) : ACCEL_PLUGIN_OK;
}

/* ---- runs ---- */

int32_t ocl_begin(gpu_device *d, const accel_plugin_host *host, gpu_stream **out,
                  accel_plugin_error *error) {
  gpu_stream *s = calloc(1, sizeof *s);
  if (!s) return kit_no_memory(error, sizeof *s);
  s->device = d;
  s->host = host;
  const int32_t rc = queue_take(d, host && host->profile, &s->queue, error);
  if (rc)
    free(s);
  else
    *out = s;
  return rc;
}

int32_t ocl_mark(gpu_stream *s, double *us, accel_plugin_error *error) {
  (void)error;
  s->us = us;
  gpu_add_us(us, 0.0); /* a node without commands takes no time */
  return ACCEL_PLUGIN_OK;
}

/* Where a command that is being queued leaves its event; NULL: nobody asks for its time. */
static cl_event *event_of(gpu_stream *s) {
  s->event = NULL;
  return s->us ? &s->event : NULL;
}

static int32_t keep_event(gpu_stream *s, accel_plugin_error *error) {
  if (s->n_timed == s->room_timed) {
    const uint32_t room = s->room_timed * 2 + 64;
    command_time *list = realloc(s->timed, room * sizeof *list);
    if (!list) {
      ocl.clReleaseEvent(s->event);
      return kit_no_memory(error, room * sizeof *list);
    }
    s->timed = list;
    s->room_timed = room;
  }
  s->timed[s->n_timed++] = (command_time){s->event, s->us};
  return ACCEL_PLUGIN_OK;
}

/* Events of commands that are through. */
static void read_events(gpu_stream *s) {
  for (uint32_t i = 0; i < s->n_timed; i++) {
    cl_ulong from = 0, to = 0;
    cl_event event = s->timed[i].event;
    if (!ocl.clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof from, &from, NULL) &&
        !ocl.clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof to, &to, NULL) &&
        to >= from)
      gpu_add_us(s->timed[i].us, 1e-3 * (double)(to - from));
    ocl.clReleaseEvent(event);
  }
  free(s->timed);
}

static int32_t queued(gpu_stream *s, cl_int code, const char *call, accel_plugin_error *error) {
  if (code) return ocl_fail(s->device, code, call, error);
  if (s->us && s->event) {
    const int32_t rc = keep_event(s, error);
    if (rc) return rc;
  }
  if (++s->queued % FLUSH == 0) (void)ocl.clFlush(s->queue->queue);
  return ACCEL_PLUGIN_OK;
}

/* Every buffer is two arguments: the allocation and the element at which the tensor begins. */
static cl_int set_arguments(const gpu_dispatch *what, cl_kernel kernel) {
  cl_uint at = 0;
  cl_int code = CL_SUCCESS;
  for (uint32_t i = 0; !code && i < what->n_bind; i++) {
    const cl_int first = (cl_int)(what->bind[i].offset / 4);
    code = ocl.clSetKernelArg(kernel, at++, sizeof(cl_mem), &what->bind[i].buffer->mem);
    if (!code) code = ocl.clSetKernelArg(kernel, at++, sizeof first, &first);
  }
  return code ? code : ocl.clSetKernelArg(kernel, at, what->params_bytes, what->params);
}

int32_t ocl_dispatch(gpu_stream *s, const gpu_dispatch *what, accel_plugin_error *error) {
  ocl_kernel *k = &s->device->kernel[what->kernel];
  const size_t local[3] = {ocl_kernel_info(what->kernel)->local, 1, 1};
  const size_t global[3] = {what->groups[0] * local[0], what->groups[1], what->groups[2]};
  pthread_mutex_lock(&k->lock);
  const int32_t rc = ocl_kernel_get(s->device, what->kernel, s->host, error);
  cl_int code = CL_SUCCESS;
  if (!rc) {
    code = set_arguments(what, k->kernel);
    if (!code)
      code = ocl.clEnqueueNDRangeKernel(s->queue->queue, k->kernel, 3, NULL, global, local, 0, NULL,
                                        event_of(s));
  }
  pthread_mutex_unlock(&k->lock);
  return rc ? rc : queued(s, code, ocl_kernel_info(what->kernel)->name, error);
}

/* From memory that the host sees it is a write: such a buffer stays mapped, and no command may read
 * it meanwhile. */
int32_t ocl_copy(gpu_stream *s, const gpu_binding *to, const gpu_binding *from,
                 accel_plugin_error *error) {
  if (from->buffer->mapped)
    return queued(
        s,
        ocl.clEnqueueWriteBuffer(s->queue->queue, to->buffer->mem, CL_FALSE, to->offset, to->bytes,
                                 (char *)from->buffer->mapped + from->offset, 0, NULL, event_of(s)),
        "clEnqueueWriteBuffer", error);
  const cl_int code =
      ocl.clEnqueueCopyBuffer(s->queue->queue, from->buffer->mem, to->buffer->mem, from->offset,
                              to->offset, to->bytes, 0, NULL, event_of(s));
  return queued(s, code, "clEnqueueCopyBuffer", error);
}

int32_t ocl_update(gpu_stream *s, const gpu_binding *to, const void *from,
                   accel_plugin_error *error) {
  kept *k = malloc(sizeof *k + to->bytes);
  if (!k) return kit_no_memory(error, to->bytes);
  memcpy(k->data, from, to->bytes);
  k->host = (ocl_used){.next = s->updates};
  s->updates = &k->host;
  const cl_int code =
      ocl.clEnqueueWriteBuffer(s->queue->queue, to->buffer->mem, CL_FALSE, to->offset, to->bytes,
                               k->data, 0, NULL, event_of(s));
  return queued(s, code, "clEnqueueWriteBuffer", error);
}

int32_t ocl_end(gpu_stream *s, bool abandon, double *device_ms, accel_plugin_error *error) {
  const cl_int code = ocl.clFinish(s->queue->queue);
  if (code) atomic_store(&s->device->lost, true); /* nobody knows what still runs */
  const int32_t ended =
      code ? ocl_fail(s->device, code, "clFinish", abandon ? NULL : error) : ACCEL_PLUGIN_OK;
  (void)device_ms;
  read_events(s);
  for (ocl_used *m = s->updates, *next; m; m = next) {
    next = m->next;
    used_free(s->device, m);
  }
  queue_give(s->device, s->queue);
  free(s);
  return abandon ? ACCEL_PLUGIN_OK : ended;
}

/* ---- copies beside a run ---- */

int32_t ocl_begin_copies(gpu_device *d, const accel_plugin_host *host, gpu_stream **out,
                         accel_plugin_error *error) {
  (void)host; /* nobody asks for its times */
  return ocl_begin(d, NULL, out, error);
}

struct gpu_event {
  cl_event event; /* NULL: not recorded yet */
};

int32_t ocl_event_new(gpu_device *d, gpu_event **out, accel_plugin_error *error) {
  (void)d;
  *out = calloc(1, sizeof **out);
  return *out ? ACCEL_PLUGIN_OK : kit_no_memory(error, sizeof **out);
}

void ocl_event_free(gpu_device *d, gpu_event *e) {
  (void)d;
  if (e && e->event) ocl.clReleaseEvent(e->event);
  free(e);
}

int32_t ocl_record(gpu_stream *s, gpu_event *e, accel_plugin_error *error) {
  cl_event event = NULL;
  cl_int code = ocl.clEnqueueMarkerWithWaitList(s->queue->queue, 0, NULL, &event);
  if (code) return ocl_fail(s->device, code, "clEnqueueMarkerWithWaitList", error);
  if (e->event) ocl.clReleaseEvent(e->event);
  e->event = event;
  code = ocl.clFlush(s->queue->queue); /* or who waits for it might wait for ever */
  return code ? ocl_fail(s->device, code, "clFlush", error) : ACCEL_PLUGIN_OK;
}

int32_t ocl_wait(gpu_stream *s, gpu_event *e, accel_plugin_error *error) {
  const cl_int code =
      e->event ? ocl.clEnqueueBarrierWithWaitList(s->queue->queue, 1, &e->event, NULL) : CL_SUCCESS;
  return code ? ocl_fail(s->device, code, "clEnqueueBarrierWithWaitList", error) : ACCEL_PLUGIN_OK;
}

int32_t ocl_reached(gpu_device *d, gpu_event *e, bool wait, bool *out, accel_plugin_error *error) {
  cl_int state = CL_COMPLETE;
  cl_int code = e->event && wait ? ocl.clWaitForEvents(1, &e->event) : CL_SUCCESS;
  if (e->event && !code)
    code =
        ocl.clGetEventInfo(e->event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
  if (!code && state < 0) code = state; /* what the commands before it ended with */
  *out = !code && state == CL_COMPLETE;
  return code ? ocl_fail(d, code, "waiting for an event", error) : ACCEL_PLUGIN_OK;
}
