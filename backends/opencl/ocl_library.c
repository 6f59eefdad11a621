/* ocl_library.c - the OpenCL loader by dlopen, and the devices behind it. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "opencl/ocl.h"

enum { PLATFORMS = 16 };

ocl_functions ocl;

static struct {
  pthread_once_t once;
  uint32_t n;
  gpu_device device[OCL_DEVICES];
  char why[240]; /* not empty: no devices, and this is why */
} found = {.once = PTHREAD_ONCE_INIT};

static bool load_functions(void) {
  void *library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    snprintf(found.why, sizeof found.why,
             "libOpenCL.so.1 cannot be loaded: install an OpenCL loader (Debian: "
             "ocl-icd-libopencl1) and a driver "
             "(mesa-opencl-icd, intel-opencl-icd, rocm-opencl-icd or pocl-opencl-icd)");
    return false;
  }
#define OCL_LOAD(name)                                                            \
  *(void **)&ocl.name = dlsym(library, #name);                                    \
  if (!ocl.name) {                                                                \
    snprintf(found.why, sizeof found.why,                                         \
             "libOpenCL.so.1 has no %s: install a loader for OpenCL 1.2", #name); \
    return false;                                                                 \
  }
  OCL_FUNCTIONS(OCL_LOAD)
  return true;
}

static void add_devices(cl_platform_id platform, cl_device_type type) {
  cl_device_id id[OCL_DEVICES];
  cl_uint n = 0;
  if (ocl.clGetDeviceIDs(platform, type, OCL_DEVICES, id, &n) != CL_SUCCESS) return;
  for (cl_uint i = 0; i < n && i < OCL_DEVICES && found.n < OCL_DEVICES; i++) {
    gpu_device *d = &found.device[found.n++];
    d->platform = platform;
    d->id = id[i];
    pthread_mutex_init(&d->lock, NULL);
    for (int k = 0; k < OCL_KERNELS; k++) pthread_mutex_init(&d->kernel[k].lock, NULL);
    ocl_describe(d);
  }
}

static void find(void) {
  static const cl_device_type order[] = {CL_DEVICE_TYPE_GPU, CL_DEVICE_TYPE_ACCELERATOR,
                                         CL_DEVICE_TYPE_CPU};
  cl_platform_id platform[PLATFORMS];
  cl_uint n = 0;
  if (!load_functions()) return;
  const cl_int code = ocl.clGetPlatformIDs(PLATFORMS, platform, &n);
  if ((code != CL_SUCCESS && code != -1001) || !n) {
    snprintf(found.why, sizeof found.why,
             "libOpenCL.so.1 knows no driver (%s): install one (Debian: mesa-opencl-icd, "
             "intel-opencl-icd, rocm-opencl-icd or "
             "pocl-opencl-icd)",
             ocl_code(code));
    return;
  }
  for (size_t t = 0; t < sizeof order / sizeof *order; t++)
    for (cl_uint i = 0; i < n && i < PLATFORMS; i++) add_devices(platform[i], order[t]);
  if (!found.n)
    snprintf(found.why, sizeof found.why,
             "the OpenCL drivers installed have no device on this machine");
}

gpu_device *ocl_devices(uint32_t *n, accel_plugin_error *error) {
  pthread_once(&found.once, find);
  *n = found.n;
  if (found.n) return found.device;
  kit_fail(error, ACCEL_PLUGIN_E_DRIVER, -1, "%s", found.why);
  return NULL;
}

const char *ocl_code(cl_int code) {
  static const struct {
    cl_int code;
    const char *name;
  } names[] = {{0, "CL_SUCCESS"},
               {-1, "CL_DEVICE_NOT_FOUND"},
               {-2, "CL_DEVICE_NOT_AVAILABLE"},
               {-3, "CL_COMPILER_NOT_AVAILABLE"},
               {-4, "CL_MEM_OBJECT_ALLOCATION_FAILURE"},
               {-5, "CL_OUT_OF_RESOURCES"},
               {-6, "CL_OUT_OF_HOST_MEMORY"},
               {-11, "CL_BUILD_PROGRAM_FAILURE"},
               {-14, "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST"},
               {-30, "CL_INVALID_VALUE"},
               {-36, "CL_INVALID_COMMAND_QUEUE"},
               {-38, "CL_INVALID_MEM_OBJECT"},
               {-42, "CL_INVALID_BINARY"},
               {-46, "CL_INVALID_KERNEL_NAME"},
               {-52, "CL_INVALID_KERNEL_ARGS"},
               {-54, "CL_INVALID_WORK_GROUP_SIZE"},
               {-55, "CL_INVALID_WORK_ITEM_SIZE"},
               {-61, "CL_INVALID_BUFFER_SIZE"},
               {-63, "CL_INVALID_GLOBAL_WORK_SIZE"},
               {-1001, "CL_PLATFORM_NOT_FOUND_KHR"}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (names[i].code == code) return names[i].name;
  return "an OpenCL error";
}

int32_t ocl_fail(gpu_device *d, cl_int code, const char *call, accel_plugin_error *error) {
  int32_t rc = ACCEL_PLUGIN_E_DRIVER;
  const char *advice = "";
  if (code == CL_MEM_OBJECT_ALLOCATION_FAILURE) {
    rc = ACCEL_PLUGIN_E_DEVICE_MEMORY;
    advice = ": use a smaller batch or a smaller precision";
  } else if (code == CL_OUT_OF_HOST_MEMORY) {
    rc = ACCEL_PLUGIN_E_HOST_MEMORY;
  } else if (code == CL_DEVICE_NOT_AVAILABLE || code == CL_OUT_OF_RESOURCES ||
             code == CL_INVALID_COMMAND_QUEUE ||
             code == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST || code <= -9000) {
    rc = ACCEL_PLUGIN_E_DEVICE_LOST;
    advice = ": close this device's endpoints; if it comes back, look at the driver's log (dmesg)";
    atomic_store(&d->lost, true);
  }
  kit_fail(error, rc, -1, "%s on %s: %s (%d)%s", call, d->info.name, ocl_code(code), code, advice);
  if (error) error->native = code;
  return rc;
}

const gpu_api gpu_plugin_api = {
    .devices = ocl_list,
    .memory = ocl_memory,
    .open = ocl_open,
    .close = ocl_close,
    .alloc = ocl_alloc,
    .release = ocl_release,
    .write = ocl_write,
    .read = ocl_read,
    .begin = ocl_begin,
    .dispatch = ocl_dispatch,
    .copy = ocl_copy,
    .update = ocl_update,
    .mark = ocl_mark,
    .end = ocl_end,
    .own_memory = ocl_own_memory,
    .begin_copies = ocl_begin_copies,
    .event_new = ocl_event_new,
    .event_free = ocl_event_free,
    .record = ocl_record,
    .wait = ocl_wait,
    .reached = ocl_reached,
};
