/* driver_stub.c - an OpenCL and Vulkan driver as a broken installation has it: at the loader's
 * first call it crashes, or with STUB_DRIVER=hang does not come back. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *break_down(void) {
  const char *how = getenv("STUB_DRIVER");
  if (how && !strcmp(how, "hang"))
    for (;;) pause();
  (void)raise(SIGSEGV);
  return NULL;
}

#define DRIVER __attribute__((visibility("default")))
DRIVER void *clGetExtensionFunctionAddress(const char *name);
DRIVER void *vk_icdGetInstanceProcAddr(void *instance, const char *name);
DRIVER int vk_icdNegotiateLoaderICDInterfaceVersion(unsigned *version);

void *clGetExtensionFunctionAddress(const char *name) { return (void)name, break_down(); }
void *vk_icdGetInstanceProcAddr(void *instance, const char *name) {
  return (void)instance, (void)name, break_down();
}
int vk_icdNegotiateLoaderICDInterfaceVersion(unsigned *version) {
  return (void)version, break_down() != NULL;
}
