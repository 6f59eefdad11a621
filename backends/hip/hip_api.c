/* hip_api.c - gpu_api over the runtime's table: devices that are opened once and shared, memory,
 * runs.
 *
 * Everything that waits for its end has a stream of the runtime; streams are kept from run to
 * run. Errors from which a vendor's runtime does not recover (an illegal address, a failed
 * launch) make the device lost until all endpoints that share it are closed. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hip/hip.h"

enum { STAGING = 1 << 20, MAX_DEVICES = 64, NO_BLOCKING = 1, NO_MAPPING = 0, NO_TIMES = 2 };
enum { ALL_MATRICES = GPU_VARIANT_MATRIX_F16 | GPU_VARIANT_MATRIX_BF16 | GPU_VARIANT_MATRIX_I8 };

struct gpu_device {
  const hip_runtime *runtime;
  int index;
  uint32_t users;
  char arch[64];
  void *context, *module;
  void *function[GPU_KERNELS];
  atomic_bool lost;
  pthread_mutex_t lock;
  gpu_stream *idle;
};

struct gpu_buffer {
  uint64_t address, bytes;
  void *host; /* staging: host memory that the device sees */
};

struct gpu_stream {
  gpu_stream *next;
  gpu_device *device;
  void *stream, *first, *last; /* events around a run */
  void *staging;               /* of update: memory the device reads at its leisure */
  uint64_t staged;
  /* A run's updates go through a stream of their own, so that its kernels do not wait for one
   * engine after the other; `updated` is reached there when all that were asked for are done. */
  void *updates, *updated; /* made at the first one */
  bool pending;            /* updates that the run's stream does not wait for yet */
  void **mark;             /* [room_mark] events of profiled runs, made once */
  double **us;             /* [room_mark] where the time from a mark to the next goes */
  uint32_t n_mark, room_mark;
  bool copies;  /* of hip_begin_copies */
  void *before; /* whose device was current on the run's thread */
};

static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER; /* of opened and its users */
static gpu_device *opened[MAX_DEVICES];

/* ---- errors ---- */

static bool is_fatal(int code) {
  return code == HIP_ILLEGAL_ADDRESS || code == HIP_LAUNCH_FAILURE ||
         code == 214 /* memory error */ || code == 702 /* timeout */ ||
         (code >= 709 && code <= 718) || code == 999;
}

static int32_t vendor_fail(gpu_device *d, accel_plugin_error *error, int code, int32_t node,
                           const char *doing) {
  const hip_runtime *r = d->runtime;
  if (is_fatal(code) && !r->bounds) atomic_store(&d->lost, true);
  int32_t rc = code == HIP_OUT_OF_MEMORY      ? ACCEL_PLUGIN_E_DEVICE_MEMORY
               : is_fatal(code) && !r->bounds ? ACCEL_PLUGIN_E_DEVICE_LOST
                                              : ACCEL_PLUGIN_E_DRIVER;
  kit_fail(error, rc, node, "%s: error %d, %s", doing, code, r->text(code));
  if (error) error->native = code;
  return rc;
}

static int32_t use(gpu_device *d, void **before, accel_plugin_error *error) {
  if (atomic_load(&d->lost))
    return kit_fail(error, ACCEL_PLUGIN_E_DEVICE_LOST, -1,
                    "device %d was lost in an earlier call: clean up its endpoints", d->index);
  int code = d->runtime->enter(d->index, d->context, before);
  return code ? vendor_fail(d, error, code, -1, "making the device current") : ACCEL_PLUGIN_OK;
}

/* ---- streams ---- */

static void stream_free(gpu_stream *s) {
  const hip_runtime *r = s->device->runtime;
  if (s->first) r->event_free(s->first);
  if (s->last) r->event_free(s->last);
  for (uint32_t i = 0; i < s->room_mark; i++)
    if (s->mark[i]) r->event_free(s->mark[i]);
  free(s->mark);
  free(s->us);
  if (s->staging) r->host_release(s->staging);
  if (s->updated) r->event_free(s->updated);
  if (s->updates) r->stream_free(s->updates);
  if (s->stream) r->stream_free(s->stream);
  free(s);
}

