/* ocl.h - what the files of the OpenCL plugin share.
 *
 * ocl_library.c: the loader library by dlopen, platforms and devices, once for the process.
 * ocl_device.c: their description, memory, opening. ocl_program.c: kernels, built when first
 * used, binaries cached. ocl_stream.c: allocations, copies, runs.
 *
 * The API is OpenCL 1.2 and no extension is needed. A device's context and built kernels live as
 * long as the process, shared by all endpoints; a lost device is released when its last endpoint
 * closes. */
#ifndef ACCEL_OPENCL_H
#define ACCEL_OPENCL_H

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <pthread.h>
#include <stdatomic.h>

#include "gpu/gpu.h"
#include "opencl/cpu/ocl_cpu.h"

/* ---- ocl_library.c ---- */

/* Functions by name; all are there or the library is refused. */
#define OCL_FUNCTIONS(F)          \
  F(clGetPlatformIDs)             \
  F(clGetPlatformInfo)            \
  F(clGetDeviceIDs)               \
  F(clGetDeviceInfo)              \
  F(clCreateContext)              \
  F(clReleaseContext)             \
  F(clCreateCommandQueue)         \
  F(clReleaseCommandQueue)        \
  F(clCreateBuffer)               \
  F(clReleaseMemObject)           \
  F(clCreateProgramWithSource)    \
  F(clCreateProgramWithBinary)    \
  F(clBuildProgram)               \
  F(clGetProgramInfo)             \
  F(clGetProgramBuildInfo)        \
  F(clReleaseProgram)             \
  F(clCreateKernel)               \
  F(clReleaseKernel)              \
  F(clGetKernelWorkGroupInfo)     \
  F(clSetKernelArg)               \
  F(clEnqueueNDRangeKernel)       \
  F(clEnqueueReadBuffer)          \
  F(clEnqueueWriteBuffer)         \
  F(clEnqueueCopyBuffer)          \
  F(clEnqueueMapBuffer)           \
  F(clEnqueueUnmapMemObject)      \
  F(clEnqueueMarkerWithWaitList)  \
  F(clEnqueueBarrierWithWaitList) \
  F(clGetEventInfo)               \
  F(clGetEventProfilingInfo)      \
  F(clWaitForEvents)              \
  F(clReleaseEvent)               \
  F(clFlush)                      \
  F(clFinish)

typedef struct ocl_functions {
#define OCL_MEMBER(name) __typeof__(&name) name;
  OCL_FUNCTIONS(OCL_MEMBER)
#undef OCL_MEMBER
} ocl_functions;

enum {
  OCL_DEVICES = 16,
  OCL_KERNELS = GPU_KERNELS + OCL_CPU_KERNELS /* numbers of kernels: gpu_dispatch.kernel */
};

typedef struct ocl_kernel {
  pthread_mutex_t lock; /* of building, and of arguments with the launch that takes them */
  cl_program program;
  cl_kernel kernel; /* NULL until first used */
} ocl_kernel;

typedef struct ocl_queue {
  struct ocl_queue *next;
  cl_command_queue queue;
  bool timed; /* its commands' times can be asked: of profiled runs */
} ocl_queue;

/* Host memory that queued commands read or write: it begins with this. */
typedef struct ocl_used {
  struct ocl_used *next;
  void *room; /* freed with it; NULL: none */
} ocl_used;

struct gpu_device {
  cl_platform_id platform;
  cl_device_id id;
  int version; /* of OpenCL, the major one */
  accel_plugin_device info;
  gpu_limits limits;
  pthread_mutex_t lock; /* of what follows but for the kernels, which have their own */
  uint32_t users;
  cl_context context; /* NULL until first opened */
  ocl_queue *idle;
  ocl_kernel kernel[OCL_KERNELS];
  ocl_used *left; /* by commands whose end is not known, as the device was lost */
  _Atomic uint64_t allocated;
  atomic_bool lost;
};

extern ocl_functions ocl; /* filled once, before the first device is seen */
/* The devices, found at the first call: *n of them, GPUs first.  NULL and *error when there is no
 * loader or no driver. */
gpu_device *ocl_devices(uint32_t *n, accel_plugin_error *error);
const char *ocl_code(cl_int code); /* "CL_OUT_OF_RESOURCES" */
/* *error from a failed call: memory, lost device or the driver's own; answers the
 * accel_plugin_rc. */
int32_t ocl_fail(gpu_device *device, cl_int code, const char *call, accel_plugin_error *error);

/* ---- ocl_device.c ---- */

void ocl_describe(gpu_device *device); /* fills info and limits */
int32_t ocl_list(const accel_plugin_host *host, accel_plugin_device *out, uint32_t capacity,
                 uint32_t *n, accel_plugin_error *error);
int32_t ocl_memory(uint32_t index, accel_plugin_memory *out, accel_plugin_error *error);
/* gpu_api.own_memory: of a CPU, where its own kernels are not taken (ACCEL_GPU_VARIANTS=card). */
bool ocl_own_memory(uint32_t index);
int32_t ocl_open(uint32_t index, const accel_plugin_options *options, gpu_device **out,
                 gpu_limits *limits, accel_plugin_error *error);
void ocl_close(gpu_device *device);

/* ---- ocl_program.c ---- */

extern const char *const gpu_kernel_text[GPU_KERNELS]; /* by embed.cmake */
const gpu_kernel *ocl_kernel_info(uint32_t id);
/* The kernel, built or from the cache of `host` (may be NULL).  Its lock is to be held. */
int32_t ocl_kernel_get(gpu_device *device, uint32_t id, const accel_plugin_host *host,
                       accel_plugin_error *error);
void ocl_kernels_free(gpu_device *device);

/* ---- ocl_stream.c ---- */

int32_t ocl_alloc(gpu_device *device, uint64_t bytes, bool host, gpu_buffer **out, void **mapped,
                  accel_plugin_error *error);
void ocl_release(gpu_device *device, gpu_buffer *buffer);
int32_t ocl_write(gpu_device *device, const gpu_binding *to, const void *from,
                  accel_plugin_error *error);
int32_t ocl_read(gpu_device *device, void *to, const gpu_binding *from, accel_plugin_error *error);
int32_t ocl_begin(gpu_device *device, const accel_plugin_host *host, gpu_stream **out,
                  accel_plugin_error *error);
int32_t ocl_dispatch(gpu_stream *stream, const gpu_dispatch *what, accel_plugin_error *error);
int32_t ocl_copy(gpu_stream *stream, const gpu_binding *to, const gpu_binding *from,
                 accel_plugin_error *error);
int32_t ocl_update(gpu_stream *stream, const gpu_binding *to, const void *from,
                   accel_plugin_error *error);
int32_t ocl_mark(gpu_stream *stream, double *us, accel_plugin_error *error);
int32_t ocl_end(gpu_stream *stream, bool abandon, double *device_ms, accel_plugin_error *error);
int32_t ocl_begin_copies(gpu_device *device, const accel_plugin_host *host, gpu_stream **out,
                         accel_plugin_error *error);
int32_t ocl_event_new(gpu_device *device, gpu_event **out, accel_plugin_error *error);
void ocl_event_free(gpu_device *device, gpu_event *event);
int32_t ocl_record(gpu_stream *stream, gpu_event *event, accel_plugin_error *error);
int32_t ocl_wait(gpu_stream *stream, gpu_event *event, accel_plugin_error *error);
int32_t ocl_reached(gpu_device *device, gpu_event *event, bool wait, bool *out,
                    accel_plugin_error *error);

#endif
