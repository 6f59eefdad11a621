/* hip_cuda.c - the table from NVIDIA's driver.  The names with _v2 are those that today's headers mean
 * without it. */
#include <stdio.h>
#include <string.h>

#include "hip/hip.h"

typedef struct cuda_own { /* what only this file calls */
  int (*driver_version)(int *version);
  int (*device_get)(int *device, int ordinal);
  int (*name)(char *name, int n, int device);
  int (*total)(size_t *bytes, int device);
  int (*address)(char *id, int n, int device);
  int (*attribute)(int *value, int number, int device);
  int (*retain)(void **context, int device);
  int (*drop)(int device);
  int (*push)(void *context);
  int (*pop)(void **context);
  int (*error_string)(int code, const char **text);
} cuda_own;
static cuda_own own;

#define CALL(name, field) \
  { name, offsetof(hip_runtime, field), false }
static const hip_symbol calls[] = {
    CALL("cuInit", init),
    CALL("cuDeviceGetCount", count),
    CALL("cuMemGetInfo_v2", memory_free),
    CALL("cuMemAlloc_v2", allocate),
    CALL("cuMemFree_v2", release),
    CALL("cuMemHostAlloc", host_allocate),
    CALL("cuMemFreeHost", host_release),
    CALL("cuMemHostGetDevicePointer_v2", host_address),
    CALL("cuMemcpyHtoDAsync_v2", to_device),
    CALL("cuMemcpyDtoHAsync_v2", from_device),
    CALL("cuMemcpyDtoDAsync_v2", within),
    CALL("cuStreamCreate", stream_new),
    CALL("cuStreamDestroy_v2", stream_free),
    CALL("cuStreamSynchronize", stream_wait),
    CALL("cuEventCreate", event_new),
    CALL("cuEventDestroy_v2", event_free),
    CALL("cuEventRecord", event_record),
    CALL("cuEventElapsedTime", event_ms),
    CALL("cuModuleLoadData", module_load),
    CALL("cuModuleUnload", module_free),
    CALL("cuModuleGetFunction", function),
    CALL("cuLaunchKernel", launch),
};
static const hip_symbol own_calls[] = {
    {"cuDriverGetVersion", offsetof(cuda_own, driver_version), false},
    {"cuDeviceGet", offsetof(cuda_own, device_get), false},
    {"cuDeviceGetName", offsetof(cuda_own, name), false},
    {"cuDeviceTotalMem_v2", offsetof(cuda_own, total), false},
    {"cuDeviceGetPCIBusId", offsetof(cuda_own, address), false},
    {"cuDeviceGetAttribute", offsetof(cuda_own, attribute), false},
    {"cuDevicePrimaryCtxRetain", offsetof(cuda_own, retain), false},
    {"cuDevicePrimaryCtxRelease_v2", offsetof(cuda_own, drop), false},
    {"cuCtxPushCurrent_v2", offsetof(cuda_own, push), false},
    {"cuCtxPopCurrent_v2", offsetof(cuda_own, pop), false},
    {"cuGetErrorString", offsetof(cuda_own, error_string), false},
};
#define COUNT(list) (sizeof(list) / sizeof *(list))

static const int numbers[HIP_ATTRIBUTES] = {
    /* CUdevice_attribute */
    [HIP_THREADS_PER_BLOCK] = 1,
    [HIP_SHARED_BYTES] = 8,
    [HIP_GRID_X] = 5,
    [HIP_GRID_Y] = 6,
    [HIP_GRID_Z] = 7,
    [HIP_WAVE] = 10,
    [HIP_UNITS] = 16,
    [HIP_INTEGRATED] = 18,
    [HIP_MAJOR] = 75,
    [HIP_MINOR] = 76,
    [HIP_CLOCK_KHZ] = 13,
    [HIP_MEMORY_CLOCK_KHZ] = 36,
    [HIP_MEMORY_BUS_BITS] = 37,
};

/* The driver's handles in place of ordinals. */
static int device_name(char *name, int n, int device) {
  int handle, code = own.device_get(&handle, device);
  return code ? code : own.name(name, n, handle);
}
static int device_memory(size_t *bytes, int device) {
  int handle, code = own.device_get(&handle, device);
  return code ? code : own.total(bytes, handle);
}
static int device_address(char *id, int n, int device) {
  int handle, code = own.device_get(&handle, device);
  return code ? code : own.address(id, n, handle);
}
static int attribute(int *value, int number, int device) {
  int handle, code = own.device_get(&handle, device);
  return code ? code : own.attribute(value, number, handle);
}

static int retain(int device, void **context) {
  int handle, code = own.device_get(&handle, device);
  return code ? code : own.retain(context, handle);
}
static void drop(int device, void *context) {
  int handle;
  (void)context;
  if (!own.device_get(&handle, device)) own.drop(handle);
}
static int enter(int device, void *context, void **before) {
  (void)device;
  *before = NULL;
  return own.push(context);
}
static void leave(int device, void *before) {
  void *mine;
  (void)device, (void)before;
  own.pop(&mine);
}

static const char *text(int code) {
  const char *said = NULL;
  return !own.error_string(code, &said) && said ? said : "no text";
}

static void arch(int device, char *out, size_t n) {
  int major = 0, minor = 0;
  *out = 0;
  if (!attribute(&major, numbers[HIP_MAJOR], device) &&
      !attribute(&minor, numbers[HIP_MINOR], device))
    snprintf(out, n, "sm_%d%d", major, minor);
}

static const char *const driver_names[] = {"libcuda.so.1", NULL};
static const hip_library driver = {.what = "NVIDIA's driver",
                                   .remedy = "install it for the kernel that runs",
                                   .names = driver_names,
                                   .calls = calls,
                                   .n_calls = COUNT(calls),
                                   .own_calls = own_calls,
                                   .n_own_calls = COUNT(own_calls)};

static bool load(hip_runtime *r, char *why, size_t n) {
  int version = 0;
  if (!hip_library_load(&driver, r, &own, why, n)) return false;
  own.driver_version(&version);
  snprintf(r->what, sizeof r->what, "CUDA driver %d.%d", version / 1000, version % 1000 / 10);
  memcpy(r->attribute_number, numbers, sizeof numbers);
  r->device_name = device_name;
  r->device_memory = device_memory;
  r->device_address = device_address;
  r->attribute = attribute;
  r->retain = retain;
  r->drop = drop;
  r->enter = enter;
  r->leave = leave;
  r->text = text;
  r->arch = arch;
  return true;
}

static const char *const compiler_names[] = {"libnvrtc.so.13",
                                             "libnvrtc.so.12",
                                             "libnvrtc.so.11.2",
                                             "/usr/local/cuda/lib64/libnvrtc.so.13",
                                             "/usr/local/cuda/lib64/libnvrtc.so.12",
                                             NULL};
static const hip_rtc nvrtc = {
    .what = "NVRTC", .prefix = "nvrtc", .code = "CUBIN", .names = compiler_names};

const hip_vendor hip_plugin_vendor = {
    .device_type = ACCEL_PLUGIN_DEVICE_DISCRETE_GPU,
    .load = load,
    .rtc = &nvrtc,
};
