/* gpu.h - what the GPU plugins share: one op layer and one set of kernels over the few calls in
 * which OpenCL, Vulkan and HIP/CUDA differ.
 *
 *   kit (program, plan, sessions)
 *     -> gpu (op -> dispatches, weights, memory, constants of a run)
 *     -> gpu_api of opencl/, vulkan/ or hip/ (memory, kernels, queues)
 *
 * This header is the seam between the two lower layers: what an API layer needs to see. What ops
 * see is in gpu_layer.h.
 *
 * Kernels are written once, in the dialect of dialect/README.md, and compiled for each API from
 * the same text: OpenCL C 1.2 at run time, GLSL to SPIR-V at build, HIP and CUDA device code at
 * build or by hiprtc / NVRTC, plain C++ for the emulator. gpu_kernels.def lists them;
 * embed.cmake runs the preprocessor over every one. A kernel for some APIs only (matrix units,
 * sub-groups) names them there.
 *
 * Every activation is fp32 in device memory; weights keep the format they are given in
 * (gpu_weights.c). A kernel addresses its buffers by 32-bit element indices within the range
 * bound, which is at most gpu_limits.binding bytes: larger weights are bound as panels of rows.
 * No device needs sub-groups, 8- or 16-bit storage, or device pointers; kernels for sub-groups,
 * integer dot products and matrix units are chosen by gpu_limits and proven on the device first
 * (gpu_variants.c).
 *
 * A plugin: a folder with a CMakeLists.txt that calls gpu_plugin()
 * (backends/gpu/CMakeLists.txt), a `const gpu_api gpu_plugin_api`, and its kernels' text or
 * binaries. gpu_plugin.c makes the plugin's table of it. */
#ifndef ACCEL_GPU_H
#define ACCEL_GPU_H

#include "kit/kit.h"

enum {
  GPU_BINDINGS = 16, /* buffers of one kernel, at most */
  /* bytes: 4 for each buffer's first element and the parameters; Vulkan promises no more push
   * constants */
  GPU_PARAMS = 128,
  GPU_UPDATE = 65536 /* bytes of one gpu_api.update, at most */
};

/* Kernels that an API layer has for CPUs behind it (gpu_layer.h; opencl/cpu/ocl_cpu.h). */
typedef struct gpu_cpu_kernels gpu_cpu_kernels;

/* What a device can do.  Filled by gpu_api.open. */
typedef struct gpu_limits {
  /* largest range of one binding, bytes (Vulkan: maxStorageBufferRange less its offset
   * alignment) */
  uint64_t binding;
  /* largest single allocation, bytes (OpenCL: CL_DEVICE_MAX_MEM_ALLOC_SIZE); at most 8 GiB */
  uint64_t buffer;
  /* parts of one allocation begin at multiples of it: a power of two, at least 16 */
  uint64_t align;
  uint64_t memory;                  /* what may be allocated in all, bytes; 0: unknown */
  uint32_t groups[3];               /* workgroups of a dispatch along each axis */
  uint32_t local_size, local_bytes; /* invocations and shared memory of a workgroup */
  uint32_t wave;                    /* lanes that run together; 1 on CPU devices */
  uint32_t units;                   /* compute units, 0: unknown */
  bool cpu;                         /* a CPU behind the API, such as PoCL's and lavapipe's */
  /* used for linear layers, attention and norms in place of the GPUs'; NULL: the GPUs' run */
  const gpu_cpu_kernels *cpu_kernels;
  bool unified; /* device memory is host memory */
  bool fp16;    /* halves are numbers of the device's language */
  /* four products of signed bytes and their sum are one fast instruction (DOT4) */
  bool int_dot;
  /* the kernels called *_native have it, the others do without (Vulkan) */
  bool int_dot_native;
  bool sub_groups; /* the kernels *_sub run: sums and maxima over sub-groups */
  /* gpu_variant: what the matrix units multiply, in waves of `wave` lanes
   * (kernels/matrix_unit.h) */
  uint32_t matrix;
  bool wmma;           /* they are RDNA3's, in waves of 32 */
  bool cooperative;    /* they are Vulkan's cooperative matrices, in waves of 32 */
  bool emulated;       /* a card that the processor plays: its times tell nothing */
  bool small_tiles;    /* they were faster than large ones (gpu_probe_times.c) */
  bool attention_rows; /* attention goes by rows, never by tiles (gpu_attention_tiled) */
} gpu_limits;

/* Kernels that some devices have beside the plain ones (gpu_variants.c). */
typedef enum gpu_variant {
  GPU_VARIANT_INT_DOT = 1, /* int8 weights by codes of eight bits */
  GPU_VARIANT_MATRIX_F16 = 2,
  GPU_VARIANT_MATRIX_BF16 = 4,
  GPU_VARIANT_MATRIX_I8 = 8,
  GPU_VARIANT_SUB_GROUPS = 16 /* reductions of rows and attention: the kernels *_sub */
} gpu_variant;

