/* kit_memory.c - memory of an endpoint: accounting against its limit, the free list of pages,
 * buffers in host or device memory. */
#include "kit/kit_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __EMSCRIPTEN__
#include <emscripten/heap.h>
#include <malloc.h>
#endif

/* ---- the system's memory ---- */

#ifdef __EMSCRIPTEN__
/* The module's memory: what it may grow to, and what of that is not in use. */
int32_t kit_system_memory(accel_plugin_memory *m, accel_plugin_error *error) {
  (void)error;
  m->total = m->shared_with_host = emscripten_get_heap_max();
  m->free = m->budget = m->total - emscripten_get_heap_size() + (uint64_t)mallinfo().fordblks;
  return ACCEL_PLUGIN_OK;
}
#else
/* MemAvailable in bytes; 0 when the system does not say. */
static uint64_t available(void) {
  FILE *f = fopen("/proc/meminfo", "re");
  char line[128];
  unsigned long long kib = 0;
  while (f && !kib && fgets(line, sizeof line, f)) (void)!sscanf(line, "MemAvailable: %llu", &kib);
  if (f) fclose(f);
  return (uint64_t)kib * 1024;
}

int32_t kit_system_memory(accel_plugin_memory *m, accel_plugin_error *error) {
  const long page = sysconf(_SC_PAGESIZE), all = sysconf(_SC_PHYS_PAGES),
             unused = sysconf(_SC_AVPHYS_PAGES);
  if (page < 0 || all < 0 || unused < 0)
    return kit_fail(error, ACCEL_PLUGIN_E_IO, -1, "the system does not tell its memory");
  const uint64_t ready = available();
  m->total = m->shared_with_host = (uint64_t)page * (uint64_t)all;
  m->free = m->budget = ready ? ready : (uint64_t)page * (uint64_t)unused;
  return ACCEL_PLUGIN_OK;
}
#endif

/* ---- free list ---- */

typedef struct kit_free_entry { /* at the start of the memory */
  struct kit_free_entry *next;
  uint64_t bytes;
  kit_free_kind kind;
} kit_free_entry;

void *kit_free_list_take(kit_free_list *list, kit_free_kind kind, uint64_t unit, uint64_t *bytes) {
  kit_free_entry **best = NULL;
  pthread_mutex_lock(&list->lock);
  for (kit_free_entry *s, **at = &list->first; (s = *at); at = &s->next)
    if (s->kind == kind && s->bytes <= *bytes && s->bytes % unit == 0 &&
        (!best || s->bytes > (*best)->bytes))
      best = at;
  kit_free_entry *found = best ? *best : NULL;
  if (found) {
    *best = found->next;
    *bytes = found->bytes;
    list->bytes -= found->bytes;
  }
  pthread_mutex_unlock(&list->lock);
  return found;
}

bool kit_free_list_put(kit_free_list *list, kit_free_kind kind, void *memory, uint64_t bytes) {
  pthread_mutex_lock(&list->lock);
  const bool keep = bytes <= KIT_FREE_BYTES - list->bytes;
  if (keep) {
    kit_free_entry *entry = memory;
    *entry = (kit_free_entry){.next = list->first, .bytes = bytes, .kind = kind};
    list->first = entry;
    list->bytes += bytes;
  }
  pthread_mutex_unlock(&list->lock);
  return keep;
}

uint64_t kit_free_list_drop(kit_free_list *list) {
  pthread_mutex_lock(&list->lock);
  const uint64_t bytes = list->bytes;
  for (kit_free_entry *next, *at = list->first; at; at = next) {
    next = at->next;
    if (at->kind == KIT_FREE_BUFFER)
      kit_buffer_free(0, at);
    else
      free(at);
  }
  list->first = NULL;
  list->bytes = 0;
  pthread_mutex_unlock(&list->lock);
  return bytes;
}

/* ---- accounting ---- */

void kit_memory_init(kit_memory *m, const kit_backend *backend) {
  *m = (kit_memory){.backend = backend};
  pthread_mutex_init(&m->free_list.lock, NULL);
}

void kit_memory_destroy(kit_memory *m) { pthread_mutex_destroy(&m->free_list.lock); }

static bool count_as_taken(kit_memory *m, uint64_t bytes) {
  const uint64_t before = atomic_fetch_add(&m->taken, bytes), most = m->limit - m->weights;
  if (!m->limit || (before <= most && bytes <= most - before)) return true;
  atomic_fetch_sub(&m->taken, bytes);
  return false;
}

bool kit_memory_take(kit_memory *m, uint64_t bytes) {
  if (count_as_taken(m, bytes)) return true;
  kit_memory_trim(m);
  return count_as_taken(m, bytes);
}

void kit_memory_give(kit_memory *m, uint64_t bytes) { atomic_fetch_sub(&m->taken, bytes); }

uint64_t kit_memory_trim(kit_memory *m) {
  const uint64_t bytes = kit_free_list_drop(&m->free_list);
  kit_memory_give(m, bytes);
  return bytes;
}

/* ---- buffers ---- */

int32_t kit_memory_alloc(const kit_memory *m, uint64_t bytes, void **out,
                         accel_plugin_error *error) {
  if (m->backend->alloc) return m->backend->alloc(m->self, bytes, out, error);
  return kit_buffer_alloc(0, bytes, out, error);
}

void kit_memory_free(const kit_memory *m, void *buffer) {
  if (!buffer) return;
  if (m->backend->alloc)
    m->backend->release(m->self, buffer);
  else
    kit_buffer_free(0, buffer);
}

int32_t kit_memory_read(const kit_memory *m, void *to, void *buffer, uint64_t offset,
                        uint64_t bytes, accel_plugin_error *error) {
  if (m->backend->alloc) return m->backend->download(m->self, to, buffer, offset, bytes, error);
  memcpy(to, (char *)buffer + offset, bytes);
  return ACCEL_PLUGIN_OK;
}

int32_t kit_memory_write(const kit_memory *m, void *buffer, uint64_t offset, const void *from,
                         uint64_t bytes, accel_plugin_error *error) {
  if (m->backend->alloc) return m->backend->upload(m->self, buffer, offset, from, bytes, error);
  memcpy((char *)buffer + offset, from, bytes);
  return ACCEL_PLUGIN_OK;
}

int32_t kit_memory_copy(const kit_memory *m, void *to, uint64_t to_offset, void *from,
                        uint64_t from_offset, uint64_t bytes, accel_plugin_error *error) {
  if (!m->backend->alloc)
    return kit_memory_write(m, to, to_offset, (char *)from + from_offset, bytes, error);
  void *bounce = malloc(bytes ? bytes : 1);
  if (!bounce) return kit_no_memory(error, bytes);
  int32_t rc = kit_memory_read(m, bounce, from, from_offset, bytes, error);
  if (!rc) rc = kit_memory_write(m, to, to_offset, bounce, bytes, error);
  free(bounce);
  return rc;
}
