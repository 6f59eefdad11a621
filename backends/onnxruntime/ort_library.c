/* ort_library.c - ONNX Runtime's library by dlopen, and the libraries of execution providers beside
 * it. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnxruntime/ort.h"
#include "shared/library_places.h"

static struct {
  pthread_once_t once;
  ort_library ort;
} found = {.once = PTHREAD_ONCE_INIT};

static void say_nothing(void *self, int severity, const char *category, const char *id,
                        const char *place, const char *message) {
  (void)self, (void)severity, (void)category, (void)id, (void)place, (void)message;
}

/* Without ends of lines; the cause stands last where a message is long. */
static void copy_message(char *to, size_t n, const char *message) {
  const size_t length = strlen(message);
  snprintf(to, n, "%s", length < n ? message : message + length - n + 1);
  for (char *at = to; *at; at++)
    if (*at == '\n' || *at == '\t' || *at == '\r') *at = ' ';
}

int32_t ort_fail(const ort_library *ort, OrtStatus *status, const char *call,
                 accel_plugin_error *error) {
  char cause[160];
  copy_message(cause, sizeof cause, ort->GetErrorMessage(status));
  ort->ReleaseStatus(status);
  return kit_fail(error, ACCEL_PLUGIN_E_DRIVER, -1, "%s: %s", call, cause);
}

static bool load_functions(ort_library *ort) {
  const accel_library_wish wish = {getenv("ACCEL_ONNXRUNTIME_DIR"), getenv("VIRTUAL_ENV"),
                                   getenv("HOME")};
  accel_library_find(&accel_onnxruntime_places, &wish, ort->path);
  void *library = dlopen(ort->path, RTLD_NOW | RTLD_LOCAL);
  const OrtApiBase *(*base)(void) = NULL;
  if (!library) {
    const char *error = dlerror();
    snprintf(ort->why, sizeof ort->why, "%.100s; %s", error ? error : ort->path,
             ACCEL_ONNXRUNTIME_REMEDY);
    return false;
  }
  *(void **)&base = dlsym(library, "OrtGetApiBase");
  const OrtApiBase *about = base ? base() : NULL;
  const void *const *table = about ? about->GetApi(ORT_API) : NULL;
  if (about) snprintf(ort->version, sizeof ort->version, "%s", about->GetVersionString());
  if (!table) {
    snprintf(ort->why, sizeof ort->why,
             "%.100s is version %.20s: ONNX Runtime 1.%d or later is wanted (%s)", ort->path,
             *ort->version ? ort->version : "unknown", ORT_API, "pip install -U onnxruntime");
    return false;
  }
#define ORT_LOAD(place, result, name, parameters) memcpy(&ort->name, &table[place], sizeof *table);
  ORT_FUNCTIONS(ORT_LOAD)
  return true;
}

/* A failure at the start; true: there was one. */
static bool failed(ort_library *ort, OrtStatus *status) {
  char cause[80];
  if (!status) return false;
  copy_message(cause, sizeof cause, ort->GetErrorMessage(status));
  ort->ReleaseStatus(status);
  snprintf(ort->why, sizeof ort->why, "%.70s does not start (%s): reinstall it (%s)", ort->path,
           cause, "pip install --force-reinstall onnxruntime");
  return true;
}

static void find(void) {
  ort_library *ort = &found.ort;
  enum { ERRORS_ALONE = 3, ARENA = 1, DEFAULT_MEMORY = 0 };
  if (load_functions(ort) &&
      !failed(ort, ort->CreateEnvWithCustomLogger(say_nothing, NULL, ERRORS_ALONE, "accel",
                                                  &ort->env)) &&
      !failed(ort, ort->CreateCpuMemoryInfo(ARENA, DEFAULT_MEMORY, &ort->memory)))
    ort_list(ort);
}

const ort_library *ort_open_library(void) {
  pthread_once(&found.once, find);
  return &found.ort;
}
