/* onnxruntime_places.h - where ONNX Runtime's library and the libraries of its execution providers
 * may be, for the plugin and for detection. */
#ifndef ACCEL_SHARED_ONNXRUNTIME_PLACES_H
#define ACCEL_SHARED_ONNXRUNTIME_PLACES_H

#include <string.h>

#include "shared/library_places.h"

#define ACCEL_ONNXRUNTIME_REMEDY                                                         \
  "pip install onnxruntime, into the active virtual environment, or name the folder of " \
  "libonnxruntime.so in ACCEL_ONNXRUNTIME_DIR"
#define ACCEL_QNN_REMEDY                                                                       \
  "pip install onnxruntime onnxruntime-qnn, into the active virtual environment, or name the " \
  "folder of both in ACCEL_ONNXRUNTIME_DIR"

/* The library to load, or a plain name for the loader's own search; out[ACCEL_LIBRARY_PATH].
 * directory: ACCEL_ONNXRUNTIME_DIR, which is the only place when it is given: the library's folder,
 * that of pip's packages, or an archive's; environment: VIRTUAL_ENV; home: HOME.  Each may be NULL.
 */
static inline void accel_onnxruntime_find(const char *directory, const char *environment,
                                          const char *home, char *out) {
  static const char *const under[] = {"", "onnxruntime/capi/", "lib/"};
  static const char file[] = "libonnxruntime.so";
  if (directory && *directory) {
    for (size_t i = 0; i < sizeof under / sizeof *under; i++)
      if (accel_library_in(directory, under[i], file, out)) return;
    snprintf(out, ACCEL_LIBRARY_PATH, "%s/%s", directory, file);
    return;
  }
  if (!accel_library_of_python(environment, home, "onnxruntime/capi/", file, out) &&
      !accel_library_in("/usr/local", "lib/", file, out) &&
      !accel_library_in("/usr", "lib/*/", file, out))
    snprintf(out, ACCEL_LIBRARY_PATH, "%s.1", file);
}

/* Patterns (glob) of the providers' libraries beside that library: pip's packages onnxruntime_*,
 * or its own folder.  which: "*", or the name of one provider.  i: 0, 1; false: there is no more. */
static inline bool accel_onnxruntime_providers(const char *library, const char *which, size_t i,
                                               char *out) {
  static const char *const beside[] = {"../../onnxruntime_*/", ""};
  const char *slash = strrchr(library, '/');
  if (!slash || i >= sizeof beside / sizeof *beside) return false;
  const int n = snprintf(out, ACCEL_LIBRARY_PATH, "%.*s/%slibonnxruntime_providers_%s.so",
                         (int)(slash - library), library, beside[i], which);
  return n > 0 && n < ACCEL_LIBRARY_PATH;
}

#endif
