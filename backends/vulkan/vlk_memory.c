/* vlk_memory.c - buffers, and copies between them and the host. */
#include <stdlib.h>
#include <string.h>

#include "vulkan/vlk.h"

static const VkMemoryPropertyFlags LOCAL = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT,
                                   VISIBLE = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                                             VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
                                   CACHED = VK_MEMORY_PROPERTY_HOST_CACHED_BIT;

/* Properties that a memory type must have, and those of which it must lack at least one. */
typedef struct memory_kind {
  VkMemoryPropertyFlags with, without;
} memory_kind;

/* The kinds that serve, the best first; the list ends where `with` is 0. On a discrete card,
 * memory of the host is never taken for memory of the device. */
static const memory_kind *memory_kinds(const gpu_device *d, bool host) {
  static const memory_kind
      staging[] = {{VISIBLE | CACHED, LOCAL}, {VISIBLE | CACHED, 0}, {VISIBLE, 0}, {0, 0}},
      shared[] = {{LOCAL | VISIBLE | CACHED, 0}, {LOCAL | VISIBLE, 0}, {LOCAL, 0},
                  {VISIBLE | CACHED, 0},         {VISIBLE, 0},         {0, 0}},
      card[] = {{LOCAL, VISIBLE}, {LOCAL, 0}, {0, 0}};
  return host ? staging : d->limits.unified ? shared : card;
}

static VkResult allocate(gpu_device *d, const VkMemoryRequirements *need, bool host, gpu_buffer *b,
                         VkMemoryPropertyFlags *flags) {
  VkResult result = VK_ERROR_OUT_OF_DEVICE_MEMORY;
  uint32_t tried = 0;
  for (const memory_kind *w = memory_kinds(d, host); w->with; w++)
    for (uint32_t i = 0; i < d->card->memory.memoryTypeCount; i++) {
      VkMemoryPropertyFlags has = d->card->memory.memoryTypes[i].propertyFlags;
      if (!(need->memoryTypeBits & 1u << i) || tried & 1u << i || (has & w->with) != w->with ||
          (w->without && (has & w->without) == w->without))
        continue;
      tried |= 1u << i;
      VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                   .allocationSize = need->size,
                                   .memoryTypeIndex = i};
      result = d->AllocateMemory(d->handle, &info, NULL, &b->memory);
      *flags = has;
      if (result == VK_SUCCESS) return result;
      b->memory = VK_NULL_HANDLE;
      if (result != VK_ERROR_OUT_OF_DEVICE_MEMORY) return result;
    }
  return result;
}

static VkResult fill(gpu_device *d, uint64_t bytes, bool host, gpu_buffer *b) {
  const uint32_t families[2] = {(uint32_t)d->card->queue_family, (uint32_t)d->card->copy_family};
  const bool two = d->card->copy_family >= 0; /* queues that use it, neither of which owns it */
  VkBufferCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
      .sharingMode = two ? VK_SHARING_MODE_CONCURRENT : VK_SHARING_MODE_EXCLUSIVE,
      .queueFamilyIndexCount = two ? 2 : 0,
      .pQueueFamilyIndices = families,
      .size = bytes,
      .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
               VK_BUFFER_USAGE_TRANSFER_DST_BIT};
  VkMemoryRequirements need;
  VkMemoryPropertyFlags flags = 0;
  VkResult result = d->CreateBuffer(d->handle, &info, NULL, &b->handle);
  if (result != VK_SUCCESS) {
    b->handle = VK_NULL_HANDLE;
    return result;
  }
  d->GetBufferMemoryRequirements(d->handle, b->handle, &need);
  result = allocate(d, &need, host, b, &flags);
  if (result == VK_SUCCESS) result = d->BindBufferMemory(d->handle, b->handle, b->memory, 0);
  if (result == VK_SUCCESS && (flags & VISIBLE) == VISIBLE && (host || d->limits.unified))
    result = d->MapMemory(d->handle, b->memory, 0, VK_WHOLE_SIZE, 0, &b->mapped);
  b->bytes = bytes;
  return result;
}

static void drop(gpu_device *d, gpu_buffer *b) {
  if (!atomic_load(&d->stuck)) {
    if (b->handle) d->DestroyBuffer(d->handle, b->handle, NULL);
    if (b->memory) d->FreeMemory(d->handle, b->memory, NULL); /* unmaps it */
  }
  free(b);
}