/* the API's, opened once per endpoint or shared between them, as the API likes */
typedef struct gpu_device gpu_device;
typedef struct gpu_buffer gpu_buffer; /* the API's: one allocation */
typedef struct gpu_stream gpu_stream; /* the API's: the commands of one run, in order */
typedef struct gpu_event gpu_event;   /* the API's: a place in a stream that others wait for */

/* Part of an allocation.  Any multiple of 4: an API that binds at coarser offsets binds from the
 * multiple below and hands the kernel the elements between as AT's offset (dialect/README.md). */
typedef struct gpu_binding {
  gpu_buffer *buffer;
  uint64_t offset, bytes; /* both multiples of 4; bytes > 0 */
} gpu_binding;

/* One kernel over a grid.  Commands of a stream behave as if each ended before the next began. */
typedef struct gpu_dispatch {
  uint32_t kernel; /* gpu_kernel_id, or GPU_KERNELS + index of gpu_cpu_kernels.kernels */
  uint32_t n_bind;
  const gpu_binding *bind; /* [n_bind], in the order of the kernel's BUFFERS */
  const void *params;      /* the kernel's PARAMS: 32-bit words, native order */
  uint32_t params_bytes;   /* that kernel's gpu_kernel.params_bytes */
  uint32_t groups[3];      /* each >= 1 and within gpu_limits.groups */
  uint32_t node;           /* program node: for errors and profiles */
} gpu_dispatch;

/* What opencl/, vulkan/ and hip/ supply.  All return accel_plugin_rc with *error filled; nothing
 * aborts or prints.  A device is used from many threads at once, a stream from one.  Device loss:
 * ACCEL_PLUGIN_E_DEVICE_LOST from then on. */
typedef struct gpu_api {
  /* accel_plugin's own: devices with the reason for each that is not usable, memory of one. */
  int32_t (*devices)(const accel_plugin_host *host, accel_plugin_device *out, uint32_t capacity,
                     uint32_t *n, accel_plugin_error *error);
  int32_t (*memory)(uint32_t device, accel_plugin_memory *out, accel_plugin_error *error);
  int32_t (*open)(uint32_t index, const accel_plugin_options *options, gpu_device **out,
                  gpu_limits *limits, accel_plugin_error *error);
  void (*close)(gpu_device *device);
  /* `host`: visible to the host at the same address for its life (staging), mapped at *mapped.
   * E_DEVICE_MEMORY when there is no room, with the bytes asked for. */
  int32_t (*alloc)(gpu_device *device, uint64_t bytes, bool host, gpu_buffer **out, void **mapped,
                   accel_plugin_error *error);
  void (*release)(gpu_device *device, gpu_buffer *buffer);
  /* Copies outside streams: done when the call returns. */
  int32_t (*write)(gpu_device *device, const gpu_binding *to, const void *from,
                   accel_plugin_error *error);
  int32_t (*read)(gpu_device *device, void *to, const gpu_binding *from, accel_plugin_error *error);
  /* A run: begin, any number of commands, end.  `host` lends its cache for kernels built during the
   * run and lives until end. `end` waits, frees the stream and may tell the device's milliseconds
   * (*device_ms stays 0 otherwise); after a failed command it is called with abandon true: nothing
   * more is started, what runs is waited for. `mark` is called in runs whose host has `profile`,
   * and in no others: what the device does for the commands from here to the next mark is added to
   * *us (microseconds; NaN at first) by `end`, where the device has a clock. */
  int32_t (*begin)(gpu_device *device, const accel_plugin_host *host, gpu_stream **out,
                   accel_plugin_error *error);
  int32_t (*dispatch)(gpu_stream *stream, const gpu_dispatch *what, accel_plugin_error *error);
  int32_t (*copy)(gpu_stream *stream, const gpu_binding *to, const gpu_binding *from,
                  accel_plugin_error *error);
  /* Copies at most GPU_UPDATE bytes of host memory, which may be reused when the call returns, in
   * the order of the stream.
   */
  int32_t (*update)(gpu_stream *stream, const gpu_binding *to, const void *from,
                    accel_plugin_error *error);
  int32_t (*mark)(gpu_stream *stream, double *us, accel_plugin_error *error);
  int32_t (*end)(gpu_stream *stream, bool abandon, double *device_ms, accel_plugin_error *error);

  /* ---- copies beside a run (gpu_offload.c) ---- */

  /* Whether the device has memory that is not the host's, or plays a card that has. */
  bool (*own_memory)(uint32_t index);
  /* As begin, of a stream that only copies and updates: on a queue of the device's own for that,
   * where it has one.  It may go on from one run to the next, on another thread: `host` lives until
   * its end. */
  int32_t (*begin_copies)(gpu_device *device, const accel_plugin_host *host, gpu_stream **out,
                          accel_plugin_error *error);
  int32_t (*event_new)(gpu_device *device, gpu_event **out, accel_plugin_error *error);
  void (*event_free)(gpu_device *device, gpu_event *event); /* NULL: nothing */
  /* The event is, from now on, where the stream's commands so far have ended; they are started. */
  int32_t (*record)(gpu_stream *stream, gpu_event *event, accel_plugin_error *error);
  /* The stream's commands from here on begin behind an event that another stream has recorded
   * before, and see what was written until then. */
  int32_t (*wait)(gpu_stream *stream, gpu_event *event, accel_plugin_error *error);
  /* Whether the commands before the event's last record have ended, *out; wait: when they have.  One
   * that was never recorded has been reached. */
  int32_t (*reached)(gpu_device *device, gpu_event *event, bool wait, bool *out,
                     accel_plugin_error *error);
  /* The host is about to write there, in memory that copies read: fails where one that was told
   * before may still run.  NULL but in the emulator. */
  int32_t (*host_writes)(gpu_device *device, const gpu_binding *what, accel_plugin_error *error);

  /* Sums n floats over the ranks in the order of the stream; E_UNSUPPORTED, with no error written:
   * that goes through host memory.  NULL: it always does. */
  int32_t (*allreduce)(gpu_stream *stream, const gpu_binding *data, uint64_t n,
                       const accel_plugin_host *host);
} gpu_api;

