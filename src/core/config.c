/* config.c - the environment: one table, one function that reads it, and the fault points that
 * ACCEL_FAIL_AT names. */
#include "core/config.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "core/file.h"

const accel__config_variable accel__config_table[] = {
    {"ACCEL_DEVICE",
     "device when --device is not given: auto, cpu, rocm:0, vulkan, a chain such as rocm:0,cpu, "
     "several such as rocm:0+cpu"},
    {"ACCEL_PRECISION",
     "precision when --precision is not given: auto, fp32, fp16, bf16, int8, int4, uint4, fp8, "
     "fp4"},
    {"ACCEL_THREADS", "threads of a context; default min(affinity, cgroup quota, physical cores)"},
    {"ACCEL_MODE", "how calls at once share the threads: latency (default) or throughput"},
    {"ACCEL_BATCH", "batch size when --batch is not given; 0 is the registry's"},
    {"ACCEL_JSON", "1: results as JSON, as --json"},
    {"ACCEL_QUIET", "1: nothing on stderr but errors, as --quiet"},
    {"ACCEL_VERBOSE", "1: more on stderr, as --verbose"},
    {"ACCEL_PLUGIN_PATH",
     "colon-separated directories searched for plugins instead of the standard places"},
    {"ACCEL_PROBE",
     "the helper program accel-probe; default beside the library's prefix (libexec/accel)"},
    {"ACCEL_OPENVINO_DIR",
     "directory of OpenVINO: of libopenvino_c.so, of pip's package, or of Intel's archive"},
    {"ACCEL_WEBGPU_DIR", "directory of wgpu-native: of libwgpu_native.so or of pip's package wgpu"},
    {"ACCEL_WEBGPU_SHADERS", "tests: wgsl has WebGPU take the kernels as WGSL, not as SPIR-V"},
    {"ACCEL_ONNXRUNTIME_DIR",
     "directory of ONNX Runtime: of libonnxruntime.so, of pip's packages, or of an archive"},
    {"ACCEL_DETECT_ROOT",
     "tests: directory put in front of /sys, /dev and /opt/rocm when AMD hardware is looked for"},
    {"ACCEL_LOG", "log level of the accel tool: error, warning, info, debug"},
    {"ACCEL_CACHE_DIR", "directory of libaccel's own caches; default $XDG_CACHE_HOME/accel"},
    {"ACCEL_NO_CACHE",
     "1: packed weights are neither read from the cache nor written to it, as --no-cache"},
    {"ACCEL_CACHE_LIMIT",
     "size that packed weights may take on disk, with K, M, G or T; default 20G or a tenth of the "
     "disk"},
    {"ACCEL_ALLOW_SOFTWARE", "1: auto and gpu may choose software devices (tests)"},
    {"ACCEL_STREAM_WEIGHTS",
     "tests: streams weights though they fit, in so many bytes more than it takes at least; "
     "ACCEL_HOST_MEM_LIMIT then counts likewise"},
    {"ACCEL_MEM_LIMIT",
     "bytes a model may use, with K, M or G; one that needs more is streamed, or refused"},
    {"ACCEL_HOST_MEM_LIMIT",
     "host memory that weights of GPUs may take, with K, M or G; default what is free"},
    {"ACCEL_EMULATED_ORDER",
     "tests: order of lanes in emulated kernels: forward, reverse, shuffled or shuffled:SEED; "
     "default all in turn; drop_wait:N leaves out the N-th wait of a stream for an event, "
     "drop_host_wait:N of a thread"},
    {"ACCEL_GPU_VARIANTS",
     "kernels beside the plain ones: none, or a list of int_dot, sub_groups, matrix_f16, "
     "matrix_bf16, matrix_i8; default "
     "what the device has"},
    {"ACCEL_SELFTEST",
     "full: the self-test of every device has a case of every op; short: of none; default on cards "
     "alone"},
    {"ACCEL_ISA",
     "instruction set of the CPU plugin and of the preparation of pictures and sounds: scalar, "
     "avx2, avx512 ...; default the best this processor has"},
    {"ACCEL_REGISTRY",
     "JSON file or directory of registry entries that add to or override the embedded ones"},
    {"ACCEL_FAIL_AT",
     "tests: comma list of POINT or POINT:N; the named point fails, at every or only its N-th "
     "passage"},

    {"XDG_CACHE_HOME", "user's cache directory; default ~/.cache"},
    {"XDG_CONFIG_HOME", "user's configuration directory; default ~/.config"},
    {"HOME", "user's directory"},
    {"VIRTUAL_ENV",
     "active Python environment, where pip's OpenVINO, ONNX Runtime and wgpu are looked for"},
    {"PATH", "where helper programs such as rocm-smi are looked for"},
    {"TERM", "the terminal; dumb has neither colour nor progress bar"},
    {"NO_COLOR", "set: no colour on the terminal"},
    {"HF_HUB_CACHE", "Hugging Face's model cache, read only; default $HF_HOME/hub"},
    {"HF_HOME", "Hugging Face's directory; default $XDG_CACHE_HOME/huggingface"},
    {"HIP_VISIBLE_DEVICES", "GPUs that HIP shows; on AMD it wins over CUDA_VISIBLE_DEVICES"},
    {"ROCR_VISIBLE_DEVICES", "GPUs that the HSA runtime shows, by number or GPU-uuid"},
    {"CUDA_VISIBLE_DEVICES", "GPUs that CUDA shows; HIP obeys it too"},
    {"CUDA_DEVICE_ORDER", "how CUDA numbers its devices"},
    {"GPU_DEVICE_ORDINAL", "GPUs that AMD's HIP and OpenCL show"},
    {"HSA_OVERRIDE_GFX_VERSION",
     "gfx version that the HSA runtime reports instead of the true one"},
    {"ROCM_PATH", "where ROCm is installed; default /opt/rocm"},
    {"HIP_PATH", "where HIP is installed"},
    {"VK_DRIVER_FILES", "Vulkan drivers that the loader uses"},
    {"VK_ICD_FILENAMES", "older name of VK_DRIVER_FILES"},
    {"VK_LOADER_DRIVERS_SELECT", "pattern of Vulkan drivers that the loader uses"},
    {"OCL_ICD_VENDORS", "OpenCL drivers that the loader uses"},
    {"OCL_ICD_FILENAMES", "further OpenCL drivers that the loader uses"},
    {"POCL_CACHE_DIR", "where PoCL keeps compiled kernels"},
    {"LISTEN_FDS", "sockets that systemd hands to accel serve"},
    {"LISTEN_PID", "the process that they are for"},
    {"LD_LIBRARY_PATH", "where the dynamic linker looks for vendor libraries"},
};
const size_t accel__config_count = sizeof accel__config_table / sizeof *accel__config_table;

