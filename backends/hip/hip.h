/* hip.h - the calls in which ROCm's HIP runtime, NVIDIA's driver and the emulator differ, and
 * the host code above them.
 *
 *   gpu_api (hip_api.c, hip_devices.c)  ->  hip_runtime, one per process, which is filled by
 *   hip_plugin_vendor.load of
 *     hip_rocm.c      libamdhip64.so.{7,6,5} by dlopen         libaccel_rocm.so
 *     hip_cuda.c      libcuda.so.1 by dlopen                   libaccel_cuda.so
 *     hip_emulated.c  the emulator (hip_emulator.h)                libaccel_hip-emulated.so
 *
 * HIP took its driver-level calls from CUDA, argument for argument: one table of pointers serves
 * both. Device addresses are uint64_t (a CUdeviceptr is one, HIP's pointers are as wide),
 * handles void *, results the vendor's code with 0 for success; the numbers of errors are CUDA's
 * in both. Nothing of a vendor is linked, and no struct of theirs is read whose layout changed
 * between releases (hipDeviceProp_t). */
#ifndef ACCEL_HIP_H
#define ACCEL_HIP_H

#include "gpu/gpu.h"

enum { /* results that both vendors number alike */
       HIP_OUT_OF_MEMORY = 2,
       HIP_NO_DEVICE = 100,
       HIP_INVALID_DEVICE = 101,
       HIP_INVALID_IMAGE = 200,
       HIP_NO_BINARY = 209,
       HIP_UNSUPPORTED_PTX = 222,
       HIP_NOT_READY = 600,
       HIP_ILLEGAL_ADDRESS = 700,
       HIP_LAUNCH_FAILURE = 719
};

/* Attributes of a device that the host code reads; each runtime has its own numbers for them. */
typedef enum hip_attribute {
  HIP_THREADS_PER_BLOCK,
  HIP_SHARED_BYTES,
  HIP_GRID_X,
  HIP_GRID_Y,
  HIP_GRID_Z,
  HIP_WAVE,
  HIP_UNITS,
  HIP_INTEGRATED,
  HIP_MAJOR,
  HIP_MINOR,
  HIP_CLOCK_KHZ,
  HIP_MEMORY_CLOCK_KHZ,
  HIP_MEMORY_BUS_BITS,
  HIP_ATTRIBUTES
} hip_attribute;

typedef struct hip_compiler { /* hiprtc or NVRTC: the same calls, again */
  char what[48];              /* "hiprtc 5.2", "NVRTC 13.0" */
  int (*create)(void **program, const char *source, const char *name, int n, const char **headers,
                const char **names);
  int (*destroy)(void **program);
  int (*compile)(void *program, int n, const char **options);
  int (*log_size)(void *program, size_t *n);
  int (*log)(void *program, char *text);
  int (*code_size)(void *program, size_t *n);
  int (*code)(void *program, char *bytes);
  const char *(*text)(int code);
} hip_compiler;

typedef struct hip_runtime {
  char what[64];   /* "HIP runtime 5.2.21153": the driver of accel_plugin_device */
  const char *api; /* as transports name it (accel/comm.h) */
  int attribute_number[HIP_ATTRIBUTES];
  int (*init)(unsigned flags);
  int (*count)(int *n);
  int (*device_name)(char *name, int n, int device);
  int (*device_memory)(size_t *bytes, int device);
  int (*device_address)(char *id, int n, int device); /* of PCI: "0000:03:00.0" */
  int (*attribute)(int *value, int number, int device);
  int (*memory_free)(size_t *free, size_t *total);
  int (*allocate)(uint64_t *address, size_t bytes);
  int (*release)(uint64_t address);
  int (*host_allocate)(void **memory, size_t bytes, unsigned flags);
  int (*host_release)(void *memory);
  int (*host_address)(uint64_t *address, void *memory, unsigned flags);
  int (*to_device)(uint64_t to, const void *from, size_t bytes, void *stream);
  int (*from_device)(void *to, uint64_t from, size_t bytes, void *stream);
  int (*within)(uint64_t to, uint64_t from, size_t bytes, void *stream);
  int (*stream_new)(void **stream, unsigned flags);
  int (*stream_free)(void *stream);
  int (*stream_wait)(void *stream);
  int (*stream_after)(void *stream, void *event, unsigned flags); /* waits there for an event */
  int (*event_new)(void **event, unsigned flags);
  int (*event_free)(void *event);
  int (*event_record)(void *event, void *stream);
  int (*event_wait)(void *event);    /* on this thread */
  int (*event_reached)(void *event); /* 0, or HIP_NOT_READY */
  int (*event_ms)(float *ms, void *first, void *last);
  int (*module_load)(void **module, const void *image);
  int (*module_free)(void *module);
  int (*function)(void **function, void *module, const char *name);
  int (*launch)(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                unsigned block_y, unsigned block_z, unsigned shared_bytes, void *stream,
                void **arguments, void **extra);
  /* Made of several calls of the vendor's by hip_rocm.c, hip_cuda.c and hip_emulated.c: */
  int (*retain)(int device, void **context); /* before a device is used, and once after */
  void (*drop)(int device, void *context);
  /* on this thread; whatever was current comes back with leave */
  int (*enter)(int device, void *context, void **before);
  void (*leave)(int device, void *before);
  const char *(*text)(int code);
  void (*arch)(int device, char *out, size_t n); /* "gfx90a:sramecc+:xnack-", "sm_90", "wave64" */
  /* Optional: bytes behind each of the next launch's addresses, and a bit for each that is a whole
   * allocation, of which the kernel touches some part; what the last failed launch or copy of a
   * stream was about. */
  void (*bounds)(void *stream, const uint64_t *bytes, uint32_t n, uint32_t whole);
  const char *(*detail)(void *stream);
  /* Optional: 0, or why[n] says which command may still read memory that the host writes next. */
  int (*host_writes)(const void *memory, uint64_t bytes, char *why, size_t n);
} hip_runtime;