/* For `end`: NaN is where nothing was added yet. */
static inline void gpu_add_us(double *us, double more) { *us = (*us == *us ? *us : 0.0) + more; }

/* Each plugin defines this one. */
extern const gpu_api gpu_plugin_api;

/* ---- kernels: gpu_kernels.def ---- */

/* Stores of weights as kernels know them, numbered in the order of formats.def (gpu_kernels.cmake
 * reads the same lines).  The first four are always these: some kernels have them alone. */
typedef enum gpu_store {
#define GPU_STORE_own(name)                           GPU_STORE_##name,
#define GPU_STORE_as_u4(name)                         /* codes are stored offset by 8, which is their zero */
#define GPU_STORE_none(name)                          /* widened to fp32 */
#define ACCEL_PLAIN(name, bits, file, precision, gpu) GPU_STORE_##gpu(name)
#define ACCEL_CODED(name, bits, file, precision, scale, zero, outer, group, largest, codec, cpu, \
                    gpu)                                                                         \
  GPU_STORE_##gpu(name)
#include "formats/formats.def"
#undef GPU_STORE_own
#undef GPU_STORE_as_u4
#undef GPU_STORE_none
  GPU_STORES
} gpu_store;
_Static_assert(GPU_STORE_F32 == 0 && GPU_STORE_F16 == 1 && GPU_STORE_BF16 == 2 && GPU_STORE_I8 == 3,
               "numbers of kernels that are for some stores alone");

/* Kernels of a GPU_KERNEL_STORES line by its `count`. */
enum { GPU_STORES_3 = 3, GPU_STORES_4 = 4, GPU_STORES_all = GPU_STORES };

/* GPU_K_<name> for every kernel, in the order of gpu_kernel_list (gpu_kernels.cmake); of the
 * kernels of a store for the first and the last (gpu_kernel_of_store). */
typedef enum gpu_kernel_id {
#define GPU_SUBGROUP_0(name)
#define GPU_SUBGROUP_1(name) GPU_K_##name##_sub,
#define GPU_STORES_SUBGROUP_0(name, count)
#define GPU_STORES_SUBGROUP_1(name, count) GPU_STORES_OF(name, _sub, count)
#define GPU_STORES_OF(name, end, count) \
  GPU_K_##name##_f32##end,              \
      GPU_K_##name##_last##end = GPU_K_##name##_f32##end + GPU_STORES_##count - 1,
#define GPU_KERNEL(name, file, defines, apis, subgroup) GPU_K_##name, GPU_SUBGROUP_##subgroup(name)
#define GPU_KERNEL_STORES(name, file, defines, apis, subgroup, count) \
  GPU_STORES_OF(name, , count) GPU_STORES_SUBGROUP_##subgroup(name, count)
#include "gpu/gpu_kernels.def"
#undef GPU_SUBGROUP_0
#undef GPU_SUBGROUP_1
#undef GPU_STORES_OF
#undef GPU_STORES_SUBGROUP_0
#undef GPU_STORES_SUBGROUP_1
  GPU_KERNELS
} gpu_kernel_id;

/* Of the kernels that one GPU_KERNEL_STORES line makes, the one that reads `store`. f32: the
 * line's first, GPU_K_<name>_f32. The line must have as many stores. */
static inline uint32_t gpu_kernel_of_store(gpu_kernel_id f32, gpu_store store) {
  return (uint32_t)f32 + (uint32_t)store;
}

/* Made by embed.cmake from the kernels' own lists, so that host and device agree. */
typedef struct gpu_kernel {
  const char *name; /* entry point, file-scope name in every API */
  const char *only; /* APIs it is for, a space between; "" all */
  /* gpu_kernel_id of the variant by sub-groups; the kernel's own where it has none */
  uint32_t subgroup;
  uint32_t local; /* invocations of a workgroup, along x */
  uint32_t n_bind, params_bytes;
  uint32_t params; /* number of its list of parameters: equal lists have the same */
} gpu_kernel;
extern const gpu_kernel gpu_kernels[GPU_KERNELS];

#endif
