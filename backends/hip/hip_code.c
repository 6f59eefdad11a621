/* hip_code.c - the kernels' code for a device: what the build compiled, else what the run-time
 * compiler makes of their text. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hip/hip.h"
#include "shared/hash.h"

static int32_t compiler_fail(const hip_compiler *c, void *program, const char *arch, int code,
                             accel_plugin_error *error) {
  size_t n = 0;
  char *log = !c->log_size(program, &n) && n > 1 ? malloc(n + 1) : NULL;
  if (log) {
    log[n] = 0;
    if (c->log(program, log)) *log = 0;
    log[strcspn(log, "\n")] = 0;
  }
  int32_t rc = kit_fail(error, ACCEL_PLUGIN_E_DRIVER, -1, "%s for %s: %s%s%.140s", c->what, arch,
                        c->text(code), log ? ": " : "", log ? log : "");
  free(log);
  return rc;
}

int32_t hip_compile(const hip_compiler *c, const char *arch, char **code, size_t *n,
                    accel_plugin_error *error) {
  void *program = NULL;
  char option[96];
  const char *options[] = {option};
  *code = NULL;
  snprintf(option, sizeof option, "--gpu-architecture=%s", arch);
  int answer = c->create(&program, hip_source(), "accel_kernels", 0, NULL, NULL);
  if (answer) return kit_fail(error, ACCEL_PLUGIN_E_DRIVER, -1, "%s: %s", c->what, c->text(answer));
  answer = c->compile(program, 1, options);
  if (!answer) answer = c->code_size(program, n);
  int32_t rc = answer ? compiler_fail(c, program, arch, answer, error) : ACCEL_PLUGIN_OK;
  if (!rc) *code = malloc(*n ? *n : 1);
  if (!rc && !*code) rc = kit_no_memory(error, *n);
  if (!rc) {
    answer = c->code(program, *code);
    if (answer) rc = compiler_fail(c, program, arch, answer, error);
  }
  if (rc) {
    free(*code);
    *code = NULL;
  }
  c->destroy(&program);
  return rc;
}

static bool from_cache(const accel_plugin_host *host, const char *key, char **code, size_t *n) {
  uint64_t size = 0;
  if (!host || !host->cache_get || host->cache_get(host->self, key, NULL, &size) || !size)
    return false;
  *code = malloc(size);
  if (*code && !host->cache_get(host->self, key, *code, &size)) {
    *n = size;
    return true;
  }
  free(*code);
  *code = NULL;
  return false;
}

void hip_code_key(const hip_compiler *c, const char *arch, char *key, size_t n) {
  snprintf(key, n, "rtc-%s-%.64s-%016" PRIx64, c->what, arch,
           accel_hash_text(ACCEL_HASH_SEED, hip_source()));
  for (char *k = key; *k; k++)
    if (*k == ' ' || *k == ':' || *k == '/') *k = '_';
}

/* Text for this architecture, compiled here or in an earlier run. */
static int32_t compiled(const hip_runtime *r, const char *arch, const accel_plugin_host *host,
                        void **module, accel_plugin_error *error) {
  const char *why;
  const hip_compiler *c = hip_compiler_get(&why);
  char *code = NULL, key[200];
  size_t n = 0;
  if (!c)
    return kit_fail(error, ACCEL_PLUGIN_E_DRIVER, -1,
                    "no kernels for %s in this build (%s), and none can be compiled here: %.120s",
                    arch, *hip_built_for ? hip_built_for : "no compiler was there", why);
  hip_code_key(c, arch, key, sizeof key);
  bool cached = from_cache(host, key, &code, &n);
  for (;;) {
    int32_t rc = cached ? ACCEL_PLUGIN_OK : hip_compile(c, arch, &code, &n, error);
    if (rc) return rc;
    int answer = r->module_load(module, code);
    if (!answer && !cached && host && host->cache_put)
      host->cache_put(host->self, key, &(accel_plugin_part){code, n}, 1);
    free(code);
    code = NULL;
    if (!answer) return ACCEL_PLUGIN_OK;
    if (!cached)
      return kit_fail(error, ACCEL_PLUGIN_E_DRIVER, -1,
                      "kernels compiled by %s for %s do not load: error %d, %s", c->what, arch,
                      answer, r->text(answer));
    cached = false; /* what was kept is of no use to this driver: compile anew */
  }
}

int32_t hip_load_kernels(const hip_runtime *r, const char *arch, const accel_plugin_host *host,
                         void **module, accel_plugin_error *error) {
  const void *image = hip_image();
  if (r->bounds) /* the emulator: its kernels are in the plugin */
    return r->module_load(module, NULL)
               ? kit_fail(error, ACCEL_PLUGIN_E_DRIVER, -1, "the kernels do not load")
               : ACCEL_PLUGIN_OK;
  if (image && hip_is_built_for(arch) && !r->module_load(module, image)) return ACCEL_PLUGIN_OK;
  return compiled(r, arch, host, module, error);
}
