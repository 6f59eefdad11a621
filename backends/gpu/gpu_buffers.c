/* gpu_buffers.c - device memory that belongs to no endpoint: buffer_alloc, buffer_free,
 * buffer_copy.
 *
 * A device is held open while it has such buffers. gpu_bindings are whole words: sizes are
 * rounded up, offsets must be multiples of 4, and the last bytes of a copy go through a word. */
#include <stdlib.h>
#include <string.h>

#include "gpu/gpu_layer.h"

enum { WORD = 4 };

/* A device that is open because it has such buffers. */
typedef struct open_device {
  struct open_device *next;
  gpu_device *device;
  gpu_limits limits;
  uint32_t index, buffers;
} open_device;

typedef struct device_buffer {
  open_device *on;
  gpu_buffer *buffer;
  uint64_t bytes; /* a multiple of WORD */
} device_buffer;

static pthread_mutex_t devices_lock = PTHREAD_MUTEX_INITIALIZER; /* of the list and its counts */
static open_device *open_devices;

/* The device, opened for its first buffer; one more buffer is counted.  With the lock held. */
static int32_t acquire_device(uint32_t index, open_device **out, accel_plugin_error *error) {
  static const accel_plugin_options options = {.size = sizeof options};
  open_device *h = open_devices;
  while (h && h->index != index) h = h->next;
  if (!h) {
    h = calloc(1, sizeof *h);
    if (!h) return kit_no_memory(error, sizeof *h);
    const int32_t rc = gpu_plugin_api.open(index, &options, &h->device, &h->limits, error);
    if (rc) {
      free(h);
      return rc;
    }
    h->index = index;
    h->next = open_devices;
    open_devices = h;
  }
  h->buffers++;
  *out = h;
  return ACCEL_PLUGIN_OK;
}

/* With the lock held. */
static void release_device(open_device *h) {
  if (--h->buffers) return;
  open_device **at = &open_devices;
  while (*at != h) at = &(*at)->next;
  *at = h->next;
  gpu_plugin_api.close(h->device);
  free(h);
}

int32_t gpu_buffer_alloc(uint32_t device, uint64_t n, void **out, accel_plugin_error *error) {
  *out = NULL;
  device_buffer *b = calloc(1, sizeof *b);
  if (!b) return kit_no_memory(error, sizeof *b);
  pthread_mutex_lock(&devices_lock);
  int32_t rc = acquire_device(device, &b->on, error);
  if (!rc) {
    const uint64_t most = b->on->limits.buffer;
    b->bytes = n ? (n < UINT64_MAX - WORD ? n + WORD - 1 : n) / WORD * WORD : WORD;
    rc = b->bytes > most
             ? kit_fail(error, ACCEL_PLUGIN_E_DEVICE_MEMORY, -1,
                        "%llu bytes are wanted in one piece, this device allocates at most %llu: "
                        "cut the tensor",
                        (unsigned long long)n, (unsigned long long)most)
             : gpu_plugin_api.alloc(b->on->device, b->bytes, false, &b->buffer, NULL, error);
    if (rc) release_device(b->on);
  }
  pthread_mutex_unlock(&devices_lock);
  if (rc)
    free(b);
  else
    *out = b;
  return rc;
}

void gpu_buffer_free(uint32_t device, void *buffer) {
  device_buffer *b = buffer;
  (void)device;
  if (!b) return;
  pthread_mutex_lock(&devices_lock);
  gpu_plugin_api.release(b->on->device, b->buffer);
  release_device(b->on);
  pthread_mutex_unlock(&devices_lock);
  free(b);
}

static int32_t upload(const device_buffer *b, uint64_t offset, const char *from, uint64_t n,
                      accel_plugin_error *error) {
  gpu_device *d = b->on->device;
  const uint64_t words = n / WORD * WORD, rest = n - words;
  const gpu_binding whole = {b->buffer, offset, words}, last = {b->buffer, offset + words, WORD};
  uint32_t word;
  int32_t rc = words ? gpu_plugin_api.write(d, &whole, from, error) : ACCEL_PLUGIN_OK;
  if (rc || !rest) return rc;
  rc = gpu_plugin_api.read(d, &word, &last, error);
  if (rc) return rc;
  memcpy(&word, from + words, (size_t)rest);
  return gpu_plugin_api.write(d, &last, &word, error);
}

static int32_t download(const device_buffer *b, uint64_t offset, char *to, uint64_t n,
                        accel_plugin_error *error) {
  gpu_device *d = b->on->device;
  const uint64_t words = n / WORD * WORD, rest = n - words;
  const gpu_binding whole = {b->buffer, offset, words}, last = {b->buffer, offset + words, WORD};
  uint32_t word;
  int32_t rc = words ? gpu_plugin_api.read(d, to, &whole, error) : ACCEL_PLUGIN_OK;
  if (rc || !rest) return rc;
  rc = gpu_plugin_api.read(d, &word, &last, error);
  if (!rc) memcpy(to + words, &word, (size_t)rest);
  return rc;
}

int32_t gpu_buffer_copy(uint32_t device, void *dst, uint64_t dst_offset, const void *src,
                        uint64_t src_offset, uint64_t n, int32_t to_device,
                        accel_plugin_error *error) {
  const device_buffer *b = to_device ? dst : src;
  const uint64_t offset = to_device ? dst_offset : src_offset;
  (void)device;
  if (offset % WORD || offset > b->bytes || n > b->bytes - offset)
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1,
                    "bytes %llu to %llu of a buffer of %llu: offsets are multiples of %d within it",
                    (unsigned long long)offset, (unsigned long long)(offset + n),
                    (unsigned long long)b->bytes, WORD);
  return to_device ? upload(b, offset, (const char *)src + src_offset, n, error)
                   : download(b, offset, (char *)dst + dst_offset, n, error);
}
