/* hip_rocm.c - hip_runtime over AMD's HIP runtime, release 5, 6 or 7, by functions whose
 * signatures have been the same since HIP 4. The numbers of attributes are
 * hipDeviceAttribute_t's, the same in 5 and 6. */
#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "hip/hip.h"

typedef struct hip_functions { /* functions that only this file calls */
  int (*runtime_version)(int *version);
  int (*set_device)(int device);
  int (*get_device)(int *device);
  int (*properties)(void *out, int device);
  const char *(*error_string)(int code);
} hip_functions;
static hip_functions hip;

static const hip_symbol calls[] = {
#define HIP_SYMBOL(field, rocm, cuda) {rocm, offsetof(hip_runtime, field), false},
#define HIP_SYMBOL_ROCM(field, rocm)  {rocm, offsetof(hip_runtime, field), false},
#include "hip/hip_symbols.def"
};
static const hip_symbol hip_calls[] = {
    {"hipRuntimeGetVersion", offsetof(hip_functions, runtime_version), true},
    {"hipSetDevice", offsetof(hip_functions, set_device), false},
    {"hipGetDevice", offsetof(hip_functions, get_device), false},
    {"hipGetDeviceProperties", offsetof(hip_functions, properties), true},
    {"hipGetErrorString", offsetof(hip_functions, error_string), true},
};
#define COUNT(list) (sizeof(list) / sizeof *(list))

static const int numbers[HIP_ATTRIBUTES] = {
    [HIP_THREADS_PER_BLOCK] = 56,
    [HIP_SHARED_BYTES] = 74,
    [HIP_GRID_X] = 29,
    [HIP_GRID_Y] = 30,
    [HIP_GRID_Z] = 31,
    [HIP_WAVE] = 87,
    [HIP_UNITS] = 63,
    [HIP_INTEGRATED] = 16,
    [HIP_MAJOR] = 23,
    [HIP_MINOR] = 61,
    [HIP_CLOCK_KHZ] = 5,
    [HIP_MEMORY_CLOCK_KHZ] = 60,
    [HIP_MEMORY_BUS_BITS] = 59,
};

static int retain(int device, void **context) {
  (void)device;
  *context = NULL; /* HIP keeps its contexts itself */
  return 0;
}
static void drop(int device, void *context) { (void)device, (void)context; }

static int enter(int device, void *context, void **before) {
  (void)context;
  int old = -1;
  if (hip.get_device(&old) != 0) old = -1;
  *before = (void *)(intptr_t)old;
  return hip.set_device(device);
}
static void leave(int device, void *before) {
  int old = (int)(intptr_t)before;
  if (old >= 0 && old != device) hip.set_device(old);
}

static const char *text(int code) {
  const char *said = hip.error_string ? hip.error_string(code) : NULL;
  return said ? said : "no text";
}

/* The name of hipDeviceProp_t, whatever the struct's layout: the one text in it that begins with
 * "gfx" and is a name.  The marketing name comes first and is passed over.  It is the runtime's
 * word, so HSA_OVERRIDE_GFX_VERSION is in it. */
static void arch(int device, char *out, size_t n) {
  enum { ROOM = 16384, NAME = 256 };
  static _Thread_local char properties[ROOM];
  *out = 0;
  memset(properties, 0, sizeof properties);
  if (!hip.properties || hip.properties(properties, device) != 0) return;
  for (size_t i = NAME; i + 64 < ROOM; i++)
    if (!memcmp(properties + i, "gfx", 3) && isxdigit((unsigned char)properties[i + 3])) {
      snprintf(out, n, "%.63s", properties + i);
      return;
    }
}

static const char *const runtime_names[] = {"libamdhip64.so.7",
                                            "libamdhip64.so.6",
                                            "libamdhip64.so.5",
                                            "/opt/rocm/lib/libamdhip64.so.7",
                                            "/opt/rocm/lib/libamdhip64.so.6",
                                            "/opt/rocm/lib/libamdhip64.so.5",
                                            NULL};
static const hip_library runtime = {
    .what = "the HIP runtime",
    .remedy = "install ROCm, or Debian's libamdhip64-5, or name its folder in LD_LIBRARY_PATH",
    .names = runtime_names,
    .calls = calls,
    .n_calls = COUNT(calls),
    .vendor_calls = hip_calls,
    .n_vendor_calls = COUNT(hip_calls)};

static bool load(hip_runtime *r, char *why, size_t n) {
  int version = 0;
  if (!hip_library_load(&runtime, r, &hip, why, n)) return false;
  if (hip.runtime_version && hip.runtime_version(&version) == 0 && version > 0)
    snprintf(r->what, sizeof r->what, "HIP runtime %d.%d.%d", version / 10000000,
             version / 100000 % 100, version % 100000);
  else
    snprintf(r->what, sizeof r->what, "HIP runtime");
  memcpy(r->attribute_number, numbers, sizeof numbers);
  r->retain = retain;
  r->drop = drop;
  r->enter = enter;
  r->leave = leave;
  r->text = text;
  r->arch = arch;
  r->api = "hip";
  return true;
}

/* A library of its own since ROCm 6, within the runtime before. */
static const char *const compiler_names[] = {"libhiprtc.so.7",
                                             "libhiprtc.so.6",
                                             "/opt/rocm/lib/libhiprtc.so.7",
                                             "/opt/rocm/lib/libhiprtc.so.6",
                                             "libamdhip64.so.5",
                                             "/opt/rocm/lib/libamdhip64.so.5",
                                             NULL};
static const hip_rtc hiprtc = {
    .what = "hiprtc", .prefix = "hiprtc", .code = "Code", .names = compiler_names};

/* ---- memory as amdgpu shows it: without a context, and with what a GPU may take of the host's
 * ---- */

static bool read_number(const char *address, const char *file, uint64_t *out) {
  char path[128];
  unsigned long long value;
  snprintf(path, sizeof path, "/sys/bus/pci/devices/%.32s/%.32s", address, file);
  FILE *f = fopen(path, "re");
  if (!f) return false;
  bool good = fscanf(f, "%llu", &value) == 1;
  fclose(f);
  if (good) *out = value;
  return good;
}

static bool memory(const char *address, accel_plugin_memory *m) {
  uint64_t total, used, gtt_total = 0, gtt_used = 0;
  if (!*address || strchr(address, '/') || !read_number(address, "mem_info_vram_total", &total) ||
      !read_number(address, "mem_info_vram_used", &used))
    return false;
  read_number(address, "mem_info_gtt_total", &gtt_total);
  read_number(address, "mem_info_gtt_used", &gtt_used);
  m->total = total;
  m->free = total > used ? total - used : 0;
  m->shared_with_host = gtt_total > gtt_used ? gtt_total - gtt_used : 0;
  return true;
}

const hip_vendor hip_plugin_vendor = {
    .device_type = ACCEL_PLUGIN_DEVICE_DISCRETE_GPU,
    .flags = ACCEL_PLUGIN_DEVICE_AMD,
    .route = 10,
    .load = load,
    .rtc = &hiprtc,
    .memory = memory,
};
