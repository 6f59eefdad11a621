/* cuda_stub.c - a libcuda for tests.  STUB_CUDA: unset or "none" no device, "stub" as the toolkit's
 * link-time library answers (34), "crash", else device names joined by '|' ("AMD Radeon ..." is
 * what a CUDA layer on AMD cards would say). */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STUB_API __attribute__((visibility("default")))
STUB_API int cuInit(unsigned flags);
STUB_API int cuDriverGetVersion(int *version);
STUB_API int cuDeviceGetCount(int *n);
STUB_API int cuDeviceGet(int *device, int ordinal);
STUB_API int cuDeviceGetName(char *name, int n, int device);
STUB_API int cuDeviceTotalMem_v2(size_t *bytes, int device);
STUB_API int cuDeviceGetPCIBusId(char *id, int n, int device);
STUB_API int cuDeviceGetAttribute(int *value, int which, int device);
STUB_API int cuGetErrorString(int code, const char **text);

static const char *names(void) {
  const char *mode = getenv("STUB_CUDA");
  return mode && strcmp(mode, "none") && strcmp(mode, "stub") && strcmp(mode, "crash") ? mode : "";
}

int cuInit(unsigned flags) {
  const char *mode = getenv("STUB_CUDA");
  (void)flags;
  if (mode && !strcmp(mode, "crash")) raise(SIGSEGV);
  if (mode && !strcmp(mode, "stub")) return 34;
  return *names() ? 0 : 100;
}
int cuDriverGetVersion(int *version) {
  *version = 12040;
  return 0;
}
int cuDeviceGetCount(int *n) {
  *n = *names() ? 1 : 0;
  for (const char *c = names(); *c; c++) *n += *c == '|';
  return 0;
}
int cuDeviceGet(int *device, int ordinal) {
  *device = ordinal;
  return 0;
}
int cuDeviceGetName(char *name, int n, int device) {
  const char *text = names();
  while (device-- > 0) text = strchr(text, '|') + 1;
  snprintf(name, (size_t)n, "%.*s", (int)strcspn(text, "|"), text);
  return 0;
}
int cuDeviceTotalMem_v2(size_t *bytes, int device) {
  (void)device;
  *bytes = (size_t)16 << 30;
  return 0;
}
int cuDeviceGetPCIBusId(char *id, int n, int device) {
  snprintf(id, (size_t)n, "0000:%02X:00.0", device + 3);
  return 0;
}
int cuDeviceGetAttribute(int *value, int which, int device) {
  (void)device;
  *value = which == 75 ? 8 : which == 76 ? 9 : which == 10 ? 32 : which == 16 ? 60 : 0;
  return 0;
}
int cuGetErrorString(int code, const char **text) {
  *text = code == 34 ? "the loaded driver is a stub" : "no CUDA-capable device is detected";
  return 0;
}
