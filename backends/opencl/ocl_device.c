/* ocl_device.c - a device's description and limits, its memory, and opening it for endpoints. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/gpu_variants.h"
#include "opencl/ocl.h"

enum { /* of extensions, by their numbers */
       NV_BUS = 0x4008,
       NV_SLOT = 0x4009,
       AMD_TOPOLOGY = 0x4037,
       AMD_FREE_MEMORY = 0x4039,
       KHR_PCI = 0x410F,
       SUB_GROUPS = 0x105C, /* CL_DEVICE_MAX_NUM_SUB_GROUPS, of OpenCL 2.1 */
       DOT_PACKED = 0x1075  /* cl_device_integer_dot_product_acceleration_properties_khr */
};
enum { LEAST_LOCAL_BYTES = 16384, LEAST_GROUP = 256 }; /* what the kernels take for granted */

static void text(const gpu_device *d, cl_device_info what, char *out, size_t n) {
  char value[1024] = "";
  if (ocl.clGetDeviceInfo(d->id, what, sizeof value - 1, value, NULL) != CL_SUCCESS) value[0] = 0;
  const char *from = value;
  while (*from == ' ') from++;
  size_t length = strlen(from);
  while (length && from[length - 1] == ' ') length--;
  if (length >= n) length = n - 1;
  memcpy(out, from, length);
  out[length] = 0;
}

static uint64_t number(const gpu_device *d, cl_device_info what) {
  uint64_t value = 0; /* answers of 4 or 8 bytes; little-endian hosts alone are supported */
  return ocl.clGetDeviceInfo(d->id, what, sizeof value, &value, NULL) == CL_SUCCESS ? value : 0;
}

/* The bus address as KHR, AMD or NVIDIA tell it; a CPU device has none. */
static void identify(const gpu_device *d, char *out, size_t n) {
  cl_uint khr[4] = {0}, bus = 0, slot = 0, kind = 0; /* domain, bus, device, function */
  unsigned char amd[24] = {0};
  if (ocl.clGetDeviceInfo(d->id, KHR_PCI, sizeof khr, khr, NULL) == CL_SUCCESS) {
    snprintf(out, n, "%04x:%02x:%02x.%x", khr[0] & 0xffff, khr[1] & 255, khr[2] & 31, khr[3] & 7);
    return;
  }
  if (ocl.clGetDeviceInfo(d->id, AMD_TOPOLOGY, sizeof amd, amd, NULL) == CL_SUCCESS)
    memcpy(&kind, amd, 4);
  if (kind == 1)
    snprintf(out, n, "0000:%02x:%02x.%x", amd[21], amd[22] & 31, amd[23] & 7);
  else if (ocl.clGetDeviceInfo(d->id, NV_BUS, sizeof bus, &bus, NULL) == CL_SUCCESS &&
           ocl.clGetDeviceInfo(d->id, NV_SLOT, sizeof slot, &slot, NULL) == CL_SUCCESS)
    snprintf(out, n, "0000:%02x:%02x.%x", bus & 255, slot >> 3 & 31, slot & 7);
  else
    snprintf(out, n, "opencl-%.40s", d->info.name);
}

static void judge(gpu_device *d) {
  char version[64];
  int major = 0, minor = 0;
  const gpu_limits *l = &d->limits;
  char *why = d->info.unusable;
  const size_t n = sizeof d->info.unusable;
  text(d, CL_DEVICE_OPENCL_C_VERSION, version, sizeof version);
  (void)!sscanf(version, "OpenCL C %d.%d", &major, &minor);
  if (!number(d, CL_DEVICE_AVAILABLE))
    snprintf(why, n, "the driver says that it is not available now");
  else if (!number(d, CL_DEVICE_COMPILER_AVAILABLE))
    snprintf(why, n, "the driver has no compiler for OpenCL C: install the full driver package");
  else if (major < 1 || (major == 1 && minor < 2))
    snprintf(why, n, "it compiles '%.40s', OpenCL C 1.2 is needed: update the driver", version);
  else if (!number(d, CL_DEVICE_ENDIAN_LITTLE))
    snprintf(why, n, "it is big-endian");
  else if (l->local_size < LEAST_GROUP || l->local_bytes < LEAST_LOCAL_BYTES)
    snprintf(why, n, "workgroups of %u with %u bytes of local memory; %d and %d are needed",
             l->local_size, l->local_bytes, LEAST_GROUP, LEAST_LOCAL_BYTES);
}

static int major_version(const gpu_device *d) {
  int major = 0;
  char version[64];
  text(d, CL_DEVICE_VERSION, version, sizeof version);
  (void)!sscanf(version, "OpenCL %d", &major);
  return major;
}