/* The device is current. */
static int32_t stream_take(gpu_device *d, gpu_stream **out, accel_plugin_error *error) {
  const hip_runtime *r = d->runtime;
  pthread_mutex_lock(&d->lock);
  gpu_stream *s = d->idle;
  if (s) d->idle = s->next;
  pthread_mutex_unlock(&d->lock);
  *out = s;
  if (s) return ACCEL_PLUGIN_OK;
  s = calloc(1, sizeof *s);
  if (!s) return kit_no_memory(error, sizeof *s);
  s->device = d;
  int code = r->stream_new(&s->stream, NO_BLOCKING);
  if (!code) code = r->event_new(&s->first, 0);
  if (!code) code = r->event_new(&s->last, 0);
  if (code) {
    stream_free(s);
    return vendor_fail(d, error, code, -1, "making a stream");
  }
  *out = s;
  return ACCEL_PLUGIN_OK;
}

static void stream_give(gpu_stream *s) {
  gpu_device *d = s->device;
  pthread_mutex_lock(&d->lock);
  s->next = d->idle;
  d->idle = s;
  pthread_mutex_unlock(&d->lock);
}

/* ---- devices ---- */

static void device_free(gpu_device *d) {
  void *before = NULL;
  const hip_runtime *r = d->runtime;
  bool in = !r->enter(d->index, d->context, &before);
  while (d->idle) {
    gpu_stream *s = d->idle;
    d->idle = s->next;
    stream_free(s);
  }
  if (d->module) r->module_free(d->module);
  if (in) r->leave(d->index, before);
  r->drop(d->index, d->context);
  pthread_mutex_destroy(&d->lock);
  free(d);
}

static int32_t device_new(const hip_runtime *r, uint32_t index, const accel_plugin_host *host,
                          gpu_device **out, accel_plugin_error *error) {
  void *before = NULL, *context = NULL;
  int code = r->retain((int)index, &context);
  if (code)
    return kit_fail(error, ACCEL_PLUGIN_E_DRIVER, -1, "device %u: error %d, %s", index, code,
                    r->text(code));
  gpu_device *d = calloc(1, sizeof *d);
  if (!d) {
    r->drop((int)index, context);
    return kit_no_memory(error, sizeof *d);
  }
  d->runtime = r;
  d->index = (int)index;
  d->context = context;
  pthread_mutex_init(&d->lock, NULL);
  r->arch((int)index, d->arch, sizeof d->arch);
  int32_t rc = use(d, &before, error);
  if (!rc) {
    rc = hip_load_kernels(r, d->arch, host, &d->module, error);
    r->leave(d->index, before);
  }
  if (rc)
    device_free(d);
  else
    *out = d;
  return rc;
}

/* Of "gfx90a:sramecc+" the part before the colon counts; a name of the list may end in a star:
 * "gfx11*". */
static bool is_one_of(const char *arch, const char *const *list) {
  const size_t n = strcspn(arch, ":");
  for (; *list; list++) {
    const size_t length = strlen(*list);
    if ((*list)[length - 1] == '*' ? n > length - 1 && !memcmp(arch, *list, length - 1)
                                   : n == length && !memcmp(arch, *list, n))
      return true;
  }
  return false;
}

/* What hip_prelude.h has instructions for.  The emulator has the matrix units of all. */
static void fill_units(const gpu_device *d, gpu_limits *l) {
  static const char *const dot[] = {"gfx906",  "gfx908",  "gfx90a", "gfx94*", "gfx950", "gfx1011",
                                    "gfx1012", "gfx103*", "gfx11*", "gfx12*", NULL};
  static const char *const mfma[] = {"gfx908", "gfx90a", "gfx94*", "gfx950", NULL};
  static const char *const wmma[] = {"gfx11*", NULL};
  static const char *const no_bf16[] = {"gfx908", NULL}, *const i8[] = {"gfx908", "gfx90a", NULL};
  int sm = 0;
  if (sscanf(d->arch, "sm_%d", &sm) == 1) {
    l->int_dot = true;
    if (sm >= 80) l->matrix = ALL_MATRICES;
  } else if (d->runtime->bounds) {
    l->emulated = true;
    l->matrix = ALL_MATRICES;
  } else {
    l->int_dot = is_one_of(d->arch, dot);
    if (is_one_of(d->arch, mfma) && l->wave == 64)
      l->matrix = GPU_VARIANT_MATRIX_F16 |
                  (is_one_of(d->arch, no_bf16) ? 0 : GPU_VARIANT_MATRIX_BF16) |
                  (is_one_of(d->arch, i8) ? GPU_VARIANT_MATRIX_I8 : 0);
    l->wmma = is_one_of(d->arch, wmma) && l->wave == 32;
    if (l->wmma) l->matrix = ALL_MATRICES;
  }
}

