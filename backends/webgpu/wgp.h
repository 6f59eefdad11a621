/* wgp.h - the WebGPU plugin inside: wgpu-native and the adapters it shows, and the gpu_api over
 * them.
 *
 * Nothing of wgpu-native is linked: the library is opened at the first question and stays. Kernels
 * are the SPIR-V that the Vulkan plugin has (gpu/spirv/gpu_spirv.h), which wgpu-native translates
 * for Vulkan, Metal and Direct3D 12, with their parameters as immediate data; or WGSL made of it,
 * with the parameters in a uniform buffer, where there is no such data. A device, once opened, lives
 * to the end of the process with its pipelines; only a lost one is taken down, when its last
 * endpoint closes.
 *
 * Errors: wgpu-native tells them by a callback in the thread and within the call that is wrong, with
 * a lock held; on_error (wgp_open.c) keeps the first one of the thread, and wgp_check makes an error
 * of it.  A command buffer that is wrong must not be submitted: wgpu-native would end the process.
 *
 * In a web page the calls are the browser's (wgp_page.c in the place of wgp_library.c).
 *
 * Files: wgp_library.c (the library, adapters) wgp_device.c (what there is) wgp_open.c (devices,
 * limits, errors) wgp_memory.c (buffers, copies) wgp_pipeline.c (kernels) wgp_spirv.c, wgp_wgsl.c
 * (their shaders) wgp_stream.c (commands of a run) wgp_api.c (the gpu_api). */
#ifndef ACCEL_WEBGPU_WGP_H
#define ACCEL_WEBGPU_WGP_H

#include <pthread.h>
#include <stdatomic.h>

#include "gpu/gpu.h"
#include "webgpu/wgp_native.h"

enum {
  WGP_MAX_DEVICES = 16,
  WGP_IN_FLIGHT = 8,            /* submissions of a stream, the one being recorded among them */
  WGP_COMMANDS = 1024,          /* of one submission, at most */
  WGP_QUOTA = 1024,             /* work of the first submissions, see wgp_stream.c */
  WGP_UPDATES = 4 * GPU_UPDATE, /* bytes of the updates of one submission */
  WGP_STAGING = 8 << 20,        /* bytes of the buffer that reads go through */
  WGP_UNSUBMITTED = 64 << 20,   /* bytes of writes that wait for a submission, at most */
};

/* ---- wgp_library.c ---- */

typedef struct wgp_card {
  WGPUAdapter handle;
  char name[96], driver[64], api[16]; /* api: Vulkan, Metal, D3D12 */
  uint32_t type;                      /* WGPUAdapterType */
  uint32_t vendor, device;            /* PCI ids; 0: not told */
  bool has_immediates;
  bool wgsl;    /* shaders are WGSL, and parameters lie in a uniform buffer */
  bool browser; /* a page's: in another process, with memory of its own */
  WGPULimits limits;
} wgp_card;

typedef struct wgp_library {
  wgp_functions f;
  WGPUInstance instance;
  char version[24]; /* wgpu-native's */
  char path[512];
  uint32_t n_card;
  wgp_card card[WGP_MAX_DEVICES];
  char why[240]; /* not empty: it cannot be used, and this is why */
} wgp_library;

/* Loaded once; never NULL.  why is empty, or says why it cannot be used. */
const wgp_library *wgp_open_library(void);

/* ---- wgp_device.c ---- */

int32_t wgp_devices(const accel_plugin_host *host, accel_plugin_device *out, uint32_t capacity,
                    uint32_t *n, accel_plugin_error *error);
int32_t wgp_memory(uint32_t device, accel_plugin_memory *out, accel_plugin_error *error);
/* Empty, or why an adapter cannot serve at all, with what to do. */
void wgp_unusable(const wgp_card *card, char *why, size_t n);

/* ---- wgp_open.c ---- */

/* Layouts by the number of buffers, behind which WGSL has the parameters: pipelines with as many
 * share one. */
typedef struct wgp_layout {
  WGPUBindGroupLayout group;
  WGPUPipelineLayout pipeline;
} wgp_layout;

/* What a dispatch binds.  In WGSL's way buffers of the kernel that overlap are one binding. */
typedef struct wgp_binds {
  uint32_t n;
  WGPUBindGroupEntry entry[GPU_BINDINGS + 1];
  uint64_t names; /* 4 bits for each buffer of the kernel: the first one it is bound with */
  uint32_t at[GPU_BINDINGS]; /* element of its binding at which each buffer of the kernel begins */
} wgp_binds;

/* Of `names`: the first buffer that buffer i of the kernel is bound with. */
static inline uint32_t wgp_name_of(uint64_t names, uint32_t i) { return names >> 4 * i & 15; }

/* The pipeline of a kernel some of whose buffers are one. */
typedef struct wgp_shared {
  struct wgp_shared *next;
  uint32_t kernel;
  uint64_t names; /* see wgp_binds */
  WGPUComputePipeline pipeline;
} wgp_shared;

typedef struct wgp_batch { /* a submission that may still run */
  uint64_t index;          /* wgpu-native's */
  uint64_t work;           /* see wgp_stream.c */
  double began;            /* seconds */
} wgp_batch;