/* Signed dot products of packed words, by an instruction; the built-in function is OpenCL C
 * 3.0's. */
static bool has_int_dot(const gpu_device *d, const char *extensions) {
  cl_bool fast[6] = {0}; /* signed, unsigned, mixed, and the three that saturate */
  return d->version >= 3 && strstr(extensions, "cl_khr_integer_dot_product") &&
         ocl.clGetDeviceInfo(d->id, DOT_PACKED, sizeof fast, fast, NULL) == CL_SUCCESS && fast[0];
}

/* An extension of OpenCL 2.0; of 3.0 a feature, which drivers need not list among them. */
static bool has_sub_groups(const gpu_device *d, const char *extensions) {
  return (d->version >= 2 && strstr(extensions, "cl_khr_subgroups")) ||
         (d->version >= 3 && number(d, SUB_GROUPS) > 0);
}

void ocl_describe(gpu_device *d) {
  static const uint64_t most = (uint64_t)8 << 30; /* 32-bit indices of words */
  accel_plugin_device *i = &d->info;
  gpu_limits *l = &d->limits;
  char driver[64], platform[96] = "", extensions[4096] = "";
  const uint64_t type = number(d, CL_DEVICE_TYPE);
  *i = (accel_plugin_device){.size = sizeof *i};
  d->version = major_version(d);
  text(d, CL_DEVICE_NAME, i->name, sizeof i->name);
  text(d, CL_DRIVER_VERSION, driver, sizeof driver);
  text(d, CL_DEVICE_VERSION, i->arch, sizeof i->arch);
  (void)ocl.clGetPlatformInfo(d->platform, CL_PLATFORM_NAME, sizeof platform - 1, platform, NULL);
  snprintf(i->driver, sizeof i->driver, "%.40s %.20s", platform, driver);
  (void)ocl.clGetDeviceInfo(d->id, CL_DEVICE_EXTENSIONS, sizeof extensions - 1, extensions, NULL);
  *l = (gpu_limits){.buffer = number(d, CL_DEVICE_MAX_MEM_ALLOC_SIZE),
                    .align = 256,
                    .memory = number(d, CL_DEVICE_GLOBAL_MEM_SIZE),
                    .groups = {INT32_MAX, INT32_MAX, INT32_MAX},
                    .local_size = (uint32_t)number(d, CL_DEVICE_MAX_WORK_GROUP_SIZE),
                    .local_bytes = (uint32_t)number(d, CL_DEVICE_LOCAL_MEM_SIZE),
                    .wave = type & CL_DEVICE_TYPE_CPU ? 1 : 0,
                    .units = (uint32_t)number(d, CL_DEVICE_MAX_COMPUTE_UNITS),
                    .cpu = (type & CL_DEVICE_TYPE_CPU) != 0,
                    .unified = number(d, CL_DEVICE_HOST_UNIFIED_MEMORY) != 0,
                    .fp16 = strstr(extensions, "cl_khr_fp16") != NULL,
                    .int_dot = has_int_dot(d, extensions),
                    .sub_groups = has_sub_groups(d, extensions)};
  if (l->cpu)
    l->cpu_kernels = ocl_cpu_kernels_for((uint32_t)number(d, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT));
  l->buffer = (l->buffer < most ? l->buffer : most) & ~(uint64_t)255;
  l->binding = l->buffer;
  i->type = l->cpu                         ? ACCEL_PLUGIN_DEVICE_SOFTWARE
            : !(type & CL_DEVICE_TYPE_GPU) ? ACCEL_PLUGIN_DEVICE_OTHER
            : l->unified                   ? ACCEL_PLUGIN_DEVICE_INTEGRATED_GPU
                                           : ACCEL_PLUGIN_DEVICE_DISCRETE_GPU;
  i->flags = (l->unified ? ACCEL_PLUGIN_DEVICE_UNIFIED_MEMORY : 0) |
             (l->fp16 ? ACCEL_PLUGIN_DEVICE_FP16 : 0);
  i->route = 30;
  i->wave = l->wave;
  i->units = l->units;
  i->max_allocation = i->max_binding = l->buffer;
  i->max_shared = l->local_bytes;
  identify(d, i->id, sizeof i->id);
  judge(d);
}

