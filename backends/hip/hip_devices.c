/* hip_devices.c - the runtime of the process, found once; its devices and their memory. */
#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "hip/hip.h"

/* ---- once per process ---- */

static struct {
  pthread_once_t once, compiler_once;
  hip_runtime runtime;
  hip_compiler compiler;
  bool usable, compiler_usable;
  char why[400], compiler_why[300];
  int count;
} found = {.once = PTHREAD_ONCE_INIT, .compiler_once = PTHREAD_ONCE_INIT};

static void find_runtime(void) {
  if (!hip_plugin_vendor.load(&found.runtime, found.why, sizeof found.why)) return;
  const hip_runtime *r = &found.runtime;
  int code = r->init(0);
  /* HIP 5 answers the latter where there is none */
  if (!code || code == HIP_NO_DEVICE || code == HIP_INVALID_DEVICE) {
    int n = 0, answer = r->count(&n);
    found.count = answer ? 0 : n;
    if (!code || answer == HIP_NO_DEVICE) code = answer;
  }
  if (!code && found.count <= 0) code = HIP_NO_DEVICE;
  found.usable = !code;
  if (code)
    snprintf(found.why, sizeof found.why, "%s finds no device: error %d, %s", r->what, code,
             r->text(code));
}

const hip_runtime *hip_runtime_get(const char **why) {
  pthread_once(&found.once, find_runtime);
  *why = found.why;
  return found.usable ? &found.runtime : NULL;
}

static void find_compiler(void) {
  found.compiler_usable = hip_rtc_load(hip_plugin_vendor.rtc, &found.compiler, found.compiler_why,
                                       sizeof found.compiler_why);
}

const hip_compiler *hip_compiler_get(const char **why) {
  pthread_once(&found.compiler_once, find_compiler);
  *why = found.compiler_why;
  return found.compiler_usable ? &found.compiler : NULL;
}

/* ---- devices ---- */

int hip_ask(const hip_runtime *r, hip_attribute what, int device, int absent) {
  int value = 0;
  return r->attribute(&value, r->attribute_number[what], device) || value <= 0 ? absent : value;
}

/* "gfx90a:sramecc+:xnack-" is built for when the list holds "gfx90a", "sm_90" also when it holds
 * "ptx+75". */
bool hip_is_built_for(const char *arch) {
  size_t n = strcspn(arch, ":");
  for (const char *at = hip_built_for; n && *at;) {
    size_t length = strcspn(at, " ");
    if (length == n && !memcmp(at, arch, n)) return true;
    int least = 0, sm = 0; /* the driver compiles PTX for what is newer */
    if (sscanf(at, "ptx+%d", &least) == 1 && sscanf(arch, "sm_%d", &sm) == 1 && sm >= least)
      return true;
    at += length + strspn(at + length, " ");
  }
  return false;
}

static void judge(const hip_runtime *r, accel_plugin_device *d) {
  const char *why;
  char sentence[600];
  if (r->bounds || hip_is_built_for(d->arch) || hip_compiler_get(&why)) return;
  snprintf(sentence, sizeof sentence,
           "no kernels for %s, and none can be compiled here: %s (built for %s)",
           *d->arch ? d->arch : "its architecture, which is unknown", why,
           *hip_built_for ? hip_built_for : "no device");
  snprintf(d->unusable, sizeof d->unusable, "%.*s", (int)sizeof d->unusable - 1, sentence);
}

