/* device.c - see device.h. */
#include "dispatch/device.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "dispatch/endpoint.h"
#include "dispatch/pack.h"
#include "dispatch/parts.h"
#include "dispatch/queue.h"

struct accel_device {
  accel *ctx;
  accel__hardware *hardware;
  accel__device *device;
  pthread_mutex_t lock; /* of stream */
  accel_device_stream *stream;
  _Atomic uint32_t holds;
  _Atomic uint64_t bytes, tensors;
};

struct accel_device_tensor {
  accel_device *device;
  void *buffer;
  uint64_t bytes;
  accel_tensor view;
};

static const accel_plugin *plugin_of(const accel_device *d) { return d->device->plugin; }

/* ---- choosing ---- */

static accel_status device_new(accel *ctx, accel__hardware *hardware, accel__device *device,
                               accel_device **out) {
  accel_device *d = calloc(1, sizeof *d);
  if (!d) return accel__no_memory(sizeof *d);
  d->ctx = ctx;
  d->hardware = hardware;
  d->device = device;
  d->holds = 1;
  pthread_mutex_init(&d->lock, NULL);
  *out = d;
  return ACCEL_OK;
}

/* Reasons against what was passed over, in one message. */
static accel_status none_serves(const char *wanted, accel_status last, accel__buffer *why) {
  accel__fail(last, "no device of '%s' can serve: %s", wanted,
              why->data ? why->data : "none was found");
  return accel__remedy(last, "`accel detect` lists every device and what to do about it");
}

accel_status accel__device_get(accel *ctx, const char *wanted, accel_device **out) {
  accel__hardware *hardware;
  accel__choice choice = {0};
  accel__buffer why = {0};
  accel__device *found = NULL;
  ACCEL_TRY(accel__context_hardware(ctx, &hardware));
  accel_status status = accel__hardware_choose(hardware, wanted, &choice);
  if (status == ACCEL_OK) {
    status = ACCEL_ERROR_DEVICE_UNAVAILABLE;
    for (uint32_t i = 0; i < choice.n_reasons; i++)
      accel__buffer_printf(&why, "%s%s", why.n ? "; " : "", choice.reason[i]);
    for (uint32_t i = 0; i < choice.n && !found; i++) {
      status = choice.device[i]->parts
                   ? accel__fail(ACCEL_ERROR_ARGUMENT,
                                 "%s: several devices are for a model; name one of them",
                                 choice.device[i]->info.name)
                   : accel__device_test(hardware, choice.device[i]);
      if (status == ACCEL_OK)
        found = choice.device[i];
      else
        accel__buffer_printf(&why, "%s%s", why.n ? "; " : "", accel__message());
    }
    status = found ? device_new(ctx, hardware, found, out) : none_serves(wanted, status, &why);
  }
  accel__buffer_free(&why);
  accel__choice_free(&choice);
  return status;
}

accel_status accel__device_exists(accel *ctx, const char *wanted, bool amd, bool *found) {
  accel__hardware *hardware;
  accel__choice choice = {0};
  *found = false;
  ACCEL_TRY(accel__context_hardware(ctx, &hardware));
  accel_status status = accel__hardware_choose(hardware, wanted, &choice);
  for (uint32_t i = 0; status == ACCEL_OK && i < choice.n && !*found; i++) {
    accel__device *d = choice.device[i];
    *found = !d->parts && d->facts.type != ACCEL_PLUGIN_DEVICE_SOFTWARE &&
             !d->info.is_amd == !amd && accel__device_test(hardware, d) == ACCEL_OK;
  }
  accel__choice_free(&choice);
  accel__clear_error();
  return status == ACCEL_ERROR_OUT_OF_MEMORY ? accel__no_memory(0) : ACCEL_OK;
}

static void let_go(accel_device *d) {
  if (atomic_fetch_sub(&d->holds, 1) != 1) return;
  pthread_mutex_destroy(&d->lock);
  free(d);
}

void accel__device_close(accel_device *d) {
  if (!d) return;
  pthread_mutex_lock(&d->lock);
  accel_device_stream *stream = d->stream;
  d->stream = NULL;
  pthread_mutex_unlock(&d->lock);
  accel__stream_free(stream);
  let_go(d);
}

const accel_device_info *accel__device_info(const accel_device *d) { return &d->device->info; }
const char *accel__device_type(const accel_device *d) {
  return d->device->info.is_amd && !strcmp(d->device->info.hardware, "amd")
             ? "rocm"
             : d->device->info.plugin;
}

accel_status accel__device_probe(accel_device *d, const char *precision) {
  return accel__device_test_precision(d->hardware, d->device, precision);
}

/* ---- memory ---- */