static void fill_limits(const gpu_device *d, gpu_limits *l) {
  const hip_runtime *r = d->runtime;
  size_t memory = 0;
  if (r->device_memory(&memory, d->index)) memory = 0;
  static const uint64_t indexed = (uint64_t)8 << 30; /* 2^31 elements: the dialect's index */
  const uint64_t known = memory ? memory : (uint64_t)4 << 30,
                 most = known < indexed ? known : indexed;
  *l = (gpu_limits){.binding = most,
                    .buffer = most,
                    .align = 256,
                    .memory = memory,
                    .groups = {(uint32_t)hip_ask(r, HIP_GRID_X, d->index, 65535),
                               (uint32_t)hip_ask(r, HIP_GRID_Y, d->index, 65535),
                               (uint32_t)hip_ask(r, HIP_GRID_Z, d->index, 65535)},
                    .local_size = (uint32_t)hip_ask(r, HIP_THREADS_PER_BLOCK, d->index, 1024),
                    .local_bytes = (uint32_t)hip_ask(r, HIP_SHARED_BYTES, d->index, 32768),
                    .wave = (uint32_t)hip_ask(r, HIP_WAVE, d->index, 32),
                    .units = (uint32_t)hip_ask(r, HIP_UNITS, d->index, 0),
                    .unified = r->bounds || hip_ask(r, HIP_INTEGRATED, d->index, 0) > 0};
  fill_units(d, l);
}

/* The open device, or `made` from now on where there is none: NULL when that is NULL, too. Kernels
 * are compiled without the lock, so two threads that open a device at once may both make it. */
static gpu_device *use_opened(uint32_t index, gpu_device *made) {
  pthread_mutex_lock(&opening);
  if (!opened[index]) opened[index] = made;
  gpu_device *d = opened[index];
  if (d) d->users++;
  pthread_mutex_unlock(&opening);
  return d;
}

static int32_t hip_open(uint32_t index, const accel_plugin_options *options, gpu_device **out,
                        gpu_limits *limits, accel_plugin_error *error) {
  const char *why;
  const hip_runtime *r = hip_runtime_get(&why);
  *out = NULL;
  if (!r) return kit_fail(error, ACCEL_PLUGIN_E_DRIVER, -1, "%s", why);
  int n = 0;
  if (r->count(&n) || index >= (uint32_t)n || index >= MAX_DEVICES)
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "no device %u: there are %d", index, n);
  *out = use_opened(index, NULL);
  if (!*out) {
    gpu_device *made = NULL;
    const int32_t rc = device_new(r, index, options ? options->host : NULL, &made, error);
    if (rc) return rc;
    *out = use_opened(index, made);
    if (*out != made) device_free(made);
  }
  fill_limits(*out, limits);
  return ACCEL_PLUGIN_OK;
}

static void hip_close(gpu_device *d) {
  if (!d) return;
  pthread_mutex_lock(&opening);
  bool last = --d->users == 0;
  if (last) opened[d->index] = NULL;
  pthread_mutex_unlock(&opening);
  if (last) device_free(d);
}

/* ---- memory ---- */

