/* onnxruntime_stub.c - an ONNX Runtime library for tests.  STUB_ONNXRUNTIME says at which call it
 * fails: "old" it has no table of the version, "crash" and "env" when it starts, "register" at
 * Qualcomm's provider, "session" it has a device that runs nothing. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "onnxruntime/ort.h"

enum { PLACES = 400 };

static const char words[] = "the stub runs nothing";

static bool fails(const char *mode) {
  const char *wanted = getenv("STUB_ONNXRUNTIME");
  return wanted && !strcmp(wanted, mode);
}

static OrtStatus *failure(bool yes) { return yes ? (OrtStatus *)words : NULL; }

static const char *message(const OrtStatus *status) { return (const char *)status; }
static void release(OrtStatus *status) { (void)status; }

static OrtStatus *create_env(ort_logger logger, void *self, int severity, const char *id,
                             OrtEnv **out) {
  (void)logger, (void)self, (void)severity, (void)id;
  if (fails("crash")) raise(SIGSEGV);
  *out = (OrtEnv *)words;
  return failure(fails("env"));
}

static OrtStatus *create_memory(int allocator, int type, OrtMemoryInfo **out) {
  (void)allocator, (void)type;
  *out = (OrtMemoryInfo *)words;
  return NULL;
}

static OrtStatus *register_library(OrtEnv *env, const char *name, const char *path) {
  (void)env, (void)name, (void)path;
  return failure(fails("register"));
}

static OrtStatus *no_devices(const OrtEnv *env, const OrtEpDevice *const **out, size_t *n) {
  (void)env;
  *out = NULL;
  *n = 0;
  return NULL;
}

static OrtStatus *no_options(OrtSessionOptions **out) {
  *out = NULL;
  return failure(true);
}

/* Places that nothing calls before a session is made stay NULL. */
static const void *const *table(uint32_t version) {
  static const void *functions[PLACES];
  if (fails("old") || version > 99) return NULL;
  functions[2] = (const void *)message;
  functions[4] = (const void *)create_env;
  functions[10] = (const void *)no_options;
  functions[69] = (const void *)create_memory;
  functions[93] = (const void *)release;
  functions[301] = (const void *)register_library;
  functions[303] = (const void *)no_devices;
  return functions;
}

static const char *version(void) { return "1.99.0-stub"; }

__attribute__((visibility("default"))) const OrtApiBase *OrtGetApiBase(void);
const OrtApiBase *OrtGetApiBase(void) {
  static const OrtApiBase base = {.GetApi = table, .GetVersionString = version};
  return &base;
}