int32_t vlk_alloc(gpu_device *d, uint64_t bytes, bool host, gpu_buffer **out, void **mapped,
                  accel_plugin_error *error) {
  static const uint64_t unit = 256;
  *out = NULL;
  if (atomic_load(&d->lost)) return vlk_lost(error);
  bytes = bytes ? (bytes + unit - 1) / unit * unit : unit;
  gpu_buffer *b = calloc(1, sizeof *b);
  if (!b) return kit_no_memory(error, sizeof *b);
  VkResult result =
      bytes > d->limits.buffer ? VK_ERROR_OUT_OF_DEVICE_MEMORY : fill(d, bytes, host, b);
  if (result == VK_SUCCESS) {
    atomic_fetch_add(&d->allocated, bytes);
    if (mapped) *mapped = b->mapped;
    *out = b;
    return ACCEL_PLUGIN_OK;
  }
  drop(d, b);
  int32_t rc = vlk_fail(d, error, result, "allocating");
  if (rc == ACCEL_PLUGIN_E_DEVICE_MEMORY)
    kit_fail(error, rc, -1,
             "%llu bytes of %s memory were refused beside the %llu that are allocated (%llu in "
             "all, %llu in one piece): use "
             "a smaller batch, a lower "
             "precision or another device",
             (unsigned long long)bytes, host ? "staging" : "device",
             (unsigned long long)atomic_load(&d->allocated), (unsigned long long)d->limits.memory,
             (unsigned long long)d->limits.buffer);
  return rc;
}

void vlk_release(gpu_device *d, gpu_buffer *b) {
  if (!b) return;
  atomic_fetch_add(&d->released, 1);
  atomic_fetch_sub(&d->allocated, b->bytes);
  drop(d, b);
}

/* ---- copies ---- */

static int32_t through(gpu_device *d, const gpu_binding *to, const gpu_binding *from,
                       accel_plugin_error *error) {
  gpu_stream *stream;
  int32_t rc = vlk_begin(d, NULL, &stream, error);
  if (rc) return rc;
  rc = vlk_copy(stream, to, from, error);
  int32_t end = vlk_end(stream, rc != ACCEL_PLUGIN_OK, NULL, rc ? NULL : error);
  return rc ? rc : end;
}

/* Copies piece by piece through the staging buffer: from host memory `in`, or to host memory
 * `out`; the other is NULL. */
static int32_t staged(gpu_device *d, const gpu_binding *far, const char *in, char *out,
                      accel_plugin_error *error) {
  int32_t rc = ACCEL_PLUGIN_OK;
  pthread_mutex_lock(&d->staging_lock);
  if (!d->staging) rc = vlk_alloc(d, VLK_STAGING, true, &d->staging, NULL, error);
  for (uint64_t done = 0; !rc && done < far->bytes;) {
    uint64_t n = far->bytes - done < VLK_STAGING ? far->bytes - done : VLK_STAGING;
    gpu_binding there = {far->buffer, far->offset + done, n}, here = {d->staging, 0, n};
    if (in) memcpy(d->staging->mapped, in + done, (size_t)n);
    rc = in ? through(d, &there, &here, error) : through(d, &here, &there, error);
    if (!rc && out) memcpy(out + done, d->staging->mapped, (size_t)n);
    done += n;
  }
  pthread_mutex_unlock(&d->staging_lock);
  return rc;
}

int32_t vlk_write(gpu_device *d, const gpu_binding *to, const void *from,
                  accel_plugin_error *error) {
  if (atomic_load(&d->lost)) return vlk_lost(error);
  if (!to->buffer->mapped) return staged(d, to, from, NULL, error);
  memcpy((char *)to->buffer->mapped + to->offset, from, (size_t)to->bytes);
  return ACCEL_PLUGIN_OK;
}

int32_t vlk_read(gpu_device *d, void *to, const gpu_binding *from, accel_plugin_error *error) {
  if (atomic_load(&d->lost)) return vlk_lost(error);
  if (!from->buffer->mapped) return staged(d, from, NULL, to, error);
  memcpy(to, (const char *)from->buffer->mapped + from->offset, (size_t)from->bytes);
  return ACCEL_PLUGIN_OK;
}