static int32_t hip_alloc(gpu_device *d, uint64_t bytes, bool host, gpu_buffer **out, void **mapped,
                         accel_plugin_error *error) {
  const hip_runtime *r = d->runtime;
  void *before;
  *out = NULL;
  gpu_buffer *b = calloc(1, sizeof *b);
  if (!b) return kit_no_memory(error, sizeof *b);
  int32_t rc = use(d, &before, error);
  if (rc) {
    free(b);
    return rc;
  }
  enum { PORTABLE_AND_MAPPED = 3 };
  b->bytes = bytes;
  int code = host ? r->host_allocate(&b->host, bytes, PORTABLE_AND_MAPPED)
                  : r->allocate(&b->address, bytes);
  if (!code && host) {
    code = r->host_address(&b->address, b->host, 0);
    if (code) r->host_release(b->host);
  }
  if (code == HIP_OUT_OF_MEMORY)
    rc = kit_fail(error, ACCEL_PLUGIN_E_DEVICE_MEMORY, -1,
                  "the device has no room for %llu bytes more: use a smaller batch or precision, "
                  "or free what else runs on it",
                  (unsigned long long)bytes);
  else if (code)
    rc = vendor_fail(d, error, code, -1, "allocating device memory");
  r->leave(d->index, before);
  if (rc) {
    free(b);
    return rc;
  }
  if (mapped) *mapped = b->host;
  *out = b;
  return ACCEL_PLUGIN_OK;
}

static void hip_release(gpu_device *d, gpu_buffer *b) {
  void *before;
  if (!b) return;
  if (!d->runtime->enter(d->index, d->context, &before)) {
    if (b->host)
      d->runtime->host_release(b->host);
    else
      d->runtime->release(b->address);
    d->runtime->leave(d->index, before);
  }
  free(b);
}

static int32_t outside(const gpu_binding *b, accel_plugin_error *error) {
  if (b->offset <= b->buffer->bytes && b->bytes <= b->buffer->bytes - b->offset)
    return ACCEL_PLUGIN_OK;
  return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "bytes %llu to %llu of a buffer of %llu",
                  (unsigned long long)b->offset, (unsigned long long)(b->offset + b->bytes),
                  (unsigned long long)b->buffer->bytes);
}

/* A copy outside streams: one of their own, waited for. */
static int32_t transfer(gpu_device *d, const gpu_binding *there, void *to, const void *from,
                        accel_plugin_error *error) {
  const hip_runtime *r = d->runtime;
  void *before;
  gpu_stream *s;
  int32_t rc = outside(there, error);
  if (rc) return rc;
  if (there->buffer->host && atomic_load(&d->lost) == false) {
    char *at = (char *)there->buffer->host + there->offset;
    if (from)
      memcpy(at, from, there->bytes);
    else if (to)
      memcpy(to, at, there->bytes);
    return ACCEL_PLUGIN_OK;
  }
  rc = use(d, &before, error);
  if (rc) return rc;
  rc = stream_take(d, &s, error);
  if (!rc) {
    uint64_t address = there->buffer->address + there->offset;
    int code = from ? r->to_device(address, from, there->bytes, s->stream)
                    : r->from_device(to, address, there->bytes, s->stream);
    if (!code) code = r->stream_wait(s->stream);
    if (code)
      rc = vendor_fail(d, error, code, -1,
                       from ? "copying to the device" : "copying from the device");
    stream_give(s);
  }
  r->leave(d->index, before);
  return rc;
}

static int32_t hip_write(gpu_device *d, const gpu_binding *to, const void *from,
                         accel_plugin_error *error) {
  return transfer(d, to, NULL, from, error);
}
static int32_t hip_read(gpu_device *d, void *to, const gpu_binding *from,
                        accel_plugin_error *error) {
  return transfer(d, from, to, NULL, error);
}

/* ---- runs ---- */

/* The device is current. */
static int32_t begin(gpu_device *d, bool copies, gpu_stream **out, accel_plugin_error *error) {
  const int32_t rc = stream_take(d, out, error);
  if (rc) return rc;
  gpu_stream *s = *out;
  s->copies = copies;
  s->staged = 0;
  s->n_mark = 0;
  const int code = d->runtime->event_record(s->first, s->stream);
  if (!code) return ACCEL_PLUGIN_OK;
  stream_give(s);
  return vendor_fail(d, error, code, -1, "beginning a run");
}

/* The device stays current until the run's end. */
static int32_t hip_begin(gpu_device *d, const accel_plugin_host *host, gpu_stream **out,
                         accel_plugin_error *error) {
  void *before;
  (void)host;
  *out = NULL;
  int32_t rc = use(d, &before, error);
  if (rc) return rc;
  rc = begin(d, false, out, error);
  if (rc)
    d->runtime->leave(d->index, before);
  else
    (*out)->before = before;
  return rc;
}

