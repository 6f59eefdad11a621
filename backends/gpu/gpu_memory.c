/* gpu_memory.c - device memory of an endpoint: a pool that divides few allocations of the API
 * into many parts, and the kit's hooks over it. A chunk, one allocation, has CHUNK bytes or as
 * many as one larger part needs; a part goes into the smallest free hole of all chunks that has
 * room for it. */
#include <stdlib.h>
#include <string.h>

#include "gpu/gpu_layer.h"

static const uint64_t CHUNK = 32u << 20;
static const uint64_t EMULATED_CHUNK = 1u << 20; /* the emulator fills it with NaN */

typedef struct hole {
  struct hole *next; /* by offset; neighbours never touch */
  uint64_t offset, bytes;
} hole;

struct gpu_chunk {
  gpu_chunk *next;
  gpu_buffer *buffer;
  uint64_t bytes, parts;
  hole *holes;
};

void gpu_pool_open(gpu_pool *pool, gpu_device *device, const gpu_limits *limits) {
  *pool = (gpu_pool){.device = device, .limits = limits};
  pthread_mutex_init(&pool->lock, NULL);
}

static void chunk_free(gpu_pool *pool, gpu_chunk *c) {
  for (hole *h = c->holes, *next; h; h = next) {
    next = h->next;
    free(h);
  }
  if (c->buffer) gpu_plugin_api.release(pool->device, c->buffer);
  free(c);
}

void gpu_pool_close(gpu_pool *pool) {
  for (gpu_chunk *c = pool->chunks, *next; c; c = next) {
    next = c->next;
    chunk_free(pool, c);
  }
  pool->chunks = NULL;
  pthread_mutex_destroy(&pool->lock);
}

static int32_t chunk_new(gpu_pool *pool, uint64_t bytes, accel_plugin_error *error) {
  const uint64_t most = pool->limits->buffer;
  const uint64_t usual = pool->limits->emulated ? EMULATED_CHUNK : CHUNK;
  if (bytes > most)
    return kit_fail(error, ACCEL_PLUGIN_E_DEVICE_MEMORY, -1,
                    "%llu bytes are needed in one piece, this device allocates at most %llu: use a "
                    "smaller batch",
                    (unsigned long long)bytes, (unsigned long long)most);
  gpu_chunk *c = calloc(1, sizeof *c);
  hole *h = calloc(1, sizeof *h);
  if (!c || !h) {
    free(c);
    free(h);
    return kit_no_memory(error, sizeof *c + sizeof *h);
  }
  c->bytes = bytes > usual || most < usual ? bytes : usual;
  h->bytes = c->bytes;
  c->holes = h;
  const int32_t rc = gpu_plugin_api.alloc(pool->device, c->bytes, false, &c->buffer, NULL, error);
  if (rc) {
    chunk_free(pool, c);
    return rc;
  }
  c->next = pool->chunks;
  pool->chunks = c;
  return ACCEL_PLUGIN_OK;
}

/* The chunk of the smallest hole with room for `bytes`, NULL when there is none; *at is the link
 * to that hole. */
static gpu_chunk *best_fit(const gpu_pool *pool, uint64_t bytes, hole ***at) {
  gpu_chunk *best = NULL;
  for (gpu_chunk *c = pool->chunks; c; c = c->next)
    for (hole **h = &c->holes; *h; h = &(*h)->next)
      if ((*h)->bytes >= bytes && (!best || (*h)->bytes < (**at)->bytes)) best = c, *at = h;
  return best;
}

static int32_t take_locked(gpu_pool *pool, uint64_t bytes, gpu_memory *m,
                           accel_plugin_error *error) {
  hole **at = NULL;
  gpu_chunk *c = best_fit(pool, bytes, &at);
  if (!c) {
    const int32_t rc = chunk_new(pool, bytes, error);
    if (rc) return rc;
    c = best_fit(pool, bytes, &at);
  }
  hole *h = *at;
  *m = (gpu_memory){.buffer = c->buffer, .offset = h->offset, .bytes = bytes, .chunk = c};
  c->parts++;
  h->offset += bytes;
  h->bytes -= bytes;
  if (!h->bytes) {
    *at = h->next;
    free(h);
  }
  return ACCEL_PLUGIN_OK;
}

