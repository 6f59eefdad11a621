/* hip_cuda.c - hip_runtime over NVIDIA's driver library. The names with _v2 are those that
 * today's CUDA headers mean without it. */
#include <stdio.h>
#include <string.h>

#include "hip/hip.h"

typedef struct cuda_driver { /* functions that only this file calls */
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
} cuda_driver;
static cuda_driver cuda;

static const hip_symbol calls[] = {
#define HIP_SYMBOL(field, rocm, cuda) {cuda, offsetof(hip_runtime, field), false},
#include "hip/hip_symbols.def"
};
static const hip_symbol cuda_calls[] = {
    {"cuDriverGetVersion", offsetof(cuda_driver, driver_version), false},
    {"cuDeviceGet", offsetof(cuda_driver, device_get), false},
    {"cuDeviceGetName", offsetof(cuda_driver, name), false},
    {"cuDeviceTotalMem_v2", offsetof(cuda_driver, total), false},
    {"cuDeviceGetPCIBusId", offsetof(cuda_driver, address), false},
    {"cuDeviceGetAttribute", offsetof(cuda_driver, attribute), false},
    {"cuDevicePrimaryCtxRetain", offsetof(cuda_driver, retain), false},
    {"cuDevicePrimaryCtxRelease_v2", offsetof(cuda_driver, drop), false},
    {"cuCtxPushCurrent_v2", offsetof(cuda_driver, push), false},
    {"cuCtxPopCurrent_v2", offsetof(cuda_driver, pop), false},
    {"cuGetErrorString", offsetof(cuda_driver, error_string), false},
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

/* The driver takes handles where hip_runtime has ordinals of devices. */
static int device_name(char *name, int n, int device) {
  int handle, code = cuda.device_get(&handle, device);
  return code ? code : cuda.name(name, n, handle);
}
static int device_memory(size_t *bytes, int device) {
  int handle, code = cuda.device_get(&handle, device);
  return code ? code : cuda.total(bytes, handle);
}
static int device_address(char *id, int n, int device) {
  int handle, code = cuda.device_get(&handle, device);
  return code ? code : cuda.address(id, n, handle);
}
static int attribute(int *value, int number, int device) {
  int handle, code = cuda.device_get(&handle, device);
  return code ? code : cuda.attribute(value, number, handle);
}

static int retain(int device, void **context) {
  int handle, code = cuda.device_get(&handle, device);
  return code ? code : cuda.retain(context, handle);
}
static void drop(int device, void *context) {
  int handle;
  (void)context;
  if (!cuda.device_get(&handle, device)) cuda.drop(handle);
}
static int enter(int device, void *context, void **before) {
  (void)device;
  *before = NULL;
  return cuda.push(context);
}
static void leave(int device, void *before) {
  void *mine;
  (void)device, (void)before;
  cuda.pop(&mine);
}

static const char *text(int code) {
  const char *said = NULL;
  return !cuda.error_string(code, &said) && said ? said : "no text";
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
                                   .vendor_calls = cuda_calls,
                                   .n_vendor_calls = COUNT(cuda_calls)};

static bool load(hip_runtime *r, char *why, size_t n) {
  int version = 0;
  if (!hip_library_load(&driver, r, &cuda, why, n)) return false;
  cuda.driver_version(&version);
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
  r->api = "cuda";
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
    .route = 20,
    .load = load,
    .rtc = &nvrtc,
};
