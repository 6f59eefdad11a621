/* rtc_test.c - compiles every kernel at run time for an architecture, without a GPU: what a user's
 * card outside the built-in list will do.  Built once with hip_rocm.c (hiprtc) and once with
 * hip_cuda.c (NVRTC).
 *
 *   rtc_test gfx90a [FOLDER]
 *   rtc_test gfx90a OPTION
 *
 * Compiling takes minutes.  With FOLDER the code lies there afterwards, under a name of the
 * compiler, the architecture and the kernels' text, and is looked at in place of what the same
 * compiler would make of the same text again.  OPTION, such as -O1, goes to the compiler beside the
 * plugin's own: a third of the time.  Exit code 77: there is no such compiler here, with the
 * reason. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* NULL: it is not there. */
static char *read_code(const char *path, size_t *n) {
  FILE *f = fopen(path, "rb");
  char *code = NULL;
  if (f && !fseek(f, 0, SEEK_END)) {
    const long bytes = ftell(f);
    rewind(f);
    *n = bytes > 0 ? (size_t)bytes : 0;
    code = *n ? malloc(*n) : NULL;
    if (code && fread(code, 1, *n, f) != *n) {
      free(code);
      code = NULL;
    }
  }
  if (f) fclose(f);
  return code;
}

/* Whole or not at all: written beside and renamed. */
static void keep_code(const char *path, const char *code, size_t n) {
  char beside[4200];
  snprintf(beside, sizeof beside, "%s.%ld", path, (long)getpid());
  FILE *f = fopen(beside, "wb");
  if (!f) return;
  const bool written = fwrite(code, 1, n, f) == n;
  if (fclose(f) || !written || rename(beside, path)) remove(beside);
}

/* The compiler with one option more than the plugin gives it. */
static const hip_compiler *usual;
static const char *more;
static int compile_with_more(void *program, int n, const char **options) {
  const char *all[8];
  if (n > 7) return -1;
  memcpy(all, options, (size_t)n * sizeof *all);
  all[n] = more;
  return usual->compile(program, n + 1, all);
}

int main(int argc, char **argv) {
  const char *why, *arch = argc > 1 ? argv[1] : "", *folder = argc > 2 ? argv[2] : NULL;
  const hip_compiler *c = usual = hip_compiler_get(&why);
  if (!c) {
    printf("skipped: %s\n", why);
    return 77;
  }
  hip_compiler quick = *c;
  if (folder && *folder == '-') {
    more = folder;
    folder = NULL;
    quick.compile = compile_with_more;
    c = &quick;
  }
  accel_plugin_error error = {.size = sizeof error};
  char path[4096] = "";
  size_t n = 0;
  if (folder) {
    char key[200];
    hip_code_key(c, arch, key, sizeof key);
    snprintf(path, sizeof path, "%s/%s", folder, key);
  }
  char *code = folder ? read_code(path, &n) : NULL;
  const bool kept = code;
  if (!code && hip_compile(c, arch, &code, &n, &error)) {
    printf("%s: %s\n", arch, error.message);
    return 1;
  }
  printf("%s by %s%s: %d kernels, %zu bytes\n", arch, c->what, kept ? ", earlier" : "", GPU_KERNELS,
         n);
  const int lacks = missing(code, n);
  if (folder && !kept && !lacks) keep_code(path, code, n);
  free(code);
  return lacks != 0;
}
