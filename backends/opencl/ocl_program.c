/* ocl_program.c - one program for each kernel, so that only what is used is compiled; its binary
 * goes into the host's cache. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opencl/ocl.h"
#include "shared/hash.h"

/* What stands before a kernel: conversions of fp16 by arithmetic or by the device's own type; DOT4
 * of packed bytes by its instruction or without; sub-groups. */
static const char half_arithmetic[] =
    "#define ocl_half gpu_half\n#define ocl_to_half gpu_to_half\n";
static const char half_instruction[] =
    "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n"
    "#define ocl_half(h) convert_float(as_half((ushort)(h)))\n"
    "#define ocl_to_half(x) ((uint)as_ushort(convert_half_rte(x)))\n";
static const char dot_instruction[] =
    "#define ocl_dot4(a, b, c) (dot_4x8packed_ss_int((a), (b)) + (c))\n";
static const char dot_arithmetic[] =
    "static inline int ocl_dot4(uint a, uint b, int c) {\n"
    "  short4 x = convert_short4(as_char4(a)), y = convert_short4(as_char4(b));\n"
    "  int4 p = convert_int4(x) * convert_int4(y);\n"
    "  return c + p.x + p.y + p.z + p.w;\n"
    "}\n";
static const char sub_groups[] =
    "#ifdef cl_khr_subgroups\n"
    "#pragma OPENCL EXTENSION cl_khr_subgroups : enable\n"
    "#endif\n";

const gpu_kernel *ocl_kernel_info(uint32_t id) {
  return id < GPU_KERNELS ? &gpu_kernels[id] : &ocl_cpu_kernels[id - GPU_KERNELS];
}

static const char *text_of(uint32_t id) {
  return id < GPU_KERNELS ? gpu_kernel_text[id] : ocl_cpu_kernel_text[id - GPU_KERNELS];
}

enum { PARTS = 3 };
typedef struct source {
  const char *part[PARTS], *options; /* the last part is the kernel's text */
} source;

static source source_of(const gpu_device *d, uint32_t id) {
  const char *text = text_of(id);
  const bool dots = strstr(text, "ocl_dot4") != NULL, native = dots && d->limits.int_dot;
  const bool subs = strstr(text, "sub_group_reduce") != NULL;
  const char *before = native                         ? dot_instruction
                       : dots                         ? dot_arithmetic
                       : subs                         ? sub_groups
                       : strstr(text, "ocl_prefetch") ? ocl_cpu_prefetch
                                                      : "";
  return (source){.part = {d->limits.fp16 ? half_instruction : half_arithmetic, before, text},
                  .options = native || (subs && d->version >= 3) ? "-cl-std=CL3.0"
                             : subs                              ? "-cl-std=CL2.0"
                                                                 : "-cl-std=CL1.2"};
}

/* The terminator included, so that neighbours do not run together. */
static uint64_t hash(uint64_t h, const char *text) { return accel_hash(h, text, strlen(text) + 1); }

/* Everything the binary depends on. */
static void cache_key(const gpu_device *d, uint32_t id, char *out, size_t n) {
  const source s = source_of(d, id);
  uint64_t h = ACCEL_HASH_SEED;
  for (int i = PARTS - 1; i >= 0; i--) h = hash(h, s.part[i]);
  h = hash(hash(hash(h, s.options), d->info.name), d->info.driver);
  snprintf(out, n, "opencl-%s-%016llx", ocl_kernel_info(id)->name,
           (unsigned long long)hash(h, d->info.arch));
}

static cl_program from_cache(gpu_device *d, uint32_t id, const char *key,
                             const accel_plugin_host *host) {
  uint64_t n = 0;
  if (!host || !host->cache_get || host->cache_get(host->self, key, NULL, &n) || !n) return NULL;
  unsigned char *bytes = malloc(n);
  cl_program program = NULL;
  cl_int code, status = CL_SUCCESS;
  const size_t size = n;
  if (bytes && host->cache_get(host->self, key, bytes, &n) == 0) {
    const unsigned char *binary = bytes;
    program = ocl.clCreateProgramWithBinary(d->context, 1, &d->id, &size, &binary, &status, &code);
    if (code || status ||
        ocl.clBuildProgram(program, 1, &d->id, source_of(d, id).options, NULL,
                           NULL)) { /* a driver that changed: build anew */
      if (program && !code) ocl.clReleaseProgram(program);
      program = NULL;
    }
  }
  free(bytes);
  return program;
}

