/* vlk.h - the Vulkan plugin inside: the loader and its devices, and the gpu_api over Vulkan 1.1
 * core.
 *
 * Nothing of Vulkan is linked: libvulkan.so.1 is opened at the first question, functions come by
 * vkGet*ProcAddr, the headers are a build dependency only. One instance lives from then on to
 * the end of the process, and so does the VkDevice of a card once it was opened, with its
 * pipelines: compiling them again costs more than keeping them. Only a device that was lost is
 * taken down, when its last endpoint closes, so that the next one starts afresh.
 *
 * Files: vlk_loader.c (library, instance) vlk_device.c (what there is) vlk_open.c (logical
 * devices, limits) vlk_memory.c (buffers, copies) vlk_pipeline.c (kernels, cache) vlk_stream.c
 * (commands of a run) vlk_api.c (the gpu_api). */
#ifndef ACCEL_VULKAN_VLK_H
#define ACCEL_VULKAN_VLK_H

#define VK_NO_PROTOTYPES
#include <pthread.h>
#include <stdatomic.h>
#include <vulkan/vulkan_core.h>

#include "gpu/gpu.h"

enum {
  VLK_MAX_DEVICES = 16,
  VLK_MAX_HEAPS = VK_MAX_MEMORY_HEAPS,
  VLK_SETS = 256,               /* descriptor sets of one pool */
  VLK_IN_FLIGHT = 8,            /* submissions of a stream, the one being recorded among them */
  VLK_COMMANDS = 1024,          /* of one submission, at most */
  VLK_WAITS = 4,                /* semaphores that one submission waits for, at most */
  VLK_QUOTA = 1024,             /* work of the first submissions, see vlk_stream.c */
  VLK_UPDATES = 4 * GPU_UPDATE, /* bytes of the updates of one submission */
  /* bytes of the buffer that copies from and to the host go through */
  VLK_STAGING = 8 * 1024 * 1024,
};

/* ---- vlk_loader.c ---- */

/* A card as the loader shows it, read once. */
typedef struct vlk_card {
  VkPhysicalDevice handle;
  VkPhysicalDeviceProperties properties;
  VkPhysicalDeviceMemoryProperties memory;
  VkPhysicalDeviceIDProperties id;
  VkPhysicalDeviceSubgroupProperties subgroup;
  VkPhysicalDeviceMaintenance3Properties allocation;
  VkPhysicalDeviceDriverProperties driver; /* zeros before Vulkan 1.2 */
  char pci[16];                            /* "0000:03:00.0", empty when not told */
  bool has_budget;
  bool has_dot, fast_dot; /* OpSDot of packed signed bytes; by an instruction of its own */
  /* gpu_variant: what its cooperative matrices multiply in the kernels linear_cooperative_* */
  uint32_t matrix;
  int32_t queue_family; /* -1: it computes nothing */
  int32_t copy_family;  /* a queue that only copies; -1: there is none */
  bool has_timeline;    /* semaphores that count */
  uint32_t timestamp_bits;
} vlk_card;

typedef struct vlk_loader {
  PFN_vkGetInstanceProcAddr get;
  VkInstance instance;
#define VLK_GLOBAL(name)   PFN_vk##name name;
#define VLK_INSTANCE(name) PFN_vk##name name;
#include "vulkan/functions.def"
  uint32_t n_card;
  vlk_card card[VLK_MAX_DEVICES];
} vlk_loader;

/* The loader with its cards; NULL when there is none, with `why` filled.  What failed is tried
 * again at the next call. */
const vlk_loader *vlk_load(char *why, size_t n);
/* gpu_variant: of those kernels' sizes (kernels/matrix_unit.h), which a list of
 * vkGetPhysicalDeviceCooperativeMatrixPropertiesNV has. */
uint32_t vlk_matrix_sizes(const VkCooperativeMatrixPropertiesNV *list, uint32_t n);
/* Text of a VkResult's number. */
const char *vlk_result(VkResult result);

/* ---- vlk_device.c ---- */

int32_t vlk_devices(const accel_plugin_host *host, accel_plugin_device *out, uint32_t capacity,
                    uint32_t *n, accel_plugin_error *error);
int32_t vlk_memory(uint32_t device, accel_plugin_memory *out, accel_plugin_error *error);
/* Empty, or why a card cannot serve at all, with what to do. */
void vlk_unusable(const vlk_card *card, char *why, size_t n);
static inline bool vlk_is_cpu(const vlk_card *card) {
  return card->properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
}

/* ---- vlk_open.c ---- */

/* Layouts by the number of buffers: pipelines with as many share one. */
typedef struct vlk_layout {
  VkDescriptorSetLayout set;
  VkPipelineLayout pipeline;
} vlk_layout;

typedef struct vlk_script { /* commands as bytes, see vlk_stream.c */
  uint8_t *data;
  size_t n, room;
} vlk_script;

typedef struct vlk_batch {
  vlk_script script, known; /* what this run asks; what `commands` hold, n 0: nothing */
  uint64_t known_at;        /* gpu_device.released when they were recorded */
  gpu_buffer *staging;      /* of updates; NULL until the first */
  uint32_t staged;
  VkCommandPool pool;
  VkCommandBuffer commands;
  VkFence fence;
  VkQueryPool times;          /* two: begin and end; null without timestamps */
  VkQueryPool marks;          /* VLK_COMMANDS of profiled runs; null before the first */
  uint32_t mark, n_marks;     /* first of them in gpu_stream.us, and how many */
  VkDescriptorPool *sets;     /* [n_sets]; filled one after the other */
  uint32_t n_sets, set, used; /* pools; the one being filled, and how many of it are taken */
  uint32_t commands_n;
  uint64_t work; /* see vlk_stream.c */
} vlk_batch;