static void describe(const hip_runtime *r, int device, accel_plugin_device *d) {
  char address[32] = "", arch[64] = "";
  size_t memory = 0;
  d->type = hip_ask(r, HIP_INTEGRATED, device, 0) ? ACCEL_PLUGIN_DEVICE_INTEGRATED_GPU
                                                  : hip_plugin_vendor.device_type;
  d->flags = hip_plugin_vendor.flags | ACCEL_PLUGIN_DEVICE_FP16;
  d->route = hip_plugin_vendor.route;
  if (d->type == ACCEL_PLUGIN_DEVICE_INTEGRATED_GPU || r->bounds)
    d->flags |= ACCEL_PLUGIN_DEVICE_UNIFIED_MEMORY;
  if (r->device_name(d->name, (int)sizeof d->name, device))
    snprintf(d->name, sizeof d->name, "device %d", device);
  if (!r->device_address(address, (int)sizeof address, device))
    for (size_t i = 0; i < sizeof address && i < sizeof d->id - 1; i++)
      d->id[i] = (char)tolower((unsigned char)address[i]);
  r->arch(device, arch, sizeof arch);
  snprintf(d->arch, sizeof d->arch, "%.31s", arch);
  snprintf(d->driver, sizeof d->driver, "%s", r->what);
  d->wave = (uint32_t)hip_ask(r, HIP_WAVE, device, 32);
  d->units = (uint32_t)hip_ask(r, HIP_UNITS, device, 0);
  if (!r->device_memory(&memory, device)) d->max_allocation = memory;
  d->max_binding = d->max_allocation;
  d->max_shared = (uint64_t)hip_ask(r, HIP_SHARED_BYTES, device, 0);
  /* two transfers a clock */
  d->gbytes_per_s = 2e3 * hip_ask(r, HIP_MEMORY_CLOCK_KHZ, device, 0) *
                    (hip_ask(r, HIP_MEMORY_BUS_BITS, device, 0) / 8) / 1e9;
  if (hip_plugin_vendor.flags & ACCEL_PLUGIN_DEVICE_AMD) /* 64 multiply-adds a clock and unit */
    d->gflops = 128e3 * hip_ask(r, HIP_CLOCK_KHZ, device, 0) * d->units / 1e9;
  judge(r, d);
}

int32_t hip_devices(const accel_plugin_host *host, accel_plugin_device *out, uint32_t capacity,
                    uint32_t *n, accel_plugin_error *error) {
  const char *why;
  const hip_runtime *r = hip_runtime_get(&why);
  *n = 0;
  if (!r) { /* no device is an answer, and the log has the reason */
    if (host && host->log) host->log(host->self, 2, why);
    return ACCEL_PLUGIN_OK;
  }
  *n = (uint32_t)found.count;
  if (capacity && out->size < sizeof *out)
    return kit_fail(error, ACCEL_PLUGIN_E_ABI, -1, "devices are shorter than this plugin's");
  for (uint32_t i = 0; i < *n && i < capacity; i++) {
    accel_plugin_device d = {.size = out[i].size};
    describe(r, (int)i, &d);
    out[i] = d;
  }
  return ACCEL_PLUGIN_OK;
}

int32_t hip_memory(uint32_t device, accel_plugin_memory *out, accel_plugin_error *error) {
  const char *why;
  const hip_runtime *r = hip_runtime_get(&why);
  if (!r) return kit_fail(error, ACCEL_PLUGIN_E_DRIVER, -1, "%s", why);
  accel_plugin_memory m = {0};
  char address[32] = "";
  size_t unused = 0, total = 0;
  int code = 0;
  if (!r->device_address(address, (int)sizeof address, (int)device))
    for (char *c = address; *c; c++) *c = (char)tolower((unsigned char)*c);
  if (!hip_plugin_vendor.memory || !hip_plugin_vendor.memory(address, &m)) {
    void *context = NULL, *before = NULL;
    code = r->retain((int)device, &context);
    if (!code) {
      code = r->enter((int)device, context, &before);
      if (!code) {
        code = r->memory_free(&unused, &total);
        r->leave((int)device, before);
      }
      r->drop((int)device, context);
    }
    m.free = unused;
    m.total = total;
  }
  if (code)
    return kit_fail(error, ACCEL_PLUGIN_E_DRIVER, -1, "memory of device %u: error %d, %s", device,
                    code, r->text(code));
  bool shares = hip_ask(r, HIP_INTEGRATED, (int)device, 0) || r->bounds;
  if (shares && !m.shared_with_host) m.shared_with_host = m.total;
  /* an integrated GPU takes the host's where its own ends */
  if (shares && r->bounds == NULL) m.free += m.shared_with_host;
  /* for the driver, the desktop and fragments */
  uint64_t kept = m.total / 20 + (256u << 20);
  m.budget = m.free > kept ? m.free - kept : 0;
  m.size = out->size;
  memcpy(out, &m, out->size < sizeof m ? out->size : sizeof m);
  return ACCEL_PLUGIN_OK;
}
