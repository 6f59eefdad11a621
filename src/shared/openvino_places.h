/* openvino_places.h - where OpenVINO's C library may be, for the plugin and for detection. */
#ifndef ACCEL_SHARED_OPENVINO_PLACES_H
#define ACCEL_SHARED_OPENVINO_PLACES_H

#include "shared/library_places.h"

#define ACCEL_OPENVINO_REMEDY                                                         \
  "pip install openvino, into the active virtual environment, or name the folder of " \
  "libopenvino_c.so in ACCEL_OPENVINO_DIR"

/* The file to load, or the plain name for the loader's own search; out[ACCEL_LIBRARY_PATH].
 * directory: ACCEL_OPENVINO_DIR, which is the only place when it is given; environment:
 * VIRTUAL_ENV; home: HOME.  Each may be NULL. */
static inline void accel_openvino_find(const char *directory, const char *environment,
                                       const char *home, char *out) {
  static const char *const under[] = {"", "libs/", "openvino/libs/", "runtime/lib/intel64/"};
  static const char file[] = "libopenvino_c.so";
  if (directory && *directory) {
    for (size_t i = 0; i < sizeof under / sizeof *under; i++)
      if (accel_library_in(directory, under[i], file, out)) return;
    snprintf(out, ACCEL_LIBRARY_PATH, "%s/%s", directory, file);
    return;
  }
  if (!accel_library_of_python(environment, home, "openvino/libs/", file, out) &&
      !accel_library_in("/opt/intel", "openvino*/runtime/lib/intel64/", file, out))
    snprintf(out, ACCEL_LIBRARY_PATH, "%s", file);
}

#endif
