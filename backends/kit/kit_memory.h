/* kit_memory.h - the memory of one endpoint: the limit it counts against, the free list between one
 * session's pages and the next one's, and buffers in host or device memory alike. */
#ifndef ACCEL_KIT_MEMORY_H
#define ACCEL_KIT_MEMORY_H

#include <pthread.h>
#include <stdatomic.h>

#include "kit/kit.h"

/* ---- free list ---- */

/* Memory of pages that a session gave back, kept for the next one: a system that has to make memory
 * anew clears it first (2 to 9 % of a prompt's time on a virtual machine, docs/performance.md).  At
 * most KIT_FREE_BYTES; they stay counted as taken.  Blocks are from kit_alloc_pages, buffers from
 * kit_buffer_alloc. */
enum { KIT_FREE_BYTES = 64 << 20 };
typedef enum kit_free_kind { KIT_FREE_BLOCK, KIT_FREE_BUFFER } kit_free_kind;
typedef struct kit_free_list {
  pthread_mutex_t lock;
  struct kit_free_entry *first;
  uint64_t bytes;
} kit_free_list;
/* The largest entry of its kind that is a multiple of `unit` bytes and at most *bytes, which
 * becomes its size; NULL: there is none. */
void *kit_free_list_take(kit_free_list *list, kit_free_kind kind, uint64_t unit, uint64_t *bytes);
/* false: the list is full, and the memory is still the caller's */
bool kit_free_list_put(kit_free_list *list, kit_free_kind kind, void *memory, uint64_t bytes);
/* Frees all entries; returns how many bytes they were. */
uint64_t kit_free_list_drop(kit_free_list *list);

/* ---- accounting and buffers ---- */

typedef struct kit_memory {
  const kit_backend *backend;
  void *self;              /* the backend's, for its alloc, upload and download */
  uint64_t limit;          /* bytes for weights, scratch and KV pages together; 0: none */
  uint64_t weights;        /* bytes the weights take of it */
  _Atomic uint64_t taken;  /* bytes of scratch and KV pages, those of the free list included */
  kit_free_list free_list; /* of pages in host memory */
} kit_memory;

void kit_memory_init(kit_memory *m, const kit_backend *backend);
void kit_memory_destroy(kit_memory *m);
/* Counts `bytes` of scratch or KV pages as taken; false, and nothing is counted, when they would
 * pass the limit even after the free list was dropped. */
bool kit_memory_take(kit_memory *m, uint64_t bytes);
void kit_memory_give(kit_memory *m, uint64_t bytes);
/* Drops the free list; returns the bytes that went back. */
uint64_t kit_memory_trim(kit_memory *m);

/* Buffers on the device, or of kit_buffer_alloc where the backend computes in host memory.  They
 * are not counted: that is the caller's. */
int32_t kit_memory_alloc(const kit_memory *m, uint64_t bytes, void **out,
                         accel_plugin_error *error);
void kit_memory_free(const kit_memory *m, void *buffer); /* NULL: nothing */
int32_t kit_memory_read(const kit_memory *m, void *to, void *buffer, uint64_t offset,
                        uint64_t bytes, accel_plugin_error *error);
int32_t kit_memory_write(const kit_memory *m, void *buffer, uint64_t offset, const void *from,
                         uint64_t bytes, accel_plugin_error *error);
/* Between two buffers, through host memory on devices. */
int32_t kit_memory_copy(const kit_memory *m, void *to, uint64_t to_offset, void *from,
                        uint64_t from_offset, uint64_t bytes, accel_plugin_error *error);

#endif