static bool is_on(accel_endpoint *ep, const char *device) {
  pthread_rwlock_rdlock(&ep->in_use);
  const bool on = ep->placed.parts ? accel__parts_use(ep->placed.parts, device)
                                   : !strcmp(ep->placement.device, device);
  pthread_rwlock_unlock(&ep->in_use);
  return on;
}

/* Calls fn for each endpoint of the context on the device (NULL: on any), its list locked. */
static void each_endpoint(accel *ctx, const accel_device *d,
                          void (*fn)(accel_endpoint *ep, void *user), void *user) {
  pthread_mutex_lock(&ctx->endpoints_lock);
  for (accel_endpoint *ep = ctx->endpoints; ep; ep = ep->next)
    if (!d || is_on(ep, d->device->info.name)) fn(ep, user);
  pthread_mutex_unlock(&ctx->endpoints_lock);
}

static void count_endpoint(accel_endpoint *ep, void *user) {
  (void)ep;
  ++*(uint64_t *)user;
}

accel_status accel__device_summary(accel_device *d, accel_memory_summary *out) {
  accel_plugin_memory memory = {.size = sizeof memory};
  accel_memory_summary s = {.size = out->size};
  ACCEL_TRY(accel__device_memory(d->hardware, d->device, &memory));
  s.total = memory.total;
  s.free = memory.free;
  s.budget = memory.budget;
  s.shared_with_host = memory.shared_with_host;
  s.tensor_bytes = d->bytes;
  s.tensors = d->tensors;
  each_endpoint(d->ctx, d, count_endpoint, &s.endpoints);
  memcpy(out, &s, out->size < sizeof s ? out->size : sizeof s);
  return ACCEL_OK;
}

typedef struct trimmed {
  uint64_t released;
  accel_status status;
} trimmed;

accel_status accel__endpoint_trim(accel_endpoint *ep, uint64_t *released) {
  accel_plugin_error error = {.size = sizeof error, .node = -1};
  *released = 0;
  if (!ep->placed.plugin->trim) return ACCEL_OK;
  pthread_rwlock_rdlock(&ep->in_use);
  const int32_t rc = ep->placed.plugin->trim(ep->placed.handle, released, &error);
  pthread_rwlock_unlock(&ep->in_use);
  return rc ? accel__fail((accel_status)rc, "%s: %s", ep->placement.label, error.message)
            : ACCEL_OK;
}

static void trim_endpoint(accel_endpoint *ep, void *user) {
  trimmed *t = user;
  uint64_t released = 0;
  const accel_status status = accel__endpoint_trim(ep, &released);
  t->released += released;
  if (status != ACCEL_OK) t->status = status;
}

accel_status accel__device_trim(accel *ctx, const accel_device *d, uint64_t *released) {
  trimmed t = {.status = ACCEL_OK};
  each_endpoint(ctx, d, trim_endpoint, &t);
  if (released) *released = t.released;
  return t.status;
}

/* ---- waiting ---- */

typedef struct queues {
  accel_queue **item; /* [n], watched */
  uint64_t n, capacity;
  bool failed;
} queues;

static void take_queues(accel_endpoint *ep, void *user) {
  queues *q = user;
  for (accel_queue *at = ep->queue; at && !q->failed;) {
    if (q->n == q->capacity) {
      const uint64_t capacity = q->capacity ? 2 * q->capacity : 16;
      accel_queue **more = realloc(q->item, (size_t)capacity * sizeof *more);
      q->failed = !more;
      if (!more) return;
      q->item = more;
      q->capacity = capacity;
    }
    q->item[q->n++] = at;
    at = accel__queue_watch(at);
  }
}

/* The queues are waited for outside the context's lock, which their work may need. */
accel_status accel__device_synchronize(accel_device *d) {
  queues q = {0};
  each_endpoint(d->ctx, d, take_queues, &q);
  for (uint64_t i = 0; i < q.n; i++) accel__queue_drain(q.item[i]);
  free(q.item);
  if (q.failed) return accel__no_memory((size_t)q.capacity * 2 * sizeof *q.item);
  pthread_mutex_lock(&d->lock);
  accel_device_stream *stream = d->stream;
  pthread_mutex_unlock(&d->lock);
  return stream ? accel__stream_synchronize(stream) : ACCEL_OK;
}

accel_status accel__device_stream(accel_device *d, accel_device_stream **out) {
  accel_status status = ACCEL_OK;
  pthread_mutex_lock(&d->lock);
  if (!d->stream) status = accel__stream_new(d, &d->stream);
  *out = d->stream;
  pthread_mutex_unlock(&d->lock);
  return status;
}

/* ---- tensors ---- */

static accel_status copy_failed(const accel_device *d, int32_t rc,
                                const accel_plugin_error *error) {
  return accel__fail((accel_status)rc, "%s: %s", d->device->info.name,
                     *error->message ? error->message : "no reason given");
}