struct gpu_stream {
  gpu_device *device;
  gpu_stream *next; /* in the device's free list */
  /* of the commands that are not yet submitted; NULL: none is open */
  WGPUCommandEncoder encoder;
  WGPUComputePassEncoder pass;
  WGPUComputePipeline pipeline; /* that the pass has set; NULL: none */
  uint32_t commands;            /* in the encoder */
  uint64_t work;
  gpu_buffer *updates; /* on the device, and what it is to hold; NULL until the first */
  uint8_t *staged;
  uint32_t n_staged;
  gpu_buffer *params; /* WGSL: parameters of the encoder's dispatches, and what it is to hold */
  uint8_t *params_staged;
  uint32_t n_params;               /* dispatches */
  wgp_batch flying[WGP_IN_FLIGHT]; /* a ring: n_flying from `first` on */
  uint32_t first, n_flying;
  double ended; /* seconds, when the last one was waited for */
};

struct gpu_device {
  const wgp_library *library;
  const wgp_functions *f;
  const wgp_card *card;
  WGPUDevice handle;
  WGPUQueue queue;
  gpu_limits limits;
  uint32_t users;            /* endpoints, under the lock of wgp_open.c */
  atomic_bool lost;          /* from then on every call answers E_DEVICE_LOST */
  atomic_ullong allocated;   /* bytes */
  atomic_ullong unsubmitted; /* bytes of writes since the last submission of this device */
  /* poll: of waiting, during which callbacks are called */
  pthread_mutex_t poll_lock, staging_lock, stream_lock, shared_lock;
  WGPUBuffer staging; /* for reads */
  atomic_int mapped;  /* it, see wgp_memory.c */
  wgp_layout layout[GPU_BINDINGS + 1];
  _Atomic(WGPUComputePipeline) pipeline[GPU_KERNELS];
  wgp_shared *shared; /* under its lock */
  uint32_t stride;    /* bytes from one dispatch's parameters to the next one's */
  gpu_stream *idle;
  atomic_ullong quota; /* work of one submission, see wgp_stream.c */
};

int32_t wgp_open(uint32_t index, const accel_plugin_options *options, gpu_device **out,
                 gpu_limits *limits, accel_plugin_error *error);
void wgp_close(gpu_device *device);
int32_t wgp_lost(accel_plugin_error *error);
/* Forgets what the thread's last calls said. */
void wgp_forget(void);
/* Fills *error with what the thread's calls since wgp_forget said; ACCEL_PLUGIN_OK: nothing. */
int32_t wgp_check(gpu_device *device, const char *what, accel_plugin_error *error);
/* Waits for a submission; callbacks that are due have been called when it returns. */
void wgp_wait(gpu_device *device, uint64_t submission);

/* ---- wgp_memory.c ---- */

struct gpu_buffer {
  WGPUBuffer handle;
  uint64_t bytes;
};

int32_t wgp_alloc(gpu_device *device, uint64_t bytes, bool host, gpu_buffer **out, void **mapped,
                  accel_plugin_error *error);
/* For `usage`, bits of WGPUBufferUsage. */
int32_t wgp_alloc_for(gpu_device *device, uint64_t usage, uint64_t bytes, gpu_buffer **out,
                      accel_plugin_error *error);
void wgp_release(gpu_device *device, gpu_buffer *buffer);
int32_t wgp_write(gpu_device *device, const gpu_binding *to, const void *from,
                  accel_plugin_error *error);
int32_t wgp_read(gpu_device *device, void *to, const gpu_binding *from, accel_plugin_error *error);

/* ---- wgp_pipeline.c ---- */

/* The device's pipeline of a kernel, made at its first use; it stays the device's.  names: see
 * wgp_binds. */
int32_t wgp_pipeline(gpu_device *device, uint32_t kernel, uint64_t names, WGPUComputePipeline *out,
                     accel_plugin_error *error);

/* ---- wgp_spirv.c, wgp_wgsl.c ---- */

/* A kernel's shader; NULL: no host memory. */
WGPUShaderModule wgp_spirv_module(const gpu_device *device, uint32_t kernel);
WGPUShaderModule wgp_wgsl_module(const gpu_device *device, uint32_t kernel, uint64_t names);
/* `names` of a kernel with n buffers, each of which is bound by itself. */
uint64_t wgp_names_apart(uint32_t n);
/* Joins what overlaps in a dispatch: out's names, and per binding buffer, offset and size. */
int32_t wgp_wgsl_bind(const gpu_device *device, const gpu_dispatch *what, wgp_binds *out,
                      accel_plugin_error *error);

/* ---- wgp_stream.c ---- */

int32_t wgp_begin(gpu_device *device, const accel_plugin_host *host, gpu_stream **out,
                  accel_plugin_error *error);
int32_t wgp_dispatch(gpu_stream *stream, const gpu_dispatch *what, accel_plugin_error *error);
int32_t wgp_copy(gpu_stream *stream, const gpu_binding *to, const gpu_binding *from,
                 accel_plugin_error *error);
int32_t wgp_update(gpu_stream *stream, const gpu_binding *to, const void *from,
                   accel_plugin_error *error);
int32_t wgp_mark(gpu_stream *stream, double *us, accel_plugin_error *error);
int32_t wgp_end(gpu_stream *stream, bool abandon, double *device_ms, accel_plugin_error *error);
void wgp_streams_free(gpu_device *device);

#endif