static void to_cache(cl_program program, const char *key, const accel_plugin_host *host) {
  size_t n = 0;
  if (!host || !host->cache_put ||
      ocl.clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof n, &n, NULL) || !n)
    return;
  unsigned char *bytes = malloc(n);
  if (bytes && ocl.clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof bytes, &bytes, NULL) ==
                   CL_SUCCESS) {
    const accel_plugin_part part = {.data = bytes, .n = n};
    (void)host->cache_put(host->self, key, &part, 1);
  }
  free(bytes);
}

/* The compiler's first complaint, on one line. */
static void build_log(const gpu_device *d, cl_program program, char *out, size_t n) {
  char log[2048] = "";
  size_t used = 0;
  (void)ocl.clGetProgramBuildInfo(program, d->id, CL_PROGRAM_BUILD_LOG, sizeof log - 1, log, NULL);
  const char *from = strstr(log, "error");
  for (from = from ? from : log; *from && *from != '\n' && used + 1 < n; from++)
    out[used++] = *from;
  out[used] = 0;
}

static int32_t compile(gpu_device *d, uint32_t id, cl_program *out, accel_plugin_error *error) {
  source s = source_of(d, id);
  cl_int code;
  *out = ocl.clCreateProgramWithSource(d->context, PARTS, s.part, NULL, &code);
  if (code) return ocl_fail(d, code, "clCreateProgramWithSource", error);
  code = ocl.clBuildProgram(*out, 1, &d->id, s.options, NULL, NULL);
  if (code == CL_SUCCESS) return ACCEL_PLUGIN_OK;
  char log[120];
  build_log(d, *out, log, sizeof log);
  ocl.clReleaseProgram(*out);
  *out = NULL;
  kit_fail(error, ACCEL_PLUGIN_E_DRIVER, -1,
           "the driver of %.40s does not compile kernel %s (%s): update the driver, or use another "
           "device",
           d->info.name, ocl_kernel_info(id)->name, log[0] ? log : ocl_code(code));
  if (error) error->native = code;
  return ACCEL_PLUGIN_E_DRIVER;
}

int32_t ocl_kernel_get(gpu_device *d, uint32_t id, const accel_plugin_host *host,
                       accel_plugin_error *error) {
  ocl_kernel *k = &d->kernel[id];
  char key[96];
  cl_int code;
  if (k->kernel) return ACCEL_PLUGIN_OK;
  if (!text_of(id))
    return kit_fail(error, ACCEL_PLUGIN_E_UNSUPPORTED, -1, "kernel %s is not for OpenCL",
                    ocl_kernel_info(id)->name);
  cache_key(d, id, key, sizeof key);
  cl_program program = from_cache(d, id, key, host);
  if (!program) {
    const int32_t rc = compile(d, id, &program, error);
    if (rc) return rc;
    to_cache(program, key, host);
  }
  cl_kernel kernel = ocl.clCreateKernel(program, ocl_kernel_info(id)->name, &code);
  if (code) {
    ocl.clReleaseProgram(program);
    return ocl_fail(d, code, "clCreateKernel", error);
  }
  k->program = program;
  k->kernel = kernel;
  return ACCEL_PLUGIN_OK;
}

void ocl_kernels_free(gpu_device *d) {
  for (int i = 0; i < OCL_KERNELS; i++) {
    ocl_kernel *k = &d->kernel[i];
    if (!k->kernel) continue;
    ocl.clReleaseKernel(k->kernel);
    ocl.clReleaseProgram(k->program);
    k->kernel = NULL;
    k->program = NULL;
  }
}