/* ---- hip_library.c ---- */

typedef struct hip_symbol {
  const char *name;
  size_t offset; /* of the pointer in the table */
  bool optional;
} hip_symbol;

/* A vendor's runtime: where it is looked for, and which functions go into hip_runtime and into the
 * vendor's own table. */
typedef struct hip_library {
  const char *what, *remedy;
  const char *const *names; /* for dlopen, NULL at the end */
  const hip_symbol *calls, *vendor_calls;
  size_t n_calls, n_vendor_calls;
} hip_library;
/* false: *why says what was tried, or what is missing, and the remedy. */
bool hip_library_load(const hip_library *library, hip_runtime *runtime, void *vendor, char *why,
                      size_t n);

/* A run-time compiler; hiprtc and NVRTC have the same functions under their prefixes. */
typedef struct hip_rtc {
  const char *what, *prefix; /* prefix of its functions */
  const char *code;          /* <prefix>Get<code>: "Code", "CUBIN" */
  const char *const *names;
} hip_rtc;
/* rtc may be NULL: there is none. */
bool hip_rtc_load(const hip_rtc *rtc, hip_compiler *out, char *why, size_t n);

/* ---- the vendor ---- */

/* One per plugin: hip_rocm.c, hip_cuda.c, hip_emulated.c. */
typedef struct hip_vendor {
  uint32_t device_type; /* of its devices that are not integrated */
  uint32_t flags;       /* of all its devices (accel_plugin_device.flags) */
  uint32_t route;       /* of all its devices, likewise */
  /* Fills the table, or says why there is none and what to do. */
  bool (*load)(hip_runtime *runtime, char *why, size_t n);
  const hip_rtc *rtc; /* the run-time compiler; NULL: none */
  /* Memory that the kernel tells without a context; false: ask the runtime. */
  bool (*memory)(const char *address, accel_plugin_memory *out);
} hip_vendor;
extern const hip_vendor hip_plugin_vendor;

/* hip_image.c: what was compiled at build for the architectures `built_for` ("gfx90a gfx1030",
 * "" when no compiler was there), and the kernels' text for the run-time compiler. */
extern const char *const hip_built_for;
const void *hip_image(void); /* NULL: none */
const char *hip_source(void);

/* ---- hip_devices.c ---- */

/* The process's runtime, or NULL with *why: a sentence that lives on. */
const hip_runtime *hip_runtime_get(const char **why);
const hip_compiler *hip_compiler_get(const char **why);
int32_t hip_devices(const accel_plugin_host *host, accel_plugin_device *out, uint32_t capacity,
                    uint32_t *n, accel_plugin_error *error);
int32_t hip_memory(uint32_t device, accel_plugin_memory *out, accel_plugin_error *error);
int hip_ask(const hip_runtime *runtime, hip_attribute what, int device, int absent);
/* Is there code for this architecture in the image? */
bool hip_is_built_for(const char *arch);

/* ---- hip_code.c ---- */

/* The kernels for a device: from the image, else compiled here and kept in the host's cache (host
 * may be NULL).  The device is current. */
int32_t hip_load_kernels(const hip_runtime *runtime, const char *arch,
                         const accel_plugin_host *host, void **module, accel_plugin_error *error);
/* The name under which code is kept that the compiler makes of the kernels' text for an
 * architecture: letters that files may have. */
void hip_code_key(const hip_compiler *compiler, const char *arch, char *key, size_t n);
/* Compiles the kernels' text for an architecture; *code is to be freed. */
int32_t hip_compile(const hip_compiler *compiler, const char *arch, char **code, size_t *n,
                    accel_plugin_error *error);

#endif
