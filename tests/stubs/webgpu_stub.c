/* webgpu_stub.c - a wgpu-native library for tests.  STUB_WEBGPU says how it fails: "old" it is of
 * another version, "none" it has no adapter, "crash" it ends when it starts.  STUB_DAWN: it has no
 * version, as Dawn; STUB_SHORT: it lacks functions. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "shared/library_places.h"
#include "webgpu/wgp_native.h"

#define STUB_API __attribute__((visibility("default")))

/* Whatever is called gives nothing, but an instance, which is never looked at. */
static void *answer(const char *name) {
  const char *mode = getenv("STUB_WEBGPU");
  static int instance;
  if (strcmp(name, "CreateInstance") != 0) return NULL;
  if (mode && !strcmp(mode, "crash")) raise(SIGSEGV);
  return &instance;
}

#ifdef STUB_SHORT
STUB_API void *wgpuCreateInstance(void);
void *wgpuCreateInstance(void) { return answer("CreateInstance"); }
#else
#define STUB_DEFINE(result, name, parameters) \
  STUB_API void *wgpu##name(void);            \
  void *wgpu##name(void) { return answer(#name); }
WGP_FUNCTIONS(STUB_DEFINE)
#endif

#ifndef STUB_DAWN
STUB_API uint32_t wgpuGetVersion(void);
uint32_t wgpuGetVersion(void) {
  const char *mode = getenv("STUB_WEBGPU");
  const uint32_t major =
      mode && !strcmp(mode, "old") ? ACCEL_WEBGPU_VERSION - 2 : ACCEL_WEBGPU_VERSION;
  return major << 24 | 4 << 8;
}
#endif
