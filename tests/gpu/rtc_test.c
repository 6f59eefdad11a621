/* rtc_test.c - compiles every kernel at run time for the architectures named on the command line,
 * without a GPU: what a user's card outside the built-in list will do.  Built once with hip_rocm.c
 * (hiprtc) and once with cuda.c (NVRTC). rtc_test gfx1030 gfx90a Exit code 77: there is no such
 * compiler here, with the reason. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hip/hip.h"

/* The code must hold the name of every kernel: symbols of an ELF file. */
static int missing(const char *code, size_t n) {
  int lacks = 0;
  for (int i = 0; i < GPU_KERNELS; i++) {
    const gpu_kernel *k = &gpu_kernels[i];
    if (*k->only && !strstr(k->only, "hip")) continue;
    if (memmem(code, n, k->name, strlen(k->name) + 1)) continue;
    printf("  %s is not in the code\n", k->name);
    lacks++;
  }
  return lacks;
}

int main(int argc, char **argv) {
  const char *why;
  const hip_compiler *c = hip_compiler_get(&why);
  int failed = 0;
  if (!c) {
    printf("skipped: %s\n", why);
    return 77;
  }
  for (int i = 1; i < argc; i++) {
    accel_plugin_error error = {.size = sizeof error};
    char *code = NULL;
    size_t n = 0;
    int32_t rc = hip_compile(c, argv[i], &code, &n, &error);
    if (rc)
      printf("%s: %s\n", argv[i], error.message);
    else
      printf("%s by %s: %d kernels, %zu bytes\n", argv[i], c->what, GPU_KERNELS, n);
    failed += rc ? 1 : missing(code, n);
    free(code);
  }
  return failed != 0;
}