int32_t ocl_list(const accel_plugin_host *host, accel_plugin_device *out, uint32_t capacity,
                 uint32_t *n, accel_plugin_error *error) {
  (void)host;
  gpu_device *d = ocl_devices(n, error);
  if (!d) return ACCEL_PLUGIN_E_DRIVER;
  if (capacity && out->size < sizeof *out)
    return kit_fail(error, ACCEL_PLUGIN_E_ABI, -1, "devices are shorter than this plugin's");
  for (uint32_t i = 0; i < *n && i < capacity; i++) {
    accel_plugin_device *to = (accel_plugin_device *)((char *)out + (size_t)i * out->size);
    const uint32_t size = out->size;
    *to = d[i].info;
    to->size = size;
  }
  return ACCEL_PLUGIN_OK;
}

static gpu_device *device_at(uint32_t index, accel_plugin_error *error) {
  uint32_t n;
  gpu_device *d = ocl_devices(&n, error);
  if (!d) return NULL;
  if (index < n) return &d[index];
  kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "there is no OpenCL device %u: the drivers list %u",
           index, n);
  return NULL;
}

/* AMD's driver tells what is free (in KiB, the largest block second); others only what there is,
 * less what we hold.  Where the memory is the host's, no more than the host has left. */
int32_t ocl_memory(uint32_t index, accel_plugin_memory *out, accel_plugin_error *error) {
  gpu_device *d = device_at(index, error);
  if (!d) return error ? error->rc : ACCEL_PLUGIN_E_DRIVER;
  size_t amd[2] = {0, 0};
  const uint64_t total = d->limits.memory, ours = atomic_load(&d->allocated);
  uint64_t unused = total > ours ? total - ours : 0;
  if (ocl.clGetDeviceInfo(d->id, AMD_FREE_MEMORY, sizeof amd, amd, NULL) == CL_SUCCESS && amd[0])
    unused = (uint64_t)amd[0] * 1024;
  accel_plugin_memory host = {0};
  if (d->limits.unified && !kit_system_memory(&host, NULL) && host.free < unused)
    unused = host.free;
  accel_plugin_memory m = {.size = out->size,
                           .total = total,
                           .free = unused,
                           .budget = unused - unused / 20,
                           .shared_with_host = d->limits.unified ? total : 0};
  memcpy(out, &m, out->size < sizeof m ? out->size : sizeof m);
  return ACCEL_PLUGIN_OK;
}

bool ocl_own_memory(uint32_t index) {
  const gpu_device *d = device_at(index, NULL);
  if (!d) return false;
  gpu_limits l = d->limits;
  gpu_limits_from_env(&l);
  return !l.cpu_kernels && (!l.unified || d->limits.cpu);
}

int32_t ocl_open(uint32_t index, const accel_plugin_options *options, gpu_device **out,
                 gpu_limits *limits, accel_plugin_error *error) {
  gpu_device *d = device_at(index, error);
  (void)options;
  if (!d) return error ? error->rc : ACCEL_PLUGIN_E_DRIVER;
  if (d->info.unusable[0])
    return kit_fail(error, ACCEL_PLUGIN_E_UNSUPPORTED, -1, "%s: %s", d->info.name,
                    d->info.unusable);
  if (atomic_load(&d->lost))
    return kit_fail(error, ACCEL_PLUGIN_E_DEVICE_LOST, -1, "%s was lost: close its endpoints first",
                    d->info.name);
  cl_int code = CL_SUCCESS;
  pthread_mutex_lock(&d->lock);
  if (!d->context) {
    const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM,
                                                (cl_context_properties)d->platform, 0};
    d->context = ocl.clCreateContext(properties, 1, &d->id, NULL, NULL, &code);
    if (code) d->context = NULL;
  }
  if (!code) d->users++;
  pthread_mutex_unlock(&d->lock);
  if (code) return ocl_fail(d, code, "clCreateContext", error);
  *out = d;
  *limits = d->limits;
  return ACCEL_PLUGIN_OK;
}

/* All of a lost device; what of its commands still runs is waited for. */
static void forget(gpu_device *d) {
  for (ocl_queue *q = d->idle; q && d->left; q = q->next) (void)ocl.clFinish(q->queue);
  ocl_kernels_free(d);
  for (ocl_queue *q = d->idle, *next; q; q = next) {
    next = q->next;
    ocl.clReleaseCommandQueue(q->queue);
    free(q);
  }
  d->idle = NULL;
  ocl.clReleaseContext(d->context);
  d->context = NULL;
  for (ocl_used *m = d->left, *next; m; m = next) {
    next = m->next;
    free(m->room);
    free(m);
  }
  d->left = NULL;
  atomic_store(&d->lost, false);
}

void ocl_close(gpu_device *d) {
  pthread_mutex_lock(&d->lock);
  if (!--d->users && atomic_load(&d->lost)) forget(d);
  pthread_mutex_unlock(&d->lock);
}