/* What the run's stream does from here on comes after all updates so far. */
static int after_updates(gpu_stream *s) {
  const hip_runtime *r = s->device->runtime;
  if (!s->pending) return 0;
  int code = r->event_record(s->updated, s->updates);
  if (!code) code = r->stream_after(s->stream, s->updated, 0);
  if (!code) s->pending = false;
  return code;
}

static int32_t find_function(gpu_device *d, uint32_t kernel, void **out,
                             accel_plugin_error *error) {
  pthread_mutex_lock(&d->lock);
  int code = d->function[kernel]
                 ? 0
                 : d->runtime->function(&d->function[kernel], d->module, gpu_kernels[kernel].name);
  *out = d->function[kernel];
  pthread_mutex_unlock(&d->lock);
  return code ? vendor_fail(d, error, code, -1, gpu_kernels[kernel].name) : ACCEL_PLUGIN_OK;
}

static int32_t hip_dispatch(gpu_stream *s, const gpu_dispatch *what, accel_plugin_error *error) {
  gpu_device *d = s->device;
  const hip_runtime *r = d->runtime;
  const gpu_kernel *k = &gpu_kernels[what->kernel];
  uint64_t address[GPU_BINDINGS], bytes[GPU_BINDINGS];
  uint32_t params[GPU_PARAMS / 4 + 1] = {0};
  void *argument[GPU_BINDINGS + 1], *function;
  uint32_t whole = 0;
  int32_t rc = find_function(d, what->kernel, &function, error);
  for (uint32_t i = 0; !rc && i < what->n_bind; i++) {
    rc = outside(&what->bind[i], error);
    address[i] = what->bind[i].buffer->address + what->bind[i].offset;
    bytes[i] = what->bind[i].bytes;
    whole |= (uint32_t)(bytes[i] == what->bind[i].buffer->bytes) << i;
    argument[i] = &address[i];
  }
  if (rc) return rc;
  memcpy(params, what->params, what->params_bytes);
  argument[what->n_bind] = params;
  int code = after_updates(s);
  if (code) return vendor_fail(d, error, code, (int32_t)what->node, "waiting for an update");
  if (r->bounds) r->bounds(s->stream, bytes, what->n_bind, whole);
  code = r->launch(function, what->groups[0], what->groups[1], what->groups[2], k->local, 1, 1, 0,
                   s->stream, argument, NULL);
  if (!code) return ACCEL_PLUGIN_OK;
  if (r->detail && code == HIP_LAUNCH_FAILURE)
    return kit_fail(error, ACCEL_PLUGIN_E_DRIVER, (int32_t)what->node, "%s", r->detail(s->stream));
  return vendor_fail(d, error, code, (int32_t)what->node, k->name);
}

/* With the emulator's word, where there is one. */
static int32_t copy_failed(gpu_stream *s, accel_plugin_error *error, int code) {
  const hip_runtime *r = s->device->runtime;
  if (r->detail && code == HIP_LAUNCH_FAILURE)
    return kit_fail(error, ACCEL_PLUGIN_E_DRIVER, -1, "%s", r->detail(s->stream));
  return vendor_fail(s->device, error, code, -1, "copying on the device");
}

static int32_t hip_copy(gpu_stream *s, const gpu_binding *to, const gpu_binding *from,
                        accel_plugin_error *error) {
  const hip_runtime *r = s->device->runtime;
  int32_t rc = outside(to, error);
  if (!rc) rc = outside(from, error);
  if (rc) return rc;
  uint64_t to_at = to->buffer->address + to->offset, from_at = from->buffer->address + from->offset;
  int code = after_updates(s);
  if (code) return copy_failed(s, error, code);
  if (to->buffer->host)
    code = r->from_device((char *)to->buffer->host + to->offset, from_at, to->bytes, s->stream);
  else if (from->buffer->host)
    code = r->to_device(to_at, (char *)from->buffer->host + from->offset, to->bytes, s->stream);
  else
    code = r->within(to_at, from_at, to->bytes, s->stream);
  return code ? copy_failed(s, error, code) : ACCEL_PLUGIN_OK;
}