int32_t gpu_pool_take(gpu_pool *pool, uint64_t bytes, gpu_memory **out, accel_plugin_error *error) {
  gpu_memory *m = calloc(1, sizeof *m);
  if (!m) return kit_no_memory(error, sizeof *m);
  if (bytes > UINT64_MAX - pool->limits->align) bytes = UINT64_MAX - pool->limits->align;
  bytes = (bytes + pool->limits->align - 1) / pool->limits->align * pool->limits->align;
  pthread_mutex_lock(&pool->lock);
  const int32_t rc = take_locked(pool, bytes ? bytes : pool->limits->align, m, error);
  pthread_mutex_unlock(&pool->lock);
  if (rc)
    free(m);
  else
    *out = m;
  return rc;
}

/* Puts a part back among the holes.  Without memory for a new hole the bytes stay unused until the
 * chunk is released. */
static void put_back(gpu_chunk *c, uint64_t offset, uint64_t bytes) {
  hole **at = &c->holes, *before = NULL;
  while (*at && (*at)->offset < offset) before = *at, at = &(*at)->next;
  hole *after = *at;
  if (before && before->offset + before->bytes == offset) {
    before->bytes += bytes;
    if (after && offset + bytes == after->offset) {
      before->bytes += after->bytes;
      before->next = after->next;
      free(after);
    }
  } else if (after && offset + bytes == after->offset) {
    after->offset = offset;
    after->bytes += bytes;
  } else {
    hole *h = malloc(sizeof *h);
    if (!h) return;
    *h = (hole){.next = after, .offset = offset, .bytes = bytes};
    *at = h;
  }
}

void gpu_pool_give(gpu_pool *pool, gpu_memory *m) {
  if (!m) return;
  pthread_mutex_lock(&pool->lock);
  gpu_chunk *c = m->chunk;
  put_back(c, m->offset, m->bytes);
  if (!--c->parts) {
    gpu_chunk **at = &pool->chunks;
    while (*at != c) at = &(*at)->next;
    *at = c->next;
    chunk_free(pool, c);
  }
  pthread_mutex_unlock(&pool->lock);
  free(m);
}

gpu_binding gpu_pool_chunk(const gpu_memory *m) {
  return (gpu_binding){.buffer = m->buffer, .offset = 0, .bytes = m->chunk->bytes};
}

/* ---- the kit's hooks over an endpoint's pool ---- */

int32_t gpu_alloc(void *self, uint64_t bytes, void **buffer, accel_plugin_error *error) {
  gpu_memory *m = NULL;
  const int32_t rc = gpu_pool_take(&((gpu_self *)self)->pool, bytes, &m, error);
  *buffer = m;
  return rc;
}

void gpu_release(void *self, void *buffer) { gpu_pool_give(&((gpu_self *)self)->pool, buffer); }

int32_t gpu_upload(void *self, void *buffer, uint64_t offset, const void *source, uint64_t bytes,
                   accel_plugin_error *error) {
  const gpu_memory *m = buffer;
  const gpu_binding to = {.buffer = m->buffer, .offset = m->offset + offset, .bytes = bytes};
  return bytes ? gpu_plugin_api.write(((gpu_self *)self)->device, &to, source, error)
               : ACCEL_PLUGIN_OK;
}

int32_t gpu_download(void *self, void *destination, void *buffer, uint64_t offset, uint64_t bytes,
                     accel_plugin_error *error) {
  const gpu_memory *m = buffer;
  const gpu_binding from = {.buffer = m->buffer, .offset = m->offset + offset, .bytes = bytes};
  return bytes ? gpu_plugin_api.read(((gpu_self *)self)->device, destination, &from, error)
               : ACCEL_PLUGIN_OK;
}