const char *accel__env_raw(const char *name) {
  /* setuid: the caller of the program is not to steer it */
  return getauxval(AT_SECURE) ? NULL : getenv(name);
}

const char *accel__env(const char *name) {
  const char *value = accel__env_raw(name);
  return value && *value ? value : NULL;
}

/* ---- faults ---- */

enum { MAX_POINTS = 16, POINT_BYTES = 32 };
static struct {
  char name[POINT_BYTES];
  unsigned long at; /* passage that fails, from 1; 0: every one */
  unsigned long passed;
} point[MAX_POINTS];
static size_t n_points;
/* Guards the points: a test may arm others while a thread of the library, such as one that reads
 * ahead, passes one. */
static pthread_mutex_t points_lock = PTHREAD_MUTEX_INITIALIZER;
/* 0 ACCEL_FAIL_AT not looked at yet, 1 being read, 2 no points, 3 points */
static atomic_int state;

void accel__fault_arm(const char *points) {
  pthread_mutex_lock(&points_lock);
  n_points = 0;
  for (const char *p = points; p && *p && n_points < MAX_POINTS;) {
    size_t length = strcspn(p, ","), name = strcspn(p, ",:");
    if (name && name < POINT_BYTES) {
      memcpy(point[n_points].name, p, name);
      point[n_points].name[name] = 0;
      point[n_points].at = name < length ? strtoul(p + name + 1, NULL, 10) : 0;
      point[n_points++].passed = 0;
    }
    p += length + (p[length] == ',');
  }
  atomic_store(&state, n_points ? 3 : 2);
  pthread_mutex_unlock(&points_lock);
}

static bool passes(const char *name) {
  bool fails = false;
  pthread_mutex_lock(&points_lock);
  for (size_t i = 0; i < n_points && !fails; i++)
    if (!strcmp(point[i].name, name)) fails = ++point[i].passed == point[i].at || !point[i].at;
  pthread_mutex_unlock(&points_lock);
  return fails;
}

bool accel__fault(const char *name) {
  int now = atomic_load_explicit(&state, memory_order_acquire);
  if (now == 2) return false;
  if (now == 0 && atomic_compare_exchange_strong(&state, &now, 1))
    accel__fault_arm(accel__env("ACCEL_FAIL_AT"));
  /* one thread reads the variable; the others meanwhile have no faults */
  return atomic_load(&state) == 3 && passes(name);
}