struct gpu_stream {
  gpu_device *device;
  gpu_stream *next; /* in the device's free list */
  const accel_plugin_host *host;
  /* a ring: n_flying from `first` on are submitted, the next one is being recorded */
  vlk_batch batch[VLK_IN_FLIGHT];
  uint32_t first, n_flying;
  bool recording;
  bool copies; /* of vlk_begin_copies */
  /* what the next submission waits for: semaphores and their values */
  VkSemaphore wait[VLK_WAITS];
  uint64_t wait_value[VLK_WAITS];
  uint32_t n_wait;
  double ms;
  double **us; /* [n_us] of the run's marks, where their times go */
  uint32_t n_us, room_us;
};

struct gpu_device {
  const vlk_loader *loader;
  const vlk_card *card;
  VkDevice handle;
  VkQueue queue, copy_queue; /* the same where there is one */
#define VLK_DEVICE(name)   PFN_vk##name name;
#define VLK_TIMELINE(name) PFN_vk##name name; /* where vlk_card.has_timeline */
#include "vulkan/functions.def"
  gpu_limits limits;
  uint32_t users;          /* endpoints, under the lock of vlk_open.c */
  atomic_bool lost;        /* from then on every call answers E_DEVICE_LOST */
  atomic_bool stuck;       /* work may still run: nothing may be destroyed */
  atomic_ullong allocated; /* bytes */
  atomic_ullong released;  /* buffers so far */
  atomic_ullong replayed;  /* submissions of commands recorded earlier */
  double ms_per_tick;
  uint64_t timeout_ns; /* of one submission */
  pthread_mutex_t queue_lock, staging_lock, cache_lock, stream_lock;
  gpu_buffer *staging;
  VkPipelineCache cache;
  atomic_uint made; /* pipelines */
  uint32_t saved;   /* how many of them the cache on disk knows */
  vlk_layout layout[GPU_BINDINGS + 1];
  _Atomic(VkPipeline) pipeline[GPU_KERNELS];
  gpu_stream *idle, *idle_copies;
  atomic_ullong quota; /* work of one submission, see vlk_stream.c */
};

int32_t vlk_open(uint32_t index, const accel_plugin_options *options, gpu_device **out,
                 gpu_limits *limits, accel_plugin_error *error);
void vlk_close(gpu_device *device);
/* Fills *error from a failed call; a lost device is remembered. */
int32_t vlk_fail(gpu_device *device, accel_plugin_error *error, VkResult result, const char *what);
int32_t vlk_lost(accel_plugin_error *error);

/* ---- vlk_memory.c ---- */

struct gpu_buffer {
  VkBuffer handle;
  VkDeviceMemory memory;
  uint64_t bytes;
  void *mapped; /* coherent host address, NULL when the host does not see it */
};

int32_t vlk_alloc(gpu_device *device, uint64_t bytes, bool host, gpu_buffer **out, void **mapped,
                  accel_plugin_error *error);
void vlk_release(gpu_device *device, gpu_buffer *buffer);
int32_t vlk_write(gpu_device *device, const gpu_binding *to, const void *from,
                  accel_plugin_error *error);
int32_t vlk_read(gpu_device *device, void *to, const gpu_binding *from, accel_plugin_error *error);

/* ---- vlk_pipeline.c ---- */

int32_t vlk_pipeline(gpu_device *device, uint32_t kernel, VkPipeline *out,
                     accel_plugin_error *error);
/* Reads the device's pipelines from the host's cache; writes them there when there are more.
 * `host` may be NULL. */
void vlk_cache_open(gpu_device *device, const accel_plugin_host *host);
void vlk_cache_save(gpu_device *device, const accel_plugin_host *host);

/* ---- vlk_stream.c ---- */

int32_t vlk_begin(gpu_device *device, const accel_plugin_host *host, gpu_stream **out,
                  accel_plugin_error *error);
int32_t vlk_dispatch(gpu_stream *stream, const gpu_dispatch *what, accel_plugin_error *error);
int32_t vlk_copy(gpu_stream *stream, const gpu_binding *to, const gpu_binding *from,
                 accel_plugin_error *error);
int32_t vlk_update(gpu_stream *stream, const gpu_binding *to, const void *from,
                   accel_plugin_error *error);
int32_t vlk_mark(gpu_stream *stream, double *us, accel_plugin_error *error);
int32_t vlk_end(gpu_stream *stream, bool abandon, double *device_ms, accel_plugin_error *error);
void vlk_streams_free(gpu_device *device);

/* Events are semaphores that count.  A card without these has all commands in one queue, in the
 * order in which they are submitted, which is at each event. */
struct gpu_event {
  VkSemaphore semaphore;
  uint64_t value; /* of the last record */
};

bool vlk_own_memory(uint32_t index);
int32_t vlk_begin_copies(gpu_device *device, const accel_plugin_host *host, gpu_stream **out,
                         accel_plugin_error *error);
int32_t vlk_event_new(gpu_device *device, gpu_event **out, accel_plugin_error *error);
void vlk_event_free(gpu_device *device, gpu_event *event);
int32_t vlk_record(gpu_stream *stream, gpu_event *event, accel_plugin_error *error);
int32_t vlk_wait(gpu_stream *stream, gpu_event *event, accel_plugin_error *error);
int32_t vlk_reached(gpu_device *device, gpu_event *event, bool wait, bool *out,
                    accel_plugin_error *error);

#endif