accel_status accel__device_tensor_new(accel_device *d, const accel_tensor *like,
                                      accel_device_tensor **out) {
  const accel_plugin *plugin = plugin_of(d);
  accel_plugin_error error = {.size = sizeof error, .node = -1};
  if (!plugin || !plugin->buffer_alloc || !plugin->buffer_free || !plugin->buffer_copy)
    return accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: its plugin hands out no device memory",
                       d->device->info.name);
  const size_t name = strlen(like->name ? like->name : "") + 1;
  accel_device_tensor *t = calloc(1, sizeof *t + name);
  if (!t) return accel__no_memory(sizeof *t + name);
  t->bytes = accel__tensor_bytes(like);
  const int32_t rc = plugin->buffer_alloc(d->device->index, t->bytes, &t->buffer, &error);
  if (rc) {
    free(t);
    return copy_failed(d, rc, &error);
  }
  t->view = *like;
  t->view.data = NULL;
  t->view.name = like->name ? memcpy(t + 1, like->name, name) : "";
  t->device = d;
  d->holds++;
  d->tensors++;
  d->bytes += t->bytes;
  *out = t;
  return ACCEL_OK;
}

void accel__device_tensor_free(accel_device_tensor *t) {
  if (!t) return;
  accel_device *d = t->device;
  plugin_of(d)->buffer_free(d->device->index, t->buffer);
  d->tensors--;
  d->bytes -= t->bytes;
  free(t);
  let_go(d);
}

const accel_tensor *accel__device_tensor_view(const accel_device_tensor *t) { return &t->view; }

accel_status accel__device_tensor_write(accel_device_tensor *t, const void *data) {
  const accel_device *d = t->device;
  accel_plugin_error error = {.size = sizeof error, .node = -1};
  const int32_t rc =
      plugin_of(d)->buffer_copy(d->device->index, t->buffer, 0, data, 0, t->bytes, 1, &error);
  return rc ? copy_failed(d, rc, &error) : ACCEL_OK;
}

accel_status accel__device_tensor_read(const accel_device_tensor *t, void *data) {
  const accel_device *d = t->device;
  accel_plugin_error error = {.size = sizeof error, .node = -1};
  const int32_t rc =
      plugin_of(d)->buffer_copy(d->device->index, data, 0, t->buffer, 0, t->bytes, 0, &error);
  return rc ? copy_failed(d, rc, &error) : ACCEL_OK;
}

/* ---- in words ---- */

static void put_line(accel__buffer *b, const char *label, const char *value) {
  if (value && *value) accel__buffer_printf(b, "  %-18s %s\n", label, value);
}

static void put_bytes(accel__buffer *b, const char *label, uint64_t bytes) {
  if (bytes)
    accel__buffer_printf(b, "  %-18s %llu (%.2f GiB)\n", label, (unsigned long long)bytes,
                         (double)bytes / (1 << 30));
}

accel_status accel__device_text(accel_device *d, char **text) {
  static const char *const halves[] = {"fp16", "bf16"};
  const accel_device_info *i = &d->device->info;
  const accel_plugin_device *f = &d->device->facts;
  accel_memory_summary m = {.size = sizeof m};
  accel__buffer b = {0};
  char *version = NULL, *driver = NULL;
  ACCEL_TRY(accel__device_summary(d, &m));
  ACCEL_TRY(accel__runtime_version(d->hardware, i->hardware, &version, &driver));
  accel__buffer_printf(&b, "%s\n", i->name);
  put_line(&b, "device", i->description);
  put_line(&b, "implementation", i->implementation_type);
  put_line(&b, "type", i->type);
  put_line(&b, "architecture", i->arch);
  put_line(&b, "driver", i->driver);
  put_line(&b, "runtime", version);
  put_line(&b, "kernel driver", driver);
  put_line(&b, "id", i->id);
  if (f->units) accel__buffer_printf(&b, "  %-18s %u\n", "compute units", f->units);
  if (f->wave) accel__buffer_printf(&b, "  %-18s %u\n", "wave", f->wave);
  put_bytes(&b, "memory total", m.total);
  put_bytes(&b, "memory free", m.free);
  put_bytes(&b, "shared with host", m.shared_with_host);
  put_bytes(&b, "largest allocation", f->max_allocation);
  for (int k = 0; k < 2; k++)
    put_line(&b, halves[k],
             accel__device_probe(d, halves[k]) == ACCEL_OK ? "computes (a small tensor was run)"
                                                           : accel__message());
  accel__clear_error();
  free(version);
  free(driver);
  if (b.failed) {
    accel__buffer_free(&b);
    return accel__no_memory(0);
  }
  *text = b.data; /* malloc'd */
  return ACCEL_OK;
}