static int32_t hip_update(gpu_stream *s, const gpu_binding *to, const void *from,
                          accel_plugin_error *error) {
  const hip_runtime *r = s->device->runtime;
  int32_t rc = outside(to, error);
  if (rc) return rc;
  int code = s->staging ? 0 : r->host_allocate(&s->staging, STAGING, NO_MAPPING);
  if (!code && !s->copies && !s->updates) code = r->stream_new(&s->updates, NO_BLOCKING);
  if (!code && !s->copies && !s->updated) code = r->event_new(&s->updated, NO_TIMES);
  void *stream = s->copies ? s->stream : s->updates;
  /* what was staged is read when the stream is through */
  if (!code && s->staged + to->bytes > STAGING) {
    code = r->stream_wait(stream);
    s->staged = 0;
  }
  if (!code) {
    char *at = (char *)s->staging + s->staged;
    memcpy(at, from, to->bytes);
    s->staged += (to->bytes + 63) / 64 * 64;
    code = r->to_device(to->buffer->address + to->offset, at, to->bytes, stream);
    s->pending = !s->copies;
  }
  return code ? copy_failed(s, error, code) : ACCEL_PLUGIN_OK;
}

static bool more_marks(gpu_stream *s) {
  const uint32_t room = s->room_mark * 2 + 64;
  void **mark = realloc(s->mark, room * sizeof *mark);
  if (mark) s->mark = mark;
  double **us = realloc(s->us, room * sizeof *us);
  if (us) s->us = us;
  if (!mark || !us) return false;
  memset(mark + s->room_mark, 0, (room - s->room_mark) * sizeof *mark);
  s->room_mark = room;
  return true;
}

static int32_t hip_mark(gpu_stream *s, double *us, accel_plugin_error *error) {
  const hip_runtime *r = s->device->runtime;
  if (s->n_mark == s->room_mark && !more_marks(s))
    return kit_no_memory(error, s->room_mark * sizeof *s->mark);
  void **event = &s->mark[s->n_mark];
  int code = *event ? 0 : r->event_new(event, 0);
  if (!code) code = r->event_record(*event, s->stream);
  if (code) return vendor_fail(s->device, error, code, -1, "an event");
  s->us[s->n_mark++] = us;
  return ACCEL_PLUGIN_OK;
}

/* The run is through. */
static void read_marks(const gpu_stream *s) {
  const hip_runtime *r = s->device->runtime;
  for (uint32_t i = 0; i < s->n_mark; i++) {
    float ms = 0.0f;
    if (!r->event_ms(&ms, s->mark[i], i + 1 < s->n_mark ? s->mark[i + 1] : s->last) && ms >= 0.0f)
      gpu_add_us(s->us[i], 1e3 * (double)ms);
  }
}

static int32_t hip_end(gpu_stream *s, bool abandon, double *device_ms, accel_plugin_error *error) {
  gpu_device *d = s->device;
  const hip_runtime *r = d->runtime;
  float ms = 0.0f;
  const bool in = !s->copies || !r->enter(d->index, d->context, &s->before);
  int code = abandon ? 0 : after_updates(s);
  if (s->pending) r->stream_wait(s->updates); /* of a run that is abandoned */
  s->pending = false;
  if (!code && !abandon) code = r->event_record(s->last, s->stream);
  int waited = r->stream_wait(s->stream);
  if (!code) code = waited;
  if (!code && !abandon && !r->event_ms(&ms, s->first, s->last) && device_ms && ms > 0.0f)
    *device_ms = (double)ms;
  if (!code && !abandon) read_marks(s);
  int32_t rc = code && !abandon ? vendor_fail(d, error, code, -1, "the run") : ACCEL_PLUGIN_OK;
  if (code && is_fatal(code) && !r->bounds) atomic_store(&d->lost, true);
  void *before = s->before;
  stream_give(s);
  if (in) r->leave(d->index, before);
  return rc;
}

/* ---- events between the streams of one run ---- */

struct gpu_event {
  void *event;
};

static int32_t hip_event_new(gpu_device *d, gpu_event **out, accel_plugin_error *error) {
  void *before;
  *out = NULL;
  gpu_event *e = calloc(1, sizeof *e);
  if (!e) return kit_no_memory(error, sizeof *e);
  int32_t rc = use(d, &before, error);
  if (!rc) {
    const int code = d->runtime->event_new(&e->event, NO_TIMES);
    if (code) rc = vendor_fail(d, error, code, -1, "making an event");
    d->runtime->leave(d->index, before);
  }
  if (rc)
    free(e);
  else
    *out = e;
  return rc;
}

static void hip_event_free(gpu_device *d, gpu_event *e) {
  void *before;
  if (!e) return;
  if (!d->runtime->enter(d->index, d->context, &before)) {
    d->runtime->event_free(e->event);
    d->runtime->leave(d->index, before);
  }
  free(e);
}

/* Used within runs and ended anywhere: the device is current there, or made so for the end. */
static int32_t hip_begin_copies(gpu_device *d, const accel_plugin_host *host, gpu_stream **out,
                                accel_plugin_error *error) {
  void *before;
  (void)host;
  *out = NULL;
  int32_t rc = use(d, &before, error);
  if (rc) return rc;
  rc = begin(d, true, out, error);
  d->runtime->leave(d->index, before);
  return rc;
}

static int32_t hip_record(gpu_stream *s, gpu_event *e, accel_plugin_error *error) {
  const int code = s->device->runtime->event_record(e->event, s->stream);
  return code ? vendor_fail(s->device, error, code, -1, "recording an event") : ACCEL_PLUGIN_OK;
}

static int32_t hip_wait(gpu_stream *s, gpu_event *e, accel_plugin_error *error) {
  const int code = s->device->runtime->stream_after(s->stream, e->event, 0);
  return code ? vendor_fail(s->device, error, code, -1, "waiting for an event") : ACCEL_PLUGIN_OK;
}

static int32_t hip_reached(gpu_device *d, gpu_event *e, bool wait, bool *out,
                           accel_plugin_error *error) {
  void *before;
  int32_t rc = use(d, &before, error);
  if (rc) return rc;
  const int code = wait ? d->runtime->event_wait(e->event) : d->runtime->event_reached(e->event);
  *out = !code;
  if (code && (wait || code != HIP_NOT_READY))
    rc = vendor_fail(d, error, code, -1, "waiting for an event");
  d->runtime->leave(d->index, before);
  return rc;
}

static int32_t hip_host_writes(gpu_device *d, const gpu_binding *what, accel_plugin_error *error) {
  char why[240];
  if (!d->runtime->host_writes ||
      !d->runtime->host_writes((char *)what->buffer->host + what->offset, what->bytes, why,
                               sizeof why))
    return ACCEL_PLUGIN_OK;
  return kit_fail(error, ACCEL_PLUGIN_E_DRIVER, -1, "%s", why);
}

static int32_t hip_allreduce(gpu_stream *s, const gpu_binding *data, uint64_t n,
                             const accel_plugin_host *host) {
  const gpu_device *d = s->device;
  return host->allreduce_device(host->self, d->runtime->api, (uint32_t)d->index, s->stream,
                                (void *)(uintptr_t)(data->buffer->address + data->offset), n);
}

static bool hip_own_memory(uint32_t index) {
  const char *why;
  const hip_runtime *r = hip_runtime_get(&why);
  return r && (r->bounds || hip_ask(r, HIP_INTEGRATED, (int)index, 0) == 0);
}

const gpu_api gpu_plugin_api = {
    .devices = hip_devices,
    .memory = hip_memory,
    .open = hip_open,
    .close = hip_close,
    .alloc = hip_alloc,
    .release = hip_release,
    .write = hip_write,
    .read = hip_read,
    .begin = hip_begin,
    .dispatch = hip_dispatch,
    .copy = hip_copy,
    .update = hip_update,
    .mark = hip_mark,
    .end = hip_end,
    .own_memory = hip_own_memory,
    .begin_copies = hip_begin_copies,
    .event_new = hip_event_new,
    .event_free = hip_event_free,
    .record = hip_record,
    .wait = hip_wait,
    .reached = hip_reached,
    .host_writes = hip_host_writes,
    .allreduce = hip_allreduce,
};
